//! Those who wait for shards without a thread ([`super::shard_wait`]), as a heap keeps them.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

/// The ticket of what does not take turns.
pub const ANY_TURN: u64 = u64::MAX;

/// All who wait, by their tickets: in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct ShardWaits {
    list: Mutex<BTreeMap<u64, Entry>>,
    pub(super) tickets: AtomicU64,
}

/// One who waits.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) since: Instant,
    pub(super) shards: Box<[usize]>,
    /// Taken when it is woken.
    pub(super) waker: Option<Waker>,
    pub(super) has_reserved: bool,
}

impl ShardWaits {
    pub(super) fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
