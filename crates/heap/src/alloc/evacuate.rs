//! Evacuates a shard's spans: plans the evacuation in bounded steps, finds the blocks that are to
//! move, and ends it.
//!
//! While a span is evacuated, none of its free blocks is given out, so that it becomes empty; like
//! any other span, it is released by the commits that empty it. A reservation never fails because
//! of an evacuation: if a shard has no other block and no free span, it keeps an evacuated span and
//! gives out its blocks.

use super::allocator::BlockAllocator;
use super::evacuation::{EvacuationCursor, Planning, Tally};
use super::spans::SpanAllocator;
use crate::layout::SPAN;
use crate::layout::size_class::{BITMAP_AT, TABLE, WHOLE};
use pmem::Region;

/// Spans of an earlier incarnation that one step visits.
const VISITED: usize = 128;
/// Spans that one step counts or marks.
const COUNTED: usize = 4096;
/// Bytes of the blocks that one call returns.
const BYTES: u32 = 256 << 10;

impl BlockAllocator {
    /// Takes a step of planning an evacuation. Returns the number of spans to be emptied once the
    /// plan is complete; from then on `is_sparse` reports their blocks.
    pub(crate) fn plan_evacuation(
        &mut self,
        region: &Region,
        spans: &SpanAllocator,
    ) -> Option<usize> {
        match std::mem::take(&mut self.evacuation.planning) {
            Planning::Idle => {
                self.end_evacuation();
                self.learn_spans(region, spans)
                    .then(|| self.evacuation.planning = Planning::Counting(0, Tally::new()));
                None
            }
            Planning::Counting(from, mut tally) => {
                let to = self.spans.len().min(from + COUNTED);
                for at in from..to {
                    let Some(span) = &self.spans[at] else { continue };
                    tally.add(span.class, span.free, self.may_evacuate(at));
                }
                self.evacuation.planning = match to < self.spans.len() {
                    true => Planning::Counting(to, tally),
                    false => Planning::Marking(0, tally.choose()),
                };
                None
            }
            Planning::Marking(from, mut choices) => {
                let to = self.spans.len().min(from + COUNTED);
                for at in from..to {
                    let is_candidate = self.may_evacuate(at);
                    let Some(span) = self.spans[at].as_mut().filter(|_| is_candidate) else {
                        continue;
                    };
                    if choices.take(span.class, span.free) {
                        (span.evacuated, span.listed) = (true, false);
                        self.evacuation.chosen[span.class as usize].push(at as u32);
                        self.evacuation.marked += 1;
                    }
                }
                if to < self.spans.len() {
                    self.evacuation.planning = Planning::Marking(to, choices);
                    return None;
                }
                self.empty_caches();
                Some(self.evacuation.marked)
            }
        }
    }

    /// Visits spans of an earlier incarnation; returns true if all are known.
    fn learn_spans(&mut self, region: &Region, spans: &SpanAllocator) -> bool {
        self.keep_found(spans.found(self.shard));
        let mut left = VISITED;
        for class in 0..self.unvisited.len() {
            while left > 0
                && let Some(number) = self.unvisited[class].pop()
            {
                if !self.knows(number) {
                    self.visit(region, number);
                }
                left -= 1;
            }
        }
        self.unvisited.iter().all(Vec::is_empty)
    }

    /// Notes spans of an earlier incarnation, which are looked at when they are needed.
    pub(super) fn keep_found(&mut self, found: Vec<(u32, u8)>) {
        for (number, class) in found.into_iter().filter(|found| found.1 != WHOLE) {
            self.unvisited[class as usize].push(number);
            self.found += 1;
        }
    }

    /// Returns the number of bytes that became known in this incarnation and that a plan may not
    /// cover: blocks that were freed, and spans of an earlier incarnation that were found.
    pub(crate) fn news(&mut self, spans: &SpanAllocator) -> u64 {
        self.keep_found(spans.found(self.shard));
        self.freed + self.found * SPAN
    }

    /// Returns true if this span of the list may be emptied: in use, not being filled, and not yet
    /// empty.
    fn may_evacuate(&self, at: usize) -> bool {
        self.spans[at].as_ref().is_some_and(|span| {
            let class = span.class as usize;
            span.published
                && !span.evacuated
                && span.free < TABLE[class].count
                && self.current[class] != Some(at as u32)
        })
    }

    /// Returns the number of spans still to be emptied.
    pub(crate) fn evacuated_spans(&self) -> usize {
        self.evacuation.marked
    }

    /// Returns at most `most` allocated blocks of the spans to be emptied, and the cursor to
    /// continue from; no cursor after the last one.
    pub(crate) fn evacuated_blocks(
        &self,
        region: &Region,
        from: EvacuationCursor,
        most: usize,
    ) -> (Vec<u64>, Option<EvacuationCursor>) {
        let (mut blocks, mut cursor, mut bytes) = (Vec::new(), from, 0);
        while let Some(chosen) = self.evacuation.chosen.get(cursor.class as usize) {
            let Some(&at) = chosen.get(cursor.nth as usize) else {
                cursor = EvacuationCursor { class: cursor.class + 1, ..Default::default() };
                continue;
            };
            let shape = &TABLE[cursor.class as usize];
            let span = self.span(at).filter(|s| s.evacuated && s.class == cursor.class);
            let Some(span) = span.filter(|_| cursor.block < shape.count) else {
                cursor = EvacuationCursor { nth: cursor.nth + 1, block: 0, ..cursor };
                continue;
            };
            if blocks.len() >= most || bytes >= BYTES {
                return (blocks, Some(cursor));
            }
            let word = region.load(span.base + BITMAP_AT + u64::from(cursor.block / 64) * 8);
            let rest = word >> (cursor.block % 64);
            let next = cursor.block + rest.trailing_zeros().min(64 - cursor.block % 64);
            if rest == 0 || next >= shape.count {
                cursor.block = (cursor.block / 64 + 1) * 64;
                continue;
            }
            blocks.push(span.base + u64::from(shape.offset(next)));
            bytes += shape.size;
            cursor.block = next + 1;
        }
        (blocks, None)
    }

    /// Ends the evacuation: the free blocks of spans that have not been emptied are given out
    /// again.
    pub(crate) fn end_evacuation(&mut self) {
        self.evacuation.planning = Planning::Idle;
        for class in 0..self.evacuation.chosen.len() {
            while let Some(at) = self.keep_evacuee(class as u8) {
                if let Some(span) = self.span_mut(at) {
                    span.listed = true;
                    self.partial[class].push(at);
                }
            }
        }
    }

    /// Takes the span of a block out of the evacuation, if it is in it.
    pub(crate) fn keep_span_at(&mut self, at: u64) {
        let Some(index) = self.index_at(at) else { return };
        let Some(span) = self.spans[index as usize].as_mut() else { return };
        if !std::mem::take(&mut span.evacuated) {
            return;
        }
        self.evacuation.marked -= 1;
        if span.free > 0 {
            span.listed = true;
            self.partial[span.class as usize].push(index);
        }
    }

    /// Takes one span of a class that has a free block out of the evacuation.
    pub(super) fn keep_evacuee(&mut self, class: u8) -> Option<u32> {
        while let Some(at) = self.evacuation.chosen[class as usize].pop() {
            let Some(span) = self.spans[at as usize].as_mut() else { continue };
            if span.class != class || !std::mem::take(&mut span.evacuated) {
                continue;
            }
            self.evacuation.marked -= 1;
            if span.free > 0 {
                return Some(at);
            }
        }
        None
    }
}
