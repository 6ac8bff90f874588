//! The Redis protocol, both directions: [`Parser`] takes requests out of a connection's read
//! buffer, [`Writer`] appends replies to its write buffer. It also has the text rules
//! that the rest of the server shares: [`number`] (which strings are numbers, and how numbers are
//! written), [`glob`], and quotes ([`words`], [`quoted`]).
//!
//! Requests are arrays of bulk strings, or inline lines, and nothing else. So a small parser of our
//! own suffices: it resumes where it stopped, allocates nothing per argument and cannot recurse.
//! The `redis-protocol` crate handles all frames (the client side of the protocol); this crate's
//! tests use it as an oracle.
//!
//! The crate knows no commands, no keys, no sockets and no clock.

#![forbid(unsafe_code)]

mod error;
pub mod glob;
pub mod number;
mod reply;
mod request;
mod words;

pub use error::ProtocolError;
pub use reply::{Deferred, Mark, Protocol, Writer};
pub use request::{BIG_BULK, Command, Limits, Next, Parser};
pub use words::{quoted, words};
