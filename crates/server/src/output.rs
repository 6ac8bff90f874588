//! Replies on their way out: what is written and not yet sent.
//!
//! Commands append to one buffer, and a cursor says how much of it the socket took. What was sent
//! is dropped from the front only once it is at least as much as what is left: so a reader that
//! takes little at a time costs each byte at most one move, however much waits, and the buffer
//! holds at most twice what waits.

use resp::{Protocol, Writer};

/// Capacity that a connection keeps between batches.
const KEPT_CAPACITY: usize = 64 * 1024;

/// The replies of a connection.
pub(crate) struct Output {
    /// Where commands write to.
    pub(crate) writer: Writer,
    /// How much of it was sent.
    sent: usize,
}

impl Output {
    pub(crate) fn new() -> Output {
        Output { writer: Writer::new(Protocol::Resp2), sent: 0 }
    }

    /// Returns the bytes that are not sent yet.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.writer.as_bytes()[self.sent..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.writer.len() == self.sent
    }

    /// Returns the bytes of memory that it takes.
    pub(crate) fn capacity(&self) -> usize {
        self.writer.capacity()
    }

    /// Notes that the socket took this many bytes more; true if it has them all.
    pub(crate) fn advance(&mut self, written: usize) -> bool {
        self.sent += written;
        let all = self.is_empty();
        if all {
            self.clear();
        }
        all
    }

    /// Drops what was sent, where that is worth the move of what was not. Returns how many bytes
    /// were moved.
    pub(crate) fn compact(&mut self) -> usize {
        let waiting = self.writer.len() - self.sent;
        if self.sent < waiting.max(KEPT_CAPACITY) {
            return 0;
        }
        let buffer = self.writer.buffer();
        buffer.drain(..self.sent);
        buffer.shrink_to((2 * waiting).max(KEPT_CAPACITY));
        self.sent = 0;
        waiting
    }

    /// Drops everything, sent or not.
    pub(crate) fn clear(&mut self) {
        self.writer.clear();
        self.sent = 0;
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

    /// Sends `total` bytes to a reader that takes `step` at a time, while `more` arrive with each
    /// step. Returns the moves.
    fn moved(total: usize, step: usize, more: usize) -> usize {
        let mut output = Output::new();
        let (mut moved, mut next, mut expected) = (0, 0_u32, 0_u32);
        let mut write = |output: &mut Output, bytes: usize| {
            for _ in 0..bytes / 4 {
                output.writer.raw(&next.to_le_bytes());
                next += 1;
            }
        };
        write(&mut output, total);
        loop {
            let unsent = output.unsent();
            let taken = step.min(unsent.len());
            for word in unsent[..taken].chunks_exact(4) {
                assert_eq!(word, expected.to_le_bytes(), "the bytes come in their order");
                expected += 1;
            }
            if output.advance(taken) {
                return moved;
            }
            moved += output.compact();
            let waiting = output.unsent().len();
            assert!(
                output.capacity() <= (total + 2 * more).max(4 * waiting).max(4 * KEPT_CAPACITY)
            );
            if expected < (total as u32) / 4 {
                write(&mut output, more);
            }
        }
    }

    #[test]
    fn a_slow_reader_costs_each_byte_at_most_one_move() {
        const MB: usize = 1 << 20;
        for step in [4096, 64 * 1024, 100_000, MB] {
            let moved = moved(16 * MB, step, 0);
            assert!(moved <= 16 * MB, "{moved} bytes moved to send {} in steps of {step}", 16 * MB);
        }
        let moved = moved(MB, 64 * 1024, 32 * 1024);
        assert!(moved <= 2 * MB, "{moved} bytes moved while as much again arrived");
    }

    #[test]
    fn an_empty_buffer_is_released() {
        let mut output = Output::new();
        output.writer.raw(&[7; 1000]);
        output.release();
        assert_eq!(output.unsent().len(), 1000, "what waits is kept");
        assert!(output.advance(1000));
        assert!(output.capacity() > 0, "it is kept for the next reply");
        output.release();
        assert_eq!(output.capacity(), 0);
    }
}
