//! What a commit will do, worked out before anything is written: fresh ranges and changes of words.
//!
//! Blocks that the transaction reserved and freed again drop out. A span that no block was published in before is
//! published here: its header and bitmap become a fresh range, with the bits of this transaction's blocks set as bytes.

#![allow(unsafe_code, reason = "bits are set in bitmaps that are not published yet")]

use crate::class::{self, BITMAP_AT, TABLE, WHOLE};
use crate::heap::Heap;
use crate::record::{Change, Entry, FreshRange};
use crate::spans::span_word;
use crate::state::{Plan, State};
use crate::step::Step;

/// Fills `state.plan` from `state.tx`.
pub(crate) fn make(heap: &Heap, shard: usize, state: &mut State) {
    let mut plan = std::mem::take(&mut state.plan);
    plan.clear();
    drop_own_frees(state);
    let mut used = state.used;
    publish_blocks(heap, shard, state, &mut plan, &mut used);
    publish_appended(heap, state, &mut plan);
    let words = state.tx.staged.iter();
    plan.changes.extend(words.map(|(at, value)| Entry { at, change: Change::Set(value) }));
    free_blocks(heap, state, &mut plan, &mut used);
    release_spans(heap, state, &mut plan);
    if used != state.used {
        plan.changes.push(Entry { at: heap.area(shard).used(), change: Change::Set(used) });
        state.used = used;
    }
    state.plan = plan;
}

/// A block that this transaction reserved and freed is not published.
fn drop_own_frees(state: &mut State) {
    let tx = &mut state.tx;
    if tx.freed.is_empty() || tx.reserved.is_empty() {
        return;
    }
    let reserved = &mut tx.reserved;
    tx.freed.retain(|&at| {
        match reserved.iter_mut().rfind(|r| r.at == at && r.published.is_some()) {
            Some(own) => {
                own.published = None;
                false
            }
            None => true,
        }
    });
}

fn publish_blocks(heap: &Heap, shard: usize, state: &mut State, plan: &mut Plan, used: &mut u64) {
    for block in &state.tx.reserved {
        let Some(len) = block.published else { continue };
        *used += u64::from(TABLE[block.class as usize].size);
        if if block.fenced { Step::ListDetached } else { Step::ListFresh }.done() {
            let crc = if heap.volatile || block.fenced {
                0
            } else {
                checksum(heap, block.at, len, block.summed, block.crc)
            };
            plan.fresh.push(FreshRange { at: block.at, len, crc, verified: !block.fenced });
        }
        if block.class == WHOLE {
            let Some(number) = heap.geometry.span_of(block.at) else { continue };
            plan.changes.push(span_entry(heap, number, span_word(WHOLE, shard)));
            continue;
        }
        let Some(place) = state.alloc.locate(&heap.region, block.at) else { continue };
        let Some(span) = state.alloc.span(place.span) else { continue };
        let at = bitmap_word(heap, span.number, place.index);
        let change = Change::SetBit(place.index % 64);
        if span.published {
            plan.changes.push(Entry { at, change });
            continue;
        }
        if !plan.publishing.contains(&place.span) {
            plan.publishing.push(place.span);
            plan.changes.push(span_entry(heap, span.number, span_word(span.class, shard)));
        }
        let word = Entry { at, change }.applied_to(heap.region.load(at));
        // SAFETY: the span is not published, so that no reader and no recovery looks at its bitmap.
        unsafe { heap.region.store(at, word) };
    }
    if Step::ListSpanHeader.done() {
        for &at in &plan.publishing {
            let Some(span) = state.alloc.span(at) else { continue };
            let len = TABLE[span.class as usize].first;
            let at = heap.geometry.span_at(span.number);
            let crc = if heap.volatile { 0 } else { checksum(heap, at, len, None, 0) };
            plan.fresh.push(FreshRange { at, len, crc, verified: true });
        }
    }
}

/// What was appended to a block that this transaction frees is not published: the block may be written again as soon as
/// this record is fenced, while recovery still compares the record's checksums.
fn publish_appended(heap: &Heap, state: &State, plan: &mut Plan) {
    let freed: Vec<(u64, u64)> = if state.tx.appended.is_empty() {
        Vec::new()
    } else {
        let size =
            |at| state.alloc.class_at(&heap.region, at).map_or(0, |c| TABLE[c as usize].size);
        state.tx.freed.iter().map(|&at| (at, at + u64::from(size(at)))).collect()
    };
    let kept = |range: &&FreshRange| {
        !freed.iter().any(|&(at, end)| (at..end).contains(&range.at))
            || !Step::DropFreedAppends.done()
    };
    if Step::ListAppended.done() {
        plan.fresh.extend(state.tx.appended.iter().filter(kept));
    }
}

fn free_blocks(heap: &Heap, state: &mut State, plan: &mut Plan, used: &mut u64) {
    for &at in &state.tx.freed {
        let Some(class) = state.alloc.class_at(&heap.region, at) else { continue };
        *used = used.saturating_sub(u64::from(TABLE[class as usize].size));
        if class == WHOLE {
            if let Some(number) = heap.geometry.span_of(at) {
                disown(heap, number);
                plan.changes.push(span_entry(heap, number, 0));
            }
        } else if let Some(place) = state.alloc.locate(&heap.region, at)
            && let Some(span) = state.alloc.span(place.span)
        {
            let at = bitmap_word(heap, span.number, place.index);
            plan.changes.push(Entry { at, change: Change::ClearBit(place.index % 64) });
        }
    }
}

/// Spans that earlier commits emptied become free for any class.
fn release_spans(heap: &Heap, state: &mut State, plan: &mut Plan) {
    if state.alloc.emptied.is_empty() {
        return;
    }
    plan.releasing = state.alloc.releasable();
    for &at in &plan.releasing {
        if let Some(span) = state.alloc.span(at) {
            disown(heap, span.number);
            plan.changes.push(span_entry(heap, span.number, 0));
        }
    }
}

fn disown(heap: &Heap, span: u32) {
    if Step::Disown.done() {
        heap.spans.disown(span);
    }
}

fn span_entry(heap: &Heap, number: u32, word: u64) -> Entry {
    Entry { at: heap.geometry.span_word(number), change: Change::Set(word) }
}

fn bitmap_word(heap: &Heap, span: u32, index: u32) -> u64 {
    heap.geometry.span_at(span) + BITMAP_AT + u64::from(index / 64) * 8
}

/// The checksum of `len` bytes from `at`: the one made while they were written in order, or made now.
fn checksum(heap: &Heap, at: u64, len: u32, summed: Option<u32>, crc: u32) -> u32 {
    if summed == Some(len) {
        return crc;
    }
    // SAFETY: bytes that this transaction wrote; the guard that could change them is the caller's.
    crate::crc32c(unsafe { heap.region.bytes(at, len as usize) })
}

const _: () = assert!(class::WHOLE as usize + 1 == class::CLASSES);
