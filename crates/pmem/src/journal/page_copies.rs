//! Copies of pages, on their way to the pool's file.
//!
//! The memory is kept, and is in huge pages: the kernel looks up each page from which it writes
//! past the page cache. It begins a page, as such a write requires.

#![allow(unsafe_code, reason = "the kernel is asked for huge pages")]

use super::append::CopyWords;
use super::batch::{WORD, WordRange};
use crate::lines::LINE;
use crate::mapping::{HUGE, PAGE};
use rustix::mm::{Advice, madvise};

/// Copies of some ranges of words, each of which begins a page.
#[derive(Default)]
pub(super) struct PageCopies {
    bytes: Vec<u8>,
    /// The index at which the copies begin.
    from: usize,
    runs: Vec<WordRange>,
}

impl PageCopies {
    /// Forgets all copies, and makes space for `len` bytes.
    pub(super) fn clear(&mut self, len: u64) {
        self.runs.clear();
        let (len, align) = match len {
            HUGE.. => (len.next_multiple_of(HUGE) as usize, HUGE as usize),
            _ => (len as usize, PAGE as usize),
        };
        if self.bytes.capacity() >= len + align {
            self.bytes.truncate(self.from);
            return;
        }
        self.bytes = Vec::with_capacity(len + align);
        self.from = self.bytes.as_ptr().align_offset(align);
        if align == HUGE as usize {
            let at = self.bytes.as_mut_ptr().wrapping_add(self.from);
            // Without huge pages it is slower.
            // SAFETY: whole pages of the vector's memory, whose bytes the advice does not change.
            let _ = unsafe { madvise(at.cast(), len, Advice::LinuxHugepage) };
        }
        self.bytes.resize(self.from, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the number of bytes of all copies.
    pub(super) fn len(&self) -> u64 {
        self.runs.iter().map(|run| run.bytes().1 as u64).sum()
    }

    /// Adds a copy of a range, which `copy` appends; returns false if that does.
    pub(super) fn add(&mut self, run: WordRange, copy: CopyWords<'_>) -> bool {
        self.runs.push(run);
        let is_copied = copy(run, &mut self.bytes);
        let len = (self.bytes.len() - self.from).next_multiple_of(PAGE as usize);
        self.bytes.resize(self.from + len, 0);
        is_copied
    }

    /// Returns true if there is a copy of the word at this offset.
    pub(super) fn has(&self, off: u64) -> bool {
        self.runs.iter().any(|run| run.contains(off / WORD))
    }

    /// Puts a line into the copies of its page: the working memory has another version there.
    pub(super) fn put_line(&mut self, off: u64, line: &[u8; LINE as usize]) {
        let mut at = self.from;
        for run in &self.runs {
            if run.contains(off / WORD) {
                let from = at + (off - run.bytes().0) as usize;
                self.bytes[from..from + line.len()].copy_from_slice(line);
            }
            at += run.bytes().1.next_multiple_of(PAGE as usize);
        }
    }

    /// Returns the copies, each with its offset.
    pub(super) fn writes(&self) -> Vec<(u64, &[u8])> {
        let mut rest = &self.bytes[self.from..];
        let writes = self.runs.iter().map(|run| {
            let (off, len) = run.bytes();
            let (pages, after) = rest.split_at(len.next_multiple_of(PAGE as usize));
            rest = after;
            (off, &pages[..len])
        });
        writes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies(len: u64, runs: &[WordRange]) -> PageCopies {
        let mut copies = PageCopies::default();
        for _ in 0..2 {
            copies.clear(len);
            for (run, fill) in runs.iter().zip(1..) {
                let fill = |run: WordRange, out: &mut Vec<u8>| {
                    out.resize(out.len() + run.bytes().1, fill);
                    true
                };
                assert!(copies.add(*run, &fill));
            }
        }
        copies
    }

    #[test]
    fn a_line_is_put_into_the_copy_of_its_page_and_into_no_other() {
        let lines = |first: u64, lines: u64| WordRange { first: first * 8, words: lines * 8 };
        let runs = [lines(10, 3), lines(4, 2)];
        let check = |line: u64, expected: Option<usize>| {
            let mut copies = copies(1, &runs);
            assert_eq!(copies.has(line * LINE), expected.is_some());
            copies.put_line(line * LINE, &[7; LINE as usize]);
            let lines: Vec<u8> =
                copies.bytes[copies.from..].chunks(64).map(|line| line[63]).collect();
            assert_eq!(lines.iter().position(|byte| *byte == 7), expected, "line {line}");
            assert_eq!(lines.iter().filter(|byte| **byte == 7).count(), expected.iter().count());
        };
        check(3, None);
        check(4, Some(64));
        check(5, Some(65));
        check(6, None);
        check(9, None);
        check(10, Some(0));
        check(12, Some(2));
        check(13, None);
    }

    #[test]
    fn copies_begin_a_page_and_are_written_where_they_came_from() {
        let runs = [WordRange { first: 512, words: 512 }, WordRange { first: 5120, words: 1024 }];
        for len in [3 * PAGE, HUGE, 3 * HUGE + 1] {
            let copies = copies(len, &runs);
            let writes = copies.writes();
            assert_eq!(writes, [(PAGE, &[1; 4096][..]), (10 * PAGE, &[2; 8192][..])]);
            assert!(writes.iter().all(|(_, bytes)| bytes.as_ptr().addr() % 4096 == 0));
            assert_eq!((copies.len(), copies.is_empty()), (3 * PAGE, false));
        }
    }
}
