//! redb: a copy-on-write B-tree in one file, with one writer at a time.

use std::path::Path;

use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition};

use crate::data::Key;
use crate::store::{Result, Store, View};

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("data");

struct Redb {
    database: Database,
    durability: Durability,
}

/// Every commit is on the disk.
pub fn durable(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, Durability::Immediate)
}

/// Returns a commit reaches the file with the next durable one, of which there is none before the
/// end.
pub fn relaxed(folder: &Path) -> Result<Box<dyn Store>> {
    open(folder, Durability::None)
}

fn open(folder: &Path, durability: Durability) -> Result<Box<dyn Store>> {
    let store = Redb { database: Database::create(folder.join("redb"))?, durability };
    // A reader finds no table before the first commit.
    store.put_all(&[])?;
    Ok(Box::new(store))
}

impl Store for Redb {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.put_all(&[(*key, value)])
    }

    fn put_all(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        let mut write = self.database.begin_write()?;
        write.set_durability(self.durability)?;
        {
            let mut table = write.open_table(TABLE)?;
            for (key, value) in entries {
                table.insert(key.as_slice(), *value)?;
            }
        }
        Ok(write.commit()?)
    }

    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        Ok(table.get(key.as_slice())?.is_some_and(|value| {
            look(value.value());
            true
        }))
    }

    fn range(&self, from: &Key, count: usize, look: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let mut shown = 0;
        for row in table.range(from.as_slice()..)?.take(count) {
            look(row?.1.value());
            shown += 1;
        }
        Ok(shown)
    }

    fn snapshot(&self) -> Result<Option<Box<dyn View + '_>>> {
        Ok(Some(Box::new(self.database.begin_read()?.open_table(TABLE)?)))
    }
}

impl View for ReadOnlyTable<&'static [u8], &'static [u8]> {
    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(ReadableTable::get(self, key.as_slice())?.is_some_and(|value| {
            look(value.value());
            true
        }))
    }
}
