//! Summarises many runs.
//!
//! A single run says little on a shared machine. This file computes a median and a range from
//! several, and nothing else: a single bad run moves a mean, and an error bar would claim that runs
//! are independent.

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
}
