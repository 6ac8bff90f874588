//! What a commit will do, worked out before anything is written: fresh ranges and changes of words.
//!
//! In a volatile heap nothing can go wrong any more and nobody reads a record: words are stored as soon as they are known,
//! unless a snapshot wants their old values.
//!
//! Blocks that the transaction reserved and freed again drop out. A span that no block was published in before is
//! published here: its header and bitmap become a fresh range, with the bits of this transaction's blocks set as bytes.

#![allow(
    unsafe_code,
    reason = "words of a volatile heap are stored, and bits of bitmaps that are not published yet"
)]

use crate::alloc::{Alloc, Place};
use crate::class::{TABLE, WHOLE};
use crate::heap::Heap;
use crate::record::{Change, Entry, FreshRange, Kind};
use crate::spans::span_word;
use crate::state::{Freed, Plan, Reserved, State, Tx};
use crate::step::{self, Step};

/// Fills `state.plan` from `state.tx`.
pub(crate) fn make(heap: &Heap, shard: usize, state: &mut State, kind: Kind) {
    let State { tx, plan, alloc, used, overlay, .. } = state;
    plan.begin(kind);
    drop_own_frees(heap, tx);
    let in_place = heap.volatile && overlay.is_none();
    let mut planner = Planner { heap, shard, in_place, alloc, plan, used: *used };
    planner.publish_blocks(&tx.reserved);
    planner.publish_spans();
    planner.publish_appended(tx);
    tx.staged.iter().for_each(|(at, value)| planner.set(at, value));
    planner.free_blocks(&tx.freed);
    planner.release_spans();
    if planner.used != *used {
        *used = planner.used;
        planner.set(heap.area(shard).used(), *used);
    }
    plan.end();
}

/// A block that this transaction reserved and freed is not published.
fn drop_own_frees(heap: &Heap, tx: &mut Tx) {
    if !tx.freed.iter().any(|freed| freed.own) {
        return;
    }
    for freed in tx.freed.iter().filter(|freed| freed.own) {
        match tx.reserved.iter_mut().rfind(|r| r.place.at == freed.place.at) {
            Some(own) => own.published = None,
            None => heap.count_damage(),
        }
    }
    tx.freed.retain(|freed| !freed.own);
}

struct Planner<'a> {
    heap: &'a Heap,
    shard: usize,
    /// Whether words are stored at once.
    in_place: bool,
    alloc: &'a mut Alloc,
    plan: &'a mut Plan,
    /// Bytes in allocated blocks, after the transaction.
    used: u64,
}

impl Planner<'_> {
    fn publish_blocks(&mut self, reserved: &[Reserved]) {
        for block in reserved {
            let Some(len) = block.published else { continue };
            self.used += u64::from(block.place.size());
            if !self.heap.volatile {
                self.list(block, len);
            }
            let place = block.place;
            if place.class == WHOLE {
                self.set_whole(place, span_word(WHOLE, self.shard));
            } else if place.published {
                self.change(place.bitmap, Change::SetBit(place.bit()));
            } else {
                self.set_unpublished(place);
            }
        }
    }

    /// Lists a block among the fresh ranges.
    fn list(&mut self, block: &Reserved, len: u32) {
        let at = block.place.at;
        if !if block.fenced { Step::ListDetached } else { Step::ListFresh }.done() {
            return;
        }
        let crc = match block.summed {
            _ if block.fenced => 0,
            Some(summed) if summed == len => block.crc,
            _ => checksum(self.heap, at, len),
        };
        self.plan.fresh.push(FreshRange { at, len, crc, verified: !block.fenced });
    }

    /// Marks a block as allocated in a span that is published now: its bitmap is a fresh range.
    #[cold]
    fn set_unpublished(&mut self, block: Place) {
        let Some(span) = self.alloc.span(block.span) else { return };
        if !self.plan.publishing.contains(&block.span) {
            let (number, class) = (span.number, span.class);
            self.plan.publishing.push(block.span);
            self.set_span(number, span_word(class, self.shard));
        }
        // SAFETY: the span is not published, so that no reader and no recovery looks at its bitmap.
        unsafe { self.heap.region.change(block.bitmap, |word| word | 1 << block.bit()) };
    }

    /// Lists the headers and bitmaps of spans that are published now.
    fn publish_spans(&mut self) {
        if self.heap.volatile || !Step::ListSpanHeader.done() {
            return;
        }
        for &at in &self.plan.publishing {
            let Some(span) = self.alloc.span(at) else { continue };
            let len = TABLE[span.class as usize].first;
            let crc = checksum(self.heap, span.base, len);
            self.plan.fresh.push(FreshRange { at: span.base, len, crc, verified: true });
        }
    }

    /// What was appended to a block that this transaction frees is not published: the block may be written again as soon
    /// as this record is fenced, while recovery still compares the record's checksums.
    fn publish_appended(&mut self, tx: &Tx) {
        if tx.appended.is_empty() || !Step::ListAppended.done() {
            return;
        }
        let is_freed = |range: &FreshRange| {
            tx.freed.iter().any(|freed| {
                let from = freed.place.at;
                (from..from + u64::from(freed.place.size())).contains(&range.at)
            })
        };
        let kept = |range: &&FreshRange| !is_freed(range) || !Step::DropFreedAppends.done();
        self.plan.fresh.extend(tx.appended.iter().filter(kept));
    }

    fn free_blocks(&mut self, freed: &[Freed]) {
        for &Freed { place, .. } in freed {
            self.used = self.used.saturating_sub(u64::from(place.size()));
            if place.class == WHOLE {
                self.set_whole(place, 0);
            } else {
                self.change(place.bitmap, Change::ClearBit(place.bit()));
            }
        }
    }

    /// Spans that earlier commits emptied become free for any class.
    fn release_spans(&mut self) {
        if self.alloc.emptied.is_empty() {
            return;
        }
        self.plan.releasing = self.alloc.releasable();
        for i in 0..self.plan.releasing.len() {
            if let Some(span) = self.alloc.span(self.plan.releasing[i]) {
                self.give_up(span.number);
            }
        }
    }

    /// Takes or gives up a whole span.
    #[cold]
    fn set_whole(&mut self, block: Place, word: u64) {
        let Some(number) = self.heap.geometry.span_of(block.at) else { return };
        if word == 0 {
            self.give_up(number);
        } else {
            self.set_span(number, word);
        }
    }

    fn give_up(&mut self, span: u32) {
        if Step::Disown.done() {
            self.heap.spans.disown(span);
        }
        self.set_span(span, 0);
    }

    fn set_span(&mut self, number: u32, word: u64) {
        self.set(self.heap.geometry.span_word(number), word);
    }

    #[inline(always)]
    fn set(&mut self, at: u64, value: u64) {
        self.change(at, Change::Set(value));
    }

    #[inline(always)]
    fn change(&mut self, at: u64, change: Change) {
        let entry = Entry { at, change };
        if self.in_place {
            // SAFETY: a word of this shard, whose lock the caller holds; such words are never read as bytes.
            return unsafe { self.heap.region.change(entry.at, |old| entry.applied_to(old)) };
        }
        let logged = step::logs(self.heap, &entry);
        entry.encode(if logged { &mut self.plan.record } else { &mut self.plan.unlogged });
    }
}

/// The checksum of `len` bytes from `at`.
fn checksum(heap: &Heap, at: u64, len: u32) -> u32 {
    // SAFETY: bytes that this transaction wrote; the guard that could change them is the caller's.
    crate::crc32c(unsafe { heap.region.bytes(at, len as usize) })
}
