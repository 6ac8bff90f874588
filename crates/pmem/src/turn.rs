//! Locks that a simulation can schedule.
//!
//! Where threads take turns, of which one runs at a time, a thread that waited for a lock in the kernel would keep its
//! turn and stop all of them. So locks that are held over a flush or a fence are taken by [`lock`]: it gives the turn
//! away before the lock and as long as another thread has it. In any build but a simulation's it is a plain lock.

use std::sync::{LockResult, Mutex, MutexGuard};

#[cfg(feature = "sim")]
pub use scheduled::{Turns, take_turns};

/// Locks a mutex.
#[inline(always)]
pub fn lock<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    #[cfg(feature = "sim")]
    if let Some(turns) = scheduled::current() {
        return scheduled::lock(mutex, &*turns);
    }
    mutex.lock()
}

#[cfg(feature = "sim")]
mod scheduled {
    use std::cell::RefCell;
    use std::sync::{Arc, LockResult, Mutex, MutexGuard, TryLockError};

    /// Decides which thread runs.
    pub trait Turns: Send + Sync {
        /// The calling thread is about to take a lock: another may go first.
        fn pause(&self);
        /// The calling thread cannot go on before another has.
        fn wait(&self);
    }

    thread_local! {
        static TURNS: RefCell<Option<Arc<dyn Turns>>> = const { RefCell::new(None) };
    }

    /// Makes the calling thread take turns, or run freely.
    pub fn take_turns(turns: Option<Arc<dyn Turns>>) {
        TURNS.set(turns);
    }

    pub(super) fn current() -> Option<Arc<dyn Turns>> {
        TURNS.with_borrow(Clone::clone)
    }

    pub(super) fn lock<'m, T>(
        mutex: &'m Mutex<T>,
        turns: &dyn Turns,
    ) -> LockResult<MutexGuard<'m, T>> {
        turns.pause();
        loop {
            match mutex.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poison)) => return Err(poison),
                Err(TryLockError::WouldBlock) => turns.wait(),
            }
        }
    }
}
