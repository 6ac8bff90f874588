//! Bytes that arrived and are still needed, with space after them for more.
//!
//! All of its memory is initialized once, so that a read can write into it. It grows with what has
//! arrived, never with what a length announces: to at most four times the bytes that it holds, and
//! two reads.

use std::ops::Range;

/// Space that is made for one read, in bytes.
const READ: usize = 64 * 1024;
/// Memory that is kept while there are no bytes.
const KEPT: usize = 1 << 20;

#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    held: Range<usize>,
}

impl Buffer {
    /// Returns the bytes that are held.
    pub(crate) fn held(&self) -> &[u8] {
        &self.bytes[self.held.clone()]
    }

    /// Returns space for the next read; at least one byte. `missing` bytes are known to follow.
    pub(crate) fn space(&mut self, missing: usize) -> &mut [u8] {
        let held = self.held.len();
        if held == 0 && self.bytes.len() > KEPT {
            *self = Buffer::default();
        }
        if self.held.start >= held {
            self.bytes.copy_within(self.held.clone(), 0);
            self.held = 0..held;
        }
        if self.bytes.len() - self.held.end < READ.min(missing.max(READ / 4)) {
            let space = missing.clamp(READ, READ.max(held));
            let mut grown = Vec::with_capacity(held + space);
            grown.extend_from_slice(self.held());
            grown.resize(held + space, 0);
            self.bytes = grown;
            self.held = 0..held;
        }
        &mut self.bytes[self.held.end..]
    }

    /// Takes the first `count` bytes of the space, which were written.
    pub(crate) fn arrived(&mut self, count: usize) {
        self.held.end += count;
        assert!(self.held.end <= self.bytes.len(), "more was read than there was space");
    }

    /// Drops the first `count` bytes.
    pub(crate) fn drop_front(&mut self, count: usize) {
        self.held.start += count;
        assert!(self.held.start <= self.held.end, "more was dropped than is held");
    }

    /// Returns its memory in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len()
    }
}
