//! What many runs say together.
//!
//! One run says little on a machine that others share. Runs of two systems alternate, so that what
//! slows the machine down slows both; the *ratio* of two neighbouring runs is then worth more than
//! either figure. This file makes from such runs a median and a spread, and nothing else: no mean,
//! which one bad run moves, and no error bar, which would claim that runs are independent.

/// A middle and what is around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// The middle sample; of an even number, the mean of the two in the middle.
    pub median: f64,
    /// The lowest sample.
    pub lowest: f64,
    /// The highest sample.
    pub highest: f64,
    /// How many samples there were.
    pub count: usize,
}

impl Summary {
    /// Returns the median and the range of samples: `None` without any, or where one is not a
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

    /// Returns the same of all samples times a factor.
    pub fn times(&self, factor: f64) -> Summary {
        let [median, lowest, highest] =
            [self.median, self.lowest, self.highest].map(|value| value * factor);
        Summary { median, lowest, highest, count: self.count }
    }
}

/// Returns how many times the second of each pair the first is. Each pair is two neighbouring runs;
/// `None` where there are none, where one side has more runs, or where a divisor is zero.
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
        // The machine halves its speed in the middle: each side spreads by a factor of two, the
        // ratio hardly.
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
