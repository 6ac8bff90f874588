//! The few settings that commands themselves obey, changeable while the server runs.
//!
//! Everything else of redis.conf is the server's. Whoever owns a setting there stores its value
//! here when it changes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use keyspace::Db;

/// Settings read by commands.
#[derive(Debug)]
pub struct Config {
    requirepass: RwLock<Vec<u8>>,
    proto_max_bulk_len: AtomicU64,
    loading: AtomicBool,
    databases: AtomicUsize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            requirepass: RwLock::default(),
            proto_max_bulk_len: AtomicU64::new(512 << 20),
            loading: AtomicBool::new(false),
            databases: AtomicUsize::new(keyspace::DATABASES),
        }
    }
}

impl Config {
    /// The password, empty when none is required.
    pub fn requirepass(&self) -> Vec<u8> {
        self.requirepass.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Requires a password of sessions that begin from now on.
    pub fn set_requirepass(&self, password: &[u8]) {
        *self.requirepass.write().unwrap_or_else(PoisonError::into_inner) = password.to_vec();
    }

    /// The longest string, `proto-max-bulk-len`.
    pub fn proto_max_bulk_len(&self) -> u64 {
        self.proto_max_bulk_len.load(Relaxed)
    }

    /// Sets `proto-max-bulk-len`.
    pub fn set_proto_max_bulk_len(&self, bytes: u64) {
        self.proto_max_bulk_len.store(bytes, Relaxed);
    }

    /// The database of this number, if there are so many (`databases`).
    pub fn database(&self, number: usize) -> Option<Db> {
        Db::new(number).filter(|_| number < self.databases.load(Relaxed))
    }

    /// Sets `databases`.
    pub fn set_databases(&self, count: usize) {
        self.databases.store(count, Relaxed);
    }

    /// Whether data is being loaded, so that most commands are refused.
    pub fn loading(&self) -> bool {
        self.loading.load(Relaxed)
    }

    /// Begins or ends loading.
    pub fn set_loading(&self, yes: bool) {
        self.loading.store(yes, Relaxed);
    }
}
