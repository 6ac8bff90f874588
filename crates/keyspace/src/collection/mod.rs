//! Values that hold many, as wholes: in one small and one large form.
//!
//! A collection hangs from its entry's cell; the value word says what it is ([`Head`]). *Packed*,
//! it is a blob of items, one after the other: what comes last is appended in place, any other
//! change copies the block. As a *table* it is a [`Dict`], of a sorted set with a tree of the
//! members next to it; a list is a structure of its own. Which form it has follows from its size.
//! What OBJECT ENCODING says follows from Redis's thresholds and is kept next to it: a set of three
//! words says "hashtable" and is packed.
//!
//! What is done with a whole value of any type (freeing, moving, verifying, copying, measuring) is
//! done here, by form. Two other places tell the forms apart: `txn::expiry`, which counts fields,
//! and `background::large`. `docs/format/collections.md` describes the format.

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
