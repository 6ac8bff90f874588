//! Sorted sets: members with scores, in the order of these, members of equal score in the order of
//! their bytes.
//!
//! Packed, a sorted set is members each before its score, in their order, so that it is read as it
//! is shown; what comes last is appended. The large form is a table with a counted tree next to it
//! (`structures::sorted_set`). An empty one has no key.

mod edit;
mod fill;
mod read;
mod shrink;

pub use edit::SortedSetEdit;
pub use fill::{MANY, sort_scored};
pub use read::SortedSetRef;
