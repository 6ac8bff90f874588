//! The constants at which dumping, loading or logging begins another step. Each is `pub` and
//! documents its unit, for the tests that dump and load values of sizes around each of them in
//! every way (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::collections::gathered::AT_ONCE as GATHERED;
pub use crate::keys::dump::store::{BYTES_AT_ONCE as STORED_BYTES, PARTS_AT_ONCE as STORED_PARTS};
pub use crate::keys::migrate::transfer::{
    BATCH_BYTES as MIGRATED_BYTES, BATCH_KEYS as MIGRATED_KEYS,
};
pub use crate::load::batch::{
    BYTES as BATCH_BYTES, BYTES_AT_ONCE as COMMITTED_BYTES, KEYS as BATCH_KEYS,
    KEYS_AT_ONCE as COMMITTED_KEYS,
};
pub use crate::load::{BYTES_IN_BATCHES, LARGEST_IN_BATCH};
pub use crate::rewrite::ELEMENTS as REWRITTEN_ELEMENTS;
pub use crate::save::{COLLECTED_BYTES, COLLECTED_ELEMENTS};
