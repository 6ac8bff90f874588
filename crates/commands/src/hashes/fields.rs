//! Arguments that the commands on field expiration share: `FIELDS numfields field ...`, and times.
//!
//! The texts are those of Redis 7.4 and 8.0.

use engine::call::Call;
use engine::failure::{Failure, NOT_INTEGER};
use engine::spec::*;

use crate::strings::Unit;

/// `FIELDS numfields field ...`, for the documentation.
pub(super) const FIELDS: Arg =
    block("fields", &[integer("numfields"), string("field").multiple()]).token("FIELDS");

/// The latest expiry time of a field: 2^46 - 1 ms, some 2200 years from 1970.
const LATEST: i64 = (1 << 46) - 1;

/// Returns the fields of `FIELDS numfields field ...`, which begins at argument `at`; `positive` is
/// the error if there are none.
pub(super) fn fields<'a>(
    call: &Call<'a>,
    at: usize,
    positive: &'static str,
) -> Result<&'a [&'a [u8]], Failure> {
    if !call.is(at, "FIELDS") {
        return Err("ERR Mandatory argument FIELDS is missing or not at the right position".into());
    }
    let Some(number) = call.args.get(at + 1) else { return Err(wrong_number(call)) };
    let number = count(number).ok_or(positive)?;
    let fields = &call.args[at + 2..];
    if number != fields.len() as u64 {
        return Err("ERR The `numfields` parameter must match the number of arguments".into());
    }
    Ok(fields)
}

pub(super) const POSITIVE: &str = "ERR Number of fields must be a positive integer";

/// Parses a positive number.
pub(super) fn count(text: &[u8]) -> Option<u64> {
    resp::number::parse_i64(text).and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0)
}

pub(super) fn wrong_number(call: &Call<'_>) -> Failure {
    let name = call.command.spec.name;
    Failure::text(format!("ERR wrong number of arguments for '{name}' command"))
}

/// Returns the unix time in milliseconds that an argument gives.
pub(super) fn time(call: &Call<'_>, text: &[u8], unit: Unit) -> Result<u64, Failure> {
    let invalid = || {
        let name = call.command.spec.name;
        Failure::text(format!("ERR invalid expire time in '{name}' command"))
    };
    let given = resp::number::parse_i64(text).ok_or_else(|| Failure::from(NOT_INTEGER))?;
    if given < 0 {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let millis = match unit {
        Unit::Seconds | Unit::UnixSeconds if given > LATEST / 1000 => return Err(invalid()),
        Unit::Seconds | Unit::UnixSeconds => given * 1000,
        Unit::Millis | Unit::UnixMillis => given,
    };
    let base = if unit.is_absolute() { 0 } else { call.now_ms() as i64 };
    if millis > LATEST - base {
        return Err(invalid());
    }
    Ok((millis + base) as u64)
}

/// Logs a command on fields of the key: its first words, then the fields with their number.
pub(super) fn log(call: &mut Call<'_>, head: &[&[u8]], fields: &[&[u8]]) {
    let number = itoa::Buffer::new().format(fields.len()).to_owned();
    let words = [b"FIELDS", number.as_bytes()];
    let words: Vec<&[u8]> =
        head.iter().copied().chain(words).chain(fields.iter().copied()).collect();
    call.wrote_as(&words);
}

/// Logs the deletion of fields.
pub(super) fn log_deletion(call: &mut Call<'_>, fields: &[&[u8]]) {
    let head: [&[u8]; 2] = [b"HDEL", call.args[1]];
    let words: Vec<&[u8]> = head.into_iter().chain(fields.iter().copied()).collect();
    call.wrote_as(&words);
}
