//! The value of an entry on its way to another entry, which takes it over: when a key is renamed,
//! or gets an expiry time for which its entry has no word.

use heap::{Ptr, Shard, View};
use smallvec::SmallVec;
use structures::blob::Blob;

use crate::entry::{self, Value};
use crate::head::Head;
use crate::layout::{Kind, int_of};

/// Strings up to this length are held without an allocation.
const USUAL: usize = 128;

/// The value of an entry, without a borrow of the entry.
pub(crate) enum Held {
    Int(i64),
    Inline { bytes: SmallVec<[u8; USUAL]>, raw: bool },
    Blob(Blob),
    Collection(Head, u64),
}

impl Held {
    /// Reads the value of an entry.
    pub(crate) fn read(shard: &Shard<'_>, at: Ptr) -> Held {
        let cell = || shard.word(entry::cell(shard, at));
        match entry::kind(shard, at) {
            Kind::Blob => Held::Blob(Blob::from_word(cell())),
            Kind::Int => Held::Int(int_of(cell())),
            Kind::Collection(head) => Held::Collection(head, cell()),
            Kind::Inline { raw, len, .. } => {
                Held::Inline { bytes: SmallVec::from_slice(entry::body(shard, at, len)), raw }
            }
        }
    }

    /// Returns the value, for another entry.
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Held::Int(int) => Value::Int(*int),
            Held::Inline { bytes, raw } => Value::Inline { bytes, raw: *raw },
            Held::Blob(blob) => Value::Blob(*blob),
            Held::Collection(head, word) => Value::Collection(*head, *word),
        }
    }
}
