//! Pages of the working memory that the pool's file lacks: a bit for each.
//!
//! A page is marked when words of it are appended, under the buffer's lock, and its mark is taken
//! under the same lock before the page is copied for the file. So a word that is appended after the
//! mark was taken marks the page again, and a word that was appended before is in the copy.
//!
//! Two runs with one page between them are written as one, if that page was marked at some time: a
//! page more costs the disk and the kernel less than a write more. Such a page is in memory, and
//! has its space in the file.

use super::batch::{WORD, WordRange};
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use crate::mapping::PAGE;

/// Words of a page.
pub(super) const PAGE_WORDS: u64 = PAGE / WORD;

/// Number of words that are examined under one lock: those of 1 GiB.
const LOOKED_AT: usize = 4096;

/// What [`DirtyPages::take`] took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The page to continue from; `None` after the last one.
    pub(super) next: Option<u64>,
    /// The number of marks. Pages between two runs had none.
    pub(super) marks: u64,
}

/// Two bits for each page, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct DirtyPages {
    words: Vec<u64>,
    /// Pages that were marked at some time.
    ever: Vec<u64>,
    /// The end of the line with the last marked word: the region may end within its page.
    end: u64,
}

impl DirtyPages {
    /// Marks the pages of some words.
    #[inline]
    pub(super) fn mark(&mut self, range: WordRange) {
        if range.words == 0 || !FaultPoint::MarkPages.is_enabled() {
            return;
        }
        let end = range.first + range.words;
        let (first, last) = (range.first / PAGE_WORDS, (end - 1) / PAGE_WORDS);
        let last = if FaultPoint::MarkLastPage.is_enabled() { last } else { first };
        self.end = self.end.max(end.next_multiple_of(LINE / WORD));
        if self.words.len() as u64 <= last / 64 {
            self.words.resize(last as usize / 64 + 1, 0);
            self.ever.resize(last as usize / 64 + 1, 0);
        }
        for page in first..=last {
            self.words[page as usize / 64] |= 1 << (page % 64);
            self.ever[page as usize / 64] |= 1 << (page % 64);
        }
    }

    /// Returns the number of marked pages from a page on.
    pub(super) fn count_from(&self, page: u64) -> u64 {
        let mut words = self.words.iter().skip(page as usize / 64);
        let first = words.next().map_or(0, |word| word & (u64::MAX << (page % 64)));
        u64::from(first.count_ones()) + words.map(|word| u64::from(word.count_ones())).sum::<u64>()
    }

    /// Takes the marks of up to `most` pages from page `from` on: adds their words to `runs`,
    /// ascending, with adjacent pages as one range.
    pub(super) fn take(&mut self, from: u64, most: u64, runs: &mut Vec<WordRange>) -> Taken {
        let (mut at, mut left, mut marks) = (from, most, 0);
        let stop = from as usize / 64 + LOOKED_AT;
        while left > 0 && (at as usize / 64) < stop {
            let Some(word) = self.words.get_mut(at as usize / 64) else {
                return Taken { next: None, marks };
            };
            let rest = *word >> (at % 64);
            if rest == 0 {
                at = (at / 64 + 1) * 64;
                continue;
            }
            at += u64::from(rest.trailing_zeros());
            *word &= !(1 << (at % 64));
            if left > 1 && self.is_gap(runs, at) {
                push(runs, at - 1, self.end);
                left -= 1;
            }
            push(runs, at, self.end);
            (at, left, marks) = (at + 1, left - 1, marks + 1);
        }
        Taken { next: Some(at), marks }
    }

    /// Returns true if just one page is between the last run and a page, and was marked at some
    /// time.
    fn is_gap(&self, runs: &[WordRange], page: u64) -> bool {
        let end = runs.last().map(|last| (last.first + last.words) / PAGE_WORDS);
        end.is_some_and(|end| {
            end + 1 == page && self.ever[end as usize / 64] >> (end % 64) & 1 != 0
        })
    }
}

/// Adds the words of a page that are before `end`.
fn push(runs: &mut Vec<WordRange>, page: u64, end: u64) {
    let first = page * PAGE_WORDS;
    let words = PAGE_WORDS.min(end - first);
    match runs.last_mut() {
        Some(last) if last.first + last.words == first => last.words += words,
        _ => runs.push(WordRange { first, words }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn words(first: u64, words: u64) -> WordRange {
        WordRange { first, words }
    }

    /// Takes all marks, this many at a time.
    fn take_all(pages: &mut DirtyPages, most: u64) -> Vec<WordRange> {
        let (mut runs, mut from) = (Vec::new(), 0);
        while let Some(next) = pages.take(from, most, &mut runs).next {
            from = next;
        }
        runs
    }

    #[test]
    fn adjacent_pages_are_one_run_and_the_last_one_ends_with_the_last_line() {
        let mut pages = DirtyPages::default();
        assert_eq!(take_all(&mut pages, 1), []);
        for range in [words(0, 1), words(511, 2), words(512 * 63, 512 * 2 + 5), words(0, 0)] {
            pages.mark(range);
        }
        let expected = [words(0, 1024), words(512 * 63, 512 * 2 + 8)];
        assert_eq!(take_all(&mut pages, 1000), expected);
        assert_eq!(take_all(&mut pages, 1000), []);
    }

    #[test]
    fn no_more_are_taken_than_asked_for_and_those_before_stay() {
        let mut pages = DirtyPages::default();
        (0..10).for_each(|page| pages.mark(words(page * 2 * PAGE_WORDS, PAGE_WORDS)));
        let mut runs = Vec::new();
        assert_eq!(pages.take(6, 3, &mut runs), Taken { next: Some(11), marks: 3 });
        assert_eq!(runs, [6, 8, 10].map(|page| words(page * PAGE_WORDS, PAGE_WORDS)));
        assert_eq!(take_all(&mut pages, 2).len(), 7);
    }

    #[test]
    fn a_page_between_two_runs_is_taken_too_if_it_was_ever_marked() {
        let mut pages = DirtyPages::default();
        let mark = |pages: &mut DirtyPages, marked: &[u64]| {
            marked.iter().for_each(|page| pages.mark(words(page * PAGE_WORDS, 1)));
        };
        mark(&mut pages, &[1, 3, 4, 5, 8, 63, 64, 65, 200]);
        assert_eq!(take_all(&mut pages, 100).len(), 5);
        let again = [0, 2, 3, 5, 8, 10, 63, 65, 200];
        mark(&mut pages, &again);
        let run = |page: u64, count: u64| words(page * PAGE_WORDS, count * PAGE_WORDS);
        let last = words(200 * PAGE_WORDS, LINE / WORD);
        let expected = [run(0, 6), run(8, 1), run(10, 1), run(63, 3), last];
        assert_eq!(take_all(&mut pages, 100), expected);
        // Not if that would be one page more than asked for.
        mark(&mut pages, &again);
        let mut runs = Vec::new();
        assert_eq!(pages.take(0, 2, &mut runs), Taken { next: Some(3), marks: 2 });
        assert_eq!(runs, [run(0, 1), run(2, 1)]);
        mark(&mut pages, &[0, 2, 3]);
        runs.clear();
        assert_eq!(pages.take(0, 5, &mut runs), Taken { next: Some(6), marks: 4 });
        assert_eq!(runs, [run(0, 4), run(5, 1)]);
    }

    #[test]
    fn few_pages_that_are_far_apart_are_found() {
        let mut pages = DirtyPages::default();
        let far = 64 * LOOKED_AT as u64;
        for page in [0, far - 1, far, 3 * far + 5] {
            pages.mark(words(page * PAGE_WORDS, PAGE_WORDS));
        }
        let from = [0, 1, far - 1, far, far + 1, 3 * far + 5, 3 * far + 6, 100 * far];
        assert_eq!(from.map(|page| pages.count_from(page)), [4, 3, 3, 2, 1, 1, 0, 0]);
        let expected =
            [words(0, 512), words((far - 1) * 512, 1024), words((3 * far + 5) * 512, 512)];
        assert_eq!(take_all(&mut pages, 100), expected);
    }

    proptest! {
        #[test]
        fn the_pages_of_all_words_that_were_marked_are_taken_once(
            ranges in prop::collection::vec((0..72_000u64, 1..2400u64), 0..12),
            most in 1..20u64,
        ) {
            let mut pages = DirtyPages::default();
            let mut expected = BTreeSet::new();
            for (first, count) in ranges {
                pages.mark(words(first, count));
                expected.extend((first..first + count).map(|word| word / PAGE_WORDS));
            }
            let runs = take_all(&mut pages, most);
            let taken = runs.iter().flat_map(|run| {
                run.first / PAGE_WORDS..(run.first + run.words).div_ceil(PAGE_WORDS)
            });
            prop_assert_eq!(taken.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
