//! The spans that belong to no shard, and the growth of the pool.
//!
//! A pool is opened without looking at its spans. A cursor goes through the span table when space
//! is needed: a span whose word is 0 is free, any other is reported to the shard that owns it,
//! which may have free blocks in it. In a new pool the cursor is simply the frontier. Free spans
//! that a shard releases come to the free list.
//!
//! Some free spans are holes of the file: their space was given back ([`super::punch`]), in this
//! incarnation or an earlier one, and is reserved again before a shard has them. Which ones is
//! known in DRAM; of an earlier incarnation the file itself tells, when the cursor comes by.
//!
//! Invariants: a span number leaves this structure once, as free for one shard or as found for its
//! owner; a span that leaves it as free has its space.

#![allow(unsafe_code, reason = "the number of zones is stored, and space of free spans reserved")]

use super::runs::Runs;
use crate::fault_points::{self, FaultPoint};
use crate::layout::span::split_span_word;
use crate::layout::{Geometry, SPAN, ZONES_WORD};
use crate::media_errors::is_resolving;
use pmem::Region;
use rustc_hash::FxHashSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What `take` found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A free span, now the shard's.
    Free(u32),
    /// Spans of the shard from before the pool was opened: number and class.
    Found(Vec<(u32, u8)>),
    /// Nothing is left.
    Nothing,
}

/// Spans of a huge page: the unit in which space is given back unasked, and is reserved again.
pub(crate) const GROUP: u32 = (2 << 20) / SPAN as u32;
/// Spans whose space is reserved at once in the background: 8 MiB.
const AHEAD: u32 = 128;
/// Spans that are few, where there will be no more: 4 MiB.
const FEW: usize = 64;
/// Spans of a hole that the cursor enters at once.
const HOLE: u32 = 1024;

#[derive(Debug)]
pub(crate) struct FreeSpans {
    /// Spans before this one have been looked at.
    pub(crate) cursor: u32,
    /// Spans in published zones.
    pub(crate) total: u32,
    /// Free spans with their space; the one given last is taken first.
    pub(crate) free: Vec<u32>,
    /// How many of the first of `free` were not taken since they were last looked through.
    pub(crate) rested: usize,
    /// Free spans with their space that are to give it back.
    pub(crate) idle: Runs,
    /// Free spans without space.
    pub(crate) holes: Runs,
    /// Nobody has needed a hole since space was last given back.
    pub(crate) quiet: bool,
    /// The file system refused to take space: not to be tried again before some time has passed.
    pub(crate) refused: bool,
    /// Somebody has taken free spans out of their list, to bring them back soon.
    pub(crate) moves: bool,
    /// Spans before this one may be holes when the cursor meets them: those that there were when
    /// the pool was opened, and those that have given their space back since.
    pub(crate) suspect: u32,
    /// Those before this one are no holes, by what the file said.
    solid: u32,
    /// Spans before this one have been swept ([`super::punch`]).
    pub(crate) swept: u32,
    /// Spans after the cursor that their owner released in this incarnation: no longer for the
    /// cursor to find.
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

    /// Lets no span give its space back that has not done so.
    pub(crate) fn keep_idle(&mut self) {
        let idle = std::mem::take(&mut self.idle);
        self.free.extend(idle.into_numbers());
    }

    /// Spans that certainly are free and have their space.
    pub(crate) fn certain(&self) -> usize {
        self.ready() + self.total.saturating_sub(self.cursor.max(self.suspect)) as usize
    }

    /// Returns how many free spans have their space, as far as is known: what the cursor has not
    /// met may be in use, or a hole.
    fn with_space(&self) -> usize {
        self.ready() + (self.total - self.cursor) as usize
    }
}

/// What came of an attempt to have more free spans with space.
#[derive(Debug, PartialEq, Eq)]
enum Refilled {
    Yes,
    /// There are no holes.
    NoHole,
    /// The file system has no space.
    Refused,
}

/// What the cursor came by.
enum Scanned {
    Free(u32),
    /// A span of a shard's, which `found` has.
    Found,
    /// Free spans without space, which `holes` has.
    Hole,
    /// A span that is not for the cursor.
    Nothing,
    /// A word that may be zero in the place of a lost one: the cursor stays where it is.
    Lost,
}

/// Words of the span table that are read: what the medium lost reads as zero, which would be a free
/// span.
struct Reading {
    resolutions: u64,
    errors: u64,
}

impl Reading {
    fn begin(region: &Region) -> Reading {
        Reading { resolutions: region.resolutions(), errors: region.media_errors() }
    }

    /// Returns true if what was read since may be untrue. Who resolves a loss knows of all but
    /// those that it met just now.
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
    /// The file could not grow when it was tried last.
    pub(crate) cannot_grow: AtomicBool,
    /// Held by who gives space back or reserves it in the background, without the lock of `inner`.
    /// Locked before it.
    moving: Mutex<()>,
    inner: Mutex<FreeSpans>,
}

impl SpanAllocator {
    /// Returns the spans of `zones` zones, of which nothing is known but that they are new, if they
    /// are. What is after them in a file that is longer already may be a hole too.
    pub(crate) fn new(
        region: &Region,
        geometry: Geometry,
        (zones, max_zones): (u64, u64),
        is_new: bool,
    ) -> SpanAllocator {
        let total = (zones * geometry.zone_spans as u64) as u32;
        let is_longer = region.may_be_punched() && region.len() > geometry.pool_bytes(zones);
        let in_file = if is_longer { geometry.span_of(region.len()).unwrap_or(total) } else { 0 };
        let most = max_zones as usize * geometry.zone_spans;
        SpanAllocator {
            geometry,
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
                solid: 0,
                swept: 0,
                ahead: FxHashSet::default(),
                found: vec![Vec::new(); geometry.shards],
            }),
        }
    }

    /// Returns a span for `shard`, or spans that it already owns; grows the pool when there is
    /// none.
    pub(crate) fn take(&self, region: &Region, shard: usize, may_use_reserve: bool) -> Taken {
        let mut inner = self.lock();
        self.note_scarcity(&inner);
        loop {
            if !inner.found[shard].is_empty() {
                return Taken::Found(std::mem::take(&mut inner.found[shard]));
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

    /// Takes the spans that the cursor came by and that are this shard's, with their classes.
    pub(crate) fn found(&self, shard: usize) -> Vec<(u32, u8)> {
        std::mem::take(&mut self.lock().found[shard])
    }

    /// Records, before it is logged, that a shard releases a span of its own. The shard keeps it as
    /// a free one, so that the cursor must not find it without an owner later.
    pub(crate) fn clear_owner(&self, span: u32) {
        pmem::panic_point();
        let mut inner = self.lock();
        if span >= inner.cursor {
            inner.ahead.insert(span);
        }
    }

    /// Puts spans, whose release is durable and retired, where every shard finds them. Returns true
    /// if there are more now than those that are kept for deletes.
    pub(crate) fn give(&self, spans: impl IntoIterator<Item = u32>) -> bool {
        pmem::panic_point();
        let mut inner = self.lock();
        inner.free.extend(spans);
        self.note_scarcity(&inner);
        inner.certain() > self.kept
    }

    fn note_scarcity(&self, inner: &FreeSpans) {
        let few = self.kept + (self.max_zones() as usize * self.geometry.zone_spans / 64).min(FEW);
        let scarce = inner.with_space() + inner.holes.len() <= few
            && u64::from(inner.total) >= self.max_zones() * self.geometry.zone_spans as u64;
        if self.scarce.load(Relaxed) != scarce {
            self.scarce.store(scarce, Relaxed);
        }
    }

    /// As [`SpanAllocator::give`], of spans that nobody took for a while.
    pub(crate) fn give_rested(&self, spans: Vec<u32>) {
        pmem::panic_point();
        let mut inner = self.lock();
        inner.rested += spans.len();
        inner.free.splice(0..0, spans);
    }

    /// Reserves the space of a hole, or adds a zone, when half of a zone is left or less; not while
    /// nobody has needed any since space was given back. For a background thread: writers go on
    /// while the medium makes a zone.
    pub(crate) fn grow_ahead(&self, region: &Region) -> bool {
        let total = {
            let moving = self.move_spans();
            let inner = self.lock();
            let half = self.geometry.zone_spans / 2;
            if inner.holes.len() > 0 {
                let is_due = inner.ready() <= half && !inner.quiet;
                drop(inner);
                let is_backed = is_due && self.back_ahead(region);
                drop(moving);
                return is_backed;
            }
            if inner.with_space() > half {
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
        // Unless a writer that could not wait was faster.
        inner.total == total && self.grow_locked(region, &mut inner)
    }

    /// Reserves the space of a hole while writers go on. For who moves spans.
    fn back_ahead(&self, region: &Region) -> bool {
        let most = (self.geometry.zone_spans as u32 / 2).min(AHEAD);
        let offset = self.group_offset();
        let mut inner = self.lock();
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
            // Writers try again, for less.
            inner.quiet = true;
        }
        is_backed
    }

    /// Returns the number of bytes of all spans that the pool may come to have.
    pub(crate) fn limit(&self) -> u64 {
        let spans = self.geometry.zone_spans as u64 - self.geometry.table_spans();
        self.max_zones() * spans * SPAN
    }

    /// Returns the number of bytes of spans that are free or were never used, as far as is known.
    pub(crate) fn available(&self) -> u64 {
        let inner = self.lock();
        let known = inner.with_space() + inner.holes.len();
        let zones = self.max_zones() - u64::from(inner.total) / self.geometry.zone_spans as u64;
        (known as u64 + zones * self.geometry.zone_spans as u64) * SPAN
    }

    /// Returns the number of bytes of free spans that have their space, as far as is known.
    pub(crate) fn free_space(&self) -> u64 {
        self.lock().with_space() as u64 * SPAN
    }

    /// Zones that there may be.
    pub(crate) fn max_zones(&self) -> u64 {
        self.max_zones.load(Relaxed)
    }

    /// Lets the pool grow up to this many zones; not fewer than there are.
    pub(crate) fn set_max_zones(&self, zones: u64) {
        let inner = self.lock();
        let there_are = u64::from(inner.total) / self.geometry.zone_spans as u64;
        self.max_zones.store(zones.max(there_are), Relaxed);
        self.note_scarcity(&inner);
    }

    /// Returns true if there can be no more zones, and no space was given back.
    pub(crate) fn is_at_limit(&self) -> bool {
        self.zones() >= self.max_zones() && self.lock().holes.len() == 0
    }

    /// Zones in use now.
    pub(crate) fn zones(&self) -> u64 {
        u64::from(self.lock().total) / self.geometry.zone_spans as u64
    }

    /// Moves the cursor to the next span that is free, or over one that is found, unless the space
    /// of a known hole can be had. Nothing if that cannot be told, since a part of the span table
    /// was lost.
    pub(crate) fn look(&self, region: &Region, inner: &mut FreeSpans) -> Option<Taken> {
        // What certainly has its space is at hand without a call.
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

    /// Moves the cursor over a span, or over several that are one hole.
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

    /// Returns where the hole ends, if a part of this span, which the cursor is at, is one. The
    /// kernel looks for the next hole, however far that is, so what it says is remembered: no span
    /// that the cursor is to meet loses its space without being in `ahead`.
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

    /// Returns true if a span that the cursor has not met is free, and was since the pool was
    /// opened.
    pub(crate) fn is_free_ahead(&self, region: &Region, inner: &FreeSpans, span: u32) -> bool {
        !self.geometry.is_table(span)
            && !inner.ahead.contains(&span)
            && region.load(self.geometry.span_word(span)) == 0
    }

    /// Adds free spans with space: of a hole, or of a new zone.
    fn refill(&self, region: &Region, inner: &mut FreeSpans) -> bool {
        match self.refill_hole(region, inner) {
            Refilled::Yes => true,
            Refilled::NoHole => self.grow_locked(region, inner),
            Refilled::Refused => false,
        }
    }

    /// Reserves the space of some spans that are a hole: of a huge page, or of one span where there
    /// is no more.
    fn refill_hole(&self, region: &Region, inner: &mut FreeSpans) -> Refilled {
        pmem::panic_point();
        let Some(run) = inner.holes.take_in_group(self.group_offset(), GROUP) else {
            return Refilled::NoHole;
        };
        inner.quiet = false;
        let mut backed = run.clone();
        while !self.back(region, &backed) {
            if backed.len() == 1 {
                inner.holes.insert(run);
                return Refilled::Refused;
            }
            backed.end = backed.start + 1;
        }
        inner.holes.insert(backed.end..run.end);
        inner.free.extend(backed.rev());
        Refilled::Yes
    }

    pub(crate) fn back(&self, region: &Region, spans: &Range<u32>) -> bool {
        let (from, to) = (self.geometry.span_at(spans.start), self.geometry.span_at(spans.end));
        // SAFETY: the spans are free and belong to this structure alone: nobody reads or writes
        // them.
        !FaultPoint::BackHoles.is_enabled() || unsafe { region.back(from, to) }.is_ok()
    }

    /// Returns what is added to the number of a span so that those of a huge page begin at a
    /// multiple of [`GROUP`].
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

    /// Lets the caller take spans out of their lists and bring them back later, and nobody else.
    pub(crate) fn move_spans(&self) -> std::sync::MutexGuard<'_, ()> {
        pmem::lock(&self.moving).unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, FreeSpans> {
        pmem::lock(&self.inner).unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Says durably that the pool has this many zones. Their bytes are zeros and durable already.
pub(crate) fn publish_zones(region: &Region, zones: u64) {
    // SAFETY: zones are published under the lock of `SpanAllocator`, or by whoever creates the
    // pool.
    unsafe { region.store(ZONES_WORD, zones) };
    fault_points::flush(region, ZONES_WORD, 8, FaultPoint::FlushZones);
    fault_points::fence(region, FaultPoint::FenceZones);
}
