//! The evacuation of a shard's spans: planning it in bounded steps, finding the blocks that are to
//! move, and ending it.
//!
//! While a span is evacuated none of its free blocks is given out, so that it becomes empty; it is
//! released by the commits that empty it, as any other. No reservation fails for that: where a
//! shard has no other block and no span, an evacuated span is kept, and its blocks are given out.

use super::allocator::BlockAllocator;
use super::evacuation::{EvacuationCursor, Planning, Tally};
use super::spans::SpanAllocator;
use crate::layout::SPAN;
use crate::layout::size_class::{BITMAP_AT, TABLE, WHOLE};
use pmem::Region;

/// Spans of an earlier incarnation that a step looks at.
const VISITED: usize = 128;
/// Spans that a step counts or marks.
const COUNTED: usize = 4096;
/// Bytes of blocks that are named at once.
const BYTES: u32 = 256 << 10;

impl BlockAllocator {
    /// Takes a step of planning an evacuation. Returns how many spans are to be emptied, when the
    /// plan is complete: from then on their blocks are reported by `is_sparse`.
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

    /// Looks at spans of an earlier incarnation; returns true if all are known.
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

    /// Returns how much there is in this incarnation that a plan may not know: the bytes of blocks
    /// that were freed, and of spans of an earlier incarnation that were found.
    pub(crate) fn news(&mut self, spans: &SpanAllocator) -> u64 {
        self.keep_found(spans.found(self.shard));
        self.freed + self.found * SPAN
    }

    /// Returns true if a span of the list may be emptied: in use, not being filled, and not empty
    /// already.
    fn may_evacuate(&self, at: usize) -> bool {
        self.spans[at].as_ref().is_some_and(|span| {
            let class = span.class as usize;
            span.published
                && !span.evacuated
                && span.free < TABLE[class].count
                && self.current[class] != Some(at as u32)
        })
    }

    /// Returns how many spans are still to be emptied.
    pub(crate) fn evacuated_spans(&self) -> usize {
        self.evacuation.marked
    }

    /// Returns about `most` allocated blocks of the spans that are to be emptied, and where to go
    /// on; none after the last.
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

    /// Lets the free blocks of spans that were to be emptied, and are not, be given out again.
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

    /// Takes a span of a class out of the evacuation; one with a free block.
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
