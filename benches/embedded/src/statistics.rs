//! Medians and spreads of few samples.

use serde::Serialize;

/// What several runs of the same say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// From the lowest to the highest, in percent of the median.
    pub spread: f64,
}

impl Summary {
    /// Of samples; none of nothing.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Summary> {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        samples.sort_by(f64::total_cmp);
        let (low, high) = (samples.first()?, samples.last()?);
        let middle = samples.len() / 2;
        let median = if samples.len() % 2 == 1 {
            samples[middle]
        } else {
            (samples[middle - 1] + samples[middle]) / 2.0
        };
        Some(Summary { median, spread: 100.0 * (high - low) / median })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(samples: &[f64], median: f64, spread: f64) {
        assert_eq!(Summary::of(samples.iter().copied()), Some(Summary { median, spread }));
    }

    #[test]
    fn known_samples() {
        assert_eq!(Summary::of([]), None);
        check(&[5.0], 5.0, 0.0);
        check(&[4.0, 1.0, 2.0], 2.0, 150.0);
        check(&[8.0, 2.0, 4.0, 6.0], 5.0, 120.0);
    }
}
