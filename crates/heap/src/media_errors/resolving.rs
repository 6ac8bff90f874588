//! Which thread resolves a loss.
//!
//! While a loss is unresolved no transaction commits, for it may have read zeros in place of the
//! lost bytes; only the thread that resolves the loss writes.

use std::cell::Cell;

thread_local! {
    static RESOLVING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the calling thread is resolving a loss.
#[cold]
pub(crate) fn is_resolving() -> bool {
    RESOLVING.get()
}

/// Runs `work`, which resolves a loss and may commit.
pub(crate) fn resolve<T>(work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            RESOLVING.set(false);
        }
    }
    let _reset = Reset;
    RESOLVING.set(true);
    work()
}
