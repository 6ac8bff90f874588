//! Keys of ordered tables: bytes in the order of the values that they encode.
//!
//! Each encoding marks its end, so that a key of several parts is their concatenation, and the
//! bytes after a key are its row's value. Integers are big-endian, signed ones with their sign bit
//! flipped. In a byte string a zero becomes `00 ff`, and `00 01` ends it: so a string comes before
//! those that it is a prefix of.

/// A key of a [`crate::Table`]: integers, `bool`, strings, byte strings, arrays of bytes, and
/// tuples of up to four of these, ordered by their first part, then by the second, and so on.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, Table};
///
/// let store = Perdura::open(Options::volatile())?;
/// // Measurements by sensor and time.
/// let degrees: Table<(String, u64), i32> = store.table("degrees");
/// degrees.insert(("cellar", 1000), 12)?;
/// degrees.insert(("cellar", 2000), 13)?;
/// degrees.insert(("roof", 1000), -4)?;
///
/// let newest = degrees.range(("cellar", 0)..=("cellar", u64::MAX)).next_back();
/// assert_eq!(newest.transpose()?, Some((("cellar".to_string(), 2000), 13)));
/// # Ok(())
/// # }
/// ```
///
/// Another type implements it by its parts:
///
/// ```
/// use perdura::Key;
///
/// struct UserId(u64);
///
/// impl Key for UserId {
///     type Ref<'a> = &'a UserId;
///
///     fn borrowed(key: &UserId) -> &UserId {
///         key
///     }
///
///     fn encode(key: &&UserId, out: &mut Vec<u8>) {
///         u64::encode(&key.0, out);
///     }
///
///     fn decode(bytes: &mut &[u8]) -> Option<UserId> {
///         u64::decode(bytes).map(UserId)
///     }
/// }
/// ```
pub trait Key: Sized + 'static {
    /// The form in which calls take a key: a string as `&str`, an integer as it is.
    type Ref<'a>;

    /// Returns a key in the form that calls take.
    fn borrowed(key: &Self) -> Self::Ref<'_>;

    /// Appends the bytes of a key. Their order is that of the keys, and none is a prefix of
    /// another.
    fn encode(key: &Self::Ref<'_>, out: &mut Vec<u8>);

    /// Removes a key from the front of some bytes and returns it; `None` if they begin with no key
    /// of this type.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;
}

/// Removes this many bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

macro_rules! unsigned {
    ($($int:ty),*) => {$(
        impl Key for $int {
            type Ref<'a> = $int;

            fn borrowed(key: &$int) -> $int {
                *key
            }

            fn encode(key: &$int, out: &mut Vec<u8>) {
                out.extend_from_slice(&key.to_be_bytes());
            }

            fn decode(bytes: &mut &[u8]) -> Option<$int> {
                take(bytes).map(<$int>::from_be_bytes)
            }
        }
    )*};
}

macro_rules! signed {
    ($($int:ty),*) => {$(
        impl Key for $int {
            type Ref<'a> = $int;

            fn borrowed(key: &$int) -> $int {
                *key
            }

            fn encode(key: &$int, out: &mut Vec<u8>) {
                out.extend_from_slice(&(key ^ <$int>::MIN).to_be_bytes());
            }

            fn decode(bytes: &mut &[u8]) -> Option<$int> {
                take(bytes).map(|taken| <$int>::from_be_bytes(taken) ^ <$int>::MIN)
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64, u128);
signed!(i8, i16, i32, i64, i128);

impl Key for bool {
    type Ref<'a> = bool;

    fn borrowed(key: &bool) -> bool {
        *key
    }

    fn encode(key: &bool, out: &mut Vec<u8>) {
        out.push(u8::from(*key));
    }

    fn decode(bytes: &mut &[u8]) -> Option<bool> {
        match take(bytes)? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }
}

impl<const N: usize> Key for [u8; N] {
    type Ref<'a> = &'a [u8; N];

    fn borrowed(key: &[u8; N]) -> &[u8; N] {
        key
    }

    fn encode(key: &&[u8; N], out: &mut Vec<u8>) {
        out.extend_from_slice(*key);
    }

    fn decode(bytes: &mut &[u8]) -> Option<[u8; N]> {
        take(bytes)
    }
}

const ESCAPED: u8 = 0xff;
const END: u8 = 1;

/// Appends the bytes of a byte string without its end: the common prefix of all strings that begin
/// with it.
pub(super) fn escape(key: &[u8], out: &mut Vec<u8>) {
    for &byte in key {
        out.push(byte);
        if byte == 0 {
            out.push(ESCAPED);
        }
    }
}

impl Key for Vec<u8> {
    type Ref<'a> = &'a [u8];

    fn borrowed(key: &Vec<u8>) -> &[u8] {
        key
    }

    fn encode(key: &&[u8], out: &mut Vec<u8>) {
        out.reserve(key.len() + 2);
        escape(key, out);
        out.extend_from_slice(&[0, END]);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        loop {
            let zero = memchr::memchr(0, bytes)?;
            key.extend_from_slice(&bytes[..zero]);
            *bytes = &bytes[zero + 1..];
            match take(bytes)? {
                [END] => return Some(key),
                [ESCAPED] => key.push(0),
                _ => return None,
            }
        }
    }
}

impl Key for String {
    type Ref<'a> = &'a str;

    fn borrowed(key: &String) -> &str {
        key
    }

    fn encode(key: &&str, out: &mut Vec<u8>) {
        Vec::<u8>::encode(&key.as_bytes(), out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<String> {
        Vec::<u8>::decode(bytes).and_then(|bytes| String::from_utf8(bytes).ok())
    }
}

macro_rules! tuple {
    ($($part:ident $at:tt),*) => {
        impl<$($part: Key),*> Key for ($($part,)*) {
            type Ref<'a> = ($($part::Ref<'a>,)*);

            fn borrowed(key: &Self) -> Self::Ref<'_> {
                ($($part::borrowed(&key.$at),)*)
            }

            fn encode(key: &Self::Ref<'_>, out: &mut Vec<u8>) {
                $($part::encode(&key.$at, out);)*
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::decode(bytes)?,)*))
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Debug;

    fn encoded<K: Key>(key: &K::Ref<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        K::encode(key, &mut bytes);
        bytes
    }

    /// Checks that keys in their order can be read back, keep their order, and that none is a
    /// prefix of another.
    fn check<K: Key + PartialEq + Debug>(ascending: &[K::Ref<'_>], owned: &[K]) {
        let all: Vec<Vec<u8>> = ascending.iter().map(encoded::<K>).collect();
        for (bytes, key) in all.iter().zip(owned) {
            assert_eq!(&encoded::<K>(&K::borrowed(key)), bytes);
            let mut rest = &[bytes.as_slice(), b"rest"].concat()[..];
            assert_eq!(K::decode(&mut rest).as_ref(), Some(key));
            assert_eq!(rest, b"rest");
            assert!((0..bytes.len()).all(|len| K::decode(&mut &bytes[..len]).is_none()));
        }
        for pair in all.windows(2) {
            assert!(pair[0] < pair[1] && !pair[1].starts_with(&pair[0]), "{pair:?}");
        }
    }

    #[test]
    fn integers_are_ordered_as_numbers() {
        check::<u64>(&[0, 1, 255, 256, u64::MAX], &[0, 1, 255, 256, u64::MAX]);
        check::<i32>(&[i32::MIN, -256, -1, 0, 1, i32::MAX], &[i32::MIN, -256, -1, 0, 1, i32::MAX]);
        check::<i128>(&[i128::MIN, -1, 7], &[i128::MIN, -1, 7]);
        check::<u8>(&[0, 127, 255], &[0, 127, 255]);
        check::<bool>(&[false, true], &[false, true]);
        assert_eq!(bool::decode(&mut &[2][..]), None);
    }

    #[test]
    fn strings_are_ordered_as_bytes_whatever_these_are() {
        let all = ["", "\0", "\0\0", "\0\u{1}", "a", "a\0", "a\0b", "a\u{1}", "ab", "b"];
        check::<String>(&all, &all.map(String::from));
        let all: [&[u8]; 5] = [b"", b"\0\xff", b"\x01", b"\xff", b"\xff\xff"];
        check::<Vec<u8>>(&all, &all.map(<[u8]>::to_vec));
        check::<[u8; 2]>(&[b"aa", b"ab"], &[*b"aa", *b"ab"]);
        assert_eq!(String::decode(&mut &b"\xff\0\x01"[..]), None);
        assert_eq!(Vec::<u8>::decode(&mut &b"a\0\x02"[..]), None);
    }

    #[test]
    fn tuples_are_ordered_part_by_part() {
        let all = [("", 9), ("a", 1), ("a", 2), ("a\0", 0), ("b", 0)];
        check::<(String, u32)>(&all, &all.map(|(name, n)| (name.to_string(), n)));
        check::<(i8, bool, String)>(
            &[(-1, true, "z"), (0, false, "a")],
            &[(-1, true, "z".into()), (0, false, "a".into())],
        );
    }
}
