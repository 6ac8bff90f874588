//! The `journal` domain's flush: each thread remembers the words that it flushed, and its fence
//! copies them.
//!
//! Words and not whole lines, as a processor's flush takes: of many lines a commit changes one
//! word.
//!
//! A thread remembers ranges of words for each region that it used. Its lists are kept, so that a
//! commit allocates nothing.

use super::batch::{RANGE_HEAD, WORD, WordRange};
use std::cell::RefCell;

/// Maximum number of empty lists that a thread keeps.
const KEPT: usize = 4;

/// Two ranges with this many words between them are one: a range more takes as much space.
const JOINED: u64 = RANGE_HEAD as u64 / WORD;

/// Words `[first, end)`.
type Words = (u64, u64);

thread_local! {
    static FLUSHED: RefCell<Vec<(u64, Vec<Words>)>> = const { RefCell::new(Vec::new()) };
}

/// Remembers the words of some bytes of region `region` until the calling thread's next fence.
#[inline(never)]
pub(crate) fn remember(region: u64, off: u64, len: usize) {
    let (first, end) = (off / WORD, (off + len as u64).div_ceil(WORD));
    FLUSHED.with_borrow_mut(|all| {
        let at = match all.iter().position(|(id, _)| *id == region) {
            Some(at) => at,
            None => {
                if all.len() >= KEPT {
                    all.retain(|(_, words)| !words.is_empty());
                }
                all.push((region, Vec::new()));
                all.len() - 1
            }
        };
        let words = &mut all[at].1;
        match words.last_mut() {
            Some(last) if first >= last.0 && first <= last.1 => last.1 = last.1.max(end),
            _ => words.push((first, end)),
        }
    });
}

/// Passes the remembered ranges of the calling thread for region `region` to `take`, ascending and
/// without duplicate words, and forgets them. `take` must not flush.
pub(crate) fn take<R>(
    region: u64,
    take: impl FnOnce(&mut dyn Iterator<Item = WordRange>) -> R,
) -> R {
    FLUSHED.with_borrow_mut(|all| match all.iter_mut().find(|(id, _)| *id == region) {
        Some((_, words)) => {
            merge(words);
            let mut ranges =
                words.drain(..).map(|(first, end)| WordRange { first, words: end - first });
            take(&mut ranges)
        }
        None => take(&mut std::iter::empty()),
    })
}

/// Sorts ranges and joins those that overlap, touch, or nearly do.
fn merge(words: &mut Vec<Words>) {
    words.sort_unstable();
    words.dedup_by(|next, before| {
        let joined = next.0 <= before.1 + JOINED;
        if joined {
            before.1 = before.1.max(next.1);
        }
        joined
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn taken(region: u64) -> Vec<Words> {
        take(region, |ranges| ranges.map(|range| (range.first, range.words)).collect())
    }

    proptest! {
        /// Each word of each range is remembered, and no other but single ones between two.
        #[test]
        fn each_word_of_each_range_is_remembered(
            ranges in prop::collection::vec((0..80 * WORD, 1..20 * WORD as usize), 1..8),
        ) {
            let mut expected = BTreeSet::new();
            for (off, len) in ranges {
                remember(99, off, len);
                expected.extend((off..off + len as u64).map(|byte| byte / WORD));
            }
            let has = |word: u64| expected.contains(&word);
            let is_single = |word: &u64| !has(*word) && has(*word - 1) && has(*word + 1);
            let single: Vec<u64> = (1..200).filter(is_single).collect();
            expected.extend(single);
            let words = taken(99).into_iter().flat_map(|(first, words)| first..first + words);
            let words: Vec<u64> = words.collect();
            prop_assert_eq!(words, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn words_are_taken_once_by_their_thread_for_their_region() {
        for region in 1..=2 * KEPT as u64 {
            remember(region, (region + 2) * WORD, 1);
            remember(region, 0, 1);
        }
        std::thread::spawn(|| assert_eq!(taken(1), [])).join().unwrap();
        for region in 1..=2 * KEPT as u64 {
            assert_eq!(taken(region), [(0, 1), (region + 2, 1)]);
            assert_eq!(taken(region), []);
        }
    }

    #[test]
    fn ranges_with_one_word_between_them_are_one() {
        for at in [0, 3, 8, 13] {
            remember(98, at * WORD, 2 * WORD as usize - 1);
        }
        assert_eq!(taken(98), [(0, 5), (8, 2), (13, 2)]);
    }
}
