//! The persistent format: root words of a shard, and the block of an entry.
//! `docs/format/keyspace.md` explains it.
//!
//! Root words:
//!
//! ```text
//!  0..16   per physical database: root of the index of all keys
//! 16..32   per physical database: root of the index of keys with an expiry time
//! 32..48   per physical database: keys u32 | keys with an expiry time u32
//! 48       free queue
//! 49       in shard 0: the physical database of each logical one, 4 bits each, XOR identity
//! 50..66   per physical database: hashes with field expiration u32 | those of them without an
//!          expiry time u32
//! 66       root of the index of all function libraries
//! 67..98   zero
//! 98       function libraries u32
//! 99       in shard 0: 1 while the data of a primary is being received, else 0
//! 100..110 in shard 0: see [`crate::position`]
//! 110..127 zero
//! 127      an index that is being rebuilt by a repair; else 0
//! ```
//!
//! Entry block, of a short string or an integer with a short key: see [`crate::short`]. Of any
//! other, and of each that was written before there were short ones:
//!
//! ```text
//!  0   value word (logged): tag in bits 0..4; an inline string: RAW in bit 4, length in bits
//!      8..32, crc32c in bits 32..64
//!  8   expiry time in unix ms, 0 for none; bit 63: a hash with field expiration (logged)
//! 16   key length u32 | inverted crc32c of the key
//! 24   key; a key longer than KEY_INLINE: the word of a blob that holds it
//! ..   inline string: its bytes; else, at the next multiple of 8, a cell of one word (logged):
//!      the integer XOR NO_INT, the word of a blob, or the word or offset of a collection; never 0
//! ```

use heap::Ptr;
use structures::stream::Owners;

use crate::head::{Head, TAG_COLLECTION};
use crate::key::DATABASES;

pub(crate) const QUEUE_ROOT: usize = 3 * DATABASES;
pub(crate) const MAP_ROOT: usize = QUEUE_ROOT + 1;
const FIELDS_ROOT: usize = MAP_ROOT + 1;
const _: () = assert!(FIELDS_ROOT + DATABASES < SCRATCH_ROOT);

/// The physical database that holds the function libraries: the name of each is a key, and its code
/// is a string. No logical database maps to it. The number is chosen so that the functions below
/// place its root words after those of the other databases.
pub(crate) const LIBRARIES: u8 = (FIELDS_ROOT + DATABASES) as u8;
const _: () = assert!(keys_root(LIBRARIES) == 66 && counts_root(LIBRARIES) == 98);
// It shares no root word with another database, nor with the rebuilt index. Libraries do not use
// the words for expiry times, which stay zero.
const _: () = assert!(expiry_root(LIBRARIES) == 82 && fields_root(LIBRARIES) == 116);
const _: () = assert!(keys_root(LIBRARIES) >= FIELDS_ROOT + DATABASES);
const _: () = assert!(fields_root(LIBRARIES) < SCRATCH_ROOT);
/// The root word that says that the data is incomplete, since a primary's is being received.
pub(crate) const SYNCING_ROOT: usize = 99;
/// The first of the root words with the place of the data in a stream for replicas.
pub(crate) const POSITION_ROOT: usize = 100;
/// The root word of a shard with the place after its last commit of what a primary sent.
pub(crate) const MOVED_ROOT: usize = 117;
const _: () = assert!(MOVED_ROOT > fields_root(LIBRARIES) && MOVED_ROOT < SCRATCH_ROOT);
/// The root word of an index that is being rebuilt.
pub(crate) const SCRATCH_ROOT: usize = heap::ROOTS - 1;

/// The map of databases in which each logical database n is physical database n.
pub(crate) const IDENTITY: u64 = 0xfedc_ba98_7654_3210;
const _: () = assert!(DATABASES * 4 == u64::BITS as usize);

/// The integer that cannot be stored in a cell.
const NO_INT: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns all physical databases, with that of the function libraries last.
pub(crate) fn physical_databases() -> impl Iterator<Item = u8> + Clone {
    (0..DATABASES as u8).chain([LIBRARIES])
}

/// Returns the physical database after this one.
pub(crate) fn next_database(db: u8) -> Option<u8> {
    match usize::from(db) + 1 {
        next if next < DATABASES => Some(next as u8),
        DATABASES => Some(LIBRARIES),
        _ => None,
    }
}

/// Returns the number of the root word with the index of all keys of physical database `db`.
pub(crate) const fn keys_root(db: u8) -> usize {
    db as usize
}

/// Returns the number of the root word with the index of the keys with an expiry time.
pub(crate) const fn expiry_root(db: u8) -> usize {
    DATABASES + db as usize
}

/// Returns the number of the root word with the counts of keys.
pub(crate) const fn counts_root(db: u8) -> usize {
    2 * DATABASES + db as usize
}

/// Returns the number of the root word with the counts of the hashes with field expiration.
pub(crate) const fn fields_root(db: u8) -> usize {
    FIELDS_ROOT + db as usize
}

/// In an expiry word: the value is a hash of which a field has an expiry time of its own.
pub(crate) const FIELDS: u64 = 1 << 63;

/// Owner numbers in the free queue, which say how to free what a structure holds. This one: an
/// index of keys, whose entries are freed with it.
pub(crate) const OWNER_KEYS: u16 = 1;
/// An index of expiry times: its entries belong to the index of all keys.
pub(crate) const OWNER_EXPIRY: u16 = 2;
/// A table whose entries are the members of a collection.
pub(crate) const OWNER_MEMBERS: u16 = 3;
/// A structure whose items are the nodes of a list.
pub(crate) const OWNER_LIST: u16 = 4;
/// A structure whose items are the members of a sorted set, or the fields with an expiry time of a
/// hash; they are freed with the table of members.
pub(crate) const OWNER_RANKS: u16 = 5;
/// Structures whose items are nodes, groups, consumers or pending entries of a stream.
pub(crate) const STREAM_OWNERS: Owners =
    Owners { nodes: 6, groups: 7, consumers: 8, pending: 9, nothing: 10 };

pub(crate) const EXPIRY_AT: u64 = 8;
pub(crate) const KEY_LEN_AT: u64 = 16;
/// Bytes before the key, in an entry that is not short.
pub(crate) const HEADER: usize = 24;
/// The maximum length, in bytes, of a key that is stored in the entry itself.
pub const KEY_INLINE: usize = 32 << 10;
/// The maximum length, in bytes, of a string that is stored in the entry itself.
pub const VALUE_INLINE: usize = 4 << 10;
const _: () = assert!(HEADER + KEY_INLINE + 2 * VALUE_INLINE + 8 <= heap::MAX_BLOCK);

/// Returns how many bytes a key of `len` bytes takes in its entry.
pub(crate) const fn key_space(len: usize) -> usize {
    if len > KEY_INLINE { 8 } else { len }
}

/// The place of the key in an entry, from which the places of all after it follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyPlace {
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl KeyPlace {
    /// Returns the offset in the entry of the bytes of an inline string.
    #[inline]
    pub(crate) const fn body_at(self) -> usize {
        self.at + key_space(self.len)
    }

    /// Returns the offset in the entry of the cell of any other value.
    #[inline]
    pub(crate) const fn cell_at(self) -> usize {
        self.body_at().next_multiple_of(8)
    }
}

/// The contents of a value word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// In a short entry the checksum is that of key and string, otherwise that of the string.
    Inline {
        raw: bool,
        len: usize,
        crc: u32,
    },
    Int,
    Blob,
    Collection(Head),
}

const TAG_INLINE: u64 = 1;
const TAG_INT: u64 = 2;
const TAG_BLOB: u64 = 3;
/// The entry was found to be damaged: bits 5 to 7 hold its former tag, and the other bits are
/// unchanged.
const TAG_MARKED: u64 = 15;
pub(crate) const RAW: u64 = 1 << 4;
/// The length of an inline string.
pub(crate) const LEN_AT: u32 = 8;
pub(crate) const LEN: u64 = (1 << 13) - 1;
/// The tag of a [short entry](crate::short). Two bits differ from the tag of a collection, so that
/// no flipped bit makes one of the other.
pub(crate) const TAG_SHORT: u64 = 7;
/// The length in a short entry that says that the value is an integer.
pub(crate) const SHORT_INT: u64 = LEN;
const _: () = assert!((VALUE_INLINE as u64) < SHORT_INT);

/// Returns the tag of a value word, or that which it had before it was marked as damaged.
#[inline]
pub(crate) fn tag(word: u64) -> u64 {
    match word & 15 {
        TAG_MARKED => word >> 5 & 7,
        tag => tag,
    }
}

/// Returns the value word of an inline string that has grown.
pub(crate) fn grown(word: u64, len: usize, crc: u32) -> u64 {
    let rest = word & u64::from(u32::MAX) & !(LEN << LEN_AT);
    rest | RAW | (len as u64) << LEN_AT | u64::from(crc) << 32
}

impl Kind {
    /// Returns the value word of an entry that is not short.
    pub(crate) fn encode(self) -> u64 {
        match self {
            Kind::Inline { raw, len, crc } => {
                TAG_INLINE | if raw { RAW } else { 0 } | (len as u64) << 8 | u64::from(crc) << 32
            }
            Kind::Int => TAG_INT,
            Kind::Blob => TAG_BLOB,
            Kind::Collection(head) => head.encode(),
        }
    }

    /// Decodes a word. Returns `None` for a word that no version of the format writes.
    #[inline]
    pub(crate) fn decode(word: u64) -> Option<Kind> {
        let inline = |len: u64| {
            let len = len as usize;
            (len <= VALUE_INLINE).then_some(Kind::Inline {
                raw: word & RAW != 0,
                len,
                crc: (word >> 32) as u32,
            })
        };
        match word & 15 {
            TAG_SHORT if word >> LEN_AT & LEN == SHORT_INT => Some(Kind::Int),
            TAG_SHORT => inline(word >> LEN_AT & LEN),
            TAG_INLINE => inline(word >> LEN_AT & 0xff_ffff),
            TAG_INT => Some(Kind::Int),
            TAG_BLOB => Some(Kind::Blob),
            TAG_COLLECTION => Head::decode(word).map(Kind::Collection),
            _ => None,
        }
    }
}

/// Returns the cell of an integer. Returns `None` for the one integer whose cell would be 0, which
/// is also what a lost cell reads as: that integer is stored as text.
pub(crate) const fn int_cell(int: i64) -> Option<u64> {
    match int as u64 ^ NO_INT {
        0 => None,
        cell => Some(cell),
    }
}

/// Returns the integer in a cell.
pub(crate) const fn int_of(cell: u64) -> i64 {
    (cell ^ NO_INT) as i64
}

/// Returns the word with the length of a key and its checksum. The checksum is inverted, so that a
/// lost word, which reads as 0, is not the word of the empty key.
pub(crate) fn key_word(key: &[u8]) -> u64 {
    key.len() as u64 | u64::from(!heap::crc32c(key)) << 32
}

/// Returns the value word of an entry that was found to be damaged.
pub(crate) fn marked(word: u64) -> u64 {
    if is_marked(word) { word } else { word & !0xef | TAG_MARKED | (word & 7) << 5 }
}

pub(crate) fn is_marked(word: u64) -> bool {
    word & 15 == TAG_MARKED
}

/// The two counts of a database in one shard. They share a word, so that a change of both is one
/// log entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) keys: u32,
    pub(crate) expiring: u32,
}

impl Counts {
    pub(crate) fn decode(word: u64) -> Counts {
        Counts { keys: word as u32, expiring: (word >> 32) as u32 }
    }

    pub(crate) fn encode(self) -> u64 {
        u64::from(self.keys) | u64::from(self.expiring) << 32
    }
}

/// The counts of the hashes with field expiration of a database in one shard. All of these hashes
/// are also in the index of expiry times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldCounts {
    pub(crate) hashes: u32,
    /// Those of `hashes` whose key has no expiry time of its own.
    pub(crate) without_own_ttl: u32,
}

impl FieldCounts {
    pub(crate) fn decode(word: u64) -> FieldCounts {
        FieldCounts { hashes: word as u32, without_own_ttl: (word >> 32) as u32 }
    }

    pub(crate) fn encode(self) -> u64 {
        u64::from(self.hashes) | u64::from(self.without_own_ttl) << 32
    }

    /// Returns the counts for a single entry with this expiry word.
    pub(crate) fn of(expiry: u64) -> FieldCounts {
        let (hashes, without_own_ttl) =
            (u32::from(expiry & FIELDS != 0), u32::from(expiry == FIELDS));
        FieldCounts { hashes, without_own_ttl }
    }

    /// Returns the sums of the counts.
    pub(crate) fn plus(self, other: FieldCounts) -> FieldCounts {
        FieldCounts {
            hashes: self.hashes.wrapping_add(other.hashes),
            without_own_ttl: self.without_own_ttl.wrapping_add(other.without_own_ttl),
        }
    }

    /// Returns the differences of the counts, or 0 where they would be negative.
    pub(crate) fn minus(self, other: FieldCounts) -> FieldCounts {
        FieldCounts {
            hashes: self.hashes.saturating_sub(other.hashes),
            without_own_ttl: self.without_own_ttl.saturating_sub(other.without_own_ttl),
        }
    }
}

/// Returns the physical database to which a logical one maps.
pub(crate) fn physical(map: u64, logical: usize) -> u8 {
    (map >> (4 * logical) & 15) as u8
}

/// Returns the map with two logical databases swapped.
pub(crate) fn swapped(map: u64, a: usize, b: usize) -> u64 {
    debug_assert!(a < DATABASES && b < DATABASES, "the map has no other databases");
    let differ = u64::from(physical(map, a) ^ physical(map, b));
    map ^ differ << (4 * a) ^ differ << (4 * b)
}

/// Converts the word in shard 0 to the map of databases, and the map to the word. The word of a new
/// pool is zero.
pub(crate) fn map_word(map: u64) -> u64 {
    map ^ IDENTITY
}

/// Returns the location of the word at byte `at` of an entry.
pub(crate) fn word_at(entry: Ptr, at: usize) -> Ptr {
    entry.add(at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_words_read_back_as_written() {
        for kind in [
            Kind::Int,
            Kind::Blob,
            Kind::Inline { raw: false, len: 0, crc: 0 },
            Kind::Inline { raw: true, len: VALUE_INLINE, crc: u32::MAX },
        ] {
            assert_eq!(Kind::decode(kind.encode()), Some(kind));
        }
        assert_eq!(Kind::decode(0), None);
        assert_eq!(Kind::decode(15), None);
    }

    #[test]
    fn integers_read_back_as_written_and_none_has_a_cell_of_0() {
        for int in [0, 1, -1, i64::MIN, i64::MAX] {
            assert_eq!(int_cell(int).map(int_of), Some(int));
        }
        assert_eq!(int_cell(NO_INT as i64), None);
    }

    #[test]
    fn a_lost_key_word_is_not_that_of_the_empty_key() {
        assert_ne!(key_word(b""), 0);
    }

    #[test]
    fn a_mark_is_no_value_and_keeps_what_it_is_set_on() {
        let check = |kind: Kind| {
            let word = marked(kind.encode());
            assert_eq!(Kind::decode(word), None);
            assert!(is_marked(word) && !is_marked(kind.encode()));
            assert_eq!(marked(word), word);
            assert_eq!(word & !0xe0 & !15 | word >> 5 & 7, kind.encode());
        };
        check(Kind::Int);
        check(Kind::Blob);
        check(Kind::Inline { raw: true, len: 77, crc: 0xdead_beef });
    }

    #[test]
    fn swapping_twice_gives_the_first_map() {
        let once = swapped(IDENTITY, 0, 15);
        assert_eq!((physical(once, 0), physical(once, 15), physical(once, 7)), (15, 0, 7));
        assert_eq!(swapped(once, 15, 0), IDENTITY);
        assert_eq!(swapped(once, 3, 3), once);
        assert_eq!(map_word(IDENTITY), 0);
    }
}
