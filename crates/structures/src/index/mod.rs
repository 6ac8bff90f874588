//! A persistent hash index: extendible hashing whose directory never doubles.
//!
//! It maps 64-bit hashes to entries, which are places in the pool that only the caller understands:
//! the caller decides whether an entry is the one that is looked for, knows each entry's hash, owns
//! the entries' blocks, and keeps their number. The index owns all blocks below its root word.
//!
//! The reasons: a lookup reads the trie (two levels of 2 KiB nodes lead to some 20 million
//! entries), one line of eight slots in most cases, and the entry. A slot is one word, so an
//! insert, a replacement and a removal log one word each, rarely two or three. A full segment
//! splits out of place in one record, and nothing else moves: growth never stops the world.
//! `docs/format/index.md` has the format and the counts.
//!
//! Invariants:
//! - an entry is reached through the top bits of its hash, and in its segment through the home
//!   bucket that its tag, the low 16 bits of the hash, chooses (see `segment`);
//! - a segment of depth `d` is referred to by all words of one node (or the root word) that the `d`
//!   bits lead to;
//! - every operation is bounded: at most one split for an insert, some hundred slots for anything
//!   else, except that equal hashes beyond some forty are chained and searched as a chain
//!   (`overflow`).
//!
//! The index does not know keys, shards or other databases.

mod check;
mod defragment;
pub(crate) mod drain;
mod layout;
mod overflow;
mod path;
mod random;
mod salvage_walk;
mod scan;
mod segment;
mod split;

use heap::{Full, Ptr, View};

pub use check::Part;
pub use layout::SEGMENT_SLOTS;
pub use salvage_walk::{Near, WalkItem};

use crate::{Damaged, Store};
use layout::{bucket_at, entry_of, home, neighbour, tag, tag_of};
use path::SegmentPath;

/// The number of low bits of a `u64` that a scan cursor uses; the caller may use the bits above
/// them.
pub const CURSOR_BITS: u32 = 47;

/// A hash index, known by the address of its root word: 0 while the index has never held an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    root: Ptr,
}

/// The place of an entry that was found. Any change of the index, except [`Index::replace`] in this
/// slot, invalidates it. The default is no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    at: Ptr,
    word: u64,
    segment: Ptr,
}

impl Slot {
    /// Returns the entry in this slot.
    pub fn entry(&self) -> Ptr {
        entry_of(self.word)
    }
}

/// The buckets of a hash, as a prefetch found them; the next change of the index may move them.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    segment: Ptr,
    tag: u16,
}

impl Bucket {
    /// Prefetches the first two lines of the likely entry, as the second stage of a prefetch, some
    /// lookups later, and returns its slot for [`Index::find_with_hint`].
    #[inline]
    pub fn prefetch_entry<V: View>(&self, view: &V) -> Option<Slot> {
        let mut lines = self.lines().into_iter();
        let (at, word) = lines.find_map(|line| layout::tagged(view, line, self.tag).next())?;
        let slot = Slot { at, word, segment: self.segment };
        view.prefetch(slot.entry());
        view.prefetch(slot.entry().add(64));
        Some(slot)
    }

    fn lines(&self) -> [Ptr; 2] {
        let home = home(self.tag);
        [bucket_at(self.segment, home), bucket_at(self.segment, neighbour(home))]
    }
}

impl Index {
    /// Returns the index whose root word is at `root`.
    pub const fn at(root: Ptr) -> Index {
        Index { root }
    }

    /// Returns the entry with this hash that `equal` accepts.
    #[inline]
    pub fn find<V: View>(
        &self,
        view: &V,
        hash: u64,
        equal: impl FnMut(Ptr) -> bool,
    ) -> Option<Slot> {
        self.find_with_hint(view, hash, Slot::default(), equal)
    }

    /// Like [`Index::find`], but tries the slot first in which a prefetch saw the entry; it may
    /// hold something else by now.
    #[inline]
    pub fn find_with_hint<V: View>(
        &self,
        view: &V,
        hash: u64,
        seen: Slot,
        mut equal: impl FnMut(Ptr) -> bool,
    ) -> Option<Slot> {
        let segment = SegmentPath::of(view, self.root, hash)?.segment;
        // In the segment that the hash leads to, the slot is in one of the hash's buckets.
        if seen.segment == segment && view.word(seen.at) == seen.word && equal(seen.entry()) {
            return Some(seen);
        }
        let slot = |(at, word)| Slot { at, word, segment };
        segment::find(view, segment, tag(hash), equal).map(slot)
    }

    /// Adds an entry that the caller knows to be absent. `rehash` returns the hash of an entry that
    /// is already here.
    ///
    /// If it returns `Full`, nothing is staged, except in a split: then roll back.
    #[inline]
    pub fn insert<S: Store>(
        &self,
        store: &mut S,
        hash: u64,
        entry: Ptr,
        rehash: impl Fn(&S, Ptr) -> u64,
    ) -> Result<(), Full> {
        self.insert_expecting(store, hash, entry, || 0, rehash)
    }

    /// Like [`Index::insert`], while entries are added for which segments of depth `wanted` will be
    /// needed ([`Index::depth_for`]): growth then takes larger steps, at the cost of space that is
    /// empty until the entries arrive, at most sixteen times the space of the present ones.
    #[inline]
    pub fn insert_expecting<S: Store>(
        &self,
        store: &mut S,
        hash: u64,
        entry: Ptr,
        wanted: impl FnOnce() -> u32,
        rehash: impl Fn(&S, Ptr) -> u64,
    ) -> Result<(), Full> {
        let slot = layout::slot(tag(hash), entry);
        let Some(place) = SegmentPath::of(store, self.root, hash) else {
            return match store.word(self.root) {
                0 => split::first_segment(store, self.root, slot),
                // An index that leads nowhere accepts no entry: a new segment in its place would
                // hide the other entries.
                _ => Err(Full),
            };
        };
        let segment = place.segment;
        if segment::place(&mut segment::Stored { store, segment }, slot) {
            return Ok(());
        }
        split::grow(store, place, (hash, slot), wanted(), rehash)
    }

    /// Returns the depth of segments that together hold this many entries and are nearly full.
    pub fn depth_for(entries: u64) -> u32 {
        split::depth_for(entries)
    }

    /// Replaces the entry in a slot with one that has the same hash; returns the new slot.
    pub fn replace<S: Store>(&self, store: &mut S, slot: Slot, entry: Ptr) -> Slot {
        let word = layout::slot(tag_of(slot.word), entry);
        store.set(slot.at, word);
        Slot { word, ..slot }
    }

    /// Removes an entry. The caller frees the entry's own blocks.
    pub fn remove<S: Store>(&self, store: &mut S, slot: Slot) {
        let end = slot.segment.raw() + layout::SEGMENT as u64;
        if (slot.segment.raw()..end).contains(&slot.at.raw()) {
            segment::vacate(store, slot.segment, slot.at, slot.word);
        } else {
            overflow::vacate(store, slot.segment, slot.at);
        }
    }

    /// Visits about `count` entries from `cursor` on (0: from the start), and returns where to
    /// continue (0: at the end).
    ///
    /// An entry that is in the index from the first call to the last is visited at least once. A
    /// call visits whole home buckets, at most ten for each requested entry, so it may visit no
    /// entry.
    pub fn scan<V: View>(
        &self,
        view: &V,
        cursor: u64,
        count: usize,
        visit: impl FnMut(Ptr),
    ) -> u64 {
        scan::scan(view, self.root, cursor, count, 0, visit)
    }

    /// Like [`Index::scan`], but looks at no fewer home buckets than a segment has: an index of one
    /// segment is visited in one call, unless it has more entries than requested.
    pub fn scan_segments<V: View>(
        &self,
        view: &V,
        cursor: u64,
        count: usize,
        visit: impl FnMut(Ptr),
    ) -> u64 {
        scan::scan(view, self.root, cursor, count, layout::HOMES, visit)
    }

    /// Returns an entry picked nearly uniformly with the random numbers given.
    ///
    /// Returns `None` also if the index is so sparse that a bounded search found no entry: then a
    /// scan finds one.
    pub fn random<V: View>(&self, view: &V, random: impl FnMut() -> u64) -> Option<Ptr> {
        random::random(view, self.root, random)
    }

    /// Prefetches, as the first stage, the two bucket lines that a lookup of this hash reads first.
    #[inline]
    pub fn prefetch_bucket<V: View>(&self, view: &V, hash: u64) -> Option<Bucket> {
        let segment = SegmentPath::of(view, self.root, hash)?.segment;
        let bucket = Bucket { segment, tag: tag(hash) };
        bucket.lines().into_iter().for_each(|line| view.prefetch(line));
        Some(bucket)
    }

    /// Takes a step of defragmentation from `cursor` on, over about `count` entries; returns where
    /// to continue (0: at the end).
    ///
    /// `relocate` may move an entry: it copies the entry, frees the old place and returns the new
    /// one, or returns `None` to leave the entry. At the start of a segment, the step also merges
    /// the segment with its other half if both are nearly empty, or moves it out of a sparse span.
    /// A scan in progress keeps its guarantee.
    pub fn defragment<S: Store>(
        &self,
        store: &mut S,
        cursor: u64,
        count: usize,
        relocate: impl FnMut(&mut S, Ptr) -> Result<Option<Ptr>, Full>,
    ) -> Result<u64, Full> {
        defragment::defragment(store, self.root, cursor, count, relocate)
    }

    /// Returns where a defragmentation continues if it found no space for the index's own blocks at
    /// `cursor`; `None` if only entries are left there.
    pub fn defragment_past(cursor: u64) -> Option<u64> {
        defragment::past(cursor)
    }

    /// Verifies the segments between two cursors of a scan, except the one that the scan is in:
    /// that the trie leads to them, and that no slot was lost.
    pub fn check_step<V: View>(&self, view: &V, from: u64, to: u64) -> Result<(), Damaged> {
        check::check_step(view, self.root, from, to)
    }

    /// Verifies the whole index, and visits each of its blocks and entries once.
    ///
    /// Its time grows with the size of the index: for a pool at rest.
    pub fn check<V: View>(
        &self,
        view: &V,
        mut rehash: impl FnMut(Ptr) -> u64,
        mut visit: impl FnMut(Part),
    ) -> Result<(), Damaged> {
        check::check(view, self.root, 0, &mut rehash, &mut visit)
    }

    /// Shows every block and entry that can be reached, and all damage, in an index that may be
    /// damaged.
    ///
    /// `visit` returns whether to read a block: it must return false if the block was shown before,
    /// or is no allocated block of this many bytes.
    pub fn salvage_walk<V: View>(&self, view: &V, mut visit: impl FnMut(WalkItem) -> bool) {
        salvage_walk::salvage_walk(view, self.root, &mut visit);
    }

    /// Like [`check`](Index::check), for the rest of a partly drained index.
    pub(crate) fn check_from<V: View>(
        &self,
        view: &V,
        cursor: u64,
        rehash: &mut dyn FnMut(Ptr) -> u64,
        visit: &mut dyn FnMut(Part),
    ) -> Result<(), Damaged> {
        check::check(view, self.root, cursor, rehash, visit)
    }
}
