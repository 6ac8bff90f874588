//! A heap's list of waiters for shards without a thread ([`super::shard_wait`]).

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

/// The ticket of callers that do not take turns.
pub const ANY_TURN: u64 = u64::MAX;

/// All waiters by ticket, that is, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct ShardWaits {
    list: Mutex<BTreeMap<u64, Entry>>,
    pub(super) tickets: AtomicU64,
}

/// One waiter.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) since: Instant,
    pub(super) shards: Box<[usize]>,
    /// Taken when the waiter is woken.
    pub(super) waker: Option<Waker>,
    pub(super) has_reserved: bool,
}

impl ShardWaits {
    pub(super) fn list(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
