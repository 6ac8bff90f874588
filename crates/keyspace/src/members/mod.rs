//! Sets and hashes: read in place, and changed as a whole or member by member.
//!
//! A packed set or hash is changed in DRAM and written back; a table is changed in place. Sorted
//! sets share the parts that do not depend on scores.

mod bulk;
mod edit;
mod field_expiry;
mod hashes;
mod read;
mod seen;
mod sets;
mod write;

pub use bulk::MANY;
pub use edit::{Edit as MembersEdit, FIRST_BYTES, LISTPACK_MAX_BYTES, LISTPACK_MAX_COUNT, Limits};
pub(crate) use edit::{is_listpack, reserve_first};
pub use field_expiry::{FieldChange, FieldTime};
pub use hashes::Hashes;
pub use read::Members;
pub(crate) use read::{ASKED_AT_ONCE, find, listpack_bytes, prefetch_members, sound_table};
pub(crate) use seen::SeenElements;
pub use sets::Sets;
pub(crate) use write::{Content, EncodedCollection};
