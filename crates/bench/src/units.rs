//! Formats figures and parses sizes, in the same way everywhere.

/// The unit of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Operations per second.
    Rate,
    Seconds,
    Bytes,
    BytesPerSecond,
    /// A ratio.
    Ratio,
}

impl Unit {
    /// Returns a value with its unit, with three significant digits.
    pub(crate) fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return "–".into();
        }
        match self {
            Unit::Rate => scaled(value, &[(1e6, " M/s"), (1e3, " k/s"), (1.0, " /s")]),
            Unit::Seconds if value == 0.0 => "0".into(),
            Unit::Seconds if value >= 120.0 => format!("{} min", digits(value / 60.0)),
            Unit::Seconds => {
                scaled(value, &[(1.0, " s"), (1e-3, " ms"), (1e-6, " µs"), (1e-9, " ns")])
            }
            Unit::Bytes => bytes(value),
            Unit::BytesPerSecond => {
                scaled(value, &[(1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s")])
            }
            Unit::Ratio => format!("{}×", digits(value)),
        }
    }
}

/// Formats a value in the first unit whose size it reaches, or in the last.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    // A value that rounds up to the next unit is shown in that unit.
    let reached = units.iter().position(|(size, _)| value.abs() >= size * 0.9995);
    let (size, name) = units[reached.unwrap_or(units.len() - 1)];
    format!("{}{name}", digits(value / size))
}

/// Formats a number of bytes.
pub(crate) fn amount(count: u64) -> String {
    bytes(count as f64)
}

fn bytes(value: f64) -> String {
    let names = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut at = 0;
    while value.abs() >= 1024.0 && at + 1 < names.len() {
        value /= 1024.0;
        at += 1;
    }
    format!("{} {}", digits(value), names[at])
}

/// Formats a value with three significant digits, or all digits before the point, without trailing
/// zeros after it.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let places = (2 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.places$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Parses a number of bytes from a command line: `4096`, `64k`, `100mb`, `1gib`. All units are
/// powers of 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let number = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[number.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ if number.is_empty() => return Err("expected a number of bytes".into()),
        unit => return Err(format!("no unit {unit}: expected k, m, g or t")),
    };
    let number: u64 = number.parse().map_err(|_| "expected a number of bytes".to_owned())?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("must be more than 0".into()),
        Some(bytes) if bytes <= 1 << 50 => Ok(bytes),
        _ => Err("too large".into()),
    }
}

/// Parses a number of seconds from a command line.
pub(crate) fn parse_seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.001..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, at least 0.001".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_to_three_digits() {
        let check = |unit: Unit, value, expect: &str| assert_eq!(unit.show(value), expect);
        check(Unit::Rate, 123_456.0, "123 k/s");
        check(Unit::Rate, 999_900.0, "1 M/s");
        check(Unit::Rate, 7.0, "7 /s");
        check(Unit::Rate, 0.0, "0 /s");
        check(Unit::Seconds, 0.000_023_4, "23.4 µs");
        check(Unit::Seconds, 12e-9, "12 ns");
        check(Unit::Seconds, 720.0, "12 min");
        check(Unit::Seconds, 0.0, "0");
        check(Unit::BytesPerSecond, 1.5e9, "1.5 GB/s");
        check(Unit::BytesPerSecond, 100.0, "100 B/s");
        check(Unit::Bytes, 4096.0, "4 KiB");
        check(Unit::Bytes, 1073741824.0, "1 GiB");
        check(Unit::Ratio, 8.64, "8.64×");
        check(Unit::Ratio, f64::NAN, "–");
    }

    #[test]
    fn sizes_are_read_with_units() {
        assert_eq!(parse_bytes("100mb"), Ok(100 << 20));
        assert_eq!(parse_bytes("2GiB"), Ok(2 << 30));
        assert_eq!(parse_bytes("64k"), Ok(65536));
        for bad in ["", "gb", "0", "1xb", "-1gb", "99999999999gb"] {
            assert!(parse_bytes(bad).is_err(), "{bad:?}");
        }
    }
}
