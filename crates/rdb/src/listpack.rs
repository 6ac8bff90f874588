//! Listpacks: elements one after the other, each followed by its own length, so that they can be
//! read from either end.
//!
//! Six bytes of head (all bytes: 32 bits; elements: 16 bits, all ones for "count them"), elements,
//! one byte FF.

use crate::item::{Item, canonical_int};

const HEAD: usize = 6;
const END: u8 = 0xff;
/// The count of a listpack with at least this many elements.
pub const UNCOUNTED: u16 = u16::MAX;

/// The length from which on a string has a head of two bytes.
pub const MIDDLE: usize = 64;
/// The length from which on a string has a head of five bytes.
pub const LONG: usize = 4096;

/// A listpack that was validated as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listpack<'b> {
    body: &'b [u8],
    count: usize,
}

impl<'b> Listpack<'b> {
    /// Validates a listpack: its size, the form of each element and the length after it, and the
    /// count of elements.
    pub(crate) fn parse(bytes: &'b [u8]) -> Option<Listpack<'b>> {
        let size = u32::from_le_bytes(*bytes.first_chunk()?);
        let (&end, all) = bytes.split_last()?;
        if size as usize != bytes.len() || end != END {
            return None;
        }
        let body = all.get(HEAD..)?;
        let (mut at, mut count) = (0, 0);
        while at < body.len() {
            at += validated(&body[at..])?;
            count += 1;
        }
        let written = u16::from_le_bytes([bytes[4], bytes[5]]);
        let fits = written == UNCOUNTED || usize::from(written) == count;
        fits.then_some(Listpack { body, count })
    }

    /// Returns how many elements it has.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns its elements in order.
    pub(crate) fn items(&self) -> Items<'b> {
        Items { rest: self.body }
    }
}

/// The elements of a listpack.
#[derive(Clone, Debug)]
pub(crate) struct Items<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for Items<'b> {
    type Item = Item<'b>;

    fn next(&mut self) -> Option<Item<'b>> {
        let (item, len) = decode(self.rest)?;
        self.rest = &self.rest[len + back_size(len)..];
        Some(item)
    }
}

/// Returns how many bytes the first element and the length after it take; `None` if it is not an
/// element, or the length is wrong.
#[inline]
fn validated(bytes: &[u8]) -> Option<usize> {
    let len = match bytes[0] {
        0..=0x7f => 1,
        text @ 0x80..=0xbf => 1 + usize::from(text & 0x3f),
        _ => return validated_long(bytes),
    };
    (usize::from(*bytes.get(len)?) == len).then_some(len + 1)
}

fn validated_long(bytes: &[u8]) -> Option<usize> {
    let (_, len) = decode(bytes)?;
    let mut back = [0; 5];
    let back = back_length(len, &mut back);
    bytes[len..].starts_with(back).then_some(len + back.len())
}

/// Returns the first element, and its size without the length after it.
fn decode(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let first = *bytes.first()?;
    let text = |head: usize, len: usize| {
        let text = bytes.get(head..head.checked_add(len)?)?;
        Some((Item::Bytes(text), head + len))
    };
    let int = |len: usize| {
        let low = bytes.get(1..1 + len)?;
        let mut wide = [0; 8];
        wide[8 - len..].copy_from_slice(low);
        Some((Item::Int(i64::from_le_bytes(wide) >> (64 - 8 * len)), 1 + len))
    };
    match first {
        0..=0x7f => Some((Item::Int(i64::from(first)), 1)),
        0x80..=0xbf => text(1, usize::from(first & 0x3f)),
        0xc0..=0xdf => {
            let value = i64::from(first & 0x1f) << 8 | i64::from(*bytes.get(1)?);
            Some((Item::Int(if value >= 1 << 12 { value - (1 << 13) } else { value }), 2))
        }
        0xe0..=0xef => text(2, usize::from(first & 0x0f) << 8 | usize::from(*bytes.get(1)?)),
        0xf0 => text(5, u32::from_le_bytes(*bytes.get(1..)?.first_chunk()?) as usize),
        0xf1 => int(2),
        0xf2 => int(3),
        0xf3 => int(4),
        0xf4 => int(8),
        _ => None,
    }
}

/// Returns the size of the length after an element.
#[inline]
fn back_size(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// Returns the length after an element: seven bits in a byte, the most significant first, the upper
/// bit set in all but the first. Because of Redis's limits, three numbers take a byte more than
/// they need.
fn back_length(len: usize, into: &mut [u8; 5]) -> &[u8] {
    let bytes = back_size(len);
    for (at, byte) in into[..bytes].iter_mut().enumerate() {
        let seven = (len >> (7 * (bytes - 1 - at))) as u8 & 127;
        *byte = if at == 0 { seven } else { seven | 128 };
    }
    &into[..bytes]
}

fn int_size(int: i64) -> usize {
    match int {
        0..=127 => 1,
        -4096..=4095 => 2,
        -0x8000..=0x7fff => 3,
        -0x80_0000..=0x7f_ffff => 4,
        -0x8000_0000..=0x7fff_ffff => 5,
        _ => 9,
    }
}

/// A listpack that is being written.
#[derive(Clone, Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    count: usize,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder { bytes: vec![0; HEAD], count: 0 }
    }
}

impl Builder {
    /// Adds an element, as an integer if it reads as one.
    pub fn push(&mut self, element: &[u8]) {
        match canonical_int(element) {
            Some(int) => self.push_int(int),
            None => self.push_bytes(element),
        }
    }

    fn push_bytes(&mut self, element: &[u8]) {
        let begin = self.bytes.len();
        match element.len() {
            len @ 0..MIDDLE => self.bytes.push(0x80 | len as u8),
            len @ MIDDLE..LONG => self.bytes.extend([0xe0 | (len >> 8) as u8, len as u8]),
            len => {
                self.bytes.push(0xf0);
                self.bytes.extend((len as u32).to_le_bytes());
            }
        }
        self.bytes.extend_from_slice(element);
        self.end(begin);
    }

    /// Adds an integer.
    pub fn push_int(&mut self, int: i64) {
        let begin = self.bytes.len();
        let low = int.to_le_bytes();
        match int_size(int) {
            1 => self.bytes.push(int as u8),
            2 => self.bytes.extend([0xc0 | (int >> 8) as u8 & 0x1f, int as u8]),
            size => {
                self.bytes.push(match size {
                    3 => 0xf1,
                    4 => 0xf2,
                    5 => 0xf3,
                    _ => 0xf4,
                });
                self.bytes.extend_from_slice(&low[..size - 1]);
            }
        }
        self.end(begin);
    }

    /// Adds a score: as an integer if it is a whole number, else as its decimal digits.
    pub fn push_score(&mut self, score: f64) {
        // Up to here Redis stores a whole number as an integer, even one that it shows as 1e+17.
        const MOST: f64 = (i64::MAX / 2) as f64;
        if (-MOST..=MOST).contains(&score) && score.fract() == 0.0 {
            return self.push_int(score as i64);
        }
        let mut text = Vec::with_capacity(24);
        resp::number::write_f64(&mut text, score);
        self.push(&text);
    }

    fn end(&mut self, begin: usize) {
        let mut back = [0; 5];
        let len = self.bytes.len() - begin;
        self.bytes.extend_from_slice(back_length(len, &mut back));
        self.count += 1;
    }

    /// Replaces the first element, an integer, with another integer.
    pub(crate) fn replace_first_int(&mut self, int: i64) {
        let Some((_, len)) = decode(&self.bytes[HEAD..]) else { return };
        let end = HEAD + len + back_length(len, &mut [0; 5]).len();
        let (mut first, count) = (Builder::default(), self.count);
        first.push_int(int);
        self.bytes.splice(HEAD..end, first.bytes.drain(HEAD..));
        self.count = count;
    }

    /// Returns the size that the listpack has now, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + 1
    }

    /// Returns how many elements it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the listpack.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let size = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&size.to_le_bytes());
        let count = u16::try_from(self.count).unwrap_or(UNCOUNTED);
        self.bytes[4..HEAD].copy_from_slice(&count.to_le_bytes());
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(elements: &[&[u8]]) {
        let mut builder = Builder::default();
        elements.iter().for_each(|element| builder.push(element));
        let bytes = builder.finish();
        let listpack = Listpack::parse(&bytes).expect("what was built");
        assert_eq!(listpack.len(), elements.len());
        let read: Vec<Vec<u8>> = listpack.items().map(|item| item.with(<[u8]>::to_vec)).collect();
        assert_eq!(read, elements);
    }

    #[test]
    fn elements_of_each_form_come_back() {
        check(&[]);
        check(&[b"", b"a", &[b'x'; 63], &[b'x'; 64], &[b'x'; 4095], &[b'x'; 4096]]);
        for length in [125, 126, 127, 16_377, 16_378, 16_379, 16_383, 2_097_151] {
            check(&[&vec![b'x'; length], b"behind"]);
        }
        for bits in [0, 6, 7, 11, 12, 13, 15, 16, 23, 24, 31, 32, 62, 63] {
            for int in [(1i128 << bits) - 1, 1 << bits, -(1 << bits), -(1 << bits) - 1] {
                check(&[int.to_string().as_bytes(), b"-0", b"01"]);
            }
        }
    }

    #[test]
    fn a_score_that_is_a_whole_number_is_an_integer_however_it_is_shown() {
        let mut builder = Builder::default();
        let scores = [1e17, -4e18, -0.0, 0.5, 5e18, f64::INFINITY];
        scores.iter().for_each(|score| builder.push_score(*score));
        let bytes = builder.finish();
        let items: Vec<_> = Listpack::parse(&bytes).expect("whole").items().collect();
        let ints = [100_000_000_000_000_000, -4_000_000_000_000_000_000, 0].map(Item::Int);
        let others = [b"0.5".as_slice(), b"5e+18", b"inf"].map(Item::Bytes);
        assert_eq!(items, [ints, others].concat());
    }

    #[test]
    fn the_first_number_is_replaced() {
        let mut builder = Builder::default();
        builder.push_int(127);
        builder.push(b"next");
        builder.replace_first_int(128);
        let bytes = builder.finish();
        let items: Vec<_> = Listpack::parse(&bytes).expect("whole").items().collect();
        assert_eq!(items, [Item::Int(128), Item::Bytes(b"next")]);
    }
}
