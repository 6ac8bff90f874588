//! An element of a packed collection: bytes, or an integer instead of its decimal digits.

/// An element as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'b> {
    Int(i64),
    Bytes(&'b [u8]),
}

impl Item<'_> {
    /// Calls `show` with the bytes that the element represents.
    pub(crate) fn with<T>(&self, show: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Item::Bytes(bytes) => show(bytes),
            Item::Int(int) => show(itoa::Buffer::new().format(*int).as_bytes()),
        }
    }

    /// Returns the integer, or the one that its digits spell.
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Item::Int(int) => Some(*int),
            Item::Bytes(bytes) => canonical_int(bytes),
        }
    }

    /// Returns the score, or the one that its text spells; none if that is not a number.
    pub(crate) fn score(&self) -> Option<f64> {
        match self {
            Item::Int(int) => Some(*int as f64),
            Item::Bytes(bytes) => score(bytes),
        }
    }
}

/// Returns the score that a text spells: decimal, or infinite.
pub(crate) fn score(text: &[u8]) -> Option<f64> {
    resp::number::parse_f64(text).filter(|score| !score.is_nan())
}

/// Returns the integer that `bytes` spell, if they are exactly what Redis would print.
pub fn canonical_int(bytes: &[u8]) -> Option<i64> {
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    match bytes.strip_prefix(b"-").unwrap_or(bytes) {
        b"0" => return (bytes.len() == 1).then_some(0),
        [b'1'..=b'9', rest @ ..] if rest.iter().all(u8::is_ascii_digit) => {}
        _ => return None,
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}
