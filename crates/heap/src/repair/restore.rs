//! Finds out what lost bytes meant, and restores those that the heap itself knows.
//!
//! Headers, the number of zones, a shard's tail, hint and counter, and the headers of spans are
//! known in DRAM or follow from the rest. A log's bytes, and the bodies of its long records, are no
//! longer needed once all its records are retired; if it lost some of its own, a record without
//! changes becomes the newest one, by which an opening knows that the tail is right. The content of
//! a block, or of a root word, concerns the layer above, to which it is reported. Bitmaps and the
//! span table cannot be derived from anything else: if they are lost, nothing may be written any
//! more, since a block in use could be given out.

#![allow(unsafe_code, reason = "metadata is stored in the pool")]

use crate::alloc::spans::publish_zones;
use crate::fault_points::FaultPoint;
use crate::layout::size_class::{BITMAP_AT, TABLE, WHOLE};
use crate::layout::span::{header, split_span_word};
use crate::layout::{HEADER_B, LINE, ROOTS, ZONES_WORD};
use crate::log::record::fenced_word;
use crate::media_errors::losses::{self, Stop};
use crate::media_errors::resolve;
use crate::ptr::Ptr;
use crate::transaction::commit;
use crate::transaction::heap::Heap;
use pmem::Lost;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Lost bytes whose meaning only the layer above knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostPart {
    /// Some bytes of a block, which may be free: a range of offsets in the pool.
    Block {
        /// The shard that owns it.
        shard: usize,
        /// The block's start.
        at: Ptr,
        /// The first lost byte.
        from: u64,
        /// The end of the lost bytes, exclusive.
        to: u64,
    },
    /// A range of root words of a shard.
    Roots {
        /// The shard.
        shard: usize,
        /// The first one.
        from: usize,
        /// The end of the range, exclusive.
        to: usize,
    },
}

/// The result of restoring lost bytes.
#[derive(Debug, Default)]
pub struct Restored {
    /// The parts whose meaning only the layer above knows.
    pub parts: Vec<LostPart>,
    /// Lines that need nothing more.
    pub resolved: Vec<Lost>,
    /// The first part that cannot be restored.
    pub irreplaceable: Option<Irreplaceable>,
}

/// Metadata was lost that does not follow from anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the medium lost {what} at offset {at:#x}, which nothing else tells")]
pub struct Irreplaceable {
    /// The lost part.
    pub what: &'static str,
    /// Byte offset in the pool.
    pub at: u64,
}

impl Heap {
    /// Runs `work`, which resolves a loss and may commit although it is unresolved.
    pub fn resolving<T>(&self, work: impl FnOnce() -> T) -> T {
        resolve(work)
    }

    /// Restores what the heap knows of lost bytes, which read as zeros and whose pages were
    /// repaired; reports what the others were. The caller holds no shard.
    pub fn restore(&self, lost: &[Lost]) -> Restored {
        let mut restored = Restored::default();
        if !FaultPoint::ForgetResolved.is_enabled() {
            losses::forget(&self.region, usize::MAX, lost);
        }
        if lost.iter().any(|lost| lost.at < HEADER_B + 4096) {
            self.header().write(&self.region);
            self.header().write(&self.region);
            losses::restore(&self.region);
        }
        for line in lines(lost) {
            let parts = restored.parts.len();
            match self.restore_line(line, &mut restored.parts) {
                Ok(()) if restored.parts.len() == parts => {
                    restored.resolved.push(Lost { at: line, len: LINE });
                }
                Ok(()) => {}
                Err(lost) => restored.irreplaceable = restored.irreplaceable.or(Some(lost)),
            }
        }
        self.renew_logs(lost);
        self.region.fence();
        // Without its fence a record has no words in place: its log is still needed.
        if self.is_poisoned() {
            restored.resolved.clear();
        }
        restored
    }

    /// Durably records that these losses, among the region's first `pages` damaged pages, are
    /// resolved.
    pub fn forget_losses(&self, pages: usize, resolved: &[Lost]) {
        if !self.volatile && !self.region.failed() {
            losses::forget(&self.region, pages, resolved);
        }
    }

    /// Durably records that something was lost together with its name, before this is all that is
    /// left of it. An opening of the pool must look for it.
    pub fn record_lost_names(&self) {
        if !self.volatile
            && !self.has_lost_names()
            && !losses::record(&self.region, &[losses::NAMES])
        {
            self.poison();
        }
    }

    /// Returns true if something was lost together with its name.
    pub fn has_lost_names(&self) -> bool {
        losses::has_lost_names(&self.region)
    }

    /// Removes the record of [`Heap::record_lost_names`]: nothing was found.
    pub fn forget_lost_names(&self) {
        losses::forget_names(&self.region);
    }

    /// Refuses all writes from here on: the content of the pool is not reliable.
    pub fn stop(&self) {
        self.poison();
    }

    /// Like [`Heap::stop`], but also in later incarnations, until a repair lifts the stop.
    pub fn stop_durably(&self, stop: &Stop) {
        self.poison();
        let known = self.stopped();
        if !self.volatile && known.is_none_or(|known| stop.hides_keys && !known.hides_keys) {
            losses::stop(&self.region, stop);
        }
    }

    /// Returns why the pool takes no writes, if it was stopped durably.
    pub fn stopped(&self) -> Option<Stop> {
        losses::stopped(&self.region)
    }

    /// Allows commits although the pool is stopped, for a repair, which first rebuilds bitmaps.
    /// Nobody else uses the heap. The pool stays stopped until [`Heap::lift_stop`].
    pub fn begin_repair(&self) {
        self.repairing.store(true, Ordering::Relaxed);
        self.allow_commits();
    }

    /// Ends a stop after everything was rebuilt and checked.
    pub fn lift_stop(&self) {
        losses::clear(&self.region);
        self.repairing.store(false, Ordering::Relaxed);
    }

    /// Returns the shards that have a part of a bitmap among these bytes.
    pub fn lost_bitmaps(&self, lost: &[Lost]) -> BTreeSet<usize> {
        let in_bitmap = |line: u64| {
            let span = self.geometry.span_of(line).filter(|span| !self.geometry.is_table(*span))?;
            let word = self.region.load(self.geometry.span_word(span));
            let (class, shard) = split_span_word(word, self.shards())?;
            let bitmap = BITMAP_AT..u64::from(TABLE[class as usize].first);
            let inside = line - self.geometry.span_at(span);
            (class != WHOLE && bitmap.contains(&inside)).then_some(shard)
        };
        lines(lost).filter_map(in_bitmap).collect()
    }

    fn restore_line(&self, line: u64, parts: &mut Vec<LostPart>) -> Result<(), Irreplaceable> {
        let areas = self.geometry.shard_area(0).tail();
        if line == ZONES_WORD {
            publish_zones(&self.region, self.spans.zones());
        } else if (areas..self.geometry.shard_area(self.shards()).tail()).contains(&line) {
            self.restore_area(line, areas, parts);
        } else if let Some(span) = self.geometry.span_of(line)
            && line < self.geometry.pool_bytes(self.spans.zones())
        {
            self.restore_span(span, line, parts)?;
        }
        Ok(())
    }

    /// Retires the logs of which some bytes are lost, and begins each anew with a record without
    /// changes. The lost bytes may have been those of the newest record, and a tail which no record
    /// precedes looks damaged.
    fn renew_logs(&self, lost: &[Lost]) {
        let rings = self.geometry.ring_at(0)..self.geometry.ring_at(self.shards());
        let shard = |line: u64| ((line - rings.start) / self.geometry.ring_bytes()) as usize;
        let damaged: BTreeSet<usize> =
            lines(lost).filter(|line| rings.contains(line)).map(shard).collect();
        for shard in damaged {
            let mut locked = self.lock(shard);
            if self.is_poisoned() {
                return;
            }
            if FaultPoint::RenewLog.is_enabled() {
                // It fails only if the heap does, or if the log never had space, nor a record.
                let _ = commit::nothing(self, shard, &mut locked.state);
            }
            drop(locked);
            self.retire(shard);
        }
    }

    /// Makes every word that the log of a shard changed durable in place, so that the log is no
    /// longer needed.
    fn retire(&self, shard: usize) {
        let mut locked = self.lock(shard);
        // Without its fence a record has no words in place: its log is still needed.
        if self.is_poisoned() {
            return;
        }
        locked.state.ring.retire_all(&self.region);
        if self.region.failed() {
            return;
        }
        let tail = locked.state.ring.tail();
        let at = self.area(shard).tail();
        // SAFETY: the tail belongs to this shard, whose lock is held.
        unsafe { self.region.store(at, tail) };
        self.region.flush(at, 8);
        self.region.fence();
    }

    /// Retires the logs with long records: a span that no shard has may be a part of the body of
    /// one.
    fn retire_long_records(&self) {
        for shard in 0..self.shards() {
            let holds_long = self.lock(shard).state.ring.holds_long();
            if holds_long {
                self.retire(shard);
            }
        }
    }

    fn restore_area(&self, line: u64, areas: u64, parts: &mut Vec<LostPart>) {
        let size = self.geometry.shard_area(1).tail() - areas;
        let shard = ((line - areas) / size) as usize;
        let area = self.area(shard);
        let roots = area.root(0);
        if line >= roots {
            let from = ((line - roots) / 8) as usize;
            parts.push(LostPart::Roots { shard, from, to: (from + LINE as usize / 8).min(ROOTS) });
        } else if line == area.tail() {
            self.retire(shard);
        } else if line == area.fenced() {
            self.restore_hint(shard);
        } else if line == area.used() {
            let used = self.lock(shard).state.used;
            // SAFETY: a word of the shard that changes under its lock; the value is the one that it
            // had.
            unsafe { self.region.store(area.used(), used) };
            self.region.flush(area.used(), 8);
        }
    }

    /// Stores the hint of what was fenced as it was, or as if it had reached the medium.
    fn restore_hint(&self, shard: usize) {
        let locked = self.lock(shard);
        let newest = locked.state.ring.seq.checked_sub(1);
        let Some(newest) = newest.filter(|_| !self.is_poisoned()) else { return };
        let at = self.area(shard).fenced();
        // SAFETY: a word of this shard, whose lock is held.
        unsafe { self.region.store(at, fenced_word(self.epoch, newest)) };
        self.region.flush(at, 8);
    }

    fn restore_span(
        &self,
        span: u32,
        line: u64,
        parts: &mut Vec<LostPart>,
    ) -> Result<(), Irreplaceable> {
        if self.geometry.is_table(span) {
            return Err(Irreplaceable { what: "a part of the span table", at: line });
        }
        let word = self.region.load(self.geometry.span_word(span));
        let Some((class, shard)) = split_span_word(word, self.shards()) else {
            self.retire_long_records();
            return Ok(());
        };
        let (shape, base) = (&TABLE[class as usize], self.geometry.span_at(span));
        if class == WHOLE {
            let at = Ptr::from_raw(base);
            parts.push(LostPart::Block { shard, at, from: line, to: line + LINE });
            return Ok(());
        }
        if line < base + BITMAP_AT {
            let _locked = self.lock(shard);
            // SAFETY: the span's header never changes while the span is published; these are its
            // bytes.
            unsafe { self.region.write(base, &header(class, shape)) };
            self.region.flush(base, LINE as usize);
        } else if line < base + u64::from(shape.first) && self.repairing.load(Ordering::Relaxed) {
            // It has been rebuilt already, from what can be reached.
        } else if line < base + u64::from(shape.first) {
            return Err(Irreplaceable { what: "a part of a span's bitmap", at: line });
        } else {
            let inside = (line - base) as u32 - shape.first;
            let (first, last) = (inside / shape.size, (inside + LINE as u32 - 1) / shape.size);
            // Also free blocks, to which nothing leads: the bitmap may be lost too.
            for index in first..=last.min(shape.count.saturating_sub(1)) {
                let at = base + u64::from(shape.offset(index));
                let to = (at + u64::from(shape.size)).min(line + LINE);
                let at_ptr = Ptr::from_raw(at);
                parts.push(LostPart::Block { shard, at: at_ptr, from: line.max(at), to });
            }
        }
        Ok(())
    }
}

fn lines(lost: &[Lost]) -> impl Iterator<Item = u64> + '_ {
    lost.iter().flat_map(|lost| (lost.at..lost.at + lost.len).step_by(LINE as usize))
}
