//! An element as clients see it: bytes, whatever they are kept as.

use std::borrow::Cow;

use structures::packed::Item;

use crate::value::canonical_int;

/// An element, a field or a value, as text.
pub struct Text<'t>(Repr<'t>);

enum Repr<'t> {
    Int { room: [u8; ROOM], len: usize },
    Bytes(Cow<'t, [u8]>),
}

/// Characters of the longest integer.
const ROOM: usize = 20;

impl<'t> Text<'t> {
    pub(crate) fn of(item: Item<'t>) -> Text<'t> {
        match item {
            Item::Bytes(bytes) => Text(Repr::Bytes(Cow::Borrowed(bytes))),
            Item::Int(int) => {
                let mut buffer = itoa::Buffer::new();
                let digits = buffer.format(int).as_bytes();
                let mut room = [0; ROOM];
                room[..digits.len()].copy_from_slice(digits);
                Text(Repr::Int { room, len: digits.len() })
            }
        }
    }

    pub(crate) fn bytes(bytes: Cow<'t, [u8]>) -> Text<'t> {
        Text(Repr::Bytes(bytes))
    }
}

impl AsRef<[u8]> for Text<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match &self.0 {
            Repr::Int { room, len } => &room[..*len],
            Repr::Bytes(bytes) => bytes,
        }
    }
}

/// The item that some bytes are kept as: an integer where they spell one in its one way.
pub(crate) fn item(bytes: &[u8]) -> Item<'_> {
    canonical_int(bytes).map_or(Item::Bytes(bytes), Item::Int)
}
