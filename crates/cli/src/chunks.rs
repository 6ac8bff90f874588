//! The constants that divide values which `perdura` transfers: each is `pub` and says its unit, for
//! tests that pass values with sizes around each of them through every input and output
//! (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::transfer::commands::{BYTES as EXPORTED_BYTES, ELEMENTS as EXPORTED_ELEMENTS};
pub use crate::transfer::import::{BATCH as IMPORTED_REQUESTS, BATCH_BYTES as IMPORTED_BYTES};
pub use crate::transfer::running::{BATCH as READ_KEYS, BATCH_BYTES as READ_BYTES};
