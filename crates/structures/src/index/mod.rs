//! A persistent hash index from hashes to entries: extendible hashing in a trie.
#![allow(unused_variables, clippy::todo, missing_docs)]

use heap::{Full, Ptr, View};

use crate::Store;

/// How many low bits of a `u64` a scan cursor uses; the caller may keep something of its own above them.
pub const CURSOR_BITS: u32 = 47;

/// A hash index, known by the address of its root word: 0 while the index has never held an entry.
///
/// Entries are places in the pool that only the caller understands: it says whether an entry is the one
/// looked for, and what an entry's hash is. It keeps the number of entries, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    root: Ptr,
}

/// Where an entry was found. Any change of the index but `replace` in this slot invalidates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    at: Ptr,
    word: u64,
    segment: Ptr,
}

impl Slot {
    /// The entry in this slot.
    pub fn entry(&self) -> Ptr {
        todo!()
    }
}

impl Index {
    /// The index whose root word is at `root`.
    pub const fn at(root: Ptr) -> Index {
        Index { root }
    }

    /// The entry with this hash that `equal` accepts.
    pub fn find<V: View>(
        &self,
        view: &V,
        hash: u64,
        equal: impl FnMut(Ptr) -> bool,
    ) -> Option<Slot> {
        todo!()
    }

    /// Adds an entry, which the caller knows to be absent. `rehash` gives the hash of an entry already here.
    pub fn insert<S: Store>(
        &self,
        store: &mut S,
        hash: u64,
        entry: Ptr,
        rehash: impl Fn(&S, Ptr) -> u64,
    ) -> Result<(), Full> {
        todo!()
    }

    /// Puts another entry with the same hash into a slot; answers the slot as it is now.
    pub fn replace<S: Store>(&self, store: &mut S, slot: Slot, entry: Ptr) -> Slot {
        todo!()
    }

    /// Takes an entry out. The entry's own blocks are the caller's to free.
    pub fn remove<S: Store>(&self, store: &mut S, slot: Slot) {
        todo!()
    }

    /// Visits about `count` entries from `cursor` on (0: from the start), and answers where to go on (0: the end).
    ///
    /// An entry that is in the index from the first call to the last is visited at least once.
    pub fn scan<V: View>(
        &self,
        view: &V,
        cursor: u64,
        count: usize,
        visit: impl FnMut(Ptr),
    ) -> u64 {
        todo!()
    }

    /// An entry picked nearly uniformly. `None` also when the index is so sparse that a bounded search found none:
    /// then a scan finds one.
    pub fn random<V: View>(&self, view: &V, random: impl FnMut() -> u64) -> Option<Ptr> {
        todo!()
    }

    /// First stage of a prefetch: asks for the two bucket lines that a lookup of this hash reads first.
    pub fn prefetch_bucket<V: View>(&self, view: &V, hash: u64) {
        todo!()
    }

    /// Second stage, some lookups later: reads those lines and asks for the first line of each likely entry.
    pub fn prefetch_entry<V: View>(&self, view: &V, hash: u64) {
        todo!()
    }

    /// Visits about `count` entries from `cursor` on, and lets `relocate` move each: it answers the entry's new
    /// place after copying it and freeing the old one, or `None` to leave it. Moves and merges the index's own sparse
    /// blocks too.
    pub fn defragment<S: Store>(
        &self,
        store: &mut S,
        cursor: u64,
        count: usize,
        rehash: impl Fn(&S, Ptr) -> u64,
        relocate: impl FnMut(&mut S, Ptr) -> Result<Option<Ptr>, Full>,
    ) -> Result<u64, Full> {
        todo!()
    }
}
