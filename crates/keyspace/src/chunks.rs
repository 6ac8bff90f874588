//! The sizes at which a value begins another block, node or step, for tests with values around each
//! of them.

use crate::layout::{KEY_INLINE, VALUE_INLINE};
use crate::snapshot::{BYTES_AT_ONCE, ELEMENTS_AT_ONCE, KEYS_AT_ONCE};
use crate::streams;

/// Keys, elements, consumers or pending entries.
pub const COUNTS: &[usize] = &[KEYS_AT_ONCE, ELEMENTS_AT_ONCE, streams::AT_ONCE as usize];

/// Bytes of one string, element or key.
pub const BYTES: &[usize] = &[
    VALUE_INLINE,
    KEY_INLINE,
    BYTES_AT_ONCE as usize,
    structures::dict::INLINE,
    structures::list::NODE_CAPACITY,
    structures::blob::MAX_BLOCK_LEN as usize,
];
