//! Opens the images of one medium, one after the other, in memory that is patched from image to
//! image.

use crate::durability::Image;
use pmem::{Domain, Recorder, Region};
use std::sync::{Arc, Mutex, PoisonError};

/// Records where a store that is only examined changed its image.
struct Dirty {
    domain: Domain,
    stored: Mutex<Vec<(u64, usize)>>,
}

impl Recorder for Dirty {
    fn domain(&self) -> Domain {
        self.domain
    }

    fn store(&self, off: u64, bytes: &[u8]) {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).push((off, bytes.len()));
    }

    fn flush(&self, _line: u64) {}

    fn fence(&self) {}
}

/// The memory, and what its last region changed.
pub(crate) struct Scratch {
    memory: pmem::Scratch,
    dirty: Arc<Dirty>,
}

impl Scratch {
    pub(crate) fn new(reserve: usize, domain: Domain) -> Scratch {
        let dirty = Arc::new(Dirty { domain, stored: Mutex::default() });
        Scratch { memory: pmem::Scratch::new(reserve), dirty }
    }

    /// Returns a region that holds the image. The previous region must have been dropped.
    pub(crate) fn open(&mut self, image: &mut Image<'_>) -> Region {
        let mut dirty = self.dirty.stored.lock().unwrap_or_else(PoisonError::into_inner);
        for (off, len) in image.changed.drain(..).chain(dirty.drain(..)) {
            put(&mut self.memory, image.bytes, off, len);
        }
        drop(dirty);
        self.memory.region(image.bytes.len() as u64, self.dirty.clone())
    }
}

/// Copies a range of the image into memory; zeros after its end.
fn put(memory: &mut pmem::Scratch, image: &[u8], off: u64, len: usize) {
    let from = (off as usize).min(image.len());
    let to = (off as usize + len).min(image.len());
    memory.put(off, &image[from..to]);
    let zeros = off as usize + len - to.max(off as usize);
    if zeros > 0 {
        memory.put(off + (to - from) as u64, &vec![0; zeros]);
    }
}
