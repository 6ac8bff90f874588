//! WATCH: sessions that want to know whether a key changes before they do.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::Db;

/// A key that a session watches. Give it back by [`crate::Keyspace::unwatch`].
#[derive(Debug)]
pub struct Watch {
    pub(crate) db: Db,
    pub(crate) key: Box<[u8]>,
    pub(crate) flag: Arc<AtomicBool>,
}

impl Watch {
    /// The database of the key.
    pub fn db(&self) -> Db {
        self.db
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}
