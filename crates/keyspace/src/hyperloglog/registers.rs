//! The registers of a HyperLogLog, and the estimate that follows from them.
//!
//! The estimate is Otmar Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches",
//! 2017), which needs no correction for small or large counts. Redis uses it too, so the numbers
//! are the same.

/// The number of bits of the hash that select a register.
pub(super) const INDEX_BITS: u32 = 14;
/// The number of registers.
pub const COUNT: usize = 1 << INDEX_BITS;
/// The maximum value of a register, less one: the number of the other bits of the hash.
const LONGEST: usize = (u64::BITS - INDEX_BITS) as usize;
/// 1 / (2 ln 2)
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// All registers, one byte each.
pub type Registers = [u8; COUNT];

/// Estimates the number of distinct elements.
pub fn estimate(registers: &Registers) -> u64 {
    let mut histogram = [0u32; 64];
    registers.iter().for_each(|value| histogram[usize::from(value & 63)] += 1);
    let all = COUNT as f64;
    let share = |value: usize| f64::from(histogram[value]) / all;
    let mut sum = all * tau(1.0 - share(LONGEST + 1));
    for value in (1..=LONGEST).rev() {
        sum = (sum + f64::from(histogram[value])) * 0.5;
    }
    sum += all * sigma(share(0));
    (ALPHA * all * all / sum).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash::place;
    use super::*;

    #[test]
    fn estimates_are_within_four_standard_errors() {
        let mut registers = [0u8; COUNT];
        for n in 1..=200_000u64 {
            let (at, run) = place(&n.to_le_bytes());
            registers[at] = registers[at].max(run);
            if [1, 10, 100, 1000, 10_000, 100_000, 200_000].contains(&n) {
                let estimated = estimate(&registers);
                let allowed = (n as f64 * 4.0 * 1.04 / 128.0).max(1.0);
                assert!((estimated as f64 - n as f64).abs() <= allowed, "{estimated} for {n}");
            }
        }
    }

    #[test]
    fn nothing_and_everything_have_an_estimate() {
        assert_eq!(estimate(&[0; COUNT]), 0);
        assert!(estimate(&[LONGEST as u8 + 1; COUNT]) > 0);
    }
}
