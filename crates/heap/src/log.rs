//! The record of a planned transaction: drafted, sealed, written into the ring and flushed.
//!
//! Drafting is the only step of a commit that can find no room: a record too long for the ring takes spans. So that of
//! several shards is done for all before any record is written.

#![allow(unsafe_code, reason = "records are stored in the pool")]

use crate::error::CommitError;
use crate::heap::Heap;
use crate::layout::SPAN;
use crate::record::{self, HEADER_WORDS, Kind, Link, RecordHeader};
use crate::ring::LongBody;
use crate::state::State;
use crate::step::{self, Step};

/// Drafts the record in `state.plan.record`, complete but for its header and link, and writes what of it lies outside the
/// ring. When there is no room for that, the plan is to be undone.
pub(crate) fn draft(heap: &Heap, state: &mut State, linked: bool) -> Result<(), CommitError> {
    let kind = Kind { linked, long: false };
    encode(heap, state, kind);
    let plan = &mut state.plan;
    (plan.kind, plan.listed) = (kind, plan.fresh.len());
    if plan.record.len() <= state.ring.part_words() {
        return Ok(());
    }
    let kind = Kind { linked, long: true };
    let words = write_long(heap, state, kind)?;
    let plan = &mut state.plan;
    (plan.record, plan.kind, plan.listed) = (words, kind, 0);
    Ok(())
}

/// Flushes the new bytes; seals the record, writes it where the ring has room, and flushes it. Not durable before
/// the caller's fence.
pub(crate) fn write(heap: &Heap, state: &mut State, lsn: u64, link: Option<Link>) {
    flush_fresh(heap, state);
    let State { plan, ring, .. } = state;
    let words = plan.record.as_mut_slice();
    if let Some(link) = link {
        words[HEADER_WORDS] = link.encode();
    }
    let header = RecordHeader {
        epoch: heap.epoch,
        seq: ring.seq,
        kind: plan.kind,
        lsn,
        words: words.len(),
        fresh: plan.listed,
    };
    header.seal(words);
    let at = ring.place(&heap.region, header.lines() as u64);
    // SAFETY: the ring belongs to this shard, whose lock the caller holds; the place is retired or new.
    unsafe { heap.region.write(at, record::bytes_of(words)) };
    step::flush(&heap.region, at, words.len() * 8, Step::FlushRecord);
    for entry in &plan.changes {
        ring.changes(entry.at);
    }
}

fn flush_fresh(heap: &Heap, state: &State) {
    let region = &heap.region;
    for block in state.tx.reserved.iter().filter(|r| r.published.is_some()) {
        let (from, to) = block.cached;
        if from < to {
            let at = block.place.at + u64::from(from);
            step::flush(region, at, (to - from) as usize, Step::FlushFresh);
        }
    }
    for range in &state.tx.appended {
        step::flush(region, range.at, range.len as usize, Step::FlushAppended);
    }
    for &span in &state.plan.publishing {
        if let Some(span) = state.alloc.span(span) {
            let len = crate::class::TABLE[span.class as usize].first as usize;
            step::flush(region, span.base, len, Step::FlushSpanHeader);
        }
    }
}

/// The record's words; the header's and the link are blank.
fn encode(heap: &Heap, state: &mut State, kind: Kind) {
    let plan = &mut state.plan;
    let record = &mut plan.record;
    record.clear();
    record.resize(kind.header_words(), 0);
    for range in &plan.fresh {
        record.extend(range.encode());
    }
    for entry in plan.changes.iter().filter(|entry| step::logs(heap, entry)) {
        entry.encode(record);
    }
}

/// Writes a body too long for the ring into spans, flushes it, and gives the record that names them.
fn write_long(heap: &Heap, state: &mut State, kind: Kind) -> Result<Vec<u64>, CommitError> {
    let body = &state.plan.record[kind.header_words()..];
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
