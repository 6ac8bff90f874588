//! The types of values, by their numbers in dumps.

/// A type of value with its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A string.
    String,
    /// A list, element by element.
    List,
    /// A set, member by member.
    Set,
    /// A sorted set with scores as decimal text.
    SortedSetText,
    /// A hash, field by field.
    Hash,
    /// A sorted set with binary scores.
    SortedSet,
    /// A module's value in release candidates of Redis 4.
    ModuleOld,
    /// A module's value.
    Module,
    /// A hash as a zipmap.
    HashZipmap,
    /// A list as a ziplist.
    ListZiplist,
    /// A set as sorted integers.
    SetIntset,
    /// A sorted set as a ziplist.
    SortedSetZiplist,
    /// A hash as a ziplist.
    HashZiplist,
    /// A list of ziplists.
    ListQuicklist,
    /// A stream, as of Redis 5.
    Stream,
    /// A hash as a listpack.
    HashListpack,
    /// A sorted set as a listpack.
    SortedSetListpack,
    /// A list of listpacks and plain elements.
    ListQuicklist2,
    /// A stream, as of Redis 7.0.
    Stream2,
    /// A set as a listpack.
    SetListpack,
    /// A stream, as of Redis 7.2.
    Stream3,
    /// A hash with field expiration, as of Valkey 9.
    HashValkey,
    /// A hash with field expiration, in release candidates of Redis 7.4.
    HashExpiringOld,
    /// A small hash with field expiration, in release candidates of Redis 7.4.
    HashListpackExpiringOld,
    /// A hash with field expiration, as of Redis 7.4.
    HashExpiring,
    /// A small hash with field expiration, as of Redis 7.4.
    HashListpackExpiring,
}

use Kind::*;

/// The numbers that mean the same in every version.
const NUMBERS: [(u8, Kind); 23] = [
    (0, String),
    (1, List),
    (2, Set),
    (3, SortedSetText),
    (4, Hash),
    (5, SortedSet),
    (6, ModuleOld),
    (7, Module),
    (9, HashZipmap),
    (10, ListZiplist),
    (11, SetIntset),
    (12, SortedSetZiplist),
    (13, HashZiplist),
    (14, ListQuicklist),
    (15, Stream),
    (16, HashListpack),
    (17, SortedSetListpack),
    (18, ListQuicklist2),
    (19, Stream2),
    (20, SetListpack),
    (21, Stream3),
    (24, HashExpiring),
    (25, HashListpackExpiring),
];

/// The same, by number.
const BY_NUMBER: [Option<Kind>; 26] = {
    let mut kinds = [None; 26];
    let mut at = 0;
    while at < NUMBERS.len() {
        kinds[NUMBERS[at].0 as usize] = Some(NUMBERS[at].1);
        at += 1;
    }
    kinds
};

impl Kind {
    /// Returns the type of this number in a version: Valkey gave numbers from 22 on a different
    /// meaning than Redis.
    pub fn of(number: u8, version: u16) -> Option<Kind> {
        let is_valkey = crate::VALKEY.contains(&version);
        match number {
            22 if is_valkey => Some(HashValkey),
            23.. if is_valkey => None,
            22 => Some(HashExpiringOld),
            23 => Some(HashListpackExpiringOld),
            _ => *BY_NUMBER.get(usize::from(number))?,
        }
    }

    /// Returns true if it is a collection in a single string, with nothing before it.
    pub(crate) fn is_packed(self) -> bool {
        matches!(
            self,
            HashZipmap
                | ListZiplist
                | SetIntset
                | SortedSetZiplist
                | HashZiplist
                | HashListpack
                | SortedSetListpack
                | SetListpack
                | HashListpackExpiringOld
        )
    }

    /// Returns the number of the type.
    pub fn number(self) -> u8 {
        match self {
            HashValkey | HashExpiringOld => 22,
            HashListpackExpiringOld => 23,
            kind => NUMBERS.iter().find(|(_, one)| *one == kind).map_or(0, |(number, _)| *number),
        }
    }
}
