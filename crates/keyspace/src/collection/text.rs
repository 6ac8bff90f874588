//! An element as clients see it: bytes, whatever its representation.

use std::borrow::Cow;

use structures::listpack::Item;

use crate::integer::canonical_int;

/// An element, a field or a value, as text.
pub struct Text<'t>(Repr<'t>);

enum Repr<'t> {
    Int { digits_buffer: [u8; MAX_DIGITS], len: usize },
    Bytes(Cow<'t, [u8]>),
}

/// The number of characters of the longest integer.
const MAX_DIGITS: usize = 20;

impl<'t> Text<'t> {
    pub(crate) fn of(item: Item<'t>) -> Text<'t> {
        match item {
            Item::Bytes(bytes) => Text(Repr::Bytes(Cow::Borrowed(bytes))),
            Item::Int(int) => {
                let mut buffer = itoa::Buffer::new();
                let digits = buffer.format(int).as_bytes();
                let mut digits_buffer = [0; MAX_DIGITS];
                digits_buffer[..digits.len()].copy_from_slice(digits);
                Text(Repr::Int { digits_buffer, len: digits.len() })
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
            Repr::Int { digits_buffer, len } => &digits_buffer[..*len],
            Repr::Bytes(bytes) => bytes,
        }
    }
}

/// Returns the item as which some bytes are stored: an integer if they are its canonical decimal
/// text.
pub(crate) fn item(bytes: &[u8]) -> Item<'_> {
    canonical_int(bytes).map_or(Item::Bytes(bytes), Item::Int)
}
