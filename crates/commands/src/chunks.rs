//! The sizes at which what is dumped, loaded, stored or logged begins another step, for tests with
//! values around each of them.

use crate::keys::dump::store;
use crate::load::batch;
use crate::{rewrite, save};

/// Elements of a value.
pub const COUNTS: &[usize] = &[rewrite::ELEMENTS, store::PARTS_AT_ONCE, save::COLLECTED_ELEMENTS];

/// Bytes of a value.
pub const BYTES: &[usize] = &[store::BYTES_AT_ONCE, save::COLLECTED_BYTES];

/// Keys.
pub const KEYS: &[usize] = &[batch::KEYS_AT_ONCE, batch::KEYS];

/// Bytes of several values.
pub const KEY_BYTES: &[usize] = &[batch::BYTES_AT_ONCE, batch::BYTES];
