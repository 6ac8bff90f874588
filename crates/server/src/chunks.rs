//! The constants at which requests and dumps are received or sent in parts: each is `pub` and says
//! its unit, for tests that take values with sizes around each of them through every way out and in
//! (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::input::{FULL as INPUT, MOST_READ, PIECE as INPUT_PIECE};
pub use crate::save::send::PIECE as SENT_PIECE;
