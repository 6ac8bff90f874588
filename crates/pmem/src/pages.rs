//! The `msync` domain's flush: each thread remembers the pages that it stored to, and its fence
//! writes them.
//!
//! A thread remembers page ranges for each region that it used. The fence merges them. One range is
//! written by `msync`; several ranges are written by one `fdatasync` of the file, since each call
//! costs a flush of the device's cache, far more than writing the few pages that other threads have
//! dirtied meanwhile.

use crate::fault_points::FaultPoint;
use crate::mapping::PAGE;
use std::cell::RefCell;

/// Pages `[first, end)`.
pub(crate) type Range = (u64, u64);

thread_local! {
    static REMEMBERED: RefCell<Vec<(u64, Vec<Range>)>> = const { RefCell::new(Vec::new()) };
}

/// Remembers the pages of some bytes.
pub(crate) fn remember_bytes(region: u64, off: u64, len: usize) {
    let (first, last) = (off / PAGE, off + len as u64);
    let end =
        if FaultPoint::RememberLastPage.is_enabled() { last.div_ceil(PAGE) } else { first + 1 };
    remember(region, first, end);
}

/// Remembers pages `[first, end)` of region `region` until the calling thread's next fence there.
pub(crate) fn remember(region: u64, first: u64, end: u64) {
    REMEMBERED.with_borrow_mut(|all| {
        let at = match all.iter().position(|(id, _)| *id == region) {
            Some(at) => at,
            None => {
                all.push((region, Vec::new()));
                all.len() - 1
            }
        };
        let ranges = &mut all[at].1;
        match ranges.last_mut() {
            Some(last) if first >= last.0 && first <= last.1 => {
                last.1 =
                    if FaultPoint::KeepRemembered.is_enabled() { last.1.max(end) } else { end };
            }
            _ => ranges.push((first, end)),
        }
    });
}

/// Takes what the calling thread has remembered of region `region`: merged, ascending ranges.
pub(crate) fn take(region: u64) -> Vec<Range> {
    REMEMBERED.with_borrow_mut(|all| match all.iter().position(|(id, _)| *id == region) {
        Some(at) => merge(all.swap_remove(at).1),
        None => Vec::new(),
    })
}

/// Sorts ranges and joins those that touch or overlap.
pub(crate) fn merge(mut ranges: Vec<Range>) -> Vec<Range> {
    ranges.sort_unstable();
    let mut merged: Vec<Range> = Vec::with_capacity(ranges.len());
    for (first, end) in ranges {
        match merged.last_mut() {
            Some(last) if first <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((first, end)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_page_of_each_range_is_remembered_and_no_other(
            ranges in prop::collection::vec((0..12 * PAGE, 1..3 * PAGE as usize), 1..6),
        ) {
            let mut expected = BTreeSet::new();
            for (off, len) in ranges {
                remember_bytes(99, off, len);
                expected.extend((off..off + len as u64).map(|byte| byte / PAGE));
            }
            let taken: Vec<u64> = take(99).into_iter().flat_map(|(first, end)| first..end).collect();
            prop_assert_eq!(taken, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn remembered_pages_are_merged_and_taken_once() {
        let check = |region, pages: &[Range], expect: &[Range]| {
            for &(first, end) in pages {
                remember(region, first, end);
            }
            assert_eq!(take(region), expect);
            assert_eq!(take(region), []);
        };
        check(1, &[], &[]);
        check(1, &[(3, 4)], &[(3, 4)]);
        check(1, &[(3, 4), (3, 4), (4, 6)], &[(3, 6)]);
        check(1, &[(9, 10), (1, 2), (2, 9)], &[(1, 10)]);
        check(1, &[(5, 8), (1, 2), (6, 7)], &[(1, 2), (5, 8)]);
    }

    #[test]
    fn regions_and_threads_remember_apart() {
        remember(7, 1, 2);
        remember(8, 3, 4);
        std::thread::spawn(|| assert_eq!(take(7), [])).join().unwrap();
        assert_eq!(take(8), [(3, 4)]);
        assert_eq!(take(7), [(1, 2)]);
    }
}
