//! Reading blocks without the shard's lock, while a pin keeps them.

#![allow(unsafe_code, reason = "published bytes are read")]

use super::heap::Heap;
use super::pins::Pin;
use super::shard::Shard;
use crate::ptr::Ptr;

impl Shard<'_> {
    /// Returns the place of bytes that were read from this heap; `None` if they are from elsewhere.
    pub fn place_of(&self, bytes: &[u8]) -> Option<Ptr> {
        self.heap().region.offset_of(bytes).map(Ptr::from_raw)
    }
}

impl Heap {
    /// Returns bytes of a block without the shard's lock. The block must have been allocated, and
    /// the bytes published, when `pin` was taken.
    pub fn pinned<'p>(&'p self, pin: &'p Pin, at: Ptr, len: usize) -> &'p [u8] {
        let _ = pin;
        // SAFETY: published bytes do not change, and the block is not reused while the pin lives.
        unsafe { self.region.bytes(at.raw(), len) }
    }
}
