//! A locked shard with an open transaction.
//!
//! Only this guard sees what is staged here, through [`View`]; nothing of it is durable or visible
//! to others before [`Shard::commit`]. Dropping the guard drops what was staged.

#![allow(
    unsafe_code,
    reason = "reserved blocks and space after published lengths are written here"
)]

use super::commit::{self, restore_words};
use super::heap::Heap;
use super::lock::StateGuard;
use super::pins::Pin;
use super::release;
use super::span_transfer;
use super::state::{FEW, Freed, Reserved, ShardState, span_group};
use crate::alloc::place::BlockPlace;
use crate::checksum::crc32c;
use crate::error::{CommitError, Full};
use crate::fault_points::FaultPoint;
use crate::layout::size_class::{self, BITMAP_AT, TABLE, WHOLE};
use crate::layout::{ROOTS, SPAN};
use crate::log::record::FreshRange;
use crate::ptr::{Ptr, View};

/// Bytes up to this length are assembled outside the pool before they are written.
const SHORT: usize = 128;
/// How many freed blocks are compared with a newly freed one, when that is checked at all.
const COMPARED: usize = 64;

/// A reserved block that no reader can reach; it belongs to the transaction that reserved it.
#[derive(Debug)]
pub struct Fresh {
    ptr: Ptr,
    capacity: usize,
    index: usize,
}

impl Fresh {
    /// Returns the block's place.
    pub fn ptr(&self) -> Ptr {
        self.ptr
    }

    /// Returns the block's size in bytes.
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

/// A state of the open transaction that it can return to.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {
    staged: usize,
    reserved: usize,
    appended: usize,
    freed: usize,
    undo: usize,
    replaced: usize,
    unpublished: usize,
}

/// A locked shard with an open transaction.
#[derive(Debug)]
pub struct Shard<'h> {
    heap: &'h Heap,
    id: usize,
    pub(crate) state: StateGuard<'h>,
}

impl View for Shard<'_> {
    #[inline]
    fn word(&self, at: Ptr) -> u64 {
        if self.state.tx.staged.touches_line(at.raw()) {
            return self.word_with_staged(at);
        }
        self.heap.region.load(at.raw())
    }

    #[inline]
    fn line(&self, at: Ptr) -> [u64; 8] {
        let mut line = self.heap.region.line(at.raw());
        if self.state.tx.staged.touches_line(at.raw()) {
            self.apply_staged(at, &mut line);
        }
        line
    }

    #[inline]
    fn tagged(&self, at: Ptr, tag: u16) -> u8 {
        if self.state.tx.staged.touches_line(at.raw()) {
            return self.tagged_with_staged(at, tag);
        }
        self.heap.region.tagged(at.raw(), tag)
    }

    #[inline]
    fn bytes(&self, at: Ptr, len: usize) -> &[u8] {
        // SAFETY: bytes of a block change only through this guard, by methods that borrow it
        // mutably (those of a reserved block, and those after a published length), so not while the
        // slice lives.
        unsafe { self.heap.region.bytes(at.raw(), len) }
    }

    #[inline]
    fn prefetch(&self, at: Ptr) {
        self.heap.region.prefetch(at.raw());
    }
}

impl<'h> Shard<'h> {
    /// Makes the open transaction see the shard as it was at a cut of which this shard has a part,
    /// until the transaction ends. It must not change anything.
    pub(crate) fn read_as_of(&mut self, cut: u64) {
        let state = &mut *self.state;
        debug_assert!(state.tx.is_blank(), "what was staged is of another time");
        let part = state.snapshots.iter().position(|part| part.cut.number == cut);
        // If no word has changed since, it sees the present state.
        if let Some(part) = part.filter(|&part| state.snapshots[part].overlay.words() > 0) {
            state.as_of = Some(part);
            state.tx.staged.touch_all();
            // No longer blank, so that dropping this guard ends the transaction.
            state.tx.has_savepoint = true;
        }
    }

    /// Like [`View::word`], if the word's line may be staged.
    #[cold]
    #[inline(never)]
    fn word_with_staged(&self, at: Ptr) -> u64 {
        let saved = || self.state.saved_words().and_then(|words| words.get(at.raw()));
        let staged = self.state.tx.staged.newest(at.raw());
        staged.or_else(saved).unwrap_or_else(|| self.heap.region.load(at.raw()))
    }

    /// Overwrites the words of a line with the staged ones.
    #[inline(never)]
    fn apply_staged(&self, at: Ptr, line: &mut [u64; 8]) {
        if let Some(words) = self.state.saved_words() {
            words.apply_to_line(at.raw(), line);
        }
        self.state.tx.staged.apply_to_line(at.raw(), line);
    }

    /// Like [`View::tagged`], if a word of the line may be staged.
    #[inline(never)]
    fn tagged_with_staged(&self, at: Ptr, tag: u16) -> u8 {
        let is_tagged = |value: u64| u8::from((value >> 48) as u16 == tag);
        if self.state.as_of.is_some() {
            let line = self.line(at).into_iter().enumerate();
            return line.fold(0, |bits, (word, value)| bits | is_tagged(value) << word);
        }
        let mut bits = self.heap.region.tagged(at.raw(), tag);
        self.state.tx.staged.each_of_line(at.raw(), |word, value| {
            bits = bits & !(1 << word) | is_tagged(value) << word;
        });
        bits
    }

    #[inline]
    pub(super) fn new(heap: &'h Heap, id: usize, state: StateGuard<'h>) -> Shard<'h> {
        Shard { heap, id, state }
    }

    /// Returns the shard's number.
    pub fn id(&self) -> usize {
        self.id
    }

    /// Unlocks the shard, in which nothing was done, without waking the waiter that has this
    /// ticket.
    #[cold]
    pub(super) fn unlock_quietly(mut self, ticket: u64) {
        self.state.unlocked_by(ticket);
    }

    /// Returns the heap that the shard belongs to.
    pub fn heap(&self) -> &'h Heap {
        self.heap
    }

    /// Returns the place of root word `n`, below [`crate::ROOTS`]. Roots of a new pool are 0.
    pub fn root(&self, n: usize) -> Ptr {
        assert!(n < ROOTS, "a shard has {} roots", ROOTS);
        Ptr::from_raw(self.heap.area(self.id).root(n))
    }

    /// Stages a new value of the word at `at`: a root, or a word of a block of this shard.
    #[inline]
    pub fn set(&mut self, at: Ptr, value: u64) {
        if self.heap.volatile && self.state.changes_at_once() {
            return self.set_at_once(at, value);
        }
        if self.state.tx.reserved_in & span_group(at.raw()) != 0
            && let Some(index) = self.reserved_with(at.raw())
            && FaultPoint::PatchReserved.is_enabled()
        {
            return self.set_reserved(index, at, value);
        }
        self.state.tx.staged.set(at.raw(), value);
    }

    /// Reserves a block of at least `len` bytes, 1 to [`crate::MAX_BLOCK`]. Its content is
    /// undefined.
    #[inline]
    pub fn reserve(&mut self, len: usize) -> Result<Fresh, Full> {
        let class = size_class::for_len(len).ok_or(Full)?;
        match self.state.alloc.reserve_fast(class) {
            Some(place) => Ok(self.enter(Reserved::new(place))),
            None => self.reserve_slow(class),
        }
    }

    #[cold]
    fn reserve_slow(&mut self, class: u8) -> Result<Fresh, Full> {
        let place = self.take_block(class)?;
        Ok(self.enter(Reserved::new(place)))
    }

    /// Returns a free block of `class` from this shard, or else from a span that another shard does
    /// not need.
    pub(crate) fn take_block(&mut self, class: u8) -> Result<BlockPlace, Full> {
        match self.try_take_block(class) {
            Some(place) => Ok(place),
            None => self.take_block_of_others(class),
        }
    }

    fn try_take_block(&mut self, class: u8) -> Option<BlockPlace> {
        let ShardState { alloc, tx, .. } = &mut *self.state;
        alloc.reserve(&self.heap.region, &self.heap.spans, class, tx.may_use_reserve)
    }

    /// Takes a block that a reader held, or one of another shard's span. Gives up a snapshot that
    /// holds blocks before it reports that there is no space.
    #[cold]
    fn take_block_of_others(&mut self, class: u8) -> Result<BlockPlace, Full> {
        self.state.alloc.empty_caches();
        loop {
            let returned =
                release::return_held(self.heap, self.id, &mut self.state, release::FOR_SPANS);
            if returned > 0
                && let Some(place) = self.try_take_block(class)
            {
                return Ok(place);
            }
            while span_transfer::from_others(self.heap, self.id) {
                if let Some(place) = self.try_take_block(class) {
                    return Ok(place);
                }
            }
            if !self.heap.give_snapshot_up() {
                return self.take_larger_block(class);
            }
            release::release_given_up(self.heap, &mut self.state);
        }
    }

    /// Writes `bytes` at offset `at` of a reserved block. Cheapest if the block is written in
    /// order, from its start.
    pub fn write(&mut self, fresh: &Fresh, at: usize, bytes: &[u8]) {
        let cached = self.put(fresh, at, bytes);
        if !self.heap.volatile {
            self.state.tx.reserved[fresh.index].wrote(at as u32, bytes, cached);
        }
    }

    /// Like [`Shard::write`], for bytes whose CRC-32C is `crc`, so that they need not be read again
    /// for it.
    pub fn write_checksummed(&mut self, fresh: &Fresh, at: usize, bytes: &[u8], crc: u32) {
        let cached = self.put(fresh, at, bytes);
        if !self.heap.volatile {
            self.state.tx.reserved[fresh.index].wrote_checksummed(at as u32, bytes, crc, cached);
        }
    }

    /// Copies bytes into a reserved block, through the cache or past it; returns true if through
    /// it.
    #[inline]
    fn put(&mut self, fresh: &Fresh, at: usize, bytes: &[u8]) -> bool {
        assert!(at + bytes.len() <= fresh.capacity, "a write past the block's end");
        let to = fresh.ptr.raw() + at as u64;
        let through_cache = bytes.len() < pmem::STREAM_FROM;
        if through_cache {
            // SAFETY: a reserved block is reached by this guard alone, which is borrowed mutably.
            unsafe { self.heap.region.write(to, bytes) };
        } else {
            // SAFETY: as above.
            unsafe { self.heap.region.write_streaming(to, bytes) };
        }
        through_cache
    }

    /// Lets `fill` write `len` bytes at offset `at` of a reserved block in place. It must write all
    /// of them: their previous content is undefined. For short values; long ones should go past the
    /// cache with [`Shard::write`].
    #[inline]
    pub fn write_with(
        &mut self,
        fresh: &Fresh,
        at: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        assert!(at + len <= fresh.capacity, "a write past the block's end");
        let to = fresh.ptr.raw() + at as u64;
        if !self.heap.volatile && len <= SHORT {
            // The checksum is computed before the bytes are stored: reading them back would wait
            // for their lines.
            let mut bytes = [0; SHORT];
            let bytes = &mut bytes[..len];
            fill(bytes);
            // SAFETY: a reserved block is reached by this guard alone, which is borrowed mutably.
            unsafe { self.heap.region.write(to, bytes) };
            return self.state.tx.reserved[fresh.index].wrote(at as u32, bytes, true);
        }
        // SAFETY: a reserved block is reached by this guard alone, which is borrowed mutably; the
        // filled bytes are looked at before it is used again.
        let filled = unsafe { self.heap.region.write_with(to, len, fill) };
        if let Some(bytes) = filled
            && !self.heap.volatile
        {
            self.state.tx.reserved[fresh.index].wrote(at as u32, bytes, true);
        }
    }

    /// Writes a word, little endian, at offset `at`, a multiple of 8.
    pub fn write_word(&mut self, fresh: &Fresh, at: usize, value: u64) {
        self.write(fresh, at, &value.to_le_bytes());
    }

    /// Makes the first `len` bytes of a reserved block, all of which were written, part of the
    /// transaction. A block that is not published is returned at the end of the transaction.
    pub fn publish(&mut self, fresh: Fresh, len: usize) -> Ptr {
        assert!(len <= fresh.capacity, "published past the block's end");
        self.state.tx.publish(fresh.index, len as u32);
        fresh.ptr
    }

    /// Writes after the published length of a block of this shard, within [`Shard::capacity`].
    /// Publish the new length with [`Shard::set`].
    pub fn append(&mut self, block: Ptr, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.capacity(block), "an append past the block's end");
        let to = block.raw() + at as u64;
        // SAFETY: the bytes are past the length that readers know; this guard is borrowed mutably.
        unsafe { self.heap.region.write(to, bytes) };
        if let Some(index) = self.reserved_with(to) {
            let reserved = &mut self.state.tx.reserved[index];
            reserved.wrote(at as u32, bytes, true);
            let end = (at + bytes.len()) as u32;
            if let Some(len) = reserved.published.filter(|&len| len < end) {
                debug_assert!(len as usize <= at, "an append over published bytes");
                self.state.tx.publish(index, end);
            }
            return;
        }
        let crc = if self.heap.volatile { 0 } else { crc32c(bytes) };
        let range = FreshRange { at: to, len: bytes.len() as u32, crc, verified: true };
        self.state.tx.appended.push(range);
    }

    /// Returns the size in bytes of an allocated block of this shard; 0 if there is none.
    pub fn capacity(&self, block: Ptr) -> usize {
        let class = self.state.alloc.class_at(&self.heap.region, block.raw());
        class.map_or(0, |class| TABLE[class as usize].size as usize)
    }

    /// Announces that a block of this shard will be freed: prefetches the start of its span's
    /// bitmap, which is rarely in the CPU cache.
    #[inline]
    pub fn expect_free(&self, block: Ptr) {
        self.heap.region.prefetch((block.raw() & !(SPAN - 1)) + BITMAP_AT);
    }

    /// Frees a block of this shard when the transaction commits.
    #[inline]
    pub fn free(&mut self, block: Ptr) {
        match self.state.alloc.taken_if_known(block.raw()) {
            Some(place) => self.free_taken(place),
            None => self.free_slow(block),
        }
    }

    /// Frees a block that is a whole span, or whose span has not been visited.
    #[cold]
    fn free_slow(&mut self, block: Ptr) {
        match self.state.alloc.taken(&self.heap.region, block.raw()) {
            Some(place) => self.free_taken(place),
            None => self.free_own(block),
        }
    }

    #[inline(always)]
    fn free_taken(&mut self, place: BlockPlace) {
        if self.is_allocated(&place) {
            self.record_freed(place, false);
        } else {
            self.free_own(Ptr::from_raw(place.at));
        }
    }

    /// Frees a block that this transaction reserved. Any other block here is already free: only a
    /// damaged structure leads to it.
    #[cold]
    fn free_own(&mut self, block: Ptr) {
        let own = self.reserved_with(block.raw()).map(|own| self.state.tx.reserved[own].place);
        match own.filter(|place| place.at == block.raw()) {
            Some(place) => self.record_freed(place, true),
            None => self.heap.count_damage(),
        }
    }

    /// Returns true if a taken block is allocated in the pool. If not, the open transaction
    /// reserved it.
    #[inline(always)]
    fn is_allocated(&self, place: &BlockPlace) -> bool {
        place.class == WHOLE || self.heap.region.load(place.bitmap) >> place.bit() & 1 != 0
    }

    #[inline(always)]
    fn record_freed(&mut self, place: BlockPlace, own: bool) {
        let freed = Freed { place, own };
        let state = &mut *self.state;
        let mut before = state.tx.freed.iter().rev().take(COMPARED);
        debug_assert!(!before.any(|f| f.place == freed.place), "freed twice");
        state.tx.freed.push(freed);
        if !FaultPoint::ReuseAfterFence.is_enabled() {
            state.alloc.release(freed.place);
        }
    }

    /// Returns true if the span of this block is mostly empty, so that moving the block elsewhere
    /// helps to free the span.
    pub fn is_sparse(&self, block: Ptr) -> bool {
        self.state.alloc.is_sparse(&self.heap.region, block.raw())
    }

    /// Allows or forbids reservations to use the emergency reserve, which is kept for deletes,
    /// until the end of the transaction; returns the previous setting.
    pub fn allow_reserve(&mut self, yes: bool) -> bool {
        std::mem::replace(&mut self.state.tx.may_use_reserve, yes)
    }

    /// Preserves the blocks that are allocated now while the pin lives, so that [`Heap::pinned`]
    /// can read them without the lock.
    pub fn pin(&self) -> Pin {
        self.heap.slots[self.id].pins.take()
    }

    /// Marks the state of the transaction, for [`Shard::rollback_to`].
    pub fn savepoint(&mut self) -> Savepoint {
        let tx = &mut self.state.tx;
        tx.has_savepoint = true;
        Savepoint {
            staged: tx.staged.mark(),
            reserved: tx.reserved.len(),
            appended: tx.appended.len(),
            freed: tx.freed.len(),
            undo: tx.undo.len(),
            replaced: tx.replaced.len(),
            unpublished: tx.unpublished.len(),
        }
    }

    /// Drops what was staged, reserved and freed since a savepoint, the newest or an earlier one.
    pub fn rollback_to(&mut self, to: Savepoint) {
        let heap = self.heap;
        let state = &mut *self.state;
        // Changes in place were made last: a snapshot can end during a transaction, but not begin.
        restore_words(heap, &mut state.tx, to.replaced);
        while state.tx.undo.len() > to.undo {
            if let Some((at, old)) = state.tx.undo.pop() {
                // SAFETY: the word is in a block that this transaction reserved.
                unsafe { heap.region.store(at, old) };
            }
        }
        while state.tx.unpublished.len() > to.unpublished {
            if let Some((index, before)) = state.tx.unpublished.pop() {
                state.tx.reserved[index].published = before;
            }
        }
        while state.tx.reserved.len() > to.reserved {
            let Some(Reserved { place, .. }) = state.tx.reserved.pop() else { break };
            state.tx.reserved_table.forget_last(state.tx.reserved.len(), &place);
            state.alloc.release(place);
        }
        state.tx.staged.truncate(to.staged);
        state.tx.appended.truncate(to.appended);
        state.tx.freed.truncate(to.freed);
    }

    /// Returns true if the transaction changes anything.
    pub fn is_dirty(&self) -> bool {
        self.state.tx.is_dirty()
    }

    /// Makes the transaction durable, with one fence, and then visible. Opens a new transaction.
    pub fn commit(&mut self) -> Result<(), CommitError> {
        commit::one(self.heap, self.id, &mut self.state)
    }

    /// Drops everything that the transaction staged, reserved and freed.
    pub fn rollback(&mut self) {
        commit::abandon(self.heap, self.id, &mut self.state);
    }

    #[inline(always)]
    pub(crate) fn enter(&mut self, reserved: Reserved) -> Fresh {
        let place = reserved.place;
        let tx = &mut self.state.tx;
        let index = tx.reserved.len();
        tx.reserved.push(reserved);
        tx.reserved_in |= span_group(place.at);
        Fresh { ptr: Ptr::from_raw(place.at), capacity: place.size() as usize, index }
    }

    /// Returns the reserved block that contains `at`.
    fn reserved_with(&mut self, at: u64) -> Option<usize> {
        let ShardState { tx, alloc, .. } = &mut *self.state;
        if tx.reserved.len() <= FEW {
            return tx.reserved.iter().rposition(|r| r.holds(at));
        }
        tx.reserved_at(&alloc.block_with(at)?)
    }

    /// Changes a word in place, without a record. The lock hides it from others until the
    /// transaction commits; if it does not commit, the old value is restored.
    #[inline]
    fn set_at_once(&mut self, at: Ptr, value: u64) {
        let tx = &mut self.state.tx;
        // A long loop over one structure changes the same few words repeatedly.
        let is_known = tx.replaced.len() > 64
            && !tx.has_savepoint
            && tx.replaced.iter().rev().take(4).any(|(known, _)| *known == at.raw());
        let change = |old| {
            if !is_known {
                tx.replaced.push((at.raw(), old));
            }
            value
        };
        // SAFETY: a word of this shard, which is locked by this guard, borrowed mutably; such words
        // are never read as bytes.
        unsafe { self.heap.region.change(at.raw(), change) };
    }

    /// Changes a word of a block that this transaction reserved, as bytes: a record never targets
    /// its own fresh ranges.
    fn set_reserved(&mut self, index: usize, at: Ptr, value: u64) {
        let region = &self.heap.region;
        let tx = &mut self.state.tx;
        if tx.has_savepoint {
            tx.undo.push((at.raw(), region.load(at.raw())));
        }
        // SAFETY: the block is reserved by this guard, which is borrowed mutably.
        unsafe { region.store(at.raw(), value) };
        let reserved = &mut tx.reserved[index];
        let from = (at.raw() - reserved.place.at) as u32;
        reserved.cached = (reserved.cached.0.min(from), reserved.cached.1.max(from + 8));
        reserved.checksummed = None;
        reserved.fenced = false;
    }
}

impl Drop for Shard<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.state.tx.is_blank() {
            self.rollback();
        }
    }
}
