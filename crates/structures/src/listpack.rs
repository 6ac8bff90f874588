//! The listpack encoding of a small collection: items one after the other.
//!
//! Integers take one to nine bytes, short strings one byte more than their length. Each item has
//! exactly one encoding, so that two items are equal if their bytes are: a search encodes its item
//! once and compares. There are no links backwards: reading from the end starts at the start, which
//! is near.
//!
//! ```text
//! 0xxxxxxx                      integer 0 to 127
//! 10llllll            bytes     string of up to 63 bytes
//! 110xxxxx x8                   integer -4096 to 4095, two's complement, high bits first
//! 1110llll l8         bytes     string of up to 4095 bytes, high bits of the length first
//! 11110000 l32        bytes     string of any length
//! 11110001 x16                  integer; so the next two, all little endian
//! 11110010 x32
//! 11110011 x64
//! ```
//!
//! The caller decides whether a string that spells an integer becomes one, always in the same way.

/// One item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// An integer, stored as one.
    Int(i64),
    /// Any bytes.
    Bytes(&'a [u8]),
}

const STRING: u8 = 0x80;
const INT_13: u8 = 0xc0;
const STRING_12: u8 = 0xe0;
const STRING_32: u8 = 0xf0;
const INT_16: u8 = 0xf1;
const INT_32: u8 = 0xf2;
const INT_64: u8 = 0xf3;

impl<'a> Item<'a> {
    /// Appends the item to `out`.
    #[inline]
    pub fn encode(self, out: &mut Vec<u8>) {
        match self {
            Item::Int(int @ 0..=127) => out.push(int as u8),
            Item::Bytes(bytes) if bytes.len() < 64 => {
                out.reserve(1 + bytes.len());
                out.push(STRING | bytes.len() as u8);
                out.extend_from_slice(bytes);
            }
            _ => self.encode_any(out),
        }
    }

    fn encode_any(self, out: &mut Vec<u8>) {
        let Encoded { head, head_len, body } = self.encoded();
        out.reserve(head_len + body.len());
        out.extend_from_slice(&head[..head_len]);
        out.extend_from_slice(body);
    }

    /// Returns the bytes of the item.
    #[inline]
    pub fn encoded(self) -> Encoded<'a> {
        let mut head = [0; MAX_HEAD];
        let (head_len, body) = match self {
            Item::Int(int) => (encode_int(int, &mut head), &[][..]),
            Item::Bytes(bytes) => (encode_len(bytes.len(), &mut head), bytes),
        };
        Encoded { head, head_len, body }
    }

    /// Returns the length of the item at the start of `bytes`, which may be cut off; `None` if
    /// there is no item.
    #[inline]
    pub fn span(bytes: &[u8]) -> Option<usize> {
        let (&head, rest) = bytes.split_first()?;
        Some(match head {
            0..STRING => 1,
            STRING..INT_13 => 1 + usize::from(head & 63),
            INT_13..STRING_12 => 2,
            STRING_12..STRING_32 => 2 + (usize::from(head & 15) << 8 | usize::from(*rest.first()?)),
            STRING_32 => 5 + u32::from_le_bytes(*rest.first_chunk()?) as usize,
            INT_16 => 3,
            INT_32 => 5,
            INT_64 => 9,
            _ => return None,
        })
    }

    /// Returns the number of bytes of the item.
    pub fn encoded_len(self) -> usize {
        match self {
            Item::Int(0..=127) => 1,
            Item::Int(-4096..=4095) => 2,
            Item::Int(int) if i16::try_from(int).is_ok() => 3,
            Item::Int(int) if i32::try_from(int).is_ok() => 5,
            Item::Int(_) => 9,
            Item::Bytes(bytes) => {
                let head = match bytes.len() {
                    0..=63 => 1,
                    64..=4095 => 2,
                    _ => 5,
                };
                head + bytes.len()
            }
        }
    }

    /// Returns the item at the start of `bytes`, and how many of them it takes; `None` if there is
    /// no item.
    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Option<(Item<'a>, usize)> {
        let (&head, rest) = bytes.split_first()?;
        let string =
            |head: usize, len: usize| Some((Item::Bytes(bytes.get(head..head + len)?), head + len));
        match head {
            0..STRING => Some((Item::Int(i64::from(head)), 1)),
            STRING..INT_13 => string(1, usize::from(head & 63)),
            INT_13..STRING_12 => {
                let high = i64::from((head as i8) << 3) << 5;
                Some((Item::Int(high | i64::from(*rest.first()?)), 2))
            }
            STRING_12..STRING_32 => {
                string(2, usize::from(head & 15) << 8 | usize::from(*rest.first()?))
            }
            STRING_32 => string(5, u32::from_le_bytes(*rest.first_chunk()?) as usize),
            INT_16 => Some((Item::Int(i16::from_le_bytes(*rest.first_chunk()?).into()), 3)),
            INT_32 => Some((Item::Int(i32::from_le_bytes(*rest.first_chunk()?).into()), 5)),
            INT_64 => Some((Item::Int(i64::from_le_bytes(*rest.first_chunk()?)), 9)),
            _ => None,
        }
    }
}

/// Returns the string at the start of `bytes` if it is one of up to 63 bytes.
#[inline(always)]
pub fn short_string(bytes: &[u8]) -> Option<&[u8]> {
    let (&head, rest) = bytes.split_first()?;
    if head & INT_13 != STRING {
        return None;
    }
    rest.get(..usize::from(head & 63))
}

/// Maximum length of an integer, or of the bytes before those of a string.
const MAX_HEAD: usize = 9;

/// An encoded item, to compare with stored ones.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    head: [u8; MAX_HEAD],
    head_len: usize,
    body: &'a [u8],
}

impl Encoded<'_> {
    /// Returns true if these bytes, of one item, are the same. The last bytes differ most often.
    #[inline]
    pub fn is(&self, item: &[u8]) -> bool {
        let (head, body) = (&self.head[..self.head_len], self.body);
        item.len() == head.len() + body.len()
            && item.last() == body.last().or(head.last())
            && item[..head.len()] == *head
            && item[head.len()..] == *body
    }
}

#[inline]
fn encode_len(len: usize, head: &mut [u8; MAX_HEAD]) -> usize {
    match len {
        0..=63 => {
            head[0] = STRING | len as u8;
            1
        }
        64..=4095 => {
            (head[0], head[1]) = (STRING_12 | (len >> 8) as u8, len as u8);
            2
        }
        _ => {
            head[0] = STRING_32;
            head[1..5].copy_from_slice(&(len as u32).to_le_bytes());
            5
        }
    }
}

#[inline]
fn encode_int(int: i64, head: &mut [u8; MAX_HEAD]) -> usize {
    let (form, len) = match int {
        0..=127 => {
            head[0] = int as u8;
            return 1;
        }
        -4096..=4095 => {
            (head[0], head[1]) = (INT_13 | (int >> 8) as u8 & 31, int as u8);
            return 2;
        }
        -0x8000..=0x7fff => (INT_16, 3),
        -0x8000_0000..=0x7fff_ffff => (INT_32, 5),
        _ => (INT_64, 9),
    };
    head[0] = form;
    head[1..].copy_from_slice(&int.to_le_bytes());
    len
}

/// The items of packed bytes, each with its offset. Ends where the bytes are no item.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Items<'a> {
    /// Returns the items of these bytes.
    pub fn of(bytes: &'a [u8]) -> Items<'a> {
        Items { bytes, at: 0 }
    }

    /// Returns the offset of the next item.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = (usize, Item<'a>);

    #[inline]
    fn next(&mut self) -> Option<(usize, Item<'a>)> {
        let at = self.at;
        let (item, len) = Item::decode(self.bytes.get(at..)?)?;
        self.at += len;
        Some((at, item))
    }
}

/// Returns true if the bytes consist of exactly this many items.
pub fn is_whole(bytes: &[u8], items: usize) -> bool {
    let mut all = Items::of(bytes);
    all.by_ref().count() == items && all.offset() == bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(item: Item<'_>) {
        let mut bytes = vec![7; 3];
        item.encode(&mut bytes);
        let own = &bytes[3..];
        assert_eq!(own.len(), item.encoded_len(), "{item:?}");
        assert_eq!(Item::span(own), Some(own.len()), "{item:?}");
        let encoded = item.encoded();
        assert!(encoded.is(own), "{item:?}");
        for at in 0..own.len() {
            let mut other = own.to_vec();
            other[at] ^= 1;
            assert!(!encoded.is(&other) && !encoded.is(&own[..at]), "{item:?} at {at}");
        }
        assert_eq!(Item::decode(own), Some((item, own.len())));
        assert!((0..own.len()).all(|len| Item::decode(&own[..len]).is_none()), "{item:?} cut");
    }

    #[test]
    fn items_read_back_as_written_at_the_edges_of_their_forms() {
        for edge in [0, 127, 128, 4095, 4096, 32767, 32768, i64::from(i32::MAX), 1 << 31, i64::MAX]
        {
            for int in [edge, -edge, edge.wrapping_add(1), -edge - 1] {
                check(Item::Int(int));
            }
        }
        for len in [0, 1, 63, 64, 255, 256, 4095, 4096, 5000] {
            check(Item::Bytes(&vec![0xf3; len]));
        }
    }

    proptest! {
        #[test]
        fn any_integer_reads_back(int: i64, shift in 0..64) {
            check(Item::Int(int >> shift));
        }

        #[test]
        fn any_bytes_are_read_safely(bytes: Vec<u8>) {
            let mut items = Items::of(&bytes);
            let count = items.by_ref().count();
            prop_assert!(items.offset() <= bytes.len());
            if let Some((_, len)) = Item::decode(&bytes) {
                prop_assert_eq!(Item::span(&bytes), Some(len));
            }
            prop_assert_eq!(is_whole(&bytes, count), items.offset() == bytes.len());
        }

        #[test]
        fn items_stand_one_after_another(all: Vec<Vec<u8>>) {
            let mut bytes = Vec::new();
            all.iter().for_each(|item| Item::Bytes(item).encode(&mut bytes));
            let read: Vec<Item<'_>> = Items::of(&bytes).map(|(_, item)| item).collect();
            prop_assert!(read.iter().eq(all.iter().map(|item| Item::Bytes(item)).collect::<Vec<_>>().iter()));
            prop_assert!(is_whole(&bytes, all.len()));
            prop_assert!(!is_whole(&bytes, all.len() + 1));
        }
    }
}
