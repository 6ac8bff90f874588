//! The ring of a journal file: positions that only grow, and the places of their bytes.

use super::batch::{BatchHeader, HEADER, HeaderRules, has_checksum};
use super::layout::{BLOCK, RING_AT};
use super::storage::Storage;
use std::io;

/// A ring of bytes in a file.
#[derive(Clone, Copy)]
pub(crate) struct Ring<'f> {
    pub(crate) file: &'f dyn Storage,
    pub(crate) capacity: u64,
}

impl Ring<'_> {
    /// Reads from a position on, around the end of the ring.
    pub(crate) fn read(&self, bytes: &mut [u8], position: u64) -> io::Result<()> {
        let (at, first) = self.place(position, bytes.len());
        let (whole, rest) = bytes.split_at_mut(first);
        self.file.read_at(whole, at)?;
        if rest.is_empty() { Ok(()) } else { self.file.read_at(rest, RING_AT) }
    }

    /// Announces that this many bytes will be read from a position on.
    pub(crate) fn will_read(&self, position: u64, len: u64) {
        self.in_file(position, len, |from, to| self.file.will_read(from, to));
    }

    /// Announces that this many bytes from a position on will be overwritten before they are read.
    /// The kernel drops their pages, which may be parts of large folios: for each small write it
    /// would go through all of such a folio.
    pub(crate) fn will_overwrite(&self, position: u64, len: u64) {
        self.in_file(position, len, |from, to| self.file.will_overwrite(from, to));
    }

    /// Calls `each` with the ranges of the file that hold some bytes of the ring.
    fn in_file(&self, position: u64, len: u64, mut each: impl FnMut(u64, u64)) {
        let (at, len) = (position % self.capacity, len.min(self.capacity));
        let first = len.min(self.capacity - at);
        each(RING_AT + at, RING_AT + at + first);
        if len > first {
            each(RING_AT, RING_AT + len - first);
        }
    }

    /// Writes from a position on, around the end of the ring.
    pub(crate) fn write(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let (at, first) = self.place(position, bytes.len());
        let (whole, rest) = bytes.split_at(first);
        self.file.write_at(whole, at)?;
        if rest.is_empty() { Ok(()) } else { self.file.write_at(rest, RING_AT) }
    }

    /// Returns the place of a position in the file, and how many of `len` bytes are before the end
    /// of the ring.
    fn place(&self, position: u64, len: usize) -> (u64, usize) {
        let at = position % self.capacity;
        (RING_AT + at, len.min((self.capacity - at) as usize))
    }

    /// Reads the batch at a position into `bytes`, without its padding; `None` if there is no whole
    /// batch.
    pub(crate) fn read_batch(
        &self,
        pool: &[u8; 16],
        rules: &HeaderRules,
        position: u64,
        bytes: &mut Vec<u8>,
    ) -> io::Result<Option<BatchHeader>> {
        let mut raw = [0; HEADER];
        self.read(&mut raw, position)?;
        let Some(header) = BatchHeader::parse(&raw, rules) else {
            return Ok(None);
        };
        bytes.resize(header.len, 0);
        self.read(bytes, position)?;
        Ok(has_checksum(pool, bytes).then_some(header))
    }
}

const _: () = assert!(HEADER as u64 <= BLOCK);

#[cfg(test)]
mod tests {
    use super::super::batch::tests::{POOL, RULES, batch, header};
    use super::super::layout::LEAST_CAPACITY;
    use super::super::storage::tests::Memory;
    use super::*;

    #[test]
    fn a_batch_is_whole_across_the_end_of_the_ring() {
        let file = Memory::new((RING_AT + LEAST_CAPACITY) as usize);
        let ring = Ring { file: &file, capacity: LEAST_CAPACITY };
        let written = batch(header(1, 5, 4), &[(3, 800, 9)]);
        assert_eq!(written.len() as u64, 2 * BLOCK);
        let mut read = Vec::new();
        for position in [0, 7 * LEAST_CAPACITY - BLOCK, 3 * LEAST_CAPACITY + BLOCK] {
            ring.write(&written, position).unwrap();
            let found = ring.read_batch(&POOL, &RULES, position, &mut read).unwrap().unwrap();
            assert_eq!(found.sequence, 5);
            assert_eq!(read, written[..found.len], "at {position}");
            assert_eq!(ring.read_batch(&[0; 16], &RULES, position, &mut read).unwrap(), None);
        }
        assert_eq!(ring.read_batch(&POOL, &RULES, 5 * BLOCK, &mut read).unwrap(), None);
        assert_eq!(file.bytes().len() as u64, RING_AT + LEAST_CAPACITY);
    }
}
