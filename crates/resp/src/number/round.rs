//! Rounding to a binary floating-point format, half to even, like the hardware and C's conversions.

/// Rounds `mantissa * 2^exponent` (plus something less than one unit of `mantissa`, if `inexact`)
/// to at most `precision` bits, none of them below `2^least`. Returns mantissa and exponent.
///
/// With `inexact` the mantissa must have at least two bits more than `precision`.
pub(super) fn round(
    mantissa: u128,
    exponent: i64,
    inexact: bool,
    precision: u32,
    least: i64,
) -> (u64, i64) {
    let bits = i64::from(u128::BITS - mantissa.leading_zeros());
    let drop = (bits - i64::from(precision)).max(least - exponent).max(0);
    if drop == 0 {
        return (mantissa as u64, exponent);
    }
    if drop > bits {
        return (0, 0);
    }
    let half = 1u128 << (drop - 1);
    let rest = mantissa & (half | (half - 1));
    let kept = mantissa.checked_shr(drop as u32).unwrap_or(0);
    let up = rest > half || rest == half && (inexact || kept & 1 == 1);
    let kept = kept + u128::from(up);
    let exponent = exponent + drop;
    // Rounding up may have added a bit; all others are then zero.
    if kept >> precision == 1 {
        ((kept >> 1) as u64, exponent + 1)
    } else {
        (kept as u64, exponent)
    }
}

/// Reads the part after `0x` like C: hexadecimal digits with or without a point, then perhaps `p`
/// and a power of two. Returns the digits' value with its exponent, and whether digits were cut
/// off.
pub(super) fn parse_hex(text: &[u8]) -> Option<(u128, i64, bool)> {
    let (mut mantissa, mut exponent, mut inexact) = (0u128, 0i64, false);
    let (mut digits, mut point) = (false, false);
    let mut rest = text;
    while let [byte, following @ ..] = rest {
        match byte {
            b'.' if !point => point = true,
            _ => {
                let Some(digit) = char::from(*byte).to_digit(16) else { break };
                digits = true;
                if mantissa >> 120 == 0 {
                    mantissa = mantissa << 4 | u128::from(digit);
                    exponent -= if point { 4 } else { 0 };
                } else {
                    inexact |= digit != 0;
                    exponent += if point { 0 } else { 4 };
                }
            }
        }
        rest = following;
    }
    match rest {
        [] => {}
        [b'p' | b'P', power @ ..] => exponent = exponent.saturating_add(parse_power(power)?),
        _ => return None,
    }
    digits.then_some((mantissa, exponent, inexact))
}

/// Reads an exponent: perhaps a sign, then digits. Values far beyond any format's range are reduced
/// to ones that still are.
pub(super) fn parse_power(text: &[u8]) -> Option<i64> {
    const ENOUGH: i64 = 1 << 40;
    let (negative, digits) = super::sign(text);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let power =
        digits.iter().fold(0i64, |power, digit| (power * 10 + i64::from(digit - b'0')).min(ENOUGH));
    Some(if negative { -power } else { power })
}

#[cfg(test)]
mod tests {
    use super::round;

    #[test]
    fn halves_go_to_even() {
        assert_eq!(round(0b1011, 0, false, 3, -99), (0b110, 1));
        assert_eq!(round(0b1001, 0, false, 3, -99), (0b100, 1));
        assert_eq!(round(0b100101, 0, true, 3, -99), (0b101, 3));
        assert_eq!(round(0b1111, 0, false, 3, -99), (0b100, 2));
    }

    #[test]
    fn the_least_bit_is_kept() {
        assert_eq!(round(0b1, -100, false, 64, -99), (0, -99));
        assert_eq!(round(0b11, -101, false, 64, -99), (1, -99));
        assert_eq!(round(0b1, -101, false, 64, -99), (0, 0));
        assert_eq!(round(u128::MAX, -227, false, 64, -99), (1, -99));
    }
}
