//! Many writes as one transaction, collected before anything is locked.

use std::time::Duration;

use keyspace::Db;

use crate::{Database, Error, Keys, Perdura, Strings};

/// Strings to be set and keys to be deleted, all or nothing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, WriteBatch};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("draft", "...")?;
/// let mut batch = WriteBatch::new();
/// for n in 0..100 {
///     batch.set(format!("page:{n}"), "text");
/// }
/// batch.delete("draft");
/// store.write(&batch)?; // one commit
/// assert_eq!(store.len(), 100);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct WriteBatch {
    writes: Vec<(Vec<u8>, Write)>,
}

#[derive(Clone, Debug)]
enum Write {
    Set(Vec<u8>, Option<Duration>),
    Delete,
}

impl WriteBatch {
    /// Returns an empty batch.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Sets a value; the key does not expire.
    pub fn set(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> &mut WriteBatch {
        self.add(key, Write::Set(value.into(), None))
    }

    /// Sets a value that expires `ttl` after the batch is written.
    pub fn set_for(
        &mut self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        ttl: Duration,
    ) -> &mut WriteBatch {
        self.add(key, Write::Set(value.into(), Some(ttl)))
    }

    /// Deletes a key, whatever it holds.
    pub fn delete(&mut self, key: impl Into<Vec<u8>>) -> &mut WriteBatch {
        self.add(key, Write::Delete)
    }

    fn add(&mut self, key: impl Into<Vec<u8>>, write: Write) -> &mut WriteBatch {
        self.writes.push((key.into(), write));
        self
    }

    /// Returns how many writes it has.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns true if it has none.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Removes all writes from it.
    pub fn clear(&mut self) {
        self.writes.clear();
    }
}

impl Perdura {
    /// Executes a batch, in its order, as one transaction with one fence.
    pub fn write(&self, batch: &WriteBatch) -> Result<(), Error> {
        self.write_in(Db::default(), batch)
    }

    fn write_in(&self, db: Db, batch: &WriteBatch) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let keys: Vec<&[u8]> = batch.writes.iter().map(|(key, _)| key.as_slice()).collect();
        self.run(db, &keys, |tx| {
            batch.writes.iter().try_for_each(|(key, write)| match write {
                Write::Set(value, None) => tx.set(key, value),
                Write::Set(value, Some(ttl)) => tx.set_for(key, value, *ttl),
                Write::Delete => tx.delete(key).map(|_| ()),
            })
        })
    }
}

impl Database<'_> {
    /// Executes a batch, like [`Perdura::write`].
    pub fn write(&self, batch: &WriteBatch) -> Result<(), Error> {
        self.store.write_in(self.db, batch)
    }
}
