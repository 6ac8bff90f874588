//! The constants at which a log is written or read in parts: each is `pub` and says its unit, for
//! tests that take values with sizes around each of them through every way out and in
//! (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::load::WINDOW;
pub use crate::rewrite::CHUNK;
