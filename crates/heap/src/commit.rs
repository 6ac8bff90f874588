//! The commit of a transaction on one shard: one fence.
//!
//! 1. New bytes lie where no reader looks; they are flushed.
//! 2. One record names them with their checksums and says which words change; it is flushed.
//! 3. The fence: the commit point.
//! 4. The words are stored in place, not flushed; the shard's lock is released by the caller.
//!
//! Words reach the medium when their part of the ring is retired (`ring`), or are stored again by recovery
//! (`recover`). In a volatile heap only step 4 is left.

#![allow(unsafe_code, reason = "records and words are stored in the pool")]

use crate::error::CommitError;
use crate::heap::Heap;
use crate::layout::SPAN;
use crate::plan;
use crate::record::{self, HEADER_WORDS, Kind, Link, RecordHeader};
use crate::ring::LongBody;
use crate::state::State;
use crate::step::{self, Step};
use std::sync::atomic::Ordering;

/// Commits the open transaction of one shard.
pub(crate) fn one(heap: &Heap, shard: usize, state: &mut State) -> Result<(), CommitError> {
    if !state.tx.is_dirty() {
        abandon(heap, shard, state);
        return Ok(());
    }
    if let Err(refused) = heap.check_open() {
        abandon(heap, shard, state);
        return Err(refused);
    }
    state.committing = true;
    plan::make(heap, shard, state);
    planned(heap, shard, state)
}

/// Commits what `plan::make` worked out.
pub(crate) fn planned(heap: &Heap, shard: usize, state: &mut State) -> Result<(), CommitError> {
    if !heap.volatile {
        let draft = draft(heap, shard, state, false)?;
        log(heap, state, draft, heap.take_lsn(), None);
        if !Step::StoreAfterFence.done() {
            store_words(heap, shard, state);
        }
        step::fence(&heap.region, Step::FenceCommit);
        if heap.region.failed() {
            abandon(heap, shard, state);
            return Err(heap.poison());
        }
    }
    store_words(heap, shard, state);
    finish(heap, shard, state);
    Ok(())
}

/// A record that only lacks its header.
pub(crate) struct Draft {
    kind: Kind,
    fresh: usize,
    words: Vec<u64>,
}

/// Writes what of the planned transaction lies outside the ring, and drafts its record. The only step that can find no
/// room; the plan is undone then.
pub(crate) fn draft(
    heap: &Heap,
    shard: usize,
    state: &mut State,
    linked: bool,
) -> Result<Draft, CommitError> {
    let kind = Kind { linked, long: false };
    let words = encode(heap, state, kind);
    if words.len() <= state.ring.part_words() {
        return Ok(Draft { kind, fresh: state.plan.fresh.len(), words });
    }
    let kind = Kind { linked, long: true };
    let body = write_long(heap, state, kind, &words[kind.header_words()..]);
    state.plan.record = words;
    match body {
        Ok(words) => Ok(Draft { kind, fresh: 0, words }),
        Err(full) => {
            undo(heap, shard, state);
            Err(full)
        }
    }
}

/// Flushes the new bytes; seals the record, writes it where the ring has room, and flushes it. Not durable before
/// the caller's fence.
pub(crate) fn log(heap: &Heap, state: &mut State, draft: Draft, lsn: u64, link: Option<Link>) {
    flush_fresh(heap, state);
    let Draft { kind, fresh, mut words } = draft;
    if let Some(link) = link {
        words[HEADER_WORDS] = link.encode();
    }
    let seq = state.ring.seq;
    let header = RecordHeader { epoch: heap.epoch, seq, kind, lsn, words: words.len(), fresh };
    header.seal(&mut words);
    let at = state.ring.place(&heap.region, header.lines() as u64);
    // SAFETY: the ring belongs to this shard, whose lock the caller holds; the place is retired or new.
    unsafe { heap.region.write(at, record::bytes_of(&words)) };
    step::flush(&heap.region, at, words.len() * 8, Step::FlushRecord);
    for entry in &state.plan.changes {
        state.ring.changes(entry.at);
    }
    state.plan.record = words;
}

/// Stores the words in place. They are durable already: in the record.
pub(crate) fn store_words(heap: &Heap, shard: usize, state: &mut State) {
    let region = &heap.region;
    for entry in &state.plan.changes {
        let old = region.load(entry.at);
        if let Some(overlay) = &mut state.overlay
            && Step::SaveOverlay.done()
        {
            overlay.entry(entry.at).or_insert(old);
        }
        // SAFETY: words of this shard, whose lock the caller holds; logged words are never read as bytes.
        unsafe { region.store(entry.at, entry.applied_to(old)) };
    }
    if !heap.volatile {
        let fenced = u64::from(heap.epoch) << 48 | (state.ring.seq - 1) & record::SEQ_MASK;
        // SAFETY: as above.
        unsafe { region.store(heap.area(shard).fenced(), fenced) };
    }
}

/// Brings the free blocks up to date with a transaction that is in effect, and opens a new one.
pub(crate) fn finish(heap: &Heap, shard: usize, state: &mut State) {
    let slot = &heap.slots[shard];
    for &span in &state.plan.publishing {
        if let Some(span) = state.alloc.span_mut(span) {
            span.published = true;
        }
    }
    for block in state.tx.reserved.iter().filter(|r| r.published.is_none()) {
        state.alloc.release(&heap.region, block.at);
    }
    for &block in &state.tx.freed {
        match slot.pins.mark() {
            Some(mark) if Step::ReuseAfterPins.done() => state.limbo.push_back((mark, block)),
            _ => state.alloc.release(&heap.region, block),
        }
    }
    while let Some(&(mark, block)) = state.limbo.front()
        && slot.pins.allows(mark)
    {
        state.limbo.pop_front();
        state.alloc.release(&heap.region, block);
    }
    for &span in &state.plan.releasing {
        state.alloc.forget(span);
    }
    for span in state.ring.released.drain(..) {
        state.alloc.give_span(span);
    }
    slot.used.store(state.used, Ordering::Relaxed);
    state.tx.clear();
    state.committing = false;
}

/// Drops the open transaction.
pub(crate) fn abandon(heap: &Heap, shard: usize, state: &mut State) {
    for block in &state.tx.reserved {
        state.alloc.release(&heap.region, block.at);
    }
    state.tx.clear();
    state.committing = false;
    take_back(heap, shard, state);
}

/// Gives blocks back that were reserved outside a transaction and dropped.
pub(crate) fn take_back(heap: &Heap, shard: usize, state: &mut State) {
    let slot = &heap.slots[shard];
    if slot.has_returned.swap(false, Ordering::AcqRel) {
        let returned =
            std::mem::take(&mut *slot.returned.lock().unwrap_or_else(|e| e.into_inner()));
        for block in returned {
            state.alloc.release(&heap.region, block);
        }
    }
}

/// Drops a planned transaction whose record was not written.
pub(crate) fn undo(heap: &Heap, shard: usize, state: &mut State) {
    for &span in &state.plan.publishing {
        if let Some(span) = state.alloc.span(span) {
            let shape = &crate::class::TABLE[span.class as usize];
            state.alloc.clear_bitmap(&heap.region, span.number, shape);
        }
    }
    state.alloc.emptied.extend(&state.plan.releasing);
    state.used = heap.slots[shard].used.load(Ordering::Relaxed);
    let unused: Vec<u32> = state.ring.take_next_long();
    unused.into_iter().for_each(|span| state.alloc.give_span(span));
    abandon(heap, shard, state);
}

fn flush_fresh(heap: &Heap, state: &State) {
    let region = &heap.region;
    for block in state.tx.reserved.iter().filter(|r| r.published.is_some()) {
        let (from, to) = block.cached;
        if from < to {
            step::flush(region, block.at + u64::from(from), (to - from) as usize, Step::FlushFresh);
        }
    }
    for range in &state.tx.appended {
        step::flush(region, range.at, range.len as usize, Step::FlushAppended);
    }
    for &span in &state.plan.publishing {
        if let Some(span) = state.alloc.span(span) {
            let len = crate::class::TABLE[span.class as usize].first as usize;
            step::flush(region, heap.geometry.span_at(span.number), len, Step::FlushSpanHeader);
        }
    }
}

/// The record's words; the header's and the link are blank.
fn encode(heap: &Heap, state: &mut State, kind: Kind) -> Vec<u64> {
    let mut record = std::mem::take(&mut state.plan.record);
    record.clear();
    record.resize(kind.header_words(), 0);
    for range in &state.plan.fresh {
        record.extend(range.encode());
    }
    for entry in state.plan.changes.iter().filter(|entry| step::logs(heap, entry)) {
        entry.encode(&mut record);
    }
    record
}

/// Writes a body too long for the ring into spans, flushes it, and gives the record that names them.
fn write_long(
    heap: &Heap,
    state: &mut State,
    kind: Kind,
    body: &[u64],
) -> Result<Vec<u64>, CommitError> {
    let words_in_span = SPAN as usize / 8;
    let mut long =
        LongBody { fresh: state.plan.fresh.len(), words: body.len(), pieces: Vec::new() };
    let mut spans = Vec::new();
    for piece in body.chunks(words_in_span) {
        let Some(span) =
            state.alloc.take_span(&heap.region, &heap.spans, crate::class::WHOLE, true)
        else {
            spans.into_iter().for_each(|span| state.alloc.give_span(span));
            return Err(CommitError::Full);
        };
        spans.push(span);
        let at = heap.geometry.span_at(span);
        let bytes = record::bytes_of(piece);
        // SAFETY: a free span, reached by nobody.
        unsafe { heap.region.write(at, bytes) };
        step::flush(&heap.region, at, bytes.len(), Step::FlushLong);
        long.pieces.push((at, bytes.len() as u32, crate::crc32c(bytes)));
    }
    let mut record = vec![0; kind.header_words()];
    long.encode(&mut record);
    if record.len() > state.ring.part_words() {
        spans.into_iter().for_each(|span| state.alloc.give_span(span));
        return Err(CommitError::Full);
    }
    spans.into_iter().for_each(|span| state.ring.hold_next(span));
    Ok(record)
}
