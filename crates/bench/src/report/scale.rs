//! The position of a value on an axis, and the choice of ticks.
//!
//! The input is not trusted: a value that is not finite, or not positive on a logarithmic axis, has
//! no position, and there is an axis even without values.

/// A range of pixels that represents a range of values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
    /// The values that get a line and a label.
    pub(crate) ticks: Vec<f64>,
}

impl Axis {
    /// Returns an axis from zero to a round number not below the values, between two pixels.
    pub(crate) fn linear(values: &[f64], pixels: (f64, f64)) -> Axis {
        let highest = values.iter().copied().filter(|v| v.is_finite()).fold(0.0, f64::max);
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let step = round_step(highest / 5.0);
        let count = (highest / step - 1e-9).ceil();
        let ticks = (0..=count as u32).map(|n| f64::from(n) * step).collect();
        Axis { low: 0.0, high: count * step, log: false, from: pixels.0, to: pixels.1, ticks }
    }

    /// Returns a logarithmic axis around the values. Its ends are 1, 2 or 5 times a power of ten,
    /// or multiples from a finer list if that gives fewer than three ticks.
    pub(crate) fn log(values: &[f64], pixels: (f64, f64)) -> Axis {
        let good = || values.iter().copied().filter(|v| v.is_finite() && *v > 0.0);
        let lowest = good().fold(f64::INFINITY, f64::min);
        let highest = good().fold(0.0, f64::max);
        let (lowest, highest) = if highest > 0.0 { (lowest, highest) } else { (1.0, 10.0) };
        let mut all = marks(lowest, highest, &[1.0, 2.0, 5.0]);
        if all.len() < 3 {
            all = marks(lowest, highest, &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]);
        }
        let (low, high) = (all[0], all[all.len() - 1]);
        // Ticks at 2 and 5 fit only if there are few of them.
        let ticks = match all.len() {
            0..=9 => all,
            _ => all.into_iter().filter(|v| is_decade(*v)).collect(),
        };
        Axis { low, high, log: true, from: pixels.0, to: pixels.1, ticks }
    }

    /// Returns an axis that spans exactly this range, with ticks at the given values.
    pub(crate) fn fixed(range: (f64, f64), log: bool, ticks: Vec<f64>, pixels: (f64, f64)) -> Axis {
        let (low, high) = range;
        let high = if high > low {
            high
        } else if log {
            low * 10.0
        } else {
            low + 1.0
        };
        Axis { low, high, log, from: pixels.0, to: pixels.1, ticks }
    }

    /// Returns the pixel of a value; `None` if the value has no position.
    pub(crate) fn at(&self, value: f64) -> Option<f64> {
        let share = match self.log {
            true if value > 0.0 => (value / self.low).ln() / (self.high / self.low).ln(),
            true => return None,
            false => (value - self.low) / (self.high - self.low),
        };
        let pixel = self.from + share * (self.to - self.from);
        pixel.is_finite().then_some(pixel)
    }
}

/// Returns the smallest of 1, 2, 2.5, 5 and 10 times a power of ten that is not below `at_least`.
fn round_step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= at_least * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// Returns multiples of powers of ten, from the last one at or below `low` to the first one at or
/// above `high`.
fn marks(low: f64, high: f64, multiples: &[f64]) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32 - 1, high.log10().ceil() as i32);
    let of = |exponent| multiples.iter().map(move |m| m * 10f64.powi(exponent));
    let all: Vec<f64> = (first..=last).flat_map(of).collect();
    let from = all.iter().rposition(|v| *v <= low * (1.0 + 1e-9)).unwrap_or(0);
    let to = all.iter().position(|v| *v >= high * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
    // A single value gets space on both sides.
    let (from, to) = if from >= to { (from.saturating_sub(1), to + 1) } else { (from, to) };
    all[from..=to.min(all.len() - 1)].to_vec()
}

fn is_decade(value: f64) -> bool {
    let log = value.log10();
    (log - log.round()).abs() < 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_goes_from_zero_to_a_round_number() {
        let check = |values: &[f64], expect: &[f64]| {
            assert_eq!(Axis::linear(values, (0.0, 100.0)).ticks, expect, "{values:?}");
        };
        check(&[97.0], &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        check(&[100.0, 3.0], &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        check(&[1.1], &[0.0, 0.25, 0.5, 0.75, 1.0, 1.25]);
        check(&[], &[0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        check(&[f64::NAN, -5.0, 0.0], &[0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
    }

    #[test]
    fn a_logarithmic_axis_has_round_ticks_around_the_values() {
        let check = |values: &[f64], expect: &[f64]| {
            let ticks = Axis::log(values, (0.0, 100.0)).ticks;
            let close = ticks.iter().zip(expect).all(|(a, b)| (a / b - 1.0).abs() < 1e-9);
            assert!(close && ticks.len() == expect.len(), "{values:?}: {ticks:?}");
        };
        check(&[3.0, 150.0], &[2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        check(&[1e-6, 1.0], &[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0]);
        check(&[100.0], &[50.0, 100.0, 200.0]);
        check(&[11.0, 14.0], &[10.0, 15.0]);
        check(&[0.0, -1.0, f64::NAN, f64::INFINITY], &[1.0, 2.0, 5.0, 10.0]);
    }

    #[test]
    fn values_have_their_place_or_none() {
        let linear = Axis::linear(&[10.0], (200.0, 0.0));
        assert_eq!(
            (linear.at(0.0), linear.at(10.0), linear.at(5.0)),
            (Some(200.0), Some(0.0), Some(100.0))
        );
        assert_eq!(linear.at(f64::NAN), None);
        let log = Axis::log(&[1.0, 100.0], (0.0, 100.0));
        assert!((log.at(10.0).expect("a place") - 50.0).abs() < 1e-9);
        assert_eq!((log.at(0.0), log.at(-1.0), log.at(f64::INFINITY)), (None, None, None));
        let point = Axis::fixed((5.0, 5.0), false, vec![5.0], (0.0, 10.0));
        assert_eq!(point.at(5.0), Some(0.0));
    }
}
