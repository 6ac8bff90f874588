//! Evacuation: which spans of a shard are worth emptying, so that they can hold blocks of other
//! sizes.
//!
//! The spans of each class are counted by the share of their blocks that is free. Then the emptiest
//! are chosen, as many as fit: the blocks in use in the chosen spans must fit into the free blocks
//! of the others, so that every chosen span becomes free. Spans that are nearly full are left
//! alone: moving fifteen blocks to gain the space of one is not worth it.
//!
//! All of it is in DRAM. A crash ends the evacuation, and nothing is lost.

use crate::layout::size_class::{CLASSES, TABLE};

/// Spans are sorted into this many buckets by their share of free blocks.
const BUCKETS: usize = 16;
/// Spans in a lower bucket are not worth it: less than an eighth of their blocks is free.
const WORTH: usize = 2;

/// The spans of one class that may be chosen, by the share of their blocks that is free.
#[derive(Debug, Clone, Copy, Default)]
struct ClassTally {
    spans: [u32; BUCKETS],
    used: [u64; BUCKETS],
    /// Free blocks of all spans of the class, including those that may not be chosen.
    free: u64,
}

impl ClassTally {
    /// Chooses the emptiest spans whose used blocks fit into the free ones of the others.
    fn choose(&self, count: u32) -> Choice {
        let (mut fits, mut moved) = (self.free, 0);
        for bucket in (WORTH..BUCKETS).rev() {
            let (spans, used) = (u64::from(self.spans[bucket]), self.used[bucket]);
            let free = spans * u64::from(count) - used;
            if moved + used <= fits.saturating_sub(free) {
                (fits, moved) = (fits - free, moved + used);
                continue;
            }
            // Each chosen span adds its used blocks to move and removes its free ones: `count` in
            // all.
            let some = fits.saturating_sub(moved) / u64::from(count);
            return Choice { above: bucket, some: some as u32 };
        }
        Choice { above: WORTH - 1, some: 0 }
    }
}

/// Which spans of a class are chosen: all in buckets above `above`, and `some` of those in it.
#[derive(Debug, Clone, Copy)]
struct Choice {
    above: usize,
    some: u32,
}

fn bucket(free: u32, count: u32) -> usize {
    (free as usize * BUCKETS / count as usize).min(BUCKETS - 1)
}

/// What is known about the spans of a shard while they are counted.
#[derive(Debug)]
pub(super) struct Tally(Box<[ClassTally; CLASSES]>);

impl Tally {
    pub(super) fn new() -> Tally {
        Tally(Box::new([ClassTally::default(); CLASSES]))
    }

    /// Counts a span.
    pub(super) fn add(&mut self, class: u8, free: u32, may_be_chosen: bool) {
        let (class, count) = (&mut self.0[class as usize], TABLE[class as usize].count);
        class.free += u64::from(free);
        if may_be_chosen {
            let bucket = bucket(free, count);
            class.spans[bucket] += 1;
            class.used[bucket] += u64::from(count - free);
        }
    }

    pub(super) fn choose(&self) -> Choices {
        let choose = |class: usize| self.0[class].choose(TABLE[class].count);
        Choices(Box::new(std::array::from_fn(choose)))
    }
}

/// Which spans of a shard are chosen.
#[derive(Debug)]
pub(super) struct Choices(Box<[Choice; CLASSES]>);

impl Choices {
    /// Returns true if a span that was counted before is chosen.
    pub(super) fn take(&mut self, class: u8, free: u32) -> bool {
        let choice = &mut self.0[class as usize];
        let bucket = bucket(free, TABLE[class as usize].count);
        if bucket == choice.above && choice.some > 0 {
            choice.some -= 1;
            return true;
        }
        bucket > choice.above
    }
}

/// The progress of planning an evacuation.
#[derive(Debug, Default)]
pub(super) enum Planning {
    #[default]
    Idle,
    /// The spans before this index have been counted.
    Counting(usize, Tally),
    /// The spans before this index have been marked if they were chosen.
    Marking(usize, Choices),
}

/// The evacuation of a shard.
#[derive(Debug)]
pub(crate) struct Evacuation {
    pub(super) planning: Planning,
    /// Spans that are or were marked, by class; some may be gone.
    pub(super) chosen: Vec<Vec<u32>>,
    /// Spans that are marked.
    pub(super) marked: usize,
}

impl Default for Evacuation {
    fn default() -> Evacuation {
        Evacuation { planning: Planning::default(), chosen: vec![Vec::new(); CLASSES], marked: 0 }
    }
}

impl Evacuation {
    /// Returns true while blocks are to move out of the chosen spans.
    #[inline]
    pub(super) fn is_under_way(&self) -> bool {
        self.marked > 0
    }

    /// Accounts for a span that goes away.
    pub(super) fn count_out(&mut self, was_marked: bool) {
        self.marked -= usize::from(was_marked);
    }
}

/// Where the walk over the blocks of the chosen spans continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvacuationCursor {
    pub(super) class: u8,
    pub(super) nth: u32,
    pub(super) block: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of the spans of a class are chosen, by their free blocks.
    fn chosen(class: u8, spans: &[u32]) -> Vec<u32> {
        let mut tally = Tally::new();
        spans.iter().for_each(|&free| tally.add(class, free, true));
        let mut choices = tally.choose();
        spans.iter().copied().filter(|&free| choices.take(class, free)).collect()
    }

    #[test]
    fn what_is_moved_fits_into_the_spans_that_stay() {
        let mut random = fastrand::Rng::with_seed(3);
        for class in (0..CLASSES as u8 - 1).step_by(5) {
            let count = TABLE[class as usize].count;
            for most in [count / 8 + 1, count / 2 + 1, count] {
                let spans: Vec<u32> = (0..400).map(|_| random.u32(..most)).collect();
                let emptied = chosen(class, &spans);
                let moved: u64 = emptied.iter().map(|&free| u64::from(count - free)).sum();
                let sum = |spans: &[u32]| spans.iter().map(|&free| u64::from(free)).sum::<u64>();
                let free = sum(&spans) - sum(&emptied);
                // The last of them are chosen by their mean.
                assert!(moved <= free + u64::from(count), "{moved} into {free}");
                let left = sum(&spans) - emptied.len() as u64 * u64::from(count);
                let kept = (spans.len() - emptied.len()) as u64 * u64::from(count);
                assert!(left * 100 <= kept * 15, "{left} of {kept} stay free");
            }
        }
    }

    #[test]
    fn a_single_span_and_full_ones_are_left_alone() {
        let count = TABLE[10].count;
        assert!(chosen(10, &[count - 1]).is_empty());
        assert!(chosen(10, &[0; 50]).is_empty());
        assert!(chosen(10, &vec![count / 16; 500]).is_empty());
        assert_eq!(chosen(10, &[count - 1, count - 1]), [count - 1]);
        let three_quarters = vec![count / 4 * 3; 100];
        assert!((73..=75).contains(&chosen(10, &three_quarters).len()));
    }
}
