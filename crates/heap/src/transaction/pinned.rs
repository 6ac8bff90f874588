//! Reading blocks without the shard's lock, while a pin keeps them.

#![allow(unsafe_code, reason = "published bytes are read")]

use super::heap::Heap;
use super::pins::Pin;
use super::shard::Shard;
use crate::ptr::Ptr;

impl Shard<'_> {
    /// Returns where bytes are that were read from this heap; none if they are from elsewhere.
    pub fn place_of(&self, bytes: &[u8]) -> Option<Ptr> {
        self.heap().region.offset_of(bytes).map(Ptr::from_raw)
    }
}

impl Heap {
    /// Bytes of a block that was allocated when `pin` was taken, without the shard's lock. Only for
    /// bytes that were published then.
    pub fn pinned<'p>(&'p self, pin: &'p Pin, at: Ptr, len: usize) -> &'p [u8] {
        let _ = pin;
        // SAFETY: published bytes do not change, and the block is not used again while the pin
        // lives.
        unsafe { self.region.bytes(at.raw(), len) }
    }
}
