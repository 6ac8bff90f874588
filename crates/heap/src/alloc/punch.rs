//! Gives the space of free spans back to the file system. This file does it for the spans that
//! belong to no shard.
//!
//! A span may be given back when it is *durably free*: no record that a recovery may read mentions
//! it or bytes in it, no reader has a pin that is older than what was freed there, and no
//! transaction has reserved a block in it. That is true of the spans that belong to no shard: a
//! block that somebody may read is not free yet, a span with a reserved block is not empty, and
//! before a span leaves a shard, the shard's log is retired past the release (`span_transfer`). The
//! content of such a span has no meaning, and a crash may leave its old bytes, zeros, or a mix:
//! making a hole needs neither a record nor a fence.
//!
//! Before a hole is punched, its spans are taken out of all lists of
//! [`super::spans::SpanAllocator`], so that no span is given out while it loses its space, and
//! nobody waits for the medium. Afterwards it is not given out until its space has been reserved
//! again.
//!
//! Spans that the cursor of a reopened pool has not reached are swept in place: moving the cursor
//! over them would list all spans in use for their owners. Only a purge does so. A word of the span
//! table that the medium lost reads as zero; whatever was read since the loss is discarded.

#![allow(unsafe_code, reason = "space of free spans is given back")]

use super::lead::GROUP;
use super::runs::Runs;
use super::spans::{FreeSpans, SpanAllocator, Taken};
use pmem::{Domain, PunchError, Region};
use std::ops::Range;

/// Spans that lose their space in one step: 4 MiB.
const STEP: u32 = 64;

/// Which free spans are given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Whole huge pages of spans that have been unused for a while.
    Idle,
    /// As many as possible.
    All,
}

/// The result of one step.
pub(crate) enum Punched {
    More,
    Nothing,
    Unsupported,
}

impl SpanAllocator {
    /// Marks the spans that nobody took since the previous call as idle, so that they can be given
    /// back. A zone's worth of spans is kept; the first ones, since spans kept in scattered places
    /// would keep the huge pages around them.
    pub(crate) fn rest(&self) {
        let mut inner = self.lock();
        inner.refused = false;
        let rested = inner.rested.min(inner.free.len());
        let spans: Vec<u32> = inner.free.drain(..rested).collect();
        spans.into_iter().for_each(|span| inner.idle.insert(span..span + 1));
        let others = inner.certain() - inner.idle.len();
        let kept = self.kept.max(self.geometry().zone_spans).saturating_sub(others);
        let first: Vec<u32> = (0..kept).map_while(|_| inner.idle.pop_first()).collect();
        inner.free.splice(0..0, first);
        inner.rested = inner.free.len();
    }

    /// Returns how many free spans the background may give back: all certain ones except a zone, or
    /// what deletes may need if that is more.
    fn spare(&self, inner: &FreeSpans) -> usize {
        inner.certain().saturating_sub(self.kept.max(self.geometry().zone_spans))
    }

    /// Looks for as many free spans with space as deletes may need.
    fn fill_reserve(&self, region: &Region, inner: &mut FreeSpans) {
        while inner.ready() < self.kept
            && let Some(found) = self.look(region, inner)
        {
            match found {
                Taken::Free(span) => inner.free.push(span),
                Taken::Found(_) => {}
                Taken::Nothing => break,
            }
        }
    }

    /// Allows all spans to be given back, except those that deletes may need, and to be swept
    /// again.
    pub(crate) fn begin_purge(&self, region: &Region) {
        let mut inner = self.lock();
        self.fill_reserve(region, &mut inner);
        let spans = std::mem::take(&mut inner.free);
        spans.into_iter().for_each(|span| inner.idle.insert(span..span + 1));
        (inner.rested, inner.swept, inner.refused) = (0, 0, false);
    }

    /// Gives the space of some spans back.
    pub(crate) fn punch(&self, region: &Region, which: Which) -> Punched {
        pmem::panic_point();
        let _moving = self.move_spans();
        let Some(run) = self.take_idle(which) else { return Punched::Nothing };
        let punched = self.punch_run(region, &run);
        if matches!(punched, Punched::Unsupported) {
            self.give(run);
        }
        punched
    }

    /// Takes a run of spans that are to be given back out of the list of idle ones.
    fn take_idle(&self, which: Which) -> Option<Range<u32>> {
        let mut inner = self.lock();
        if inner.refused {
            return None;
        }
        let (group, most) = match which {
            Which::Idle => (GROUP, self.spare(&inner)),
            Which::All => (1, inner.ready().saturating_sub(self.kept)),
        };
        let most = most.min(STEP as usize) as u32;
        if most < group {
            if which == Which::All {
                // The background must not give back the reserve for deletes either.
                inner.keep_idle();
            }
            return None;
        }
        let run = inner.idle.take_groups(self.group_offset(), group, most)?;
        inner.moves = true;
        Some(run)
    }

    /// Gives back the space of free spans that the cursor has not reached: they have been free
    /// since the pool was opened. It finds the existing holes itself. Does nothing if a part of the
    /// span table may have been lost since `resolutions`.
    pub(crate) fn sweep(&self, region: &Region, resolutions: u64) -> Punched {
        pmem::panic_point();
        let _moving = self.move_spans();
        let Some(mut free) = self.take_ahead(region, resolutions) else { return Punched::Nothing };
        while let Some(run) = free.take_groups(0, 1, STEP) {
            let punched = self.punch_run(region, &run);
            if matches!(punched, Punched::Unsupported) {
                self.leave_to_cursor(run);
            }
            if !matches!(punched, Punched::More) {
                self.leave_to_cursor(free.into_numbers());
                return punched;
            }
        }
        Punched::More
    }

    /// Takes some free spans that the cursor has not reached; `None` if there are no more.
    fn take_ahead(&self, region: &Region, resolutions: u64) -> Option<Runs> {
        let mut inner = self.lock();
        if inner.refused || region.domain() == Domain::Volatile {
            return None;
        }
        // Writers may have taken the reserve, counting on the spans ahead of the cursor.
        self.fill_reserve(region, &mut inner);
        let from = inner.swept.max(inner.cursor);
        if from >= inner.total {
            return None;
        }
        let offset = self.group_offset();
        let end = ((from + offset) / STEP + 1) * STEP - offset;
        let end = end.min(inner.total);
        let mut free = Runs::default();
        for span in (from..end).filter(|span| self.is_free_ahead(region, &inner, *span)) {
            free.insert(span..span + 1);
        }
        // The words may read as zero because they were lost.
        if region.has_lost_since(resolutions) {
            return None;
        }
        inner.swept = end;
        inner.suspect = inner.suspect.max(end);
        inner.ahead.extend(free.numbers());
        inner.moves = true;
        Some(free)
    }

    /// Undoes `take_ahead`. The cursor has met some of them meanwhile: those may be holes.
    fn leave_to_cursor(&self, spans: impl IntoIterator<Item = u32>) {
        let mut inner = self.lock();
        for span in spans {
            if !inner.ahead.remove(&span) {
                inner.holes.insert(span..span + 1);
            }
        }
    }

    /// Gives back the space of spans that are in no list, then enters them where they belong; if
    /// holes are not supported, nowhere.
    fn punch_run(&self, region: &Region, run: &Range<u32>) -> Punched {
        let (from, to) = (self.geometry().span_at(run.start), self.geometry().span_at(run.end));
        // SAFETY: the spans are durably free, and belong to `SpanAllocator`, which gives them to
        // nobody: they are in no list.
        let done = unsafe { region.punch(from, to) };
        // It is unknown what a failed call left: the space is reserved again, now or before it is
        // used.
        let is_backed = matches!(done, Err(PunchError::Io { .. })) && self.back(region, run);
        let mut inner = self.lock();
        match done {
            Err(PunchError::Unsupported) => return Punched::Unsupported,
            Ok(()) => inner.quiet = true,
            Err(_) => inner.refused = true,
        }
        if is_backed {
            inner.free.extend(run.clone());
        } else {
            inner.holes.insert(run.clone());
        }
        if inner.refused { Punched::Nothing } else { Punched::More }
    }
}
