//! Values with many elements, as a whole: in a small and a large form.
//!
//! An entry's cell leads to its collection; the value word describes it ([`Head`]). In the *packed*
//! form it is a blob of items, one after the other: items are appended in place, and any other
//! change copies the block. As a *table* it is a [`Dict`]; a sorted set also has a tree of its
//! members. A list is a structure of its own. The form depends on the size. The encoding that
//! OBJECT ENCODING reports follows from Redis's thresholds and is stored in addition: a set of
//! three words reports "hashtable" and is packed.
//!
//! Operations on a whole value of any type (freeing, moving, verifying, copying, measuring) are
//! implemented here, by form. Two other places distinguish the forms: `txn::expiry`, which counts
//! fields, and `background::large`. `docs/format/collections.md` describes the format.

mod copy;
mod field_times;
mod lifecycle;
mod scores;
pub(crate) mod streams;
mod text;

pub(crate) use crate::head::{Head, Layout};
pub(crate) use copy::{Pair, copy};
pub use field_times::TimedField;
pub(crate) use field_times::{
    all_fields_expired, can_have_ttls, elements, has_expired_fields, has_ttls, is_expired, time_at,
    time_item, timed_pieces,
};
pub(crate) use lifecycle::{
    Deep, INDEX_COST, blocks, check, memory, pieces, release, relocate, relocate_list,
};
pub(crate) use scores::{ScoredItem, encode, offset, pairs};
pub use text::Text;
pub(crate) use text::item;
