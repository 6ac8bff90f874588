//! The constants at which a structure begins another block, node or level. Each is `pub` and names
//! its unit, for tests that take values with sizes around each of them through every way out and in
//! (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::blob::{CHUNK, LEAF_CHUNKS, MAX_BLOCK_LEN, SMALLEST_LEAF};
pub use crate::dict::INLINE;
pub use crate::index::SEGMENT_SLOTS;
pub use crate::list::{
    FIRST_BYTES, MAX_BYTES as LIST_NODE_BYTES, MAX_COUNT as LIST_NODE_ELEMENTS, NODE_CAPACITY,
    SMALL as SMALL_LIST_NODE,
};
pub use crate::sorted_set::AT_ONCE as MEMBERS_AT_ONCE;
pub use crate::stream::{MAX_BYTES as STREAM_NODE_BYTES, MAX_COUNT as STREAM_NODE_ENTRIES};
pub use crate::tree::{INNER_SLOTS, LEAF_SLOTS};
