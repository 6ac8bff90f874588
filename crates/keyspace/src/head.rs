//! The value word of a collection.
//!
//! ```text
//! bits  0 to 7    4: a collection
//!       8 to 31   number of elements of a packed form; else 0
//!      32 to 35   type
//!      36 to 39   encoding, as OBJECT ENCODING names it
//!      40 to 43   form
//!      44 to 47   zero
//!      48 to 63   checksum of the bits below
//! ```

use structures::self_checksummed;

use crate::types::{Encoding, Type};

/// The tag of a collection; the other tags are in `layout`.
pub(crate) const TAG_COLLECTION: u64 = 4;

/// How a collection is stored: the form in bits 40 to 43.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The cell is the word of a blob of packed items, which is never empty and never large.
    Listpack,
    /// Like `Listpack`, for a hash of which a field has, or had, an expiry time: each element is a
    /// field, its value and its expiry time (0: none).
    ListpackWithTtls,
    /// The cell is the offset of a table's header.
    HashTable,
    /// The cell is the word of a list.
    List,
    /// The cell is the offset of the header of a table with a tree that orders its members by
    /// score.
    SortedSet,
    /// The cell is the word of a stream.
    Stream,
}

/// The contents of a collection's value word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) what: Type,
    pub(crate) encoding: Encoding,
    pub(crate) layout: Layout,
    /// The number of elements of a packed form; else 0.
    pub(crate) count: u32,
}

/// The number of a type, encoding or form in the word is its position in these lists plus one; 0 is
/// none.
const TYPES: [Type; 5] = [Type::List, Type::Set, Type::Hash, Type::SortedSet, Type::Stream];
const ENCODINGS: [Encoding; 7] = [
    Encoding::Listpack,
    Encoding::Intset,
    Encoding::Hashtable,
    Encoding::Quicklist,
    Encoding::Skiplist,
    Encoding::Stream,
    Encoding::ListpackEx,
];
const LAYOUTS: [Layout; 6] = [
    Layout::Listpack,
    Layout::HashTable,
    Layout::List,
    Layout::SortedSet,
    Layout::Stream,
    Layout::ListpackWithTtls,
];

fn number<T: PartialEq>(of: &T, all: &[T]) -> u64 {
    all.iter().position(|one| one == of).map_or(0, |at| at as u64 + 1)
}

fn named<T: Copy>(number: u64, all: &[T]) -> Option<T> {
    all.get((number & 15).checked_sub(1)? as usize).copied()
}

impl Head {
    /// The maximum number of elements of a packed form.
    pub(crate) const MOST: u32 = 0xff_ffff;

    pub(crate) fn encode(self) -> u64 {
        debug_assert!(self.count <= Head::MOST, "a larger count would change the type");
        self_checksummed::encode(
            TAG_COLLECTION
                | u64::from(self.count) << 8
                | number(&self.what, &TYPES) << 32
                | number(&self.encoding, &ENCODINGS) << 36
                | number(&self.layout, &LAYOUTS) << 40,
        )
    }

    pub(crate) fn decode(word: u64) -> Option<Head> {
        let word = self_checksummed::decode(word)?;
        Some(Head {
            what: named(word >> 32, &TYPES)?,
            encoding: named(word >> 36, &ENCODINGS)?,
            layout: named(word >> 40, &LAYOUTS)?,
            count: (word >> 8) as u32 & Head::MOST,
        })
    }

    /// Returns the number of items per element in a packed form.
    pub(crate) fn items(self) -> usize {
        match self.what {
            Type::Hash if self.layout == Layout::ListpackWithTtls => 3,
            Type::Hash | Type::SortedSet => 2,
            Type::String | Type::List | Type::Set | Type::Stream => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Kind, marked};

    #[test]
    fn heads_read_back_as_written_and_a_flipped_bit_is_noticed() {
        for what in TYPES {
            for encoding in ENCODINGS {
                for layout in LAYOUTS {
                    let head = Head { what, encoding, layout, count: Head::MOST };
                    let word = head.encode();
                    assert_eq!(Kind::decode(word), Some(Kind::Collection(head)));
                    assert!((0..64).all(|bit| Kind::decode(word ^ 1 << bit).is_none()));
                    assert_eq!(Kind::decode(marked(word)), None);
                }
            }
        }
    }
}
