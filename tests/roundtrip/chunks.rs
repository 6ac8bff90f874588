//! The constants of the code at which a value changes its encoding or is split: all of them, each
//! with its unit.
//!
//! Each crate exports its constants (`chunks`), and each gets one line here; the values around it
//! are generated ([`crate::shapes`]).

use Of::*;

/// The unit of a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Elements, members, fields, entries, consumers or pending entries.
    Elements,
    /// Bytes of one element, of a string or of a name.
    Bytes,
    /// Bytes of a value as a whole, or of a string.
    ValueBytes,
    /// Keys of a database.
    Keys,
}

/// A constant.
const fn of(of: Of, size: usize) -> (Of, usize) {
    (of, size)
}

/// The constants, crate by crate.
#[rustfmt::skip]
pub(crate) const ALL: &[(Of, usize)] = &[
    of(Elements, structures::chunks::LEAF_SLOTS),
    of(Elements, structures::chunks::INNER_SLOTS),
    of(Elements, structures::chunks::LEAF_SLOTS * structures::chunks::INNER_SLOTS),
    of(Elements, structures::chunks::SEGMENT_SLOTS),
    of(Elements, structures::chunks::MEMBERS_AT_ONCE),
    of(Elements, structures::chunks::LIST_NODE_ELEMENTS),
    of(Elements, structures::chunks::STREAM_NODE_ENTRIES),
    of(Bytes, structures::chunks::FIRST_BYTES),
    of(Bytes, structures::chunks::SMALL_LIST_NODE),
    of(Bytes, structures::chunks::NODE_CAPACITY),
    of(Bytes, structures::chunks::INLINE),
    of(Bytes, structures::chunks::LIST_NODE_BYTES),
    of(Bytes, structures::chunks::STREAM_NODE_BYTES),
    of(Bytes, structures::chunks::MAX_BLOCK_LEN as usize),
    of(Bytes, structures::chunks::CHUNK as usize),
    of(ValueBytes, (structures::chunks::SMALLEST_LEAF * structures::chunks::CHUNK) as usize),
    of(ValueBytes, (structures::chunks::LEAF_CHUNKS * structures::chunks::CHUNK) as usize),

    of(Elements, keyspace::chunks::LISTPACK_MAX_COUNT as usize),
    of(Elements, keyspace::chunks::MANY_MEMBERS),
    of(Elements, keyspace::chunks::MANY_SCORED),
    of(Elements, keyspace::chunks::ELEMENTS_AT_ONCE),
    of(Elements, keyspace::chunks::PENDING_AT_ONCE as usize),
    of(Keys, keyspace::chunks::KEYS_AT_ONCE),
    of(Bytes, keyspace::chunks::EMBSTR_MAX),
    of(Bytes, keyspace::chunks::FIRST_BYTES),
    of(Bytes, keyspace::chunks::VALUE_INLINE),
    of(Bytes, keyspace::chunks::KEY_SHORT),
    of(Bytes, keyspace::chunks::KEY_INLINE),
    of(Bytes, keyspace::chunks::BYTES_AT_ONCE as usize),
    of(ValueBytes, keyspace::chunks::LISTPACK_MAX_BYTES),
    of(ValueBytes, keyspace::chunks::BYTES_AT_ONCE as usize),
    of(ValueBytes, keyspace::chunks::BLOCKS_AT_ONCE * structures::chunks::CHUNK as usize),

    of(Elements, rdb::chunks::MIDDLE_LENGTH as usize),
    of(Elements, rdb::chunks::LONG_LENGTH as usize),
    of(Elements, rdb::chunks::UNCOUNTED_ELEMENTS as usize),
    of(Bytes, rdb::chunks::LONGEST_INT),
    of(Bytes, rdb::chunks::SHORTEST_COMPRESSED),
    of(Bytes, rdb::chunks::MIDDLE_LENGTH as usize),
    of(Bytes, rdb::chunks::LONG_LENGTH as usize),
    of(Bytes, rdb::chunks::MIDDLE_ELEMENT),
    of(Bytes, rdb::chunks::LONG_ELEMENT),
    of(Bytes, rdb::chunks::LONGEST_RUN),
    of(Bytes, rdb::chunks::LONGEST_MATCH),
    of(Bytes, rdb::chunks::FARTHEST),
    of(Bytes, rdb::chunks::LIST_NODE_BYTES),
    of(ValueBytes, rdb::chunks::CHUNK),
    of(ValueBytes, rdb::chunks::SHORT_DECOMPRESSED),

    of(ValueBytes, aof::chunks::CHUNK),
    of(ValueBytes, aof::chunks::WINDOW),

    of(Elements, commands::chunks::REWRITTEN_ELEMENTS),
    of(Elements, commands::chunks::STORED_PARTS),
    of(Elements, commands::chunks::COLLECTED_ELEMENTS),
    of(Elements, commands::chunks::GATHERED),
    of(Keys, commands::chunks::COMMITTED_KEYS),
    of(Keys, commands::chunks::BATCH_KEYS),
    of(Keys, commands::chunks::MIGRATED_KEYS),
    of(ValueBytes, commands::chunks::STORED_BYTES),
    of(ValueBytes, commands::chunks::COLLECTED_BYTES),
    of(ValueBytes, commands::chunks::COMMITTED_BYTES),
    of(ValueBytes, commands::chunks::BATCH_BYTES),
    of(ValueBytes, commands::chunks::MIGRATED_BYTES),
    of(ValueBytes, commands::chunks::LARGEST_IN_BATCH),
    of(ValueBytes, commands::chunks::BYTES_IN_BATCHES),

    of(Bytes, server::chunks::INPUT),
    of(ValueBytes, server::chunks::MOST_READ),
    of(ValueBytes, server::chunks::INPUT_PIECE),
    of(ValueBytes, server::chunks::SENT_PIECE),

    of(Elements, cli::chunks::EXPORTED_ELEMENTS),
    of(Bytes, cli::chunks::EXPORTED_BYTES),
    of(Keys, cli::chunks::READ_KEYS),
    of(Keys, cli::chunks::IMPORTED_REQUESTS),
    of(ValueBytes, cli::chunks::IMPORTED_BYTES),
    of(ValueBytes, cli::chunks::READ_BYTES as usize),
];

/// Returns the sizes around all constants of one unit, in order: zero, one, one less, equal, one
/// more, twice as many, and one more than three times as many.
pub(crate) fn around(what: Of) -> Vec<usize> {
    let constants = ALL.iter().filter(|(of, _)| *of == what).map(|(_, size)| *size);
    let mut sizes: Vec<usize> =
        constants.flat_map(|c| [0, 1, c - 1, c, c + 1, 2 * c, 3 * c + 1]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
