//! Conditions on the string at a key: it equals a value or not, or its digest equals a digest or
//! not. SET and DELEX of Redis 8.4 accept all of them; Valkey has the first, in SET and as DELIFEQ.

use engine::failure::Failure;
use keyspace::Str;
use xxhash_rust::xxh3::Xxh3;

/// A comparison of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    /// Equal to a value.
    Equal,
    /// Not equal to a value.
    NotEqual,
    /// Its digest is this one.
    DigestEqual,
    /// Its digest is another one.
    DigestNotEqual,
}

impl Comparison {
    /// Returns the comparison of this name.
    pub(super) fn named(word: &[u8]) -> Option<Comparison> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        match () {
            () if is("IFEQ") => Some(Comparison::Equal),
            () if is("IFNE") => Some(Comparison::NotEqual),
            () if is("IFDEQ") => Some(Comparison::DigestEqual),
            () if is("IFDNE") => Some(Comparison::DigestNotEqual),
            () => None,
        }
    }

    /// Returns true if SET with this condition writes a key that does not exist.
    pub(super) fn holds_without_key(self) -> bool {
        matches!(self, Comparison::NotEqual | Comparison::DigestNotEqual)
    }

    /// Returns true if the string meets the condition.
    pub(super) fn holds(self, value: &Str<'_>, operand: &[u8]) -> Result<bool, Failure> {
        let is_equal = match self {
            Comparison::Equal | Comparison::NotEqual => is_equal(value, operand)?,
            Comparison::DigestEqual | Comparison::DigestNotEqual => {
                let is_hex = operand.iter().all(u8::is_ascii_hexdigit);
                if operand.len() != 16 || !is_hex {
                    return Err("ERR must be exactly 16 hexadecimal characters".into());
                }
                digest(value)?.as_bytes().eq_ignore_ascii_case(operand)
            }
        };
        Ok(is_equal == matches!(self, Comparison::Equal | Comparison::DigestEqual))
    }
}

/// Returns the XXH3 hash of a string as 16 hexadecimal digits.
pub(super) fn digest(value: &Str<'_>) -> Result<String, Failure> {
    let mut hash = Xxh3::new();
    value.pieces(0, value.len(), &mut |piece| hash.update(piece))?;
    Ok(format!("{:016x}", hash.digest()))
}

fn is_equal(value: &Str<'_>, other: &[u8]) -> Result<bool, Failure> {
    if value.len() != other.len() {
        return Ok(false);
    }
    let (mut is_equal, mut rest) = (true, other);
    value.pieces(0, value.len(), &mut |piece| {
        let (head, tail) = rest.split_at(piece.len().min(rest.len()));
        is_equal &= head == piece;
        rest = tail;
    })?;
    Ok(is_equal)
}
