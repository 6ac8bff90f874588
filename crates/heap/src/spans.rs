//! The spans that belong to no shard, and the growth of the pool.
//!
//! A pool is opened without looking at its spans. A cursor goes through the span table when room is needed: a span
//! whose word is 0 is free, any other is reported to the shard that owns it, which may have free blocks in it. In a new
//! pool the cursor is simply the frontier. Spans that a shard hands over come to the free list.
//!
//! Invariant: a span number leaves this structure once, as free for one shard or as found for its owner.

#![allow(unsafe_code, reason = "the number of zones is stored in the pool")]

use crate::class::CLASSES;
use crate::layout::{Geometry, ZONES_WORD};
use crate::step::{self, Step};
use pmem::Region;
use rustc_hash::FxHashSet;
use std::sync::Mutex;

/// What a word of the span table says: 0 is free.
pub(crate) fn span_word(class: u8, shard: usize) -> u64 {
    (u64::from(class) + 1) | (shard as u64) << 8
}

/// Class and shard of a span in use; none when it is free or the word makes no sense.
pub(crate) fn split_span_word(word: u64, shards: usize) -> Option<(u8, usize)> {
    let class = (word & 0xff).checked_sub(1)?;
    let shard = (word >> 8) as usize;
    (class < CLASSES as u64 && shard < shards).then_some((class as u8, shard))
}

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

#[derive(Debug)]
struct Inner {
    /// Spans before this one have been looked at.
    cursor: u32,
    /// Spans in published zones.
    total: u32,
    free: Vec<u32>,
    /// Spans behind the cursor that their owner gave up in this life: no longer for the cursor to find.
    ahead: FxHashSet<u32>,
    found: Vec<Vec<(u32, u8)>>,
}

#[derive(Debug)]
pub(crate) struct Spans {
    geometry: Geometry,
    /// The pool grows up to so many zones.
    max_zones: u64,
    /// Free spans that only deletes may take.
    kept: usize,
    inner: Mutex<Inner>,
}

impl Spans {
    pub(crate) fn new(geometry: Geometry, zones: u64, max_zones: u64) -> Spans {
        let total = (zones * geometry.zone_spans as u64) as u32;
        let most = max_zones as usize * geometry.zone_spans;
        Spans {
            geometry,
            max_zones,
            kept: (geometry.shards + 2).min(most / 8),
            inner: Mutex::new(Inner {
                cursor: 0,
                total,
                free: Vec::new(),
                ahead: FxHashSet::default(),
                found: vec![Vec::new(); geometry.shards],
            }),
        }
    }

    /// A span for `shard`, or spans that it already owns; grows the pool when there is none.
    pub(crate) fn take(&self, region: &Region, shard: usize, for_delete: bool) -> Taken {
        let mut inner = self.lock();
        loop {
            if !inner.found[shard].is_empty() {
                return Taken::Found(std::mem::take(&mut inner.found[shard]));
            }
            if !for_delete && self.is_low(&inner) && !self.grow_locked(region, &mut inner) {
                return Taken::Nothing;
            }
            if let Some(span) = inner.free.pop() {
                return Taken::Free(span);
            }
            match self.look(region, &mut inner) {
                Some(Taken::Free(span)) => return Taken::Free(span),
                Some(_) => {}
                None if self.grow_locked(region, &mut inner) => {}
                None => return Taken::Nothing,
            }
        }
    }

    /// Says, before it is logged, that a shard gives up a span of its own: the shard keeps it as a free one, so that
    /// the cursor, should it come by later, must not take it for nobody's.
    pub(crate) fn disown(&self, span: u32) {
        let mut inner = self.lock();
        if span >= inner.cursor {
            inner.ahead.insert(span);
        }
    }

    /// Puts spans, whose release is durable and retired, where every shard finds them.
    pub(crate) fn give(&self, spans: impl IntoIterator<Item = u32>) {
        self.lock().free.extend(spans);
    }

    /// Adds a zone when half of one is left or less. For a background thread: writers go on while the medium makes the
    /// room.
    pub(crate) fn grow_ahead(&self, region: &Region) -> bool {
        let (left, total) = {
            let inner = self.lock();
            (inner.free.len() + (inner.total - inner.cursor) as usize, inner.total)
        };
        let zones = u64::from(total) / self.geometry.zone_spans as u64;
        if left > self.geometry.zone_spans / 2 || zones >= self.max_zones {
            return false;
        }
        if region.grow(self.geometry.pool_bytes(zones + 1)).is_err() {
            return false;
        }
        let mut inner = self.lock();
        // Unless a writer that could not wait was faster.
        inner.total == total && self.grow_locked(region, &mut inner)
    }

    /// Bytes of all spans that the pool may come to have.
    pub(crate) fn limit(&self) -> u64 {
        let spans = self.geometry.zone_spans as u64 - self.geometry.table_spans();
        self.max_zones * spans * crate::layout::SPAN
    }

    /// Zones in use now.
    pub(crate) fn zones(&self) -> u64 {
        u64::from(self.lock().total) / self.geometry.zone_spans as u64
    }

    fn is_low(&self, inner: &Inner) -> bool {
        inner.free.len() + ((inner.total - inner.cursor) as usize) <= self.kept
    }

    /// Moves the cursor to the next span that is free, or over one that is found.
    fn look(&self, region: &Region, inner: &mut Inner) -> Option<Taken> {
        while inner.cursor < inner.total {
            let span = inner.cursor;
            inner.cursor += 1;
            if self.geometry.is_table(span) || inner.ahead.remove(&span) {
                continue;
            }
            let word = region.load(self.geometry.span_word(span));
            if word == 0 {
                return Some(Taken::Free(span));
            }
            if let Some((class, owner)) = split_span_word(word, self.geometry.shards) {
                inner.found[owner].push((span, class));
                return Some(Taken::Found(Vec::new()));
            }
        }
        None
    }

    fn grow_locked(&self, region: &Region, inner: &mut Inner) -> bool {
        let zones = u64::from(inner.total) / self.geometry.zone_spans as u64;
        if zones >= self.max_zones {
            return false;
        }
        let bytes = self.geometry.pool_bytes(zones + 1);
        if region.len() < bytes && region.grow(bytes).is_err() {
            return false;
        }
        publish_zones(region, zones + 1);
        inner.total += self.geometry.zone_spans as u32;
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        pmem::lock(&self.inner).unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Says durably that the pool has so many zones. Their bytes are zeros and durable already.
pub(crate) fn publish_zones(region: &Region, zones: u64) {
    // SAFETY: zones are published under the lock of `Spans`, or by whoever creates the pool.
    unsafe { region.store(ZONES_WORD, zones) };
    step::flush(region, ZONES_WORD, 8, Step::FlushZones);
    step::fence(region, Step::FenceZones);
}
