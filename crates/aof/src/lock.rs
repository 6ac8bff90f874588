//! Taking the crate's locks, in a simulation by its scheduler.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    #[cfg(feature = "sim")]
    let locked = pmem::lock(mutex);
    #[cfg(not(feature = "sim"))]
    let locked = mutex.lock();
    locked.unwrap_or_else(PoisonError::into_inner)
}
