//! Timeouts of blocking commands.
//!
//! The texts are Redis's. 0 means forever. As in Redis, a time that does not fit 63 bits of
//! milliseconds wraps around to a negative one, and is refused as such.

use engine::call::Call;
use engine::failure::Failure;
use resp::number::{LongDouble, parse_i64};

const NEGATIVE: &str = "ERR timeout is negative";

/// Returns when a timeout in seconds, possibly with a fraction, ends: in unix ms, `None` for never.
pub(crate) fn seconds(call: &Call<'_>, at: usize) -> Result<Option<u64>, Failure> {
    let text = call.arg(at)?;
    let not_float = "ERR timeout is not a float or out of range";
    let seconds = LongDouble::parse(text).ok_or(not_float)?;
    after(call, seconds.ceil_thousandfold().ok_or(NEGATIVE)?)
}

/// Returns when a timeout in milliseconds ends: in unix ms, `None` for never.
pub(crate) fn milliseconds(call: &Call<'_>, at: usize) -> Result<Option<u64>, Failure> {
    let not_integer = "ERR timeout is not an integer or out of range";
    after(call, parse_i64(call.arg(at)?).ok_or(not_integer)?)
}

fn after(call: &Call<'_>, millis: i64) -> Result<Option<u64>, Failure> {
    match u64::try_from(millis) {
        Err(_) => Err(NEGATIVE.into()),
        Ok(0) => Ok(None),
        Ok(millis) => Ok(Some(call.now_ms().saturating_add(millis))),
    }
}
