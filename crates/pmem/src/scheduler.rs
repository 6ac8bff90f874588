//! Locks with a hook for the deterministic scheduler of a simulation.
//!
//! Such a scheduler lets one thread run at a time. A thread that waited for a lock in the kernel
//! would stop all of them. So locks that are held during a flush or a fence are taken with
//! [`lock`]: it calls the scheduler before it takes the lock, and as long as another thread holds
//! it. In any build except a simulation's it is a plain lock, and counts how long its thread had to
//! wait.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, LockResult, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

#[cfg(feature = "sim")]
pub use scheduled::{Scheduler, set_scheduler};

/// Locks a mutex.
#[inline(always)]
pub fn lock<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    acquire(mutex, || wait(mutex))
}

/// Locks a mutex like [`lock`]. While the thread waits for another one it is counted in `waiting`.
#[inline(always)]
pub fn lock_counted<'m, T>(
    mutex: &'m Mutex<T>,
    waiting: &AtomicU32,
) -> LockResult<MutexGuard<'m, T>> {
    acquire(mutex, || wait_counted(mutex, waiting))
}

/// Locks a mutex; calls `wait` if another thread holds it.
#[inline(always)]
fn acquire<'m, T>(
    mutex: &'m Mutex<T>,
    wait: impl FnOnce() -> LockResult<MutexGuard<'m, T>>,
) -> LockResult<MutexGuard<'m, T>> {
    #[cfg(feature = "sim")]
    if let Some(scheduler) = scheduled::current() {
        return scheduled::lock(mutex, &*scheduler);
    }
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
        Err(TryLockError::WouldBlock) => wait(),
    }
}

/// Returns true if a scheduler runs the calling thread: then a deadlock is detected.
#[inline]
pub fn is_scheduled() -> bool {
    #[cfg(feature = "sim")]
    return scheduled::current().is_some();
    #[cfg(not(feature = "sim"))]
    false
}

/// Lets a scheduler, if one runs this thread, choose another thread.
#[inline(always)]
pub(crate) fn pause() {
    #[cfg(feature = "sim")]
    if let Some(scheduler) = scheduled::current() {
        scheduler.pause();
    }
}

/// Waits for a mutex that another thread holds, and counts how long.
#[cold]
fn wait<T>(mutex: &Mutex<T>) -> LockResult<MutexGuard<'_, T>> {
    let began = Instant::now();
    let locked = mutex.lock();
    let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    WAITED_NS.set(WAITED_NS.get().wrapping_add(took));
    locked
}

#[cold]
fn wait_counted<'m, T>(mutex: &'m Mutex<T>, waiting: &AtomicU32) -> LockResult<MutexGuard<'m, T>> {
    waiting.fetch_add(1, Ordering::Relaxed);
    let locked = wait(mutex);
    waiting.fetch_sub(1, Ordering::Relaxed);
    locked
}

thread_local! {
    static WAITED_NS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how long the calling thread has waited for other threads in [`lock`] so far, in
/// nanoseconds: the duration of an operation minus this is its own time.
#[inline]
pub fn waited_ns() -> u64 {
    WAITED_NS.get()
}

/// Waits with an unlocked mutex while `blocked` returns true; a scheduler runs other threads
/// meanwhile.
pub(crate) fn wait_while<'m, T>(
    changed: &Condvar,
    mutex: &'m Mutex<T>,
    guard: MutexGuard<'m, T>,
    blocked: impl FnMut(&mut T) -> bool,
) -> MutexGuard<'m, T> {
    #[cfg(feature = "sim")]
    if let Some(scheduler) = scheduled::current() {
        return scheduled::wait_while(mutex, guard, blocked, &*scheduler);
    }
    let _ = mutex;
    changed.wait_while(guard, blocked).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(feature = "sim")]
mod scheduled {
    use std::cell::RefCell;
    use std::sync::{Arc, LockResult, Mutex, MutexGuard, PoisonError, TryLockError};

    /// Decides which thread runs.
    pub trait Scheduler: Send + Sync {
        /// The calling thread is about to take a lock: another may go first.
        fn pause(&self);
        /// The calling thread cannot continue before another one has run.
        fn wait(&self);
    }

    thread_local! {
        static SCHEDULER: RefCell<Option<Arc<dyn Scheduler>>> = const { RefCell::new(None) };
    }

    /// Makes the calling thread run under a scheduler, or freely.
    pub fn set_scheduler(scheduler: Option<Arc<dyn Scheduler>>) {
        SCHEDULER.set(scheduler);
    }

    pub(super) fn current() -> Option<Arc<dyn Scheduler>> {
        SCHEDULER.with_borrow(Clone::clone)
    }

    pub(super) fn lock<'m, T>(
        mutex: &'m Mutex<T>,
        scheduler: &dyn Scheduler,
    ) -> LockResult<MutexGuard<'m, T>> {
        scheduler.pause();
        loop {
            match mutex.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::Poisoned(poison)) => return Err(poison),
                Err(TryLockError::WouldBlock) => scheduler.wait(),
            }
        }
    }

    pub(super) fn wait_while<'m, T>(
        mutex: &'m Mutex<T>,
        mut guard: MutexGuard<'m, T>,
        mut blocked: impl FnMut(&mut T) -> bool,
        scheduler: &dyn Scheduler,
    ) -> MutexGuard<'m, T> {
        while blocked(&mut guard) {
            drop(guard);
            scheduler.wait();
            guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        }
        guard
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn who_waits_is_counted_until_he_has_the_lock() {
        let (mutex, waiting) = (Mutex::new(()), AtomicU32::new(0));
        let count = || waiting.load(Ordering::Relaxed);
        let held = lock_counted(&mutex, &waiting);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let locked = lock_counted(&mutex, &waiting);
                assert_eq!(count(), 0);
                drop(locked);
            });
            while count() == 0 {
                std::thread::yield_now();
            }
            drop(held);
            other.join().expect("no panic");
        });
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_wait_for_another_thread_is_counted_and_a_free_lock_is_not() {
        let (mutex, barrier) = (Mutex::new(()), Barrier::new(2));
        drop(lock(&mutex));
        assert_eq!(waited_ns(), 0);
        // It is not certain that the other thread arrives in time: repeated until it does.
        let waited = || {
            std::thread::scope(|scope| {
                let held = lock(&mutex);
                let other = scope.spawn(|| {
                    barrier.wait();
                    drop(lock(&mutex));
                    waited_ns()
                });
                barrier.wait();
                std::thread::yield_now();
                drop(held);
                other.join().expect("no panic")
            })
        };
        while waited() == 0 {}
    }
}
