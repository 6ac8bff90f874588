//! Prefetching for the lookups of a batch of commands, before any of them is executed.
//!
//! A cache miss that is waited for takes as long as ten that are under way together. So a batch
//! asks for what all its lookups will read, in stages that each read what the one before has asked
//! for: the buckets of all keys, then their entries, then what the values lead to, and then the
//! members that the commands name.
//!
//! Nothing is locked. The words that are read may be inconsistent; they only decide what to
//! prefetch and where to look first.

use std::sync::atomic::Ordering::Relaxed;

use heap::{Heap, Ptr, View};
use structures::blob::Blob;
use structures::dict::Dict;
use structures::index::{Bucket, Index};
use structures::sorted_set::SortedSet;

use crate::collection::Layout;
use crate::entry;
use crate::eviction::access::Which;
use crate::layout::{Kind, keys_root, physical};
use crate::{Db, Key, Keyspace};

/// The buckets that were prefetched for a coming lookup of a key or a member.
pub struct PrefetchedBucket(Bucket);

impl Keyspace {
    /// Prefetches the buckets that a lookup of the key will search. For a batch of keys, call this
    /// for each key, and then [`Keyspace::prefetch_key_entry`] for each.
    #[inline]
    pub fn prefetch_key_bucket(&self, db: Db, key: &Key<'_>) -> Option<PrefetchedBucket> {
        let db = physical(self.shared.map.load(Relaxed), db.number());
        self.shared.volatile(key.shard()).access.prefetch(Which::new(key.hash, db));
        let index = Index::at(self.shared.root(key.shard(), keys_root(db)));
        index.prefetch_bucket(&Unlocked(self.heap()), key.hash).map(PrefetchedBucket)
    }

    /// Prefetches the entry that a lookup of the key will compare, and records its slot in the key
    /// as a hint.
    #[inline]
    pub fn prefetch_key_entry(&self, prefetched: &PrefetchedBucket, key: &mut Key<'_>) {
        if let Some(slot_hint) = prefetched.0.prefetch_entry(&Unlocked(self.heap())) {
            key.slot_hint = slot_hint;
        }
    }

    /// Prefetches what the collection of a key with a prefetched entry leads to: the first lines of
    /// a packed one; of a table the buckets that a lookup of `member` will search, for
    /// [`Keyspace::prefetch_member`].
    #[inline]
    pub fn prefetch_value(&self, key: &Key<'_>, member: Option<&[u8]>) -> Option<PrefetchedBucket> {
        let view = Unlocked(self.heap());
        let at = key.slot_hint.entry();
        let Kind::Collection(head) = entry::kind(&view, at) else { return None };
        let word = view.word(entry::cell(&view, at));
        let dict = match head.layout {
            Layout::HashTable => Dict::at(Ptr::from_raw(word)),
            Layout::SortedSet => SortedSet::at(Ptr::from_raw(word)).dict(),
            Layout::Listpack | Layout::ListpackWithTtls => {
                Blob::from_word(word).prefetch(&view);
                return None;
            }
            Layout::List | Layout::Stream => return None,
        };
        dict.prefetch_bucket(&view, self.shared.hashing.hash(member?)).map(PrefetchedBucket)
    }

    /// Prefetches the member that a lookup will compare.
    #[inline]
    pub fn prefetch_member(&self, prefetched: &PrefetchedBucket) {
        prefetched.0.prefetch_entry(&Unlocked(self.heap()));
    }
}

/// A view that takes no lock.
struct Unlocked<'h>(&'h Heap);

impl View for Unlocked<'_> {
    #[inline]
    fn word(&self, at: Ptr) -> u64 {
        self.0.region().guess(at.raw())
    }

    #[inline]
    fn line(&self, at: Ptr) -> [u64; 8] {
        self.0.region().guess_line(at.raw())
    }

    fn bytes(&self, _at: Ptr, _len: usize) -> &[u8] {
        &[]
    }

    #[inline]
    fn prefetch(&self, at: Ptr) {
        self.0.region().prefetch(at.raw());
    }
}
