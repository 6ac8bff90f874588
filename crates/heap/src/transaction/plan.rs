//! The plan of a commit, made before anything is written: fresh ranges and changes of words.
//!
//! In a volatile heap nothing can fail any more and nobody reads a record: words are stored as soon
//! as they are known, unless a snapshot needs their old values.
//!
//! Blocks that the transaction reserved and freed again are left out. A span without a published
//! block is published here: its header and bitmap become a fresh range, with the bits of this
//! transaction's blocks set as bytes.

#![allow(
    unsafe_code,
    reason = "words of a volatile heap are stored, and bits of bitmaps that are not published yet"
)]

use super::heap::Heap;
use super::state::{Freed, Plan, Reserved, ShardState, Tx};
use crate::alloc::allocator::BlockAllocator;
use crate::alloc::place::BlockPlace;
use crate::checksum::crc32c;
use crate::fault_points::FaultPoint;
use crate::layout::size_class::{TABLE, WHOLE};
use crate::layout::span::span_word;
use crate::log::record::{Change, Entry, FreshRange, RecordKind};
use crate::log::ring::Ring;

/// The number of empty spans that a commit releases, plus four for each block that it frees.
const RELEASED: usize = 64;
/// Words of a record for releasing one span.
const WORDS_OF_RELEASE: usize = 2;
/// Words that a record may need after its releases.
const OTHER_WORDS: usize = 8;

/// Fills `state.plan` from `state.tx`.
pub(crate) fn make(heap: &Heap, shard: usize, state: &mut ShardState, kind: RecordKind) {
    let in_place = heap.volatile && !state.is_in_snapshot();
    let ShardState { tx, plan, alloc, ring, used, .. } = state;
    plan.begin(kind);
    drop_own_frees(tx);
    let mut planner = Planner { heap, shard, in_place, alloc, ring, plan, used: *used };
    planner.publish_blocks(&tx.reserved);
    planner.publish_spans();
    planner.publish_appended(tx);
    tx.staged.iter().for_each(|(at, value)| planner.set(at, value));
    planner.free_blocks(&tx.freed);
    planner.release_spans(tx.freed.len());
    if planner.used != *used {
        *used = planner.used;
        planner.set(heap.area(shard).used(), *used);
    }
}

/// Leaves out blocks that this transaction reserved and freed.
fn drop_own_frees(tx: &mut Tx) {
    if !tx.freed.iter().any(|freed| freed.own) {
        return;
    }
    for i in 0..tx.freed.len() {
        let Freed { place, own: true } = tx.freed[i] else { continue };
        if let Some(own) = tx.reserved_at(&place) {
            tx.reserved[own].published = None;
        }
    }
    tx.freed.retain(|freed| !freed.own);
}

struct Planner<'a> {
    heap: &'a Heap,
    shard: usize,
    /// Whether words are stored immediately.
    in_place: bool,
    alloc: &'a mut BlockAllocator,
    ring: &'a Ring,
    plan: &'a mut Plan,
    /// Bytes in allocated blocks after the transaction.
    used: u64,
}

impl Planner<'_> {
    fn publish_blocks(&mut self, reserved: &[Reserved]) {
        for block in reserved {
            let Some(len) = block.published else { continue };
            let place = block.place;
            self.used += u64::from(place.size());
            let is_plain = place.published && place.class != WHOLE;
            let set = Entry { at: place.bitmap, change: Change::SetBit(place.bit()) };
            if is_plain && self.heap.volatile {
                self.push(set);
            } else if is_plain && !block.fenced && publishes_at_once(self.heap, &set) {
                self.range(block, len).encode_published(place.index, &mut self.plan.record);
                self.plan.words.push(set.into());
            } else {
                self.publish_in_parts(block, len, set);
            }
        }
    }

    /// Publishes a block by separate entries for its fresh range and its bit: a block that had a
    /// fence, that is a whole span, or whose span is published in the same commit.
    #[cold]
    fn publish_in_parts(&mut self, block: &Reserved, len: u32, set: Entry) {
        let listed = if block.fenced { FaultPoint::ListDetached } else { FaultPoint::ListFresh };
        if !self.heap.volatile && listed.is_enabled() {
            self.range(block, len).encode(&mut self.plan.record);
        }
        if block.place.class == WHOLE {
            self.set_whole(block.place, span_word(WHOLE, self.shard));
        } else if block.place.published {
            self.push(set);
        } else {
            self.set_unpublished(block.place);
        }
    }

    /// Returns a block as a fresh range.
    fn range(&self, block: &Reserved, len: u32) -> FreshRange {
        let at = block.place.at;
        let crc = match block.checksummed {
            _ if block.fenced => 0,
            Some(checksummed) if checksummed == len => block.crc,
            _ => checksum(self.heap, at, len),
        };
        FreshRange { at, len, crc, verified: !block.fenced }
    }

    /// Marks a block as allocated in a span that this commit publishes: its bitmap is a fresh
    /// range.
    #[cold]
    fn set_unpublished(&mut self, block: BlockPlace) {
        let Some(span) = self.alloc.span(block.span) else { return };
        // Consecutive blocks are mostly in one span.
        if !self.plan.publishing.iter().rev().any(|&span| span == block.span) {
            let (number, class) = (span.number, span.class);
            self.plan.publishing.push(block.span);
            self.set_span(number, span_word(class, self.shard));
        }
        // SAFETY: the span is not published, so no reader and no recovery reads its bitmap.
        unsafe { self.heap.region.change(block.bitmap, |word| word | 1 << block.bit()) };
    }

    /// Lists the headers and bitmaps of the spans that this commit publishes.
    fn publish_spans(&mut self) {
        if self.heap.volatile || !FaultPoint::ListSpanHeader.is_enabled() {
            return;
        }
        let Plan { publishing, record, .. } = &mut *self.plan;
        for &at in publishing.iter() {
            let Some(span) = self.alloc.span(at) else { continue };
            let len = TABLE[span.class as usize].first;
            let crc = checksum(self.heap, span.base, len);
            FreshRange { at: span.base, len, crc, verified: true }.encode(record);
        }
    }

    /// Bytes appended to a block that this transaction frees are not published: the block may be
    /// overwritten as soon as this record is fenced, while recovery still verifies the record's
    /// checksums.
    fn publish_appended(&mut self, tx: &Tx) {
        if tx.appended.is_empty() || !FaultPoint::ListAppended.is_enabled() {
            return;
        }
        let span = |freed: &Freed| (freed.place.at, freed.place.at + u64::from(freed.place.size()));
        let mut freed: Vec<(u64, u64)> = tx.freed.iter().map(span).collect();
        freed.sort_unstable();
        let is_freed = |range: &FreshRange| {
            let not_after = freed.partition_point(|&(from, _)| from <= range.at);
            not_after > 0 && range.at < freed[not_after - 1].1
        };
        let kept =
            |range: &&FreshRange| !is_freed(range) || !FaultPoint::DropFreedAppends.is_enabled();
        tx.appended.iter().filter(kept).for_each(|range| range.encode(&mut self.plan.record));
    }

    fn free_blocks(&mut self, freed: &[Freed]) {
        for &Freed { place, .. } in freed {
            self.used = self.used.saturating_sub(u64::from(place.size()));
            self.alloc.freed += u64::from(place.size());
            if place.class == WHOLE {
                self.set_whole(place, 0);
            } else {
                self.push(Entry { at: place.bitmap, change: Change::ClearBit(place.bit()) });
            }
        }
    }

    #[inline(always)]
    fn release_spans(&mut self, freed: usize) {
        if !self.alloc.emptied.is_empty() {
            self.release_some_spans(freed);
        }
    }

    /// Releases some of the spans that earlier commits emptied, so that they can be used for any
    /// class. Limited by the space in the record: a full pool has no space for a longer one.
    fn release_some_spans(&mut self, freed: usize) {
        let space = self.ring.part_words().saturating_sub(self.plan.record.len() + OTHER_WORDS);
        let most = (RELEASED + 4 * freed).min(space / WORDS_OF_RELEASE);
        self.plan.releasing = self.alloc.releasable(most);
        for i in 0..self.plan.releasing.len() {
            if let Some(span) = self.alloc.span(self.plan.releasing[i]) {
                self.give_up(span.number);
            }
        }
    }

    /// Takes or releases a whole span.
    #[cold]
    fn set_whole(&mut self, block: BlockPlace, word: u64) {
        let Some(number) = self.heap.geometry.span_of(block.at) else { return };
        if word == 0 {
            self.give_up(number);
        } else {
            self.set_span(number, word);
        }
    }

    fn give_up(&mut self, span: u32) {
        if FaultPoint::ClearOwner.is_enabled() {
            self.heap.spans.clear_owner(span);
        }
        self.set_span(span, 0);
    }

    fn set_span(&mut self, number: u32, word: u64) {
        self.set(self.heap.geometry.span_word(number), word);
    }

    #[inline(always)]
    fn set(&mut self, at: u64, value: u64) {
        self.push(Entry { at, change: Change::Set(value) });
    }

    #[inline(always)]
    fn push(&mut self, entry: Entry) {
        if self.in_place {
            // SAFETY: a word of this shard, whose lock the caller holds; such words are never read
            // as bytes.
            return unsafe { self.heap.region.change(entry.at, |old| entry.applied_to(old)) };
        }
        if logs(self.heap, &entry) {
            entry.encode(&mut self.plan.record);
        }
        self.plan.words.push(entry.into());
    }
}

/// Returns the checksum of `len` bytes from `at`.
fn checksum(heap: &Heap, at: u64, len: u32) -> u32 {
    // SAFETY: bytes that this transaction wrote; the guard that could change them is the caller's.
    crc32c(unsafe { heap.region.bytes(at, len as usize) })
}

/// Returns true if the record is to contain this entry: always, except in a simulation.
#[inline(always)]
fn logs(heap: &Heap, entry: &Entry) -> bool {
    !cfg!(feature = "sim") || fault_point_of(heap, entry).is_enabled()
}

/// Returns true if a record publishes a new block by one entry: always, except if a simulation
/// leaves half of it out.
#[inline(always)]
fn publishes_at_once(heap: &Heap, set: &Entry) -> bool {
    FaultPoint::ListFresh.is_enabled() && logs(heap, set)
}

/// Returns the fault point of an entry, by what it changes.
fn fault_point_of(heap: &Heap, entry: &Entry) -> FaultPoint {
    let geometry = &heap.geometry;
    match (&entry.change, geometry.span_of(entry.at)) {
        (Change::SetBit(_), _) => FaultPoint::LogPublished,
        (Change::ClearBit(_), _) => FaultPoint::LogFreed,
        (_, Some(span)) if geometry.is_table(span) => FaultPoint::LogSpan,
        (_, Some(_)) => FaultPoint::LogWord,
        (_, None) if (0..geometry.shards).any(|n| geometry.shard_area(n).used() == entry.at) => {
            FaultPoint::LogUsed
        }
        (_, None) => FaultPoint::LogRoot,
    }
}
