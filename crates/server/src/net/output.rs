//! Replies on their way out: written and not yet sent.
//!
//! Commands append to one buffer, and a cursor says how much of it the socket took. A long buffer
//! that has to wait is put aside as it is, and a new one begun: so nothing is ever moved, however
//! slow the reader is, and a buffer is freed once it was sent.

use std::collections::VecDeque;

use commands::LARGE;
use resp::{Protocol, Writer};

/// Capacity that a connection keeps between batches, and length from which on a buffer is put
/// aside.
const KEPT_CAPACITY: usize = 64 * 1024;
/// Maximum of bytes that are passed to the socket at once.
const MOST_SENT: usize = 256 * 1024;

/// The replies of a connection.
pub(crate) struct Output {
    /// The writer that commands use.
    pub(crate) writer: Writer,
    /// Earlier replies, which are sent before those in `writer`.
    full: VecDeque<Vec<u8>>,
    /// How much of the first of these buffers was sent.
    sent: usize,
    /// The next bytes that may leave, whatever comes of those after them.
    passed: usize,
    /// Bytes in `full`, and their memory.
    full_bytes: usize,
    full_capacity: usize,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output {
            writer: Writer::new(Protocol::Resp2),
            full: VecDeque::new(),
            sent: 0,
            passed: 0,
            full_bytes: 0,
            full_capacity: 0,
        }
    }

    /// Returns the next bytes to send; none if all was sent.
    #[inline]
    pub(crate) fn next(&self) -> &[u8] {
        let first = self.full.front().map_or(self.writer.as_bytes(), Vec::as_slice);
        let rest = &first[self.sent..];
        &rest[..rest.len().min(MOST_SENT)]
    }

    /// Returns how many bytes are not sent yet.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.full_bytes + self.writer.len() - self.sent
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of memory that it takes.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.full_capacity + self.writer.capacity()
    }

    /// Records that the socket took this many of the next bytes. Returns a large buffer that is no
    /// longer needed.
    #[inline]
    pub(crate) fn advance(&mut self, written: usize) -> Option<Vec<u8>> {
        self.sent += written;
        self.passed = self.passed.saturating_sub(written);
        if !self.full.is_empty() {
            return self.advance_full();
        }
        if self.sent < self.writer.len() {
            return None;
        }
        self.sent = 0;
        if self.writer.capacity() > LARGE {
            return Some(self.writer.take());
        }
        self.writer.clear();
        None
    }

    #[cold]
    fn advance_full(&mut self) -> Option<Vec<u8>> {
        if self.full.front().is_some_and(|first| self.sent < first.len()) {
            return None;
        }
        let first = self.full.pop_front()?;
        self.sent = 0;
        self.full_bytes -= first.len();
        self.full_capacity -= first.capacity();
        Some(first)
    }

    /// Puts the written replies aside if they are long.
    pub(crate) fn put_long_aside(&mut self) {
        if self.writer.len() >= KEPT_CAPACITY {
            self.put_aside();
        }
    }

    /// Puts the written replies aside, so that a reply that was written elsewhere need not be
    /// copied.
    pub(crate) fn put_aside(&mut self) {
        if !self.writer.is_empty() {
            let written = self.writer.take();
            self.full_bytes += written.len();
            self.full_capacity += written.capacity();
            self.full.push_back(written);
        }
    }

    /// Takes all buffers out, to be freed.
    pub(crate) fn take_buffers(&mut self) -> impl Iterator<Item = Vec<u8>> + use<> {
        let full = std::mem::take(&mut self.full);
        full.into_iter().chain([self.writer.take()])
    }

    /// Notes that all that is written may leave.
    #[inline]
    pub(crate) fn note_passed(&mut self) {
        self.passed = self.len();
    }

    /// Returns true if something was written after the last [`Output::note_passed`].
    #[inline]
    pub(crate) fn has_unpassed(&self) -> bool {
        self.passed < self.len()
    }

    /// Drops what is written after the last [`Output::note_passed`]: earlier replies may be sent in
    /// part, and the rest of them follows.
    pub(crate) fn forget_unpassed(&mut self) {
        if self.passed == 0 {
            return self.clear();
        }
        let mut kept = self.sent + self.passed;
        for buffer in &mut self.full {
            let of_buffer = kept.min(buffer.len());
            buffer.truncate(of_buffer);
            kept -= of_buffer;
        }
        self.writer.buffer().truncate(kept);
        self.full.retain(|buffer| !buffer.is_empty());
        self.full_bytes = self.full.iter().map(Vec::len).sum();
        self.full_capacity = self.full.iter().map(Vec::capacity).sum();
    }

    /// Drops everything, sent or not.
    pub(crate) fn clear(&mut self) {
        self.full = VecDeque::new();
        (self.full_bytes, self.full_capacity, self.sent, self.passed) = (0, 0, 0, 0);
        self.writer.clear();
    }

    /// Releases the memory of an empty buffer.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            self.clear();
            self.writer.buffer().shrink_to(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends `total` bytes, and `more` with each step, to a reader that takes `step` at a time.
    /// Returns the maximum of memory that was taken beyond the waiting bytes.
    fn most_kept(total: usize, step: usize, more: usize) -> usize {
        let mut output = Output::new();
        let (mut kept, mut next, mut expected) = (0, 0_u32, 0_u32);
        let mut write = |output: &mut Output, bytes: usize| {
            for _ in 0..bytes / 4 {
                output.writer.raw(&next.to_le_bytes());
                next += 1;
            }
        };
        write(&mut output, total);
        while !output.is_empty() {
            let unsent = output.next();
            let taken = step.min(unsent.len()) / 4 * 4;
            for word in unsent[..taken].chunks_exact(4) {
                assert_eq!(word, expected.to_le_bytes(), "the bytes come in their order");
                expected += 1;
            }
            let left = output.len() - taken;
            output.advance(taken);
            assert_eq!(output.len(), left);
            output.put_long_aside();
            kept = kept.max(output.capacity() - output.len().min(output.capacity()));
            if expected < (total as u32) / 4 {
                write(&mut output, more);
            }
        }
        assert_eq!(expected, next, "all was sent");
        kept
    }

    #[test]
    fn a_slow_reader_gets_all_in_order_and_little_more_is_kept() {
        const MB: usize = 1 << 20;
        for step in [4096, 64 * 1024, 100_000, MB] {
            most_kept(16 * MB, step, 0);
        }
        let kept = most_kept(MB, 64 * 1024, 32 * 1024);
        assert!(kept <= 3 * MB, "{kept} bytes are kept while as much again arrives");
    }

    /// Random steps, beside two lists of bytes: those that may leave, and those after them.
    #[test]
    fn what_had_not_passed_is_dropped_and_the_rest_is_sent() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            let mut output = Output::new();
            let (mut passed, mut later) = (VecDeque::new(), Vec::new());
            for _ in 0..random.usize(..30) {
                match random.u8(..8) {
                    0 | 1 => {
                        let bytes: Vec<u8> =
                            (0..random.usize(..9)).map(|_| random.u8(..)).collect();
                        output.writer.raw(&bytes);
                        later.extend(bytes);
                    }
                    2 => output.put_aside(),
                    3 => {
                        output.note_passed();
                        passed.extend(later.drain(..));
                    }
                    4 => {
                        output.forget_unpassed();
                        later.clear();
                    }
                    _ => {
                        let next = output.next();
                        let count = random.usize(..=next.len().min(passed.len()));
                        let taken = next[..count].to_vec();
                        assert!(taken.iter().eq(passed.drain(..count).collect::<Vec<_>>().iter()));
                        output.advance(count);
                    }
                }
                assert_eq!(output.len(), passed.len() + later.len());
            }
            let mut rest = Vec::new();
            while !output.is_empty() {
                let next = output.next().to_vec();
                assert!(!next.is_empty(), "there is more than can be sent");
                output.advance(next.len());
                rest.extend(next);
            }
            passed.extend(later);
            assert_eq!(VecDeque::from(rest), passed);
        }
    }

    #[test]
    fn a_reply_from_elsewhere_is_sent_as_it_is_and_given_up() {
        let mut output = Output::new();
        output.writer.ok();
        output.put_aside();
        let reply = vec![b'r'; 2 * LARGE];
        let place = reply.as_ptr();
        output.writer.append(reply);
        assert_eq!(output.next(), b"+OK\r\n");
        assert_eq!(output.advance(3), None);
        assert_eq!(output.next(), b"\r\n");
        assert!(output.advance(2).is_some());
        assert_eq!(output.next().as_ptr(), place, "it was not copied");
        let mut given_up = None;
        while !output.is_empty() {
            assert!(output.next().len() <= MOST_SENT);
            given_up = output.advance(output.next().len());
        }
        assert_eq!(given_up.map(|buffer| buffer.as_ptr()), Some(place));
        assert_eq!(output.capacity(), 0);
    }

    #[test]
    fn an_empty_buffer_is_released() {
        let mut output = Output::new();
        output.writer.raw(&[7; 1000]);
        output.release();
        assert_eq!(output.len(), 1000, "what waits is kept");
        assert!(output.advance(1000).is_none());
        assert!(output.capacity() > 0, "it is kept for the next reply");
        output.release();
        assert_eq!(output.capacity(), 0);
    }
}
