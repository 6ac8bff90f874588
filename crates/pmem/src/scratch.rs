//! Memory in which crash images are opened one after the other.
//!
//! Two images of one crash differ in a few words, and opening one changes a few more. So the image
//! is not copied again: the maker of the images restores what was changed.

use crate::domain::Domain;
use crate::mapping::Mapping;
use crate::recorder::Recorder;
use crate::region::Region;
use std::sync::Arc;

/// Memory for one simulated region at a time.
pub struct Scratch(Arc<Mapping>);

impl Scratch {
    /// Creates a memory of `len` zeros.
    pub fn new(len: usize) -> Scratch {
        Scratch(Arc::new(Mapping::simulated(len)))
    }

    /// Changes bytes.
    ///
    /// # Panics
    /// If a region is in use in this memory, or the range is not inside.
    pub fn put(&mut self, off: u64, bytes: &[u8]) {
        let memory = Arc::get_mut(&mut self.0).expect("the region before was dropped");
        let end = off.checked_add(bytes.len() as u64).expect("an offset");
        assert!(end <= memory.len(), "{} bytes at {off}", bytes.len());
        let to = memory.base().wrapping_add(off as usize);
        // SAFETY: inside the mapping (asserted), which nobody else has (`get_mut`).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }

    /// Returns a region over the first `len` bytes, which may grow to all of them.
    ///
    /// # Panics
    /// If there is such a region already.
    pub fn region(&mut self, len: u64, recorder: Arc<dyn Recorder>) -> Region {
        let memory = Arc::get_mut(&mut self.0).expect("the region before was dropped");
        assert!(len <= memory.len(), "{len} bytes");
        let mapping = memory.shared();
        Region::simulated_in(
            mapping,
            len,
            Arc::new(Keeping { recorder, _memory: Arc::clone(&self.0) }),
        )
    }
}

/// A recorder that keeps the memory under its region.
struct Keeping {
    recorder: Arc<dyn Recorder>,
    _memory: Arc<Mapping>,
}

impl Recorder for Keeping {
    fn domain(&self) -> Domain {
        self.recorder.domain()
    }

    fn store(&self, off: u64, bytes: &[u8]) {
        self.recorder.store(off, bytes);
    }

    fn streams(&self) -> bool {
        self.recorder.streams()
    }

    fn stream(&self, off: u64, bytes: &[u8]) {
        self.recorder.stream(off, bytes);
    }

    fn flush(&self, line: u64) {
        self.recorder.flush(line);
    }

    fn fence(&self) {
        self.recorder.fence();
    }

    fn sync(&self, off: u64, len: u64) {
        self.recorder.sync(off, len);
    }

    fn grow(&self, len: u64) {
        self.recorder.grow(len);
    }

    fn sync_length(&self) {
        self.recorder.sync_length();
    }
}
