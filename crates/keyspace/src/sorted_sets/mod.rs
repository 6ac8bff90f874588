//! Sorted sets: members ordered by their scores, and members of equal score by their bytes.
//!
//! A packed sorted set holds its members in order, each before its score, so that it is read in the
//! order in which clients see it, and a new highest member is appended. The large form is a table
//! with a counted tree next to it (`structures::sorted_set`). An empty sorted set has no key.

mod edit;
mod fill;
mod read;
mod shrink;

pub use edit::SortedSetEdit;
pub use fill::{MANY, sort_scored};
pub use read::SortedSetRef;
