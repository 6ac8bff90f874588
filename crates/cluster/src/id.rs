//! The names of nodes and of shards: 40 characters each, chosen at random.

use std::fmt;

/// The ID of a node, or of a shard: a primary with its replicas.
///
/// Redis makes them of hexadecimal digits, and accepts every lower-case letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id([u8; Id::LEN]);

impl Id {
    /// Characters of an ID.
    pub const LEN: usize = 40;

    /// Returns the ID with these characters; none if no node can have it.
    pub fn parse(text: &[u8]) -> Option<Id> {
        let text: [u8; Id::LEN] = text.try_into().ok()?;
        let is_valid = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        text.iter().all(is_valid).then_some(Id(text))
    }

    /// Makes an ID of random numbers.
    pub fn random(random: &mut fastrand::Rng) -> Id {
        Id(std::array::from_fn(|_| b"0123456789abcdef"[random.usize(..16)]))
    }

    /// Returns its characters.
    pub fn as_bytes(&self) -> &[u8; Id::LEN] {
        &self.0
    }

    /// Returns its characters.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("letters and digits are ASCII")
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
    fn an_id_is_forty_lower_case_letters_or_digits() {
        let id = Id::random(&mut fastrand::Rng::with_seed(1));
        assert_eq!(Id::parse(id.as_bytes()), Some(id));
        assert!(Id::parse(&[b'z'; 40]).is_some());
        assert_eq!(Id::parse(&[b'Z'; 40]), None);
        assert_eq!(Id::parse(&[0; 40]), None);
        assert_eq!(Id::parse(&[b'a'; 39]), None);
    }
}
