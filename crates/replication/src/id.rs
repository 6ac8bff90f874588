//! The name of a history.

use std::fmt;

/// The ID of a history: 40 hexadecimal digits, chosen at random.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id([u8; Id::LEN]);

impl Id {
    /// Digits of an ID.
    pub const LEN: usize = 40;
    /// The ID that names no history: Redis shows it where there is no second ID.
    pub const NONE: Id = Id([b'0'; Id::LEN]);

    /// Returns the ID with these digits; none if they are not 40 hexadecimal digits.
    pub fn parse(text: &[u8]) -> Option<Id> {
        let digits: [u8; Id::LEN] = text.try_into().ok()?;
        digits.iter().all(u8::is_ascii_hexdigit).then_some(Id(digits))
    }

    /// Makes an ID of random bytes.
    pub fn from_random(bytes: [u8; Id::LEN / 2]) -> Id {
        let mut digits = [0; Id::LEN];
        for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
            let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
            *pair = [digit(byte >> 4), digit(byte & 15)];
        }
        Id(digits)
    }

    /// Returns the bytes that its digits stand for.
    pub fn to_bytes(&self) -> [u8; Id::LEN / 2] {
        let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
        let mut bytes = [0; Id::LEN / 2];
        for (byte, [high, low]) in bytes.iter_mut().zip(self.0.as_chunks::<2>().0) {
            *byte = value(*high) << 4 | value(*low);
        }
        bytes
    }

    /// Returns its digits.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns its digits.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Id({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_forty_hexadecimal_digits() {
        let id = Id::from_random([0x5a; 20]);
        assert_eq!(id.as_str(), "5a".repeat(20));
        assert_eq!(Id::parse(id.as_bytes()), Some(id));
        let bytes = std::array::from_fn(|n| n as u8 * 13);
        assert_eq!(Id::from_random(bytes).to_bytes(), bytes);
        assert_eq!(Id::parse(&[b'a'; 39]), None);
        assert_eq!(Id::parse(&[b'a'; 41]), None);
        assert_eq!(Id::parse(&[b'g'; 40]), None);
    }
}
