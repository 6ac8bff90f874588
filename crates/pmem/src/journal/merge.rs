//! Batches merged for the pool's file: of each line the newest content.
//!
//! The bytes stay where they were read to: what is merged are ranges, so that memory is bounded by
//! the bytes of the batches, however far their lines are apart, and a large value is not copied
//! once more on its way into the file.

use super::batch::LineRange;
use super::storage::Storage;
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use std::collections::BTreeMap;
use std::io::{self, IoSlice};

/// Bytes that are written at once at most, but for one range.
const WRITE: usize = 1 << 20;
/// Pieces of them: the kernel takes up to 1024.
const PIECES: usize = 512;

/// Lines of some batches, in their order.
#[derive(Default)]
pub(super) struct MergedLines {
    bytes: Vec<u8>,
    /// Each range, and where its bytes begin.
    ranges: Vec<(LineRange, usize)>,
}

/// Ranges that do not overlap, by their first lines: the end, and where the bytes begin.
type Pieces = BTreeMap<u64, (u64, usize)>;

impl MergedLines {
    /// Adds lines that are newer than those that were added before.
    pub(super) fn add(&mut self, range: LineRange, bytes: &[u8]) {
        self.ranges.push((range, self.bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes all lines, by ascending offset; adjacent ones at once. Returns the number of bytes.
    pub(super) fn write(&self, file: &dyn Storage) -> io::Result<u64> {
        let (mut run, mut len, mut end, mut total) = (Vec::new(), 0, 0, 0);
        for (first, (after, at)) in self.newest() {
            let bytes = &self.bytes[at..at + ((after - first) * LINE) as usize];
            if end != first || len >= WRITE || run.len() >= PIECES {
                write_run(file, &mut run, end * LINE - len as u64)?;
                len = 0;
            }
            run.push(IoSlice::new(bytes));
            (len, end, total) = (len + bytes.len(), after, total + bytes.len() as u64);
        }
        write_run(file, &mut run, end * LINE - len as u64)?;
        Ok(total)
    }

    /// Returns the parts of ranges that no newer one covers.
    fn newest(&self) -> Pieces {
        let mut pieces = Pieces::new();
        let mut add = |(range, at): &(LineRange, usize)| uncovered(&mut pieces, *range, *at);
        match FaultPoint::NewestWins.is_enabled() {
            true => self.ranges.iter().rev().for_each(&mut add),
            false => self.ranges.iter().for_each(&mut add),
        }
        pieces
    }
}

/// Adds the parts of a range that no piece covers.
fn uncovered(pieces: &mut Pieces, range: LineRange, at: usize) {
    let end = range.first + range.lines;
    let mut first = range.first;
    if let Some((_, (covered, _))) = pieces.range(..=first).next_back() {
        first = first.max(*covered);
    }
    while first < end {
        let next = pieces.range(first..end).next().map(|(next, (covered, _))| (*next, *covered));
        let (until, covered) = next.unwrap_or((end, end));
        if first < until {
            pieces.insert(first, (until, at + ((first - range.first) * LINE) as usize));
        }
        first = covered;
    }
}

fn write_run(file: &dyn Storage, run: &mut Vec<IoSlice<'_>>, at: u64) -> io::Result<()> {
    if !run.is_empty() {
        file.write_pieces(run, at)?;
        run.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::storage::tests::Memory;
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;

    /// A file that remembers where it was written to.
    struct Watched(Memory, Mutex<Vec<(u64, usize)>>);

    impl Storage for Watched {
        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
            self.0.read_at(bytes, at)
        }

        fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            self.1.lock().unwrap().push((at, bytes.len()));
            self.0.write_at(bytes, at)
        }

        fn sync(&self) -> io::Result<()> {
            self.0.sync()
        }

        fn size(&self) -> io::Result<u64> {
            self.0.size()
        }

        fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
            self.0.allocate(from, to)
        }
    }

    proptest! {
        #[test]
        fn the_newest_content_of_each_line_is_written_and_nothing_else(
            ranges in prop::collection::vec((0..200u64, 1..80u64), 0..12),
        ) {
            let mut expected = vec![0; 300 * LINE as usize];
            let mut merged = MergedLines::default();
            for (n, (first, lines)) in ranges.into_iter().enumerate() {
                let range = LineRange { first, lines };
                let bytes = vec![n as u8 + 1; range.bytes().1];
                merged.add(range, &bytes);
                expected[range.bytes().0 as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            let file = Watched(Memory::new(expected.len()), Mutex::default());
            let total = merged.write(&file).unwrap();
            let mut ends = 0;
            for (at, len) in file.1.into_inner().unwrap() {
                // Ascending, and what touches is written at once.
                prop_assert!(at > ends || ends == 0);
                ends = at + len as u64;
            }
            prop_assert_eq!(total, expected.iter().filter(|byte| **byte != 0).count() as u64);
            let mut found = vec![0; expected.len()];
            file.0.read_at(&mut found, 0).unwrap();
            prop_assert!(found == expected);
        }
    }

    #[test]
    fn a_long_run_is_written_in_pieces() {
        let check = |ranges: &[(u64, u64)], expect: &[usize]| {
            let mut merged = MergedLines::default();
            for (first, lines) in ranges {
                let range = LineRange { first: *first, lines: *lines };
                merged.add(range, &vec![5; range.bytes().1]);
            }
            let file = Watched(Memory::new(8 << 20), Mutex::default());
            merged.write(&file).unwrap();
            let lens: Vec<usize> =
                file.1.into_inner().unwrap().into_iter().map(|(_, len)| len).collect();
            assert_eq!(lens, expect);
        };
        let half = WRITE as u64 / LINE / 2;
        check(&[(3, half), (3 + half, half), (3 + 2 * half, 7)], &[WRITE, 7 * LINE as usize]);
        let single: Vec<(u64, u64)> = (0..PIECES as u64 + 1).rev().map(|line| (line, 1)).collect();
        check(&single, &[PIECES * LINE as usize, LINE as usize]);
    }
}
