//! Summarises many runs.
//!
//! A single run says little on a shared machine. Runs of two systems alternate, so that a slowdown
//! of the machine affects both; the *ratio* of two neighbouring runs is then more reliable than
//! either figure. This file computes a median and a range from such runs, and nothing else: a
//! single bad run moves a mean, and an error bar would claim that runs are independent.

/// A median and its range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle sample, or the mean of the two middle samples of an even number.
    pub median: f64,
    /// The lowest sample.
    pub lowest: f64,
    /// The highest sample.
    pub highest: f64,
    /// The number of samples.
    pub count: usize,
}

impl Summary {
    /// Returns the median and the range of samples; `None` if there are none, or if one is not a
    /// number.
    pub fn of(samples: &[f64]) -> Option<Summary> {
        if samples.iter().any(|sample| sample.is_nan()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (lowest, highest) = (*sorted.first()?, *sorted.last()?);
        let (below, above) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        let median = below + (above - below) / 2.0;
        Some(Summary { median, lowest, highest, count: sorted.len() })
    }

    /// Returns the summary of all samples multiplied by a factor.
    pub fn times(&self, factor: f64) -> Summary {
        let [median, lowest, highest] =
            [self.median, self.lowest, self.highest].map(|value| value * factor);
        Summary { median, lowest, highest, count: self.count }
    }
}

/// Returns the summary of the ratios of pairs of neighbouring runs; `None` if there are no pairs,
/// if one side has more runs, or if a divisor is zero.
pub(crate) fn ratio(ours: &[f64], theirs: &[f64]) -> Option<Summary> {
    if ours.len() != theirs.len() || theirs.contains(&0.0) {
        return None;
    }
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    Summary::of(&ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_sample() {
        let check = |samples: &[f64], median: f64| {
            let summary = Summary::of(samples).expect("samples");
            assert_eq!((summary.median, summary.count), (median, samples.len()), "{samples:?}");
        };
        check(&[7.0], 7.0);
        check(&[9.0, 1.0, 5.0], 5.0);
        check(&[4.0, 1.0, 3.0, 2.0], 2.5);
        check(&[100.0, 101.0, 1000.0, 99.0, 100.0], 100.0);
    }

    #[test]
    fn nothing_and_what_is_no_number_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn a_ratio_compares_neighbours() {
        // The machine's speed halves in the middle: each side spreads by a factor of two, the ratio
        // hardly at all.
        let ours = [200.0, 210.0, 100.0, 104.0];
        let theirs = [100.0, 100.0, 50.0, 50.0];
        let ratio = ratio(&ours, &theirs).expect("pairs");
        assert!((ratio.median - 2.04).abs() < 1e-9, "{ratio:?}");
        assert_eq!((ratio.lowest, ratio.highest, ratio.count), (2.0, 2.1, 4));
    }

    #[test]
    fn what_is_not_paired_has_no_ratio() {
        assert_eq!(ratio(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
        assert_eq!(ratio(&[], &[]), None);
    }
}
