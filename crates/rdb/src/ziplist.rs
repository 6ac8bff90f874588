//! Ziplists: the encoding of small collections before Redis 7. They are read, never written.
//!
//! Ten bytes of head (all bytes and the position of the last element: 32 bits each; elements: 16
//! bits, all ones for "count them"), elements, one byte FF. An element begins with the length of
//! the one before it.

use crate::item::Item;

const HEAD: usize = 10;
const END: u8 = 0xff;
const UNCOUNTED: u16 = u16::MAX;

/// A ziplist that was validated as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ziplist<'b> {
    body: &'b [u8],
    count: usize,
}

impl<'b> Ziplist<'b> {
    /// Validates a ziplist: its size, the form of each element and its length of the previous one,
    /// the position of the last element, and the count of elements.
    pub(crate) fn parse(bytes: &'b [u8]) -> Option<Ziplist<'b>> {
        let size = u32::from_le_bytes(*bytes.first_chunk()?);
        let (&end, all) = bytes.split_last()?;
        if size as usize != bytes.len() || end != END {
            return None;
        }
        let body = all.get(HEAD..)?;
        let tail = u32::from_le_bytes(*bytes[4..].first_chunk()?) as usize;
        let (mut at, mut count, mut before) = (0, 0, 0);
        while at < body.len() {
            let (previous, _, len) = decode(&body[at..])?;
            if previous != before {
                return None;
            }
            (at, count, before) = (at + len, count + 1, len);
        }
        let last = HEAD + body.len() - before;
        let written = u16::from_le_bytes([bytes[8], bytes[9]]);
        let fits = written == UNCOUNTED || usize::from(written) == count;
        (fits && tail == last).then_some(Ziplist { body, count })
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

/// The elements of a ziplist.
#[derive(Clone, Debug)]
pub(crate) struct Items<'b> {
    rest: &'b [u8],
}

impl<'b> Iterator for Items<'b> {
    type Item = Item<'b>;

    fn next(&mut self) -> Option<Item<'b>> {
        let (_, item, len) = decode(self.rest)?;
        self.rest = &self.rest[len..];
        Some(item)
    }
}

/// Returns the first element: the length of the previous one, itself, and its size.
fn decode(bytes: &[u8]) -> Option<(usize, Item<'_>, usize)> {
    let (previous, head) = match *bytes.first()? {
        0xfe => (u32::from_le_bytes(*bytes.get(1..)?.first_chunk()?) as usize, 5),
        0xff => return None,
        short => (usize::from(short), 1),
    };
    let (item, len) = decode_item(&bytes[head..])?;
    Some((previous, item, head + len))
}

fn decode_item(bytes: &[u8]) -> Option<(Item<'_>, usize)> {
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
        0..=0x3f => text(1, usize::from(first)),
        0x40..=0x7f => text(2, usize::from(first & 0x3f) << 8 | usize::from(*bytes.get(1)?)),
        0x80 => text(5, u32::from_be_bytes(*bytes.get(1..)?.first_chunk()?) as usize),
        0xc0 => int(2),
        0xd0 => int(4),
        0xe0 => int(8),
        0xf0 => int(3),
        0xfe => int(1),
        0xf1..=0xfd => Some((Item::Int(i64::from(first & 0x0f) - 1), 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a ziplist of encoded elements, each without the length of the previous one.
    fn build(elements: &[&[u8]]) -> Vec<u8> {
        let mut bytes = vec![0; HEAD];
        let (mut before, mut last) = (0, HEAD);
        for element in elements {
            last = bytes.len();
            bytes.push(before as u8);
            bytes.extend_from_slice(element);
            before = element.len() + 1;
        }
        bytes.push(END);
        let size = bytes.len() as u32;
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..8].copy_from_slice(&(last as u32).to_le_bytes());
        bytes[8..10].copy_from_slice(&(elements.len() as u16).to_le_bytes());
        bytes
    }

    #[test]
    fn elements_of_each_form_are_read() {
        let forms: [(&[u8], Item<'_>); 9] = [
            (b"\x02ab", Item::Bytes(b"ab")),
            (b"\x40\x03abc", Item::Bytes(b"abc")),
            (b"\x80\0\0\0\x01a", Item::Bytes(b"a")),
            (b"\xc0\xfe\xff", Item::Int(-2)),
            (b"\xd0\0\0\0\x80", Item::Int(i64::from(i32::MIN))),
            (b"\xe0\0\0\0\0\0\0\0\x80", Item::Int(i64::MIN)),
            (b"\xf0\0\0\x80", Item::Int(-0x80_0000)),
            (b"\xfe\x85", Item::Int(-123)),
            (b"\xfd", Item::Int(12)),
        ];
        let elements: Vec<&[u8]> = forms.iter().map(|form| form.0).collect();
        let bytes = build(&elements);
        let ziplist = Ziplist::parse(&bytes).expect("a ziplist");
        assert_eq!(ziplist.len(), forms.len());
        assert!(ziplist.items().eq(forms.iter().map(|form| form.1)));
        assert_eq!(Ziplist::parse(&build(&[])).map(|empty| empty.len()), Some(0));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let whole = build(&[b"\x02ab", b"\xfd"]);
        for (at, byte) in [(0, 99), (4, 99), (8, 9), (10, 7), (14, 9), (whole.len() - 1, 0)] {
            let mut broken = whole.clone();
            broken[at] = byte;
            assert!(Ziplist::parse(&broken).is_none(), "byte {at}");
        }
    }
}
