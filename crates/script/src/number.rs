//! Numbers in the format of C's `printf` with `%.<precision>g`.

/// Appends `value` to `out` with `precision` significant digits, like `%g`.
pub(crate) fn append_general(out: &mut Vec<u8>, value: f64, precision: usize) {
    let precision = precision.max(1);
    if !value.is_finite() {
        let text = match (value.is_nan(), value.is_sign_negative()) {
            (true, true) => "-nan",
            (true, false) => "nan",
            (false, true) => "-inf",
            (false, false) => "inf",
        };
        out.extend_from_slice(text.as_bytes());
        return;
    }
    if value.fract() == 0.0 && value.abs() < 1e14 && precision >= 14 && value.to_bits() != 1 << 63 {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
        return;
    }
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    if exponent < -4 || exponent >= precision as i32 {
        out.extend_from_slice(without_zeros(mantissa).as_bytes());
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("e{sign}{:02}", exponent.abs()).as_bytes());
    } else {
        let decimals = (precision as i32 - 1 - exponent).max(0) as usize;
        out.extend_from_slice(without_zeros(&format!("{value:.decimals$}")).as_bytes());
    }
}

/// Returns the digits without zeros at the end of the fraction.
fn without_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Returns `value` converted to a 64-bit integer like in a C program on x86-64: towards zero, and
/// the smallest integer if it does not fit.
pub(crate) fn truncate(value: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
        value as i64
    } else {
        i64::MIN
    }
}
