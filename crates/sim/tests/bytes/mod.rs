//! A medium for panics: it knows what the end of the process leaves, and makes the calling thread
//! panic at each event.

use pmem::{Recorder, panic_point};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bytes that the end of the process leaves: everything that was stored. Each event may panic.
pub(crate) struct Bytes(Mutex<Vec<u8>>);

impl Bytes {
    pub(crate) fn of(image: &[u8]) -> Arc<Bytes> {
        Arc::new(Bytes(Mutex::new(image.to_vec())))
    }

    pub(crate) fn get(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for Bytes {
    fn store(&self, off: u64, bytes: &[u8]) {
        self.get()[off as usize..][..bytes.len()].copy_from_slice(bytes);
        panic_point();
    }

    fn flush(&self, _line: u64) {
        panic_point();
    }

    fn fence(&self) {
        panic_point();
    }

    fn grow(&self, len: u64) {
        self.get().resize(len as usize, 0);
        panic_point();
    }
}
