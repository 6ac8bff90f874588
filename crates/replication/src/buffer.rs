//! Bytes that arrived and are still needed, with space after them for more.
//!
//! All of its memory is initialized once, so that a read can write into it. It grows with what has
//! arrived, never with what a length announces: to at most twice the bytes that it holds when it
//! grows, and two reads.

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

    /// Returns space for the next read: at least 16 KiB. So many bytes are known to follow.
    pub(crate) fn space(&mut self, missing: usize) -> &mut [u8] {
        let held = self.held.len();
        if held == 0 && self.bytes.len() > KEPT {
            *self = Buffer::default();
        }
        if self.held.start >= held {
            self.bytes.copy_within(self.held.clone(), 0);
            self.held = 0..held;
        }
        if self.bytes.len() - self.held.end < READ / 4 {
            // By a part of what is held, so that little is copied; exactly, where that is known.
            let more = if missing > READ { missing.min(held.max(READ)) } else { held / 2 };
            let space = more + READ;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Fills a buffer with so many bytes, in pieces. Returns how often it grew, and its memory.
    fn fill(total: usize, missing: impl Fn(usize) -> usize) -> [usize; 2] {
        let (mut buffer, mut growths) = (Buffer::default(), 0);
        while buffer.held().len() < total {
            let (before, missing) = (buffer.memory(), missing(total - buffer.held().len()));
            let space = buffer.space(missing);
            assert!(space.len() >= READ / 4);
            let count = space.len().min(20_000);
            space[..count].fill(1);
            buffer.arrived(count);
            growths += usize::from(buffer.memory() != before);
        }
        assert!(buffer.held().iter().all(|byte| *byte == 1));
        [growths, buffer.memory()]
    }

    #[test]
    fn it_grows_seldom_and_to_a_size_that_is_known() {
        let [growths, memory] = fill(64 << 20, |_| 1);
        assert!(growths < 30 && memory < 97 << 20, "{growths} {memory}");
        let [growths, memory] = fill(64 << 20, |missing| missing);
        assert!(growths < 30 && memory < 65 << 20, "{growths} {memory}");
    }

    #[test]
    fn space_is_made_at_the_front_and_given_back() {
        let mut buffer = Buffer::default();
        for _ in 0..1000 {
            buffer.space(1)[..3].copy_from_slice(b"abc");
            buffer.arrived(3);
            assert_eq!(buffer.held(), b"abc");
            buffer.drop_front(3);
        }
        assert_eq!(buffer.memory(), READ);
        while buffer.held().len() <= KEPT {
            let count = buffer.space(1).len();
            buffer.arrived(count);
        }
        let held = buffer.held().len();
        buffer.drop_front(held);
        assert_eq!(buffer.space(1).len(), READ);
    }
}
