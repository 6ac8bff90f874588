//! Values that hold many: sets and hashes, in one small and one large form.
//!
//! A collection hangs from its entry's cell; the value word says what it is ([`Head`]). *Packed*,
//! it is a blob of items, one after the other: what comes last is appended in place, any other
//! change copies the block. As a *table* it is a [`Dict`], of a sorted set with a tree of the
//! members next to it; a list is a structure of its own. Which form it has follows from its size.
//! What OBJECT ENCODING says follows from Redis's thresholds and is kept next to it: a set of three
//! words says "hashtable" and is packed.
//!
//! What is done with a value of any type (freeing, moving, verifying, copying, measuring) is done
//! here, by form, so that no other place tells collections apart. `docs/format/collections.md`
//! describes the format.

mod bulk;
mod copy;
mod each;
mod edit;
mod field_expiry;
mod lifecycle;
mod members;
mod seen;
mod sorted_set;
pub(crate) mod streams;
mod tables;
mod text;

pub(crate) use crate::head::{Head, Layout};
pub use bulk::MANY as MANY_MEMBERS;
pub(crate) use copy::{Pair, copy};
pub use edit::{Edit as MembersEdit, FIRST_BYTES, LISTPACK_MAX_BYTES, LISTPACK_MAX_COUNT, Limits};
pub use field_expiry::{FieldChange, FieldTime, TimedField};
pub(crate) use field_expiry::{all_fields_expired, can_have_ttls, has_ttls, timed_pieces};
pub(crate) use lifecycle::{Deep, blocks, check, memory, pieces, release, relocate, relocate_list};
pub use members::Members;
pub use sorted_set::{MANY as MANY_SCORED, SortedSetEdit, SortedSetRef, sort_scored};
pub(crate) use tables::{Large, Within};
pub use text::Text;
pub(crate) use text::item;
