//! Waiting without a thread: a wait as a future, for any runtime.
//!
//! A future registers like a waiting thread (`wait`), and leaves a waker with its key's shard when
//! the thread would sleep. A call that changes the shard takes the wakers and wakes them, after its
//! commit and without a lock. So it works with any runtime, and nothing runs between two wake-ups.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::wait::Registered;
use crate::{Error, Lists, Perdura, Scored, SortedSets, Transaction};

/// A wait for something in a store: a future for any runtime, from [`Perdura::pop_front_async`] and
/// similar methods.
///
/// It costs no thread, and nothing until the shard of its key changes. To stop waiting, drop it, as
/// timeouts of runtimes do: then nothing is taken. While it tries, it blocks its thread for as long
/// as the call that does not wait: on persistent memory only for locks, and on a disk for one sync
/// with [`Durability::Immediate`](crate::Durability::Immediate).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
/// use std::future::Future;
/// use std::task::{Context, Poll, Waker};
///
/// let store = Perdura::open(Options::volatile())?;
/// // As a runtime does: `timeout(minute, store.pop_front_async("jobs")).await`.
/// let mut job = std::pin::pin!(store.pop_front_async("jobs"));
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(job.as_mut().poll(&mut context).is_pending());
/// store.push_back("jobs", "wash")?;
/// assert_eq!(job.poll(&mut context), Poll::Ready(Ok(b"wash".to_vec())));
/// # Ok(())
/// # }
/// ```
#[must_use = "a future does nothing until it is awaited"]
pub struct Wait<'s, T> {
    store: &'s Perdura,
    shard: usize,
    attempt: Box<dyn FnMut() -> Result<Option<T>, Error> + Send + 's>,
    /// Set from the first attempt on.
    registered: Option<Registered<'s>>,
    /// The id of its waker in the shard's list.
    id: u64,
}

impl<'s, T> Wait<'s, T> {
    fn new(
        store: &'s Perdura,
        key: &[u8],
        attempt: impl FnMut() -> Result<Option<T>, Error> + Send + 's,
    ) -> Wait<'s, T> {
        let (shard, id) = (store.keyspace.key(key).shard(), store.waiting.new_id());
        Wait { store, shard, attempt: Box::new(attempt), registered: None, id }
    }
}

impl<T> Future for Wait<'_, T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        let this = &mut *self;
        let store = this.store;
        // Before the attempt, so that a call that commits after it sees the registration.
        this.registered.get_or_insert_with(|| store.waiting.register());
        let before = store.waiting.changes(this.shard);
        match (this.attempt)() {
            Ok(None) => {}
            Ok(Some(found)) => return Poll::Ready(Ok(found)),
            Err(error) => return Poll::Ready(Err(error)),
        }
        if !store.waiting.remember(this.shard, before, this.id, context.waker()) {
            // The shard changed meanwhile. Others run before the next attempt.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<T> Drop for Wait<'_, T> {
    fn drop(&mut self) {
        if self.registered.is_some() {
            self.store.waiting.forget(self.shard, self.id);
        }
    }
}

impl<T> fmt::Debug for Wait<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl Perdura {
    /// Removes the first element of a list and returns it, when there is one:
    /// [`Perdura::pop_front_wait`] as a future. If several wait, any one of them gets it.
    pub fn pop_front_async(&self, key: impl Into<Vec<u8>>) -> Wait<'_, Vec<u8>> {
        let key = key.into();
        Wait::new(self, &key.clone(), move || self.pop_front(&key))
    }

    /// Removes the last element of a list and returns it, like [`Perdura::pop_front_async`].
    pub fn pop_back_async(&self, key: impl Into<Vec<u8>>) -> Wait<'_, Vec<u8>> {
        let key = key.into();
        Wait::new(self, &key.clone(), move || self.pop_back(&key))
    }

    /// Removes the member with the lowest score from a sorted set and returns it, like
    /// [`Perdura::pop_front_async`].
    pub fn sorted_set_pop_async(&self, key: impl Into<Vec<u8>>) -> Wait<'_, Scored> {
        let key = key.into();
        Wait::new(self, &key.clone(), move || self.sorted_set_pop(&key))
    }

    /// Runs `work` like [`Perdura::transact_wait`], as a future: at once, and again whenever the
    /// shard of `key` has changed, until it returns `Some`. `work` itself does not wait.
    pub fn transact_async<'s, R: 's>(
        &'s self,
        key: impl AsRef<[u8]>,
        mut work: impl FnMut(&mut Transaction<'_>) -> Result<Option<R>, Error> + Send + 's,
    ) -> Wait<'s, R> {
        Wait::new(self, key.as_ref(), move || self.transact(&mut work))
    }
}
