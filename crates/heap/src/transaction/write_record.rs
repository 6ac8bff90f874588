//! The record of a planned transaction: fitted into the ring, checksummed, written and flushed.
//!
//! Drafting is the only step of a commit that can run out of space: a shard's first record takes
//! that of its log, and a record too long for the ring takes spans. So in a commit of several
//! shards all are drafted before any is written.

#![allow(unsafe_code, reason = "records are stored in the pool")]

use super::heap::Heap;
use super::state::ShardState;
use crate::checksum::crc32c;
use crate::error::CommitError;
use crate::fault_points::{self, FaultPoint};
use crate::layout::size_class::{TABLE, WHOLE};
use crate::layout::{LINE, SPAN};
use crate::log::record::{self, HEADER_WORDS, Link, RecordHeader};
use crate::log::ring::LongBody;

/// Makes a planned record fit into the ring, which has its space: one that is too long goes into
/// spans. If there is no space for that, the caller undoes the plan.
#[inline]
pub(crate) fn draft(heap: &Heap, state: &mut ShardState) -> Result<(), CommitError> {
    // On a full disk a record in a hole of the file could not be applied: the journal would fail.
    if !heap.spans.log_space.reserve(&heap.region, state.ring.shard) {
        return Err(CommitError::Full);
    }
    if state.plan.record.len() <= state.ring.part_words() {
        return Ok(());
    }
    state.plan.kind.long = true;
    state.plan.long = write_long(heap, state)?;
    Ok(())
}

/// Flushes the new bytes; checksums the record, writes it into the ring, and flushes it. Only
/// recovery reads it again, so it goes past the cache. It is not durable before the caller's fence.
pub(crate) fn write(heap: &Heap, state: &mut ShardState, lsn: u64, link: Option<Link>) {
    flush_fresh(heap, state);
    let ShardState { plan, ring, .. } = state;
    let weight = plan.record.len();
    let words = if plan.kind.long { &mut plan.long } else { &mut plan.record };
    if let Some(link) = link.filter(|_| plan.kind.linked) {
        words[HEADER_WORDS] = link.encode();
    }
    let (epoch, seq, kind) = (heap.epoch, ring.seq, plan.kind);
    let header = RecordHeader { epoch, seq, kind, lsn, words: words.len() };
    header.write_checksummed(words);
    words.resize(header.lines() * LINE as usize / 8, 0);
    let at = ring.place(&heap.region, header.lines() as u64, weight);
    if heap.region.failed() {
        // The durable tail may still lead to the present content. The caller's fence fails.
        return;
    }
    // SAFETY: the ring belongs to this shard, whose lock the caller holds; the place is retired or
    // new.
    if unsafe { heap.region.write_lines(at, record::bytes_of(words)) } {
        // Nobody reads what fills its last line.
        fault_points::flush(&heap.region, at, header.words * 8, FaultPoint::FlushRecord);
    }
}

fn flush_fresh(heap: &Heap, state: &ShardState) {
    let region = &heap.region;
    for block in state.tx.reserved.iter().filter(|r| r.published.is_some()) {
        let (from, to) = block.cached;
        if from < to {
            let at = block.place.at + u64::from(from);
            fault_points::flush(region, at, (to - from) as usize, FaultPoint::FlushFresh);
        }
    }
    for range in &state.tx.appended {
        fault_points::flush(region, range.at, range.len as usize, FaultPoint::FlushAppended);
    }
    for &span in &state.plan.publishing {
        if let Some(span) = state.alloc.span(span) {
            let len = TABLE[span.class as usize].first as usize;
            fault_points::flush(region, span.base, len, FaultPoint::FlushSpanHeader);
        }
    }
}

/// Writes a body that is too long for the ring into spans, flushes it, and returns the record that
/// lists them.
fn write_long(heap: &Heap, state: &mut ShardState) -> Result<Vec<u64>, CommitError> {
    let kind = state.plan.kind;
    let body = &state.plan.record[kind.header_words()..];
    let words_in_span = SPAN as usize / 8;
    let mut long = LongBody { words: body.len(), pieces: Vec::new() };
    let mut spans = Vec::new();
    for piece in body.chunks(words_in_span) {
        let Some(span) = state.alloc.take_span(&heap.region, &heap.spans, WHOLE, true) else {
            spans.into_iter().for_each(|span| state.alloc.give_span(span));
            return Err(CommitError::Full);
        };
        spans.push(span);
        let at = heap.geometry.span_at(span);
        let bytes = record::bytes_of(piece);
        // SAFETY: a free span, which nobody can reach.
        unsafe { heap.region.write(at, bytes) };
        fault_points::flush(&heap.region, at, bytes.len(), FaultPoint::FlushLong);
        long.pieces.push((at, bytes.len() as u32, crc32c(bytes)));
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
