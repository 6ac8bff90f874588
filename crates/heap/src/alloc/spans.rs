//! The spans that belong to no shard, and the growth of the pool.
//!
//! A pool is opened without looking at its spans. When space is needed, a cursor goes through the
//! span table: a span whose word is 0 is free; any other is reported to the shard that owns it,
//! which may have free blocks in it. In a new pool the cursor is simply the frontier. Free spans
//! that a shard releases go to the free list.
//!
//! Some free spans are holes of the file: their space was given back ([`super::punch`]), in this
//! incarnation or an earlier one, and is reserved again before a shard gets them. The holes of this
//! incarnation are known in DRAM; the file itself reports earlier ones when the cursor gets there.
//!
//! Invariants: a span number leaves this structure once, as free for one shard or as found for its
//! owner; a span that leaves as free has its space.

#![allow(unsafe_code, reason = "the number of zones is stored, and space of free spans reserved")]

use super::lead::{self, GROUP};
use super::log_space::{LogSpace, needs_no_space};
use super::runs::Runs;
use crate::fault_points::{self, FaultPoint};
use crate::layout::span::split_span_word;
use crate::layout::{Geometry, SPAN, ZONES_WORD};
use crate::media_errors::is_resolving;
use pmem::{Domain, Region};
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// The result of `take`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A free span, now the shard's.
    Free(u32),
    /// Spans of the shard from before the pool was opened: number and class.
    Found(Vec<(u32, u8)>),
    /// Nothing is left.
    Nothing,
}

/// Spans whose space is reserved at once in the background: 8 MiB.
const AHEAD: u32 = 128;
/// This many spans are few when there will be no more: 4 MiB.
const FEW: usize = 64;
/// Maximum number of spans of a hole that the cursor enters at once.
const HOLE: u32 = 1024;

#[derive(Debug)]
pub(crate) struct FreeSpans {
    /// Spans before this one have been looked at.
    pub(crate) cursor: u32,
    /// Spans in published zones.
    pub(crate) total: u32,
    /// Free spans with their space; the last one is taken first.
    pub(crate) free: Vec<u32>,
    /// How many of the first entries of `free` nobody has taken since the last check.
    pub(crate) rested: usize,
    /// Free spans with their space that are to give it back.
    pub(crate) idle: Runs,
    /// Free spans without space.
    pub(crate) holes: Runs,
    /// Nobody has needed a hole since space was last given back.
    pub(crate) quiet: bool,
    /// The file system refused to take space: not to be tried again before some time has passed.
    pub(crate) refused: bool,
    /// Somebody has taken free spans out of their list and will return them soon.
    pub(crate) moves: bool,
    /// Spans before this one may be holes when the cursor reaches them: those that existed when the
    /// pool was opened, and those that have been given back since.
    pub(crate) suspect: u32,
    /// Spans before this one that the cursor has not reached are certainly holes.
    hollow: u32,
    /// Spans before this one are no holes, according to the file.
    solid: u32,
    /// Spans before this one have been swept ([`super::punch`]).
    pub(crate) swept: u32,
    /// Spans ahead of the cursor that their owner released in this incarnation: the cursor must
    /// skip them.
    pub(crate) ahead: FxHashSet<u32>,
    found: Vec<Vec<(u32, u8)>>,
}

impl FreeSpans {
    /// Returns a free span with its space.
    fn pop(&mut self) -> Option<u32> {
        let span = self.free.pop();
        self.rested = self.rested.min(self.free.len());
        span.or_else(|| self.idle.pop_first())
    }

    /// Returns the number of free spans at hand.
    pub(crate) fn ready(&self) -> usize {
        self.free.len() + self.idle.len()
    }

    /// Makes all idle spans ordinary free ones again: they are not given back.
    pub(crate) fn keep_idle(&mut self) {
        let idle = std::mem::take(&mut self.idle);
        self.free.extend(idle.into_numbers());
    }

    /// Returns how many spans are certainly free and have their space.
    pub(crate) fn certain(&self) -> usize {
        self.ready() + self.total.saturating_sub(self.cursor.max(self.suspect)) as usize
    }

    /// Returns how many free spans have their space, as far as is known: spans that the cursor has
    /// not reached may be in use, or holes.
    fn with_space(&self) -> usize {
        self.ready() + (self.total - self.cursor.max(self.hollow)) as usize
    }

    /// Returns how many spans are in use, as far as is known; all of those in earlier zones.
    fn in_use(&self, geometry: &Geometry) -> usize {
        let earlier = self.total as usize - geometry.zone_spans;
        let seen = (self.cursor as usize).saturating_sub(self.holes.len() + self.ready());
        seen.max(earlier)
    }

    /// Returns how many spans are free, as far as is known: spans that the cursor has not reached
    /// may be in use.
    fn unused(&self) -> usize {
        self.ready() + self.holes.len() + (self.total - self.cursor) as usize
    }
}

/// The result of trying to get more free spans with space.
#[derive(Debug, PartialEq, Eq)]
enum Refilled {
    Yes,
    /// There are no holes.
    NoHole,
    /// The file system has no space.
    Refused,
}

/// What the cursor found.
enum Scanned {
    Free(u32),
    /// A span that belongs to a shard; it is in `found`.
    Found,
    /// Free spans without space; they are in `holes`.
    Hole,
    /// A span that the cursor must skip.
    Nothing,
    /// A word that may read as zero because it was lost: the cursor stays where it is.
    Lost,
}

/// A read of words of the span table: a word that the medium lost reads as zero, which would mean a
/// free span.
struct Reading {
    resolutions: u64,
    errors: u64,
}

impl Reading {
    fn begin(region: &Region) -> Reading {
        Reading { resolutions: region.resolutions(), errors: region.media_errors() }
    }

    /// Returns true if what was read since may be wrong. A thread that resolves losses already
    /// knows all of them except those found since.
    fn has_lost(&self, region: &Region) -> bool {
        region.has_lost_since(self.resolutions)
            && (!is_resolving() || region.media_errors() != self.errors)
    }
}

#[derive(Debug)]
pub(crate) struct SpanAllocator {
    geometry: Geometry,
    /// The pool grows up to this many zones.
    max_zones: AtomicU64,
    /// Free spans that only deletes may take.
    pub(crate) kept: usize,
    /// Few spans are left, and there will be no more.
    pub(crate) scarce: AtomicBool,
    /// The last attempt to get space for the file failed.
    pub(crate) cannot_grow: AtomicBool,
    pub(crate) log_space: LogSpace,
    /// Held while space is given back or reserved in the background without the lock of `inner`.
    /// Locked before `inner`.
    moving: Mutex<()>,
    inner: Mutex<FreeSpans>,
}

impl SpanAllocator {
    /// Creates the allocator over the spans of `zones` zones; nothing is known about them, except
    /// whether they are new. If the file is already longer, the part after them may be a hole too.
    pub(crate) fn new(
        region: &Region,
        geometry: Geometry,
        zones: u64,
        max_zones: u64,
        is_new: bool,
    ) -> SpanAllocator {
        let total = (zones * geometry.zone_spans as u64) as u32;
        let is_longer = region.may_be_punched() && region.len() > geometry.pool_bytes(zones);
        let in_file = if is_longer { geometry.span_of(region.len()).unwrap_or(total) } else { 0 };
        let most = max_zones as usize * geometry.zone_spans;
        let log_space = LogSpace::new(region, geometry, is_new);
        // A new pool with a journal has no space for its spans yet.
        let is_hollow = is_new && region.domain() == Domain::Journal;
        let is_new = is_new && !is_hollow;
        SpanAllocator {
            geometry,
            log_space,
            max_zones: AtomicU64::new(max_zones),
            kept: (geometry.shards + 2).min(most / 8),
            scarce: AtomicBool::new(false),
            cannot_grow: AtomicBool::new(false),
            moving: Mutex::new(()),
            inner: Mutex::new(FreeSpans {
                cursor: 0,
                total,
                free: Vec::new(),
                rested: 0,
                idle: Runs::default(),
                holes: Runs::default(),
                quiet: false,
                refused: false,
                moves: false,
                suspect: if is_new { in_file } else { total.max(in_file) },
                hollow: if is_hollow { total } else { 0 },
                solid: 0,
                swept: 0,
                ahead: FxHashSet::default(),
                found: vec![Vec::new(); geometry.shards],
            }),
        }
    }

    /// Returns a free span for `shard`, or spans that it already owns; grows the pool if there is
    /// none.
    pub(crate) fn take(&self, region: &Region, shard: usize, may_use_reserve: bool) -> Taken {
        let has_log = self.log_space.reserve(region, shard);
        let mut inner = self.lock();
        self.note_scarcity(&inner);
        loop {
            if !inner.found[shard].is_empty() {
                return Taken::Found(std::mem::take(&mut inner.found[shard]));
            }
            if !has_log {
                return Taken::Nothing;
            }
            let is_low = !may_use_reserve && inner.certain() <= self.kept;
            if !is_low && let Some(span) = inner.pop() {
                return Taken::Free(span);
            }
            match self.look(region, &mut inner) {
                Some(Taken::Free(span)) if is_low => inner.free.push(span),
                Some(Taken::Found(_)) => {}
                Some(other) => return other,
                None if inner.moves => {
                    drop(inner);
                    let _nobody_moves = self.move_spans();
                    inner = self.lock();
                    inner.moves = false;
                }
                None if self.refill(region, &mut inner) => {}
                None => return Taken::Nothing,
            }
        }
    }

    /// Takes this shard's spans that the cursor has found, with their classes.
    pub(crate) fn found(&self, shard: usize) -> Vec<(u32, u8)> {
        std::mem::take(&mut self.lock().found[shard])
    }

    /// Records, before the release is logged, that a shard releases one of its spans. The shard
    /// keeps it as a free one, so the cursor must not later find it without an owner.
    pub(crate) fn clear_owner(&self, span: u32) {
        pmem::panic_point();
        let mut inner = self.lock();
        if span >= inner.cursor {
            inner.ahead.insert(span);
        }
    }

    /// Adds spans whose release is durable and retired to the free ones, for any shard. Returns
    /// true if there are now more than the reserve for deletes.
    pub(crate) fn give(&self, spans: impl IntoIterator<Item = u32>) -> bool {
        pmem::panic_point();
        let mut inner = self.lock();
        inner.free.extend(spans);
        self.note_scarcity(&inner);
        inner.certain() > self.kept
    }

    fn note_scarcity(&self, inner: &FreeSpans) {
        let few = self.kept + (self.max_zones() as usize * self.geometry.zone_spans / 64).min(FEW);
        let scarce = inner.unused() <= few
            && u64::from(inner.total) >= self.max_zones() * self.geometry.zone_spans as u64;
        if self.scarce.load(Relaxed) != scarce {
            self.scarce.store(scarce, Relaxed);
        }
    }

    /// Like [`SpanAllocator::give`], for spans that nobody has taken for a while.
    pub(crate) fn give_rested(&self, spans: Vec<u32>) {
        pmem::panic_point();
        let mut inner = self.lock();
        inner.rested += spans.len();
        inner.free.splice(0..0, spans);
    }

    /// Reserves the space of a hole, or adds a zone, when at most half a zone is left, unless
    /// nobody has needed space since some was given back. Runs in a background thread: writers
    /// continue while the medium makes a zone.
    pub(crate) fn grow_ahead(&self, region: &Region) -> bool {
        let total = {
            let moving = self.move_spans();
            let inner = self.lock();
            let half = self.geometry.zone_spans / 2;
            if inner.holes.len() > 0 {
                let is_due = inner.ready() <= self.ahead(region, &inner) && !inner.quiet;
                drop(inner);
                let is_backed = is_due && self.back_ahead(region);
                drop(moving);
                return is_backed;
            }
            if inner.unused() > half {
                return false;
            }
            inner.total
        };
        let zones = u64::from(total) / self.geometry.zone_spans as u64;
        if zones >= self.max_zones() {
            return false;
        }
        if region.grow(self.geometry.pool_bytes(zones + 1)).is_err() {
            return false;
        }
        let mut inner = self.lock();
        // A writer that could not wait may have been faster.
        inner.total == total && self.grow_locked(region, &mut inner)
    }

    /// Returns how many free spans should have their space ahead of need.
    fn ahead(&self, region: &Region, inner: &FreeSpans) -> usize {
        lead::ahead(region, inner.in_use(&self.geometry), self.geometry.zone_spans)
    }

    /// Reserves the space of a hole while writers continue. The caller holds `moving`.
    fn back_ahead(&self, region: &Region) -> bool {
        let offset = self.group_offset();
        let mut inner = self.lock();
        let most = (self.ahead(region, &inner) as u32).min(AHEAD);
        let whole = inner.holes.take_groups(offset, GROUP, most);
        let Some(run) = whole.or_else(|| inner.holes.take_in_group(offset, GROUP)) else {
            return false;
        };
        inner.moves = true;
        drop(inner);
        let is_backed = self.back(region, &run);
        let mut inner = self.lock();
        if is_backed {
            inner.free.extend(run.rev());
        } else {
            inner.holes.insert(run);
            // Writers will try again, for less.
            inner.quiet = true;
        }
        is_backed
    }

    /// Returns the number of bytes of all spans that the pool may grow to.
    pub(crate) fn limit(&self) -> u64 {
        let spans = self.geometry.zone_spans as u64 - self.geometry.table_spans();
        self.max_zones() * spans * SPAN
    }

    /// Returns the number of bytes of spans that are free or were never used, as far as is known.
    pub(crate) fn available(&self) -> u64 {
        let inner = self.lock();
        let zones = self.max_zones() - u64::from(inner.total) / self.geometry.zone_spans as u64;
        (inner.unused() as u64 + zones * self.geometry.zone_spans as u64) * SPAN
    }

    /// Returns the number of bytes of free spans that have their space, as far as is known.
    pub(crate) fn free_space(&self) -> u64 {
        self.lock().with_space() as u64 * SPAN
    }

    /// Returns the maximum number of zones.
    pub(crate) fn max_zones(&self) -> u64 {
        self.max_zones.load(Relaxed)
    }

    /// Sets the maximum number of zones; at least as many as there are.
    pub(crate) fn set_max_zones(&self, zones: u64) {
        let inner = self.lock();
        let there_are = u64::from(inner.total) / self.geometry.zone_spans as u64;
        self.max_zones.store(zones.max(there_are), Relaxed);
        self.note_scarcity(&inner);
    }

    /// Returns true if the pool cannot have more zones, and no space has been given back.
    pub(crate) fn is_at_limit(&self) -> bool {
        self.zones() >= self.max_zones() && self.lock().holes.len() == 0
    }

    /// Returns the current number of zones.
    pub(crate) fn zones(&self) -> u64 {
        u64::from(self.lock().total) / self.geometry.zone_spans as u64
    }

    /// Moves the cursor to the next free span, or past one that belongs to a shard, unless the
    /// space of a known hole can be reserved. Returns `None` if a part of the span table was lost,
    /// so that this cannot be decided.
    pub(crate) fn look(&self, region: &Region, inner: &mut FreeSpans) -> Option<Taken> {
        // A span that certainly has its space needs no system call.
        let is_certain = (inner.suspect..inner.total).contains(&inner.cursor);
        let known = if is_certain { Refilled::NoHole } else { self.refill_hole(region, inner) };
        if known == Refilled::Yes {
            return inner.pop().map(Taken::Free);
        }
        let mut refused = known == Refilled::Refused;
        while inner.cursor < inner.total {
            match self.look_at_next(region, inner) {
                Scanned::Free(span) => return Some(Taken::Free(span)),
                Scanned::Found => return Some(Taken::Found(Vec::new())),
                Scanned::Hole if !refused => {
                    refused = self.refill_hole(region, inner) != Refilled::Yes;
                    if let Some(span) = inner.pop() {
                        return Some(Taken::Free(span));
                    }
                }
                Scanned::Hole | Scanned::Nothing => {}
                Scanned::Lost => return Some(Taken::Nothing),
            }
        }
        None
    }

    /// Moves the cursor past one span, or past several that form one hole.
    fn look_at_next(&self, region: &Region, inner: &mut FreeSpans) -> Scanned {
        let reading = Reading::begin(region);
        let span = inner.cursor;
        inner.cursor += 1;
        if self.geometry.is_table(span) || inner.ahead.remove(&span) {
            return Scanned::Nothing;
        }
        let word = region.load(self.geometry.span_word(span));
        if word != 0 {
            let Some((class, owner)) = split_span_word(word, self.geometry.shards) else {
                return Scanned::Nothing;
            };
            inner.found[owner].push((span, class));
            return Scanned::Found;
        }
        let hole = self.hole_at(region, inner, span);
        let end = hole.map_or(span + 1, |end| {
            let end = end.min(span + HOLE);
            let is_free = |next: &u32| self.is_free_ahead(region, inner, *next);
            (span + 1..end).take_while(is_free).last().unwrap_or(span) + 1
        });
        if reading.has_lost(region) {
            inner.cursor = span;
            return Scanned::Lost;
        }
        if hole.is_none() {
            return Scanned::Free(span);
        }
        inner.cursor = end;
        inner.holes.insert(span..end);
        Scanned::Hole
    }

    /// Returns the end of the hole if a part of this span, where the cursor is, belongs to one. The
    /// kernel searches for the next hole, however far away, so its answer is remembered: no span
    /// ahead of the cursor loses its space without being in `ahead`.
    fn hole_at(&self, region: &Region, inner: &mut FreeSpans, span: u32) -> Option<u32> {
        if span >= inner.suspect || span < inner.solid {
            return None;
        }
        let end = self.geometry.span_at(inner.total);
        let Some(hole) = region.hole_in(self.geometry.span_at(span), end) else {
            inner.solid = inner.total;
            return None;
        };
        let span_of = |at: u64| self.geometry.span_of(at).unwrap_or(0);
        inner.solid = if hole.start >= end { inner.total } else { span_of(hole.start) };
        (inner.solid <= span).then(|| span_of(hole.end.min(end)).clamp(span + 1, inner.total))
    }

    /// Returns true if a span that the cursor has not reached is free, and has been since the pool
    /// was opened.
    pub(crate) fn is_free_ahead(&self, region: &Region, inner: &FreeSpans, span: u32) -> bool {
        !self.geometry.is_table(span)
            && !inner.ahead.contains(&span)
            && region.load(self.geometry.span_word(span)) == 0
    }

    /// Adds free spans with space, from a hole or from a new zone.
    fn refill(&self, region: &Region, inner: &mut FreeSpans) -> bool {
        match self.refill_hole(region, inner) {
            Refilled::Yes => true,
            Refilled::NoHole => self.grow_locked(region, inner),
            Refilled::Refused => false,
        }
    }

    /// Reserves the space of some spans of a hole; of one if there is no space for more.
    fn refill_hole(&self, region: &Region, inner: &mut FreeSpans) -> Refilled {
        pmem::panic_point();
        let size = lead::refill_size(region, inner.in_use(&self.geometry));
        let Some(run) = inner.holes.take_in_group(self.group_offset(), size) else {
            return Refilled::NoHole;
        };
        inner.quiet = false;
        let mut backed = run.clone();
        while !self.back(region, &backed) {
            if backed.len() == 1 {
                inner.holes.insert(run);
                self.cannot_grow.store(true, Relaxed);
                return Refilled::Refused;
            }
            let less = if backed.len() as u32 > GROUP { GROUP } else { 1 };
            backed.end = backed.start + less;
        }
        self.cannot_grow.store(false, Relaxed);
        inner.holes.insert(backed.end..run.end);
        inner.free.extend(backed.rev());
        Refilled::Yes
    }

    pub(crate) fn back(&self, region: &Region, spans: &Range<u32>) -> bool {
        let (from, to) = (self.geometry.span_at(spans.start), self.geometry.span_at(spans.end));
        // SAFETY: the spans are free and belong to this structure alone: nobody reads or writes
        // them.
        !FaultPoint::BackHoles.is_enabled()
            || unsafe { region.back(from, to) }.is_ok()
            || needs_no_space(region)
    }

    /// Returns the offset to add to a span's number so that huge pages begin at multiples of
    /// [`GROUP`].
    pub(crate) fn group_offset(&self) -> u32 {
        (self.geometry.zones_at() / SPAN % u64::from(GROUP)) as u32
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn grow_locked(&self, region: &Region, inner: &mut FreeSpans) -> bool {
        pmem::panic_point();
        let zones = u64::from(inner.total) / self.geometry.zone_spans as u64;
        if zones >= self.max_zones() {
            return false;
        }
        let bytes = self.geometry.pool_bytes(zones + 1);
        let is_grown = region.grow(bytes).is_ok();
        self.cannot_grow.store(!is_grown, Relaxed);
        if !is_grown {
            return false;
        }
        publish_zones(region, zones + 1);
        inner.total += self.geometry.zone_spans as u32;
        true
    }

    /// Gives the caller, and nobody else, the right to take spans out of their lists and return
    /// them later.
    pub(crate) fn move_spans(&self) -> std::sync::MutexGuard<'_, ()> {
        pmem::lock(&self.moving).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, FreeSpans> {
        pmem::lock(&self.inner).unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Durably records that the pool has this many zones. Their bytes are zeros and durable already.
pub(crate) fn publish_zones(region: &Region, zones: u64) {
    // SAFETY: zones are published under the lock of `SpanAllocator`, or while the pool is created.
    unsafe { region.store(ZONES_WORD, zones) };
    fault_points::flush(region, ZONES_WORD, 8, FaultPoint::FlushZones);
    fault_points::fence(region, FaultPoint::FenceZones);
}
