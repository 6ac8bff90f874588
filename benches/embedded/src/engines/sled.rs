//! sled: a B-tree over a log, written by threads of its own.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sled::{Batch, Config, Db};

use crate::data::Key;
use crate::store::{Result, Store, View};

struct Sled {
    db: Db,
    durable: bool,
}

/// Each write is followed by a flush of the log; on Linux that is `sync_file_range`, which asks no
/// disk to empty its cache.
pub fn durable(folder: &Path) -> Result<Box<dyn Store>> {
    let db = open(&Config::new().path(folder.join("sled")).flush_every_ms(None))?;
    Ok(Box::new(Sled { db, durable: true }))
}

/// The log is flushed every 500 ms.
pub fn relaxed(folder: &Path) -> Result<Box<dyn Store>> {
    let db = open(&Config::new().path(folder.join("sled")))?;
    Ok(Box::new(Sled { db, durable: false }))
}

/// Waits up to a minute for the lock: sled's own threads hold the file for a moment after the
/// store has been dropped.
fn open(config: &Config) -> sled::Result<Db> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match config.open() {
            Err(sled::Error::Io(error))
                if error.to_string().contains("could not acquire lock")
                    && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

impl Sled {
    fn finish(&self) -> Result<()> {
        if self.durable {
            self.db.flush()?;
        }
        Ok(())
    }
}

impl Store for Sled {
    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.db.insert(key, value)?;
        self.finish()
    }

    fn put_all(&self, entries: &[(Key, &[u8])]) -> Result<()> {
        let mut batch = Batch::default();
        entries.iter().for_each(|(key, value)| batch.insert(key, *value));
        self.db.apply_batch(batch)?;
        self.finish()
    }

    fn get(&self, key: &Key, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.db.get(key)?.is_some_and(|value| {
            look(&value);
            true
        }))
    }

    fn range(&self, from: &Key, count: usize, look: &mut dyn FnMut(&[u8])) -> Result<u64> {
        let mut shown = 0;
        for row in self.db.range(from.as_slice()..).take(count) {
            look(&row?.1);
            shown += 1;
        }
        Ok(shown)
    }

    // It has none.
    fn snapshot(&self) -> Result<Option<Box<dyn View + '_>>> {
        Ok(None)
    }
}
