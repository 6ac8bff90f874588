//! The sizes at which a value starts another block, node or step. Each is `pub` and states its
//! unit, for tests with values around each of them (`tests/roundtrip/chunks.rs` names all of them).

pub use crate::layout::{KEY_INLINE, VALUE_INLINE};
pub use crate::members::{
    FIRST_BYTES, LISTPACK_MAX_BYTES, LISTPACK_MAX_COUNT, MANY as MANY_MEMBERS,
};
pub use crate::prepared::BLOCKS_AT_ONCE;
pub use crate::short::KEY_SHORT;
pub use crate::snapshot::{BYTES_AT_ONCE, ELEMENTS_AT_ONCE, KEYS_AT_ONCE};
pub use crate::sorted_sets::MANY as MANY_SCORED;
pub use crate::streams::AT_ONCE as PENDING_AT_ONCE;
pub use crate::value::EMBSTR_MAX;

/// Keys, elements, consumers or pending entries.
pub const COUNTS: &[usize] = &[KEYS_AT_ONCE, ELEMENTS_AT_ONCE, PENDING_AT_ONCE as usize];

/// Bytes of one string, element or key.
pub const BYTES: &[usize] = &[
    VALUE_INLINE,
    KEY_INLINE,
    KEY_SHORT,
    BYTES_AT_ONCE as usize,
    structures::dict::INLINE,
    structures::list::NODE_CAPACITY,
    structures::blob::MAX_BLOCK_LEN as usize,
];
