//! The search for the mark at the end of a dump whose size the primary did not know.
//!
//! The mark may be cut anywhere by reads, and nothing after it may be taken. So the bytes that may
//! begin the mark are taken and held back, as a number only: they are equal to the mark's own first
//! bytes. Where they turn out to be data they are given after all (Knuth, Morris and Pratt).
//!
//! Invariant: what was taken is what was given, then `owed`, then the mark's first `matched` bytes.

use std::ops::Range;

use memchr::memmem::Finder;

/// Bytes of a mark.
pub(crate) const MARK: usize = 40;

/// The state of a search.
#[derive(Debug)]
pub(crate) struct MarkSearch {
    mark: [u8; MARK],
    finder: Finder<'static>,
    /// For the mark's first n + 1 bytes: how many of their last bytes begin the mark again.
    borders: [usize; MARK],
    /// How many of the last bytes taken may begin the mark.
    matched: usize,
    /// Bytes of the mark that turned out to be data and were not given yet.
    owed: Range<usize>,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Bytes taken of those that arrived.
    pub(crate) taken: usize,
    /// Bytes of data that were given.
    pub(crate) given: usize,
    /// Whether the last byte taken was the mark's last.
    pub(crate) found: bool,
}

impl MarkSearch {
    /// Begins a search.
    pub(crate) fn new(mark: [u8; MARK]) -> MarkSearch {
        let mut borders = [0; MARK];
        let mut matched = 0;
        for at in 1..MARK {
            matched = next_match(&mark, &borders, matched, mark[at]);
            borders[at] = matched;
        }
        let finder = Finder::new(&mark).into_owned();
        MarkSearch { mark, finder, borders, matched: 0, owed: 0..0 }
    }

    /// Gives bytes that are owed from before. Returns how many: while there are any, no more need
    /// arrive.
    pub(crate) fn give_owed(&mut self, out: &mut [u8]) -> usize {
        let given = self.owed.len().min(out.len());
        out[..given].copy_from_slice(&self.mark[self.owed.start..][..given]);
        self.owed.start += given;
        given
    }

    /// Searches in bytes that arrived, while nothing is owed, and gives the data among them.
    pub(crate) fn step(&mut self, arrived: &[u8], out: &mut [u8]) -> Step {
        debug_assert!(self.owed.is_empty());
        let mut taken = 0;
        while self.matched > 0 && taken < arrived.len() {
            let before = self.matched;
            let byte = arrived[taken];
            if byte == self.mark[before] {
                taken += 1;
                self.matched += 1;
                if self.matched == MARK {
                    return Step { taken, given: 0, found: true };
                }
                continue;
            }
            self.matched = self.borders[before - 1];
            self.owed = 0..before - self.matched;
            return Step { taken, given: self.give_owed(out), found: false };
        }
        if taken > 0 || self.matched > 0 {
            return Step { taken, given: 0, found: false };
        }
        let window = &arrived[..arrived.len().min(out.len())];
        if let Some(at) = self.finder.find(window) {
            out[..at].copy_from_slice(&window[..at]);
            return Step { taken: at + MARK, given: at, found: true };
        }
        for &byte in &window[window.len().saturating_sub(MARK - 1)..] {
            self.matched = next_match(&self.mark, &self.borders, self.matched, byte);
        }
        let given = window.len() - self.matched;
        out[..given].copy_from_slice(&window[..given]);
        Step { taken: window.len(), given, found: false }
    }
}

/// Returns how many bytes at the mark's front are matched after one more byte, if `matched` were
/// before it, and were not all.
fn next_match(mark: &[u8; MARK], borders: &[usize; MARK], mut matched: usize, byte: u8) -> usize {
    while matched > 0 && mark[matched] != byte {
        matched = borders[matched - 1];
    }
    matched + usize::from(mark[matched] == byte)
}
