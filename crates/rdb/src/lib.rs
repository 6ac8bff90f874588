//! Redis's dump format (RDB), which SAVE writes to a file, and DUMP into a reply.
//!
//! A [`Reader`] goes through a file record by record; a value comes out as plain [`Part`]s
//! (elements, fields, stream entries), whatever encoding it was stored in, one part at a time. Both
//! are read from a [`Source`]; [`payload`] opens and completes the replies of DUMP. A [`Writer`]
//! writes the bytes that Redis 7.0 writes, given the encoding; a [`FileWriter`] puts values into a
//! file.
//!
//! The input comes from outside. Every length is checked against the bytes that follow before
//! memory is allocated for it, every packed encoding is validated as a whole before its first
//! element is shown, and no input makes this crate panic. The caller, who has the elements, must
//! check for duplicates.
//!
//! This crate must not know commands, the keyspace, the heap, files or sockets.
//! `docs/format/rdb.md` describes the format.
#![forbid(unsafe_code)]

mod checksum;
pub mod chunks;
mod error;
mod file;
mod frame;
mod intset;
mod item;
mod kind;
mod listpack;
mod lzf;
mod nodes;
pub mod payload;
mod reader;
mod source;
mod stream;
mod stream_nodes;
mod value;
mod verify;
mod writer;
mod ziplist;
mod zipmap;

pub use error::Error;
pub use file::{FileWriter, Usage};
pub use frame::{Frame, Framing};
pub use intset::intset;
pub use item::canonical_int;
pub use kind::Kind;
pub use listpack::Builder as ListpackBuilder;
pub use nodes::{ListLimit, ListNodes};
pub use reader::{Origin, Reader, Record};
pub use source::Source;
pub use stream::StreamId;
pub use stream_nodes::{StreamLimit, StreamNode, StreamNodes};
pub use value::{Part, read_value};
pub use verify::verify;
pub use writer::Writer;

/// The version of the format that [`Writer`] writes: that of Redis 7.0.
pub const VERSION: u16 = 10;
/// The version of the format with field expiration, as Redis 7.4 writes it.
pub const VERSION_FIELD_EXPIRATION: u16 = 12;
/// The newest version of Redis's format that is read: that of Redis 8.
pub const NEWEST_REDIS: u16 = 12;
/// The versions of Valkey's own format that are read: that of Valkey 9.
pub const VALKEY: std::ops::RangeInclusive<u16> = 80..=80;

/// Returns true if this version of the format is read.
pub fn is_known_version(version: u16) -> bool {
    (1..=NEWEST_REDIS).contains(&version) || VALKEY.contains(&version)
}
