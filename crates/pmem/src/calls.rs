//! The system calls on which durability depends. Each goes through a function of this file, so that
//! a test can make it fail and knows what a power loss would leave; in any other build they are
//! plain calls.

use rustix::io::Errno;

#[cfg(any(test, feature = "sim"))]
pub use watched::{Calls, watch_calls};

/// A kind of system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `mmap` of the file.
    Map,
    /// `fallocate` of more space.
    Allocate,
    /// `fallocate` that makes a hole.
    Punch,
    /// `pwrite`.
    Write,
    /// `msync`, `fdatasync`.
    Sync,
    /// `ftruncate`.
    Truncate,
}

impl Call {
    /// All kinds.
    pub const ALL: [Call; 6] =
        [Call::Map, Call::Allocate, Call::Punch, Call::Write, Call::Sync, Call::Truncate];
}

/// Makes a system call, and repeats it while signals interrupt it.
pub(crate) fn make<E: CallError>(
    call: Call,
    mut real: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    #[cfg(any(test, feature = "sim"))]
    if let Some(watcher) = watched::current() {
        watcher.before(call)?;
    }
    #[cfg(not(any(test, feature = "sim")))]
    let _ = call;
    loop {
        match real() {
            Err(error) if error.is_interrupted() => {}
            other => return other,
        }
    }
}

/// Makes a system call that syncs `len` bytes of the file from `at` on.
pub(crate) fn sync<E: CallError>(
    at: u64,
    len: u64,
    real: impl FnMut() -> Result<(), E>,
) -> Result<(), E> {
    let done = make(Call::Sync, real);
    #[cfg(any(test, feature = "sim"))]
    if let Some(watcher) = watched::current() {
        watcher.synced(at, len, done.is_ok());
    }
    #[cfg(not(any(test, feature = "sim")))]
    let _ = (at, len);
    done
}

/// Reports that bytes of the file, or of its mapping, were stored: their pages are dirty.
#[inline(always)]
pub(crate) fn stored(at: u64, len: u64) {
    #[cfg(any(test, feature = "sim"))]
    if let Some(watcher) = watched::current() {
        watcher.stored(at, len);
    }
    #[cfg(not(any(test, feature = "sim")))]
    let _ = (at, len);
}

/// Returns true if a test wants files to be treated as persistent memory.
#[inline(always)]
pub(crate) fn plays_persistent_memory() -> bool {
    #[cfg(any(test, feature = "sim"))]
    return watched::current().is_some_and(|watcher| watcher.plays_persistent_memory());
    #[cfg(not(any(test, feature = "sim")))]
    false
}

/// The error of a call, which tells whether a signal interrupted it.
pub(crate) trait CallError: From<Errno> {
    fn is_interrupted(&self) -> bool;
}

impl CallError for Errno {
    fn is_interrupted(&self) -> bool {
        *self == Errno::INTR
    }
}

impl CallError for std::io::Error {
    fn is_interrupted(&self) -> bool {
        self.kind() == std::io::ErrorKind::Interrupted
    }
}

#[cfg(any(test, feature = "sim"))]
mod watched {
    use super::{Call, Errno};
    use std::cell::RefCell;
    use std::sync::Arc;

    /// Watches the system calls of a thread, and may make them fail.
    pub trait Calls: Send + Sync {
        /// Called before the calling thread makes a call. If it returns an error, that is the
        /// call's result, and the call is not made.
        fn before(&self, call: Call) -> Result<(), Errno>;
        /// `len` bytes of the file were stored at `at`, through the mapping or by a call.
        fn stored(&self, at: u64, len: u64);
        /// A sync of `len` bytes from `at` on ended; `well` tells whether it succeeded.
        fn synced(&self, at: u64, len: u64, well: bool);
        /// Returns true if files are to be treated as persistent memory, although they are not.
        fn plays_persistent_memory(&self) -> bool {
            false
        }
    }

    thread_local! {
        static WATCHER: RefCell<Option<Arc<dyn Calls>>> = const { RefCell::new(None) };
    }

    /// Sets or removes the watcher of the calling thread's system calls.
    pub fn watch_calls(watcher: Option<Arc<dyn Calls>>) {
        WATCHER.set(watcher);
    }

    pub(super) fn current() -> Option<Arc<dyn Calls>> {
        WATCHER.with_borrow(Clone::clone)
    }
}
