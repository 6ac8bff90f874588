//! An element in a node: a packed item, followed by its length, which is read from the right.
//!
//! So a node can be read from both ends. The length has seven bits in each byte, the lowest in the
//! last; every byte but the first has its high bit set, which means that another one is to its
//! left.

use crate::listpack::{self, Item};

/// Returns the bytes of the length after an item.
const fn back_len(item: usize) -> usize {
    match item {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => 3,
    }
}

/// Returns the bytes of an element.
#[inline]
pub(super) fn len_of(item: Item<'_>) -> usize {
    let item = item.encoded_len();
    item + back_len(item)
}

/// Appends an element to `out`.
#[inline]
pub(super) fn encode(item: Item<'_>, out: &mut Vec<u8>) {
    let from = out.len();
    item.encode(out);
    let len = out.len() - from;
    if len < 0x80 {
        out.push(len as u8);
        return;
    }
    for number in (0..back_len(len)).rev() {
        let more = if number + 1 < back_len(len) { 0x80 } else { 0 };
        out.push((len >> (7 * number)) as u8 & 0x7f | more);
    }
}

/// Returns the element at the start of `bytes`, and how many of them it takes.
#[inline]
pub(super) fn first(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let (item, len) = Item::decode(bytes)?;
    let all = len + back_len(len);
    (all <= bytes.len()).then_some((item, all))
}

/// Returns the element at the end of `bytes`, and how many of them it takes.
#[inline]
pub(super) fn last(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let (&len, rest) = bytes.split_last()?;
    if len >= 0x80 {
        return longer(bytes);
    }
    let begin = rest.len().checked_sub(usize::from(len))?;
    let (item, found) = Item::decode(&rest[begin..])?;
    (found == usize::from(len)).then_some((item, found + 1))
}

/// Returns the element at the start of `bytes` if it is a short string. Most are; an element of any
/// kind would be passed on through memory.
#[inline(always)]
pub(super) fn first_short(bytes: &[u8]) -> Option<&[u8]> {
    listpack::short_string(bytes).filter(|text| text.len() + 2 <= bytes.len())
}

/// Returns the element at the end of `bytes` if it is a short string.
#[inline(always)]
pub(super) fn last_short(bytes: &[u8]) -> Option<&[u8]> {
    let (&len, rest) = bytes.split_last()?;
    let begin = rest.len().checked_sub(usize::from(len))?;
    listpack::short_string(&rest[begin..]).filter(|text| text.len() + 1 == usize::from(len))
}

/// Returns the element at the end of `bytes` if its length takes more than one byte.
fn longer(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
    let mut len = 0;
    for (number, &byte) in bytes.iter().rev().take(3).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * number);
        if byte & 0x80 == 0 {
            let begin = bytes.len().checked_sub(len + number + 1)?;
            let (item, found) = Item::decode(&bytes[begin..])?;
            return (found == len && back_len(len) == number + 1)
                .then_some((item, len + number + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_read_from_both_ends() {
        for len in [0, 1, 62, 63, 64, 125, 126, 127, 128, 4095, 4096, 16_381, 16_384, 60_000] {
            let item = vec![0x81; len];
            let mut bytes = vec![3; 4];
            encode(Item::Bytes(&item), &mut bytes);
            let own = bytes.len() - 4;
            assert_eq!(len_of(Item::Bytes(&item)), own);
            assert_eq!(first(&bytes[4..]), Some((Item::Bytes(&item), own)));
            assert_eq!(last(&bytes), Some((Item::Bytes(&item), own)));
        }
        assert_eq!(last(&[0xff; 8]), None);
        assert_eq!(last(&[]), None);
    }
}
