//! Which thread resolves a loss.
//!
//! While a loss is not resolved no transaction commits, for it may have read zeros in the place of
//! what was lost; only the thread that resolves it writes.

use std::cell::Cell;

thread_local! {
    static RESOLVING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true if the calling thread resolves a loss.
#[cold]
pub(crate) fn is_resolving() -> bool {
    RESOLVING.get()
}

/// Runs `work` as what resolves a loss: it may commit meanwhile.
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
