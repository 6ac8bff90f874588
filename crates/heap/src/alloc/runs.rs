//! A set of span numbers, stored as runs of consecutive numbers.

use std::collections::BTreeMap;
use std::ops::Range;

/// The start of each run, with its end. No two runs touch.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: BTreeMap<u32, u32>,
    count: usize,
}

impl Runs {
    /// Returns how many numbers there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Enters numbers, none of which may be in the set.
    pub(crate) fn insert(&mut self, mut new: Range<u32>) {
        if new.is_empty() {
            return;
        }
        self.count += new.len();
        if let Some(end) = self.runs.remove(&new.end) {
            new.end = end;
        }
        if let Some((_, end)) = self.runs.range_mut(..new.start).next_back()
            && *end == new.start
        {
            *end = new.end;
            return;
        }
        self.runs.insert(new.start, new.end);
    }

    /// Returns all numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.runs.iter().flat_map(|(start, end)| *start..*end)
    }

    /// Returns all numbers.
    pub(crate) fn into_numbers(self) -> impl Iterator<Item = u32> {
        self.runs.into_iter().flat_map(|(start, end)| start..end)
    }

    /// Takes the first number.
    pub(crate) fn pop_first(&mut self) -> Option<u32> {
        let (start, end) = self.runs.pop_first()?;
        self.count -= 1;
        if start + 1 < end {
            self.runs.insert(start + 1, end);
        }
        Some(start)
    }

    /// Takes the first run up to the end of its group. A group is the numbers with equal `(offset +
    /// number) / group`.
    pub(crate) fn take_in_group(&mut self, offset: u32, group: u32) -> Option<Range<u32>> {
        let (start, end) = self.runs.pop_first()?;
        let last = ((start + offset) / group + 1) * group - offset;
        Some(self.split(start..end, start..end.min(last)))
    }

    /// Takes at most `most` numbers of the first run; if `group` is above 1, whole groups of the
    /// first run that contains one.
    pub(crate) fn take_groups(&mut self, offset: u32, group: u32, most: u32) -> Option<Range<u32>> {
        let whole = |(&start, &end): (&u32, &u32)| {
            let first = (start + offset).next_multiple_of(group) - offset;
            let last = ((end + offset) / group * group).saturating_sub(offset);
            let most = (most / group).max(1) * group;
            (first < last).then(|| (start..end, first..last.min(first + most)))
        };
        let (run, taken) = self.runs.iter().find_map(whole)?;
        self.runs.remove(&run.start);
        Some(self.split(run, taken))
    }

    /// Re-enters the part of a removed run that is not taken.
    fn split(&mut self, run: Range<u32>, taken: Range<u32>) -> Range<u32> {
        self.count -= taken.len();
        for rest in [run.start..taken.start, taken.end..run.end] {
            if !rest.is_empty() {
                self.runs.insert(rest.start, rest.end);
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: &[Range<u32>]) -> Runs {
        let mut runs = Runs::default();
        numbers.iter().for_each(|range| runs.insert(range.clone()));
        runs
    }

    #[test]
    fn runs_that_touch_are_one() {
        let mut all = runs(&[5..6, 3..4, 4..5, 9..12]);
        assert_eq!((all.runs.len(), all.len()), (2, 6));
        assert_eq!(all.pop_first(), Some(3));
        assert_eq!((all.runs.len(), all.len()), (2, 5));
        let rest: Vec<u32> = std::iter::from_fn(|| all.pop_first()).collect();
        assert_eq!(rest, [4, 5, 9, 10, 11]);
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn a_part_of_a_group_is_taken_at_once() {
        let mut all = runs(&[3..20, 20..40]);
        // With an offset of 2 a group ends before 6, and each 8 after it.
        let taken: Vec<_> = std::iter::from_fn(|| all.take_in_group(2, 8)).collect();
        assert_eq!(taken, [3..6, 6..14, 14..22, 22..30, 30..38, 38..40]);
        assert_eq!(all.len(), 0);
    }

    #[test]
    fn only_whole_groups_are_taken_where_groups_count() {
        let mut all = runs(&[1..5, 7..40, 50..51]);
        assert_eq!(all.take_groups(2, 8, 17), Some(14..30));
        assert_eq!(all.take_groups(2, 8, 17), Some(30..38));
        assert_eq!(all.take_groups(2, 8, 17), None);
        assert_eq!(all.len(), 4 + 7 + 2 + 1);
        assert_eq!(all.take_groups(2, 1, 3), Some(1..4));
        assert_eq!(all.take_groups(2, 1, 3), Some(4..5));
    }
}
