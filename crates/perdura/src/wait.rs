//! Waiting for a change: pops and transactions that block.
//!
//! A waiting call registers for its key's shard, tries to pop, and sleeps until a call has changed
//! the shard. After its commit, a call that changed something checks with one load whether any call
//! waits. No wake-up is lost: a call that commits after the failed attempt has locked the shard
//! after it, so it sees the registration, which was made before. (The closure of a transaction that
//! waits for a key must use that key.) Every call that changes something checks, even if it adds no
//! element: a transaction may wait for anything. The expiry of a key wakes no call.

use std::mem;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use crate::{Error, Lists, Perdura, Scored, SortedSets, Transaction};

/// The calls that wait.
pub(crate) struct Waiting {
    calls: AtomicUsize,
    ids: AtomicU64,
    shards: Box<[WaitingOf]>,
}

/// The calls that wait for keys of one shard.
#[derive(Default)]
struct WaitingOf {
    changes: Mutex<Changes>,
    changed: Condvar,
}

#[derive(Default)]
struct Changes {
    /// How often the shard was changed while a call waited.
    count: u64,
    /// The futures that wait for the next change.
    wakers: Vec<(u64, Waker)>,
}

impl WaitingOf {
    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a change, and wakes all calls that wait for one: futures without the lock, since
    /// waking runs code of their runtime.
    fn wake(&self) {
        let mut changes = self.lock();
        changes.count += 1;
        let wakers = mem::take(&mut changes.wakers);
        drop(changes);
        self.changed.notify_all();
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

/// A registration of one call.
pub(crate) struct Registered<'w>(&'w AtomicUsize);

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Waiting {
    pub(crate) fn new(shards: usize) -> Waiting {
        let shards = (0..shards).map(|_| WaitingOf::default()).collect();
        Waiting { calls: AtomicUsize::new(0), ids: AtomicU64::new(0), shards }
    }

    pub(crate) fn register(&self) -> Registered<'_> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Registered(&self.calls)
    }

    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.load(Ordering::SeqCst) == 0
    }

    /// Wakes the calls that wait for keys of these shards.
    pub(crate) fn wake(&self, shards: &[usize]) {
        shards.iter().filter_map(|&shard| self.shards.get(shard)).for_each(WaitingOf::wake);
    }

    /// Returns an id for a future's waker.
    pub(crate) fn new_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns how often a shard was changed while a call waited.
    pub(crate) fn changes(&self, shard: usize) -> u64 {
        self.shards[shard].lock().count
    }

    /// Keeps the waker of a future until the shard changes. Returns false if it has changed since
    /// `before`.
    pub(crate) fn remember(&self, shard: usize, before: u64, id: u64, waker: &Waker) -> bool {
        let mut changes = self.shards[shard].lock();
        if changes.count != before {
            return false;
        }
        match changes.wakers.iter_mut().find(|(other, _)| *other == id) {
            Some((_, kept)) => kept.clone_from(waker),
            None => changes.wakers.push((id, waker.clone())),
        }
        true
    }

    /// Drops the waker of a future that no longer waits.
    pub(crate) fn forget(&self, shard: usize, id: u64) {
        let mut changes = self.shards[shard].lock();
        let at = changes.wakers.iter().position(|(other, _)| *other == id);
        let waker = at.map(|at| changes.wakers.swap_remove(at));
        drop(changes);
        // Dropping it runs code of its runtime.
        drop(waker);
    }
}

impl Perdura {
    /// Wakes the calls that may be able to go on after a commit of these shards.
    #[inline]
    pub(crate) fn wake_waiting(&self, shards: &[usize]) {
        if !self.waiting.is_idle() {
            self.waiting.wake(shards);
        }
    }

    /// Wakes the calls that may be able to go on after a change of this key.
    #[inline]
    pub(crate) fn wake_waiting_for(&self, key: &[u8]) {
        if !self.waiting.is_idle() {
            self.waiting.wake(&[self.keyspace.key(key).shard()]);
        }
    }

    /// Tries whenever the shard of a key changes, until there is an answer or the timeout has
    /// passed.
    fn wait_for<T>(
        &self,
        key: &[u8],
        timeout: Duration,
        mut attempt: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        // None if it is so far away that it never comes.
        let until = Instant::now().checked_add(timeout);
        let _registered = self.waiting.register();
        let shard = &self.waiting.shards[self.keyspace.key(key).shard()];
        loop {
            let before = shard.lock().count;
            let answer = attempt()?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if answer.is_some() || left == Some(Duration::ZERO) {
                return Ok(answer);
            }
            let changes = shard.lock();
            let is_same = |changes: &mut Changes| changes.count == before;
            match left {
                Some(left) => drop(shard.changed.wait_timeout_while(changes, left, is_same)),
                None => drop(shard.changed.wait_while(changes, is_same)),
            }
        }
    }

    /// Removes the first element of a list and returns it; waits up to `timeout` for one if there
    /// is none, without blocking others. If several threads wait, any one of them gets it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    /// use std::time::Duration;
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// let job = std::thread::scope(|scope| {
    ///     let worker = scope.spawn(|| store.pop_front_wait("jobs", Duration::from_secs(60)));
    ///     store.push_back("jobs", "wash")?;
    ///     worker.join().expect("no panic")
    /// })?;
    /// assert_eq!(job.as_deref(), Some(&b"wash"[..]));
    /// assert_eq!(store.pop_front_wait("jobs", Duration::from_millis(1))?, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn pop_front_wait(
        &self,
        key: impl AsRef<[u8]>,
        timeout: Duration,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.wait_for(key, timeout, || self.pop_front(key))
    }

    /// Removes the last element of a list and returns it, like [`Perdura::pop_front_wait`].
    pub fn pop_back_wait(
        &self,
        key: impl AsRef<[u8]>,
        timeout: Duration,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.wait_for(key, timeout, || self.pop_back(key))
    }

    /// Removes the member with the lowest score from a sorted set and returns it, like
    /// [`Perdura::pop_front_wait`].
    pub fn sorted_set_pop_wait(
        &self,
        key: impl AsRef<[u8]>,
        timeout: Duration,
    ) -> Result<Option<Scored>, Error> {
        let key = key.as_ref();
        self.wait_for(key, timeout, || self.sorted_set_pop(key))
    }

    /// Runs `work` like [`Perdura::transact`] until it returns `Some`: at once, and again whenever
    /// the shard of `key` has changed; returns `None` after `timeout`. The changes of `work` are
    /// committed each time, so it should change nothing if it returns `None`. The expiry of a key
    /// wakes no call.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    /// use std::time::Duration;
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// store.push_back("waiting", "wash")?;
    /// // A job is in one of the two lists at any moment.
    /// let job = store.transact_wait("waiting", Duration::from_secs(60), |tx| {
    ///     let Some(job) = tx.pop_front("waiting")? else { return Ok(None) };
    ///     tx.push_back("running", &job)?;
    ///     Ok(Some(job))
    /// })?;
    /// assert_eq!(job.as_deref(), Some(&b"wash"[..]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transact_wait<R>(
        &self,
        key: impl AsRef<[u8]>,
        timeout: Duration,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<Option<R>, Error>,
    ) -> Result<Option<R>, Error> {
        self.wait_for(key.as_ref(), timeout, || self.transact(&mut work))
    }
}
