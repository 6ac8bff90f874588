//! Parses the IDs of entries.

use engine::failure::Failure;
use keyspace::StreamId;

const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";
/// The maximum length of an ID, as in Redis.
const LONGEST: usize = 127;

/// The ID argument of XADD: `*`, `<ms>-*` or `<ms>-<seq>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The current time, and the next sequence number.
    Any,
    /// This millisecond, and the next sequence number.
    Within(u64),
    /// This ID.
    Exactly(StreamId),
}

/// Parses an ID; a missing sequence number is `missing`.
pub(super) fn strict(word: &[u8], missing: u64) -> Result<StreamId, Failure> {
    let number = |text| number(text).ok_or(Failure::from(INVALID));
    if word.len() > LONGEST {
        return Err(INVALID.into());
    }
    // Redis reads up to the first zero byte.
    let word = word.split(|&byte| byte == 0).next().unwrap_or_default();
    match word.iter().position(|&byte| byte == b'-') {
        None => Ok(StreamId { ms: number(word)?, seq: missing }),
        Some(at) => Ok(StreamId { ms: number(&word[..at])?, seq: number(&word[at + 1..])? }),
    }
}

/// Parses an ID, or `-` and `+` for the lowest and the highest.
pub(super) fn any(word: &[u8], missing: u64) -> Result<StreamId, Failure> {
    match word {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        word => strict(word, missing),
    }
}

/// Parses the ID argument of XADD.
pub(super) fn wanted(word: &[u8]) -> Result<Wanted, Failure> {
    match word.strip_suffix(b"-*") {
        _ if word == b"*" => Ok(Wanted::Any),
        Some(ms) if word.len() <= LONGEST => match number(ms) {
            Some(ms) => Ok(Wanted::Within(ms)),
            None => Err(INVALID.into()),
        },
        _ => strict(word, 0).map(Wanted::Exactly),
    }
}

/// Parses one end of an interval; returns true with it if the end is excluded.
pub(super) fn bound(word: &[u8], missing: u64) -> Result<(StreamId, bool), Failure> {
    match word.strip_prefix(b"(") {
        Some(id) if !id.is_empty() => Ok((strict(id, missing)?, true)),
        _ => Ok((any(word, missing)?, false)),
    }
}

/// Parses a number as C does: with leading spaces, a sign, and leading zeros.
fn number(text: &[u8]) -> Option<u64> {
    if let Some(int) = resp::number::parse_i64(text) {
        return u64::try_from(int).ok();
    }
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        (b'+', rest) => (false, rest),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if negative { value.wrapping_neg() } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(u64, u64)>) {
        let found = strict(text.as_bytes(), 7).ok();
        assert_eq!(found.map(|id| (id.ms, id.seq)), expect, "{text:?}");
    }

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        check("5-1", Some((5, 1)));
        check("5", Some((5, 7)));
        check("18446744073709551615-18446744073709551615", Some((u64::MAX, u64::MAX)));
        check("007-01", Some((7, 1)));
        check(" +5-1", Some((5, 1)));
        for text in ["", "-", "+", "-5", "5-", "5--1", "5-*", "a", "5-1-1", "18446744073709551616"]
        {
            check(text, None);
        }
        check(&"0".repeat(128), None);
    }

    #[test]
    fn what_xadd_is_given_may_leave_the_number_open() {
        assert_eq!(wanted(b"*").ok(), Some(Wanted::Any));
        assert_eq!(wanted(b"12-*").ok(), Some(Wanted::Within(12)));
        assert_eq!(wanted(b"12").ok(), Some(Wanted::Exactly(StreamId { ms: 12, seq: 0 })));
        assert!(wanted(b"-*").is_err() && wanted(b"1-**").is_err() && wanted(b"+").is_err());
    }

    #[test]
    fn an_end_of_an_interval_may_be_left_out() {
        assert_eq!(bound(b"(3", 9).ok(), Some((StreamId { ms: 3, seq: 9 }, true)));
        assert_eq!(bound(b"+", 0).ok(), Some((StreamId::MAX, false)));
        assert!(bound(b"(+", 0).is_err() && bound(b"(", 0).is_err());
    }
}
