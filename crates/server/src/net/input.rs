//! Requests on their way in: what has arrived and was not yet executed.
//!
//! `bytes[start..end]` has arrived. Reads go into the space after it. The part before it was
//! executed, and is dropped only once the rest is no longer than that part and than a piece, so
//! that each byte is moved at most once however much was sent ahead. A large request is never moved
//! or copied: its bytes are lent ([`Input::lend`]) to the thread that executes it.
//!
//! No step takes long, however much a client sends: space is touched, and read into, a piece at a
//! time.

use std::sync::Arc;

use commands::LARGE;
use resp::BIG_BULK;

/// Space that a connection keeps between commands, and the least for a read. An idle one has none.
const USUAL: usize = 16 * 1024;
/// Bytes of space for a client that sends more at once than its space holds.
pub const FULL: usize = 64 * 1024;
/// Requests without a large argument after which a larger space is given up.
const SMALL_REQUESTS: u32 = 32;
/// Space that a large argument gets at once.
const CLAIM: usize = 64 * 1024;
/// Maximum number of bytes that are touched at once.
pub const PIECE: usize = 512 * 1024;
/// Maximum number of bytes that are read at once.
pub const MOST_READ: usize = 256 * 1024;

/// The input of a connection.
#[derive(Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Replaces `bytes` while others may have them too.
    lent: Option<Arc<Vec<u8>>>,
    /// Whether the last read filled all space that it was given.
    is_full: bool,
    /// Requests since the last one that needed more than `FULL`, while the space is larger.
    small_requests: u32,
    /// By how much the space last grew for small requests.
    growth: usize,
}

impl Input {
    /// Returns the bytes that have arrived and whose space was not given back.
    #[inline]
    pub(crate) fn arrived(&self) -> &[u8] {
        let bytes = self.lent.as_deref().unwrap_or(&self.bytes);
        &bytes[self.start..self.end]
    }

    /// Returns how many bytes have arrived whose space was not given back.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Returns how much space there is beyond them.
    pub(crate) fn free(&self) -> usize {
        self.lent.as_deref().unwrap_or(&self.bytes).len() - self.len()
    }

    /// Returns true if it has no space at all.
    #[inline]
    pub(crate) fn has_no_space(&self) -> bool {
        self.bytes.is_empty() && self.lent.is_none()
    }

    /// Returns true if more may have arrived than was read.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Lends the input if it may be a large request: the bytes stay as they are until
    /// [`Input::take_back`].
    #[inline]
    pub(crate) fn lend(&mut self) -> Option<Arc<Vec<u8>>> {
        if self.len() <= LARGE && self.lent.is_none() {
            return None;
        }
        if self.lent.is_none() {
            self.lent = Some(Arc::new(std::mem::take(&mut self.bytes)));
        }
        self.lent.clone()
    }

    /// Reclaims the lent bytes. Returns false if others still have them.
    #[inline]
    pub(crate) fn take_back(&mut self) -> bool {
        let Some(lent) = self.lent.take() else { return true };
        match Arc::try_unwrap(lent) {
            Ok(bytes) => self.bytes = bytes,
            Err(lent) => self.lent = Some(lent),
        }
        self.lent.is_none()
    }

    /// Gives back the space of the first `used` bytes, which were executed.
    #[inline]
    pub(crate) fn give_back(&mut self, used: usize) {
        self.start += used;
        let left = self.len();
        if !self.take_back() {
            let rest = self.arrived().to_vec();
            *self = Input { bytes: rest, end: left, ..Input::default() };
        }
        if self.start > 0 && left <= self.start.clamp(USUAL, PIECE) {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, left);
        }
    }

    /// Makes space for the next read. The arriving command still needs `missing` bytes. A large
    /// argument gets what it still needs, but at most as much again as was sent: so a length that
    /// is only claimed costs nothing, and the buffer still grows few times. Later input gets a
    /// little space, and twice as much each time. Returns a buffer that is no longer needed.
    #[inline]
    pub(crate) fn grow(&mut self, missing: usize) -> Option<Vec<u8>> {
        let mut given_up = None;
        if self.end == 0 {
            self.growth = 0;
            if self.bytes.len() > FULL {
                given_up = self.shrink();
            }
        }
        if std::mem::take(&mut self.is_full) && self.bytes.len() < FULL {
            self.bytes.resize(FULL, 0);
        }
        let is_large = missing >= BIG_BULK;
        let least = if is_large { missing.min(USUAL) } else { USUAL / 4 };
        if self.bytes.len() - self.end < least {
            self.extend(missing, is_large);
        }
        given_up
    }

    fn extend(&mut self, missing: usize, is_large: bool) {
        let more = if is_large {
            missing.min(self.len().max(CLAIM))
        } else {
            self.growth = (2 * self.growth).clamp(USUAL / 4, PIECE);
            self.growth
        };
        let len = (self.end + more.min(PIECE)).max(USUAL);
        if self.bytes.is_empty() {
            // The allocator gives zeroed pages: those that no input reaches are never touched.
            self.bytes = vec![0; len];
        } else {
            if self.bytes.capacity() < len {
                // Untouched space costs nothing.
                self.bytes.reserve_exact((self.end + more).max(len) - self.bytes.len());
            }
            self.bytes.resize(len, 0);
        }
    }

    /// Makes space for input that arrives while a command waits.
    pub(crate) fn grow_for_more(&mut self) {
        if self.bytes.len() - self.end < USUAL / 4 {
            let more = self.end.clamp(USUAL, PIECE);
            self.bytes.resize(self.end + more, 0);
        }
    }

    /// Returns the space for the next read.
    #[inline]
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let end = self.bytes.len().min(self.end + MOST_READ);
        &mut self.bytes[self.end..end]
    }

    /// Records that this many bytes were read into the space.
    #[inline]
    pub(crate) fn filled(&mut self, read: usize) {
        self.is_full = read == self.bytes.len().min(self.end + MOST_READ) - self.end;
        self.end += read;
        if self.end > FULL {
            self.small_requests = 0;
        }
    }

    /// Gives up the space of a large request after a number of others that did not need it.
    #[cold]
    fn shrink(&mut self) -> Option<Vec<u8>> {
        self.small_requests += 1;
        if self.small_requests <= SMALL_REQUESTS {
            return None;
        }
        self.small_requests = 0;
        Some(std::mem::replace(&mut self.bytes, vec![0; USUAL]))
    }

    /// Takes the buffer out, to be freed.
    pub(crate) fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(self).bytes
    }

    /// Gives up all space, if nothing has arrived and nothing is lent. Returns the buffer, which is
    /// no longer needed.
    pub(crate) fn release(&mut self) -> Option<Vec<u8>> {
        let is_unused = self.len() == 0 && self.lent.is_none();
        is_unused.then(|| std::mem::take(self).bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as much of `bytes` as there is space for.
    fn read(input: &mut Input, bytes: &mut &[u8], missing: usize) {
        drop(input.grow(missing));
        let space = input.space();
        let read = space.len().min(bytes.len());
        space[..read].copy_from_slice(&bytes[..read]);
        *bytes = &bytes[read..];
        input.filled(read);
    }

    fn numbers(len: usize) -> Vec<u8> {
        (0..len as u32 / 4).flat_map(u32::to_le_bytes).collect()
    }

    #[test]
    fn bytes_come_out_in_their_order_whatever_is_given_back() {
        let sent = numbers(4 << 20);
        let (mut rest, mut input, mut given_back) = (&sent[..], Input::default(), 0);
        for step in (0..).map(|n| [1, 4096, 70_000, 500_000][n % 4]) {
            read(&mut input, &mut rest, 1);
            assert_eq!(input.arrived(), &sent[given_back..given_back + input.len()]);
            let used = step.min(input.len());
            input.give_back(used);
            given_back += used;
            if given_back == sent.len() {
                break;
            }
        }
        assert_eq!(input.len(), 0);
        assert!(input.free() <= 2 * FULL + PIECE, "{} bytes of space", input.free());
    }

    #[test]
    fn what_was_sent_ahead_is_moved_at_most_once() {
        let sent = numbers(8 << 20);
        let mut input = Input { bytes: sent.clone(), end: sent.len(), ..Input::default() };
        let mut moved = 0;
        while input.len() > 0 {
            let before = input.start;
            input.give_back(1000.min(input.len()));
            if input.start < before {
                moved += input.len();
            }
        }
        assert!(moved <= sent.len(), "{moved} bytes were moved of {}", sent.len());
    }

    #[test]
    fn space_for_a_large_argument_comes_a_piece_at_a_time() {
        let sent = numbers(6 << 20);
        let (mut rest, mut input) = (&sent[..], Input::default());
        while !rest.is_empty() {
            let (before, left) = (input.bytes.len(), rest.len());
            read(&mut input, &mut rest, left);
            assert!(input.bytes.len() - before <= PIECE, "touched at once");
            assert!(left - rest.len() <= MOST_READ, "read at once");
            assert!(input.bytes.len() <= input.len() + PIECE, "claimed only");
        }
        assert_eq!(input.arrived(), sent);
    }

    #[test]
    fn a_large_request_is_lent_as_it_is() {
        let sent = numbers(LARGE + 4);
        let mut input = Input { bytes: sent.clone(), end: sent.len(), ..Input::default() };
        let place = input.arrived().as_ptr();
        let lent = input.lend().expect("large");
        assert_eq!((lent.as_ptr(), input.arrived().as_ptr()), (place, place), "not copied");
        assert!(!input.take_back(), "another has it");
        assert!(input.release().is_none(), "what is lent stays");
        assert_eq!(input.arrived(), sent);
        drop(lent);
        assert!(input.take_back());
        assert_eq!(input.arrived().as_ptr(), place);
        input.give_back(LARGE);
        assert_eq!(input.arrived(), &sent[LARGE..]);
        assert!(input.lend().is_none(), "what is small is not lent");
    }

    #[test]
    fn what_others_keep_is_copied_when_its_space_is_given_back() {
        let sent = numbers(LARGE + 8);
        let mut input = Input { bytes: sent.clone(), end: sent.len(), ..Input::default() };
        let lent = input.lend();
        input.give_back(LARGE);
        assert_eq!(input.arrived(), &sent[LARGE..]);
        assert_eq!(lent.as_deref(), Some(&sent));
    }
}
