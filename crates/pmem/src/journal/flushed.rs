//! The `journal` domain's flush: each thread remembers the lines that it flushed, and its fence
//! copies them.
//!
//! A thread remembers ranges of lines for each region that it used. Its lists are kept, so that a
//! commit allocates nothing.

use super::batch::LineRange;
use crate::lines::LINE;
use std::cell::RefCell;

/// Maximum number of empty lists that a thread keeps.
const KEPT: usize = 4;

/// Lines `[first, end)`.
type Lines = (u64, u64);

thread_local! {
    static FLUSHED: RefCell<Vec<(u64, Vec<Lines>)>> = const { RefCell::new(Vec::new()) };
}

/// Remembers the lines of some bytes of region `region` until the calling thread's next fence.
#[inline(never)]
pub(crate) fn remember(region: u64, off: u64, len: usize) {
    let (first, end) = (off / LINE, (off + len as u64).div_ceil(LINE));
    FLUSHED.with_borrow_mut(|all| {
        let at = match all.iter().position(|(id, _)| *id == region) {
            Some(at) => at,
            None => {
                if all.len() >= KEPT {
                    all.retain(|(_, lines)| !lines.is_empty());
                }
                all.push((region, Vec::new()));
                all.len() - 1
            }
        };
        let lines = &mut all[at].1;
        match lines.last_mut() {
            Some(last) if first >= last.0 && first <= last.1 => last.1 = last.1.max(end),
            _ => lines.push((first, end)),
        }
    });
}

/// Passes the remembered ranges of the calling thread for region `region` to `take`, ascending and
/// without duplicate lines, and forgets them. `take` must not flush.
pub(crate) fn take<R>(
    region: u64,
    take: impl FnOnce(&mut dyn Iterator<Item = LineRange>) -> R,
) -> R {
    FLUSHED.with_borrow_mut(|all| match all.iter_mut().find(|(id, _)| *id == region) {
        Some((_, lines)) => {
            merge(lines);
            let mut ranges =
                lines.drain(..).map(|(first, end)| LineRange { first, lines: end - first });
            take(&mut ranges)
        }
        None => take(&mut std::iter::empty()),
    })
}

/// Sorts ranges and joins those that touch or overlap.
fn merge(lines: &mut Vec<Lines>) {
    lines.sort_unstable();
    lines.dedup_by(|next, before| {
        let joined = next.0 <= before.1;
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

    fn taken(region: u64) -> Vec<Lines> {
        take(region, |ranges| ranges.map(|range| (range.first, range.lines)).collect())
    }

    proptest! {
        #[test]
        fn each_line_of_each_range_is_remembered_and_no_other(
            ranges in prop::collection::vec((0..40 * LINE, 1..5 * LINE as usize), 1..8),
        ) {
            let mut expected = BTreeSet::new();
            for (off, len) in ranges {
                remember(99, off, len);
                expected.extend((off..off + len as u64).map(|byte| byte / LINE));
            }
            let lines = taken(99).into_iter().flat_map(|(first, lines)| first..first + lines);
            let lines: Vec<u64> = lines.collect();
            prop_assert_eq!(lines, expected.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn lines_are_taken_once_by_their_thread_for_their_region() {
        for region in 1..=2 * KEPT as u64 {
            remember(region, region * LINE, 1);
            remember(region, 0, 1);
        }
        std::thread::spawn(|| assert_eq!(taken(1), [])).join().unwrap();
        for region in 2..=2 * KEPT as u64 {
            assert_eq!(taken(region), [(0, 1), (region, 1)]);
            assert_eq!(taken(region), []);
        }
        assert_eq!(taken(1), [(0, 2)]);
    }
}
