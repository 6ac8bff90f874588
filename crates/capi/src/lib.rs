//! The library for programs in C, and in languages that call C: open, get, set, delete, increment,
//! transactions, batches, iteration over keys.
//!
//! `include/perdura.h` is generated from here. A function takes bytes as pointer and length, writes
//! its result through a pointer, and returns a [`PerduraStatus`]; the text of a failure is kept for
//! the calling thread. No panic crosses the boundary: `status::guarded` catches it.
//!
//! # Safety
//!
//! Every function requires of C: a pointer with a length refers to that many readable bytes, which
//! nobody changes during the call, or is null if the length is 0; any other pointer is null, or
//! refers to a variable of its type, or came from this library and was not released; no handle is
//! released while another thread uses it.
//!
//! Unsafe code is limited to the export of symbols, and to `bytes`, which turns pointers into
//! slices and back.

#![allow(unsafe_code, reason = "C passes bytes as pointer and length, and symbols are exported")]
#![expect(clippy::missing_safety_doc, reason = "stated once, at the head of the crate")]

#[macro_use]
mod bytes;
mod batch;
mod keys;
mod options;
mod status;
mod store;
mod transaction;

pub use batch::*;
pub use bytes::*;
pub use keys::*;
pub use options::*;
pub use status::*;
pub use store::*;
pub use transaction::*;
