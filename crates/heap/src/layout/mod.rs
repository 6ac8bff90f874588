//! The pool's format: what is where in the file, and the meaning of the metadata outside of logs
//! and blocks.
//!
//! Sizes and offsets (`geometry`), the header with its two copies (`header`), the size classes of
//! blocks (`size_class`), and what the span table and a span's own header say about it (`span`).
//! The form of a log record is in [`crate::log::record`], the list of media errors in
//! [`crate::media_errors::losses`]. `docs/format/pool.md` has the byte diagrams.
//!
//! Nothing here holds state, and nothing but the header is written here.

mod geometry;
pub(crate) mod header;
pub(crate) mod size_class;
pub(crate) mod span;

pub use geometry::{Geometry, MAX_BLOCK, ROOTS};
pub(crate) use geometry::{
    HEADER_A, HEADER_B, JOURNAL_PROGRESS, LINE, SPAN, ShardArea, ZONES_WORD,
};
