//! Batches merged by page, for the pool's file: of each line the newest content.

use super::batch::LineRange;
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use crate::mapping::PAGE;
use std::collections::BTreeMap;
use std::io;

/// Lines of a page.
const LINES: u64 = PAGE / LINE;
/// Bytes that are written at once at most, but for one page.
const WRITE: usize = 1 << 20;

/// Lines of some pages.
#[derive(Default)]
pub(super) struct MergedPages(BTreeMap<u64, Page>);

struct Page {
    /// A bit for each line that is there; the lowest is the first line's.
    lines: u64,
    bytes: Box<[u8; PAGE as usize]>,
}

impl MergedPages {
    /// Adds lines that are newer than those that were added before.
    pub(super) fn add(&mut self, range: LineRange, bytes: &[u8]) {
        for (line, bytes) in (range.first..).zip(bytes.chunks_exact(LINE as usize)) {
            let page = self
                .0
                .entry(line / LINES)
                .or_insert_with(|| Page { lines: 0, bytes: Box::new([0; PAGE as usize]) });
            let (bit, at) = (1 << (line % LINES), (line % LINES * LINE) as usize);
            if page.lines & bit == 0 || FaultPoint::NewestWins.is_enabled() {
                page.bytes[at..at + LINE as usize].copy_from_slice(bytes);
            }
            page.lines |= bit;
        }
    }

    /// Writes all lines, by ascending offset; adjacent ones at once. Returns the number of bytes.
    pub(super) fn write(
        &self,
        mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<u64> {
        let (mut run, mut from, mut total) = (Vec::new(), 0, 0);
        for (number, page) in &self.0 {
            for line in (0..LINES).filter(|line| page.lines >> line & 1 == 1) {
                let at = number * PAGE + line * LINE;
                if from + run.len() as u64 != at || run.len() >= WRITE {
                    write_run(&mut run, from, &mut write)?;
                    from = at;
                }
                run.extend_from_slice(&page.bytes[(line * LINE) as usize..][..LINE as usize]);
                total += LINE;
            }
        }
        write_run(&mut run, from, &mut write)?;
        Ok(total)
    }
}

fn write_run(
    run: &mut Vec<u8>,
    from: u64,
    write: &mut impl FnMut(&[u8], u64) -> io::Result<()>,
) -> io::Result<()> {
    if !run.is_empty() {
        write(run, from)?;
        run.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_newest_content_of_each_line_is_written_and_nothing_else(
            ranges in prop::collection::vec((0..200u64, 1..80u64), 0..12),
        ) {
            let mut expected = vec![0; 300 * LINE as usize];
            let mut merged = MergedPages::default();
            for (n, (first, lines)) in ranges.into_iter().enumerate() {
                let range = LineRange { first, lines };
                let bytes = vec![n as u8 + 1; range.bytes().1];
                merged.add(range, &bytes);
                expected[range.bytes().0 as usize..][..bytes.len()].copy_from_slice(&bytes);
            }
            let mut file = vec![0; expected.len()];
            let mut ends = 0;
            let total = merged.write(|bytes, at| {
                // Ascending, and what touches is written at once.
                assert!(at > ends || ends == 0);
                ends = at + bytes.len() as u64;
                file[at as usize..][..bytes.len()].copy_from_slice(bytes);
                Ok(())
            }).unwrap();
            prop_assert_eq!(total, expected.iter().filter(|byte| **byte != 0).count() as u64);
            prop_assert!(file == expected);
        }
    }

    #[test]
    fn a_long_run_is_written_in_pieces() {
        let mut merged = MergedPages::default();
        let range = LineRange { first: 3, lines: 40_000 };
        merged.add(range, &vec![5; range.bytes().1]);
        let mut lens = Vec::new();
        merged
            .write(|bytes, _| {
                lens.push(bytes.len());
                Ok(())
            })
            .unwrap();
        assert_eq!(lens, [WRITE, WRITE, range.bytes().1 - 2 * WRITE]);
    }
}
