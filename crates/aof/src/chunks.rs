//! The constants that divide a log into parts when it is written or read: each is `pub` and says
//! its unit, for tests that pass values with sizes around each of them through every input and
//! output (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::load::WINDOW;
pub use crate::rewrite::CHUNK;
