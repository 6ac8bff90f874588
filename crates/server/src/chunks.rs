//! The constants that divide requests and dumps into parts when they are received or sent: each is
//! `pub` and says its unit, for tests that pass values with sizes around each of them through every
//! input and output (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::dump::save::send::PIECE as SENT_PIECE;
pub use crate::net::input::{FULL as INPUT, MOST_READ, PIECE as INPUT_PIECE};
