//! A fence: copies its thread's words to the end of the buffer.
//!
//! The bytes are copied while the buffer is locked, so that the newest content of each word comes
//! last in the journal. If they were copied before, another thread could copy newer content of a
//! word that both have flushed, and append it first.
//!
//! A fence with more words than fit into the buffer is spread over several batches. That breaks no
//! rule: a word may reach the medium before its fence.
//!
//! No more is appended than fits into the ring. So appended words can be written at any time, and a
//! checkpoint, which makes space, never waits for space.

use super::batch::{WORD, WordRange};
use super::core::{Buffer, Count, Journal, locked};
use super::error::JournalError;
use super::layout::BLOCK;
use crate::counters::count_appended;
use crate::fault_points::FaultPoint;
use std::collections::HashMap;
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Copies the words of a range to the end of a vector; returns false if the medium has lost some of
/// the region, so that there may be zeros instead. A thread's own stores are never lost.
pub(crate) type CopyWords<'m> = &'m dyn Fn(WordRange, &mut Vec<u8>) -> bool;

impl Journal {
    /// Appends the words that a thread flushed.
    pub(crate) fn append(
        &self,
        ranges: &mut dyn Iterator<Item = WordRange>,
        copy: CopyWords<'_>,
    ) -> Result<(), JournalError> {
        if FaultPoint::CopyUnderLock.is_enabled() {
            return self.append_ranges(ranges, copy);
        }
        let ranges: Vec<WordRange> = ranges.collect();
        let words = copy_early(&ranges, copy);
        let copy = |range: WordRange, out: &mut Vec<u8>| {
            (range.first..range.first + range.words).for_each(|word| out.extend(words[&word]));
            true
        };
        self.append_ranges(&mut ranges.into_iter(), &copy)
    }

    fn append_ranges(
        &self,
        ranges: &mut dyn Iterator<Item = WordRange>,
        copy: CopyWords<'_>,
    ) -> Result<(), JournalError> {
        let Some(first) = ranges.next() else { return Ok(()) };
        self.check()?;
        let (mut rest, mut has_waited) = (Some(first), false);
        loop {
            let mut buffer = locked(&self.buffer);
            if buffer.longest == 0 {
                return self.write_through(&mut rest.into_iter().chain(ranges), copy);
            }
            let longest = self.longest_now(&buffer);
            while let Some(range) = &mut rest {
                let space = longest.saturating_sub(buffer.batch.len());
                let Some(cut) = range.cut(space) else { break };
                buffer.push(cut, copy);
                count_appended(cut.bytes().1 as u64);
                if range.words == 0 {
                    rest = ranges.next();
                }
            }
            self.progress.appended.store(buffer.end, Release);
            if rest.is_none() {
                return Ok(());
            }
            let is_empty = buffer.batch.is_empty();
            drop(buffer);
            if !is_empty {
                self.write_buffer()?;
                continue;
            }
            if !mem::replace(&mut has_waited, true) {
                self.progress.count(Count::FullWaits, 1);
            }
            let begin = self.clock.now();
            self.free_ring(copy)?;
            let waited = self.clock.now().saturating_sub(begin);
            self.progress.count(Count::FullWaitNanos, waited.as_nanos() as u64);
        }
    }

    /// Returns the maximum length of the batch in the buffer for which the ring has space, wherever
    /// the batch begins.
    fn longest_now(&self, buffer: &Buffer) -> usize {
        let capacity = self.progress.capacity.load(Acquire);
        // The tail's block has batches that have not been applied.
        let end = self.progress.tail.load(Acquire) / BLOCK * BLOCK + capacity;
        // The previous batch may have to begin a block later than planned.
        let begin = buffer.ring_at.next_multiple_of(BLOCK) + BLOCK;
        end.saturating_sub(begin).min(buffer.longest) as usize
    }

    /// Makes the ring longer or continues a checkpoint, so that it gets space.
    #[cold]
    fn free_ring(&self, copy: CopyWords<'_>) -> Result<(), JournalError> {
        if self.grow_ring()? {
            return Ok(());
        }
        if !self.checkpoint_step(copy)? {
            self.refuse_held().map_err(|held| self.fail("write to the journal", held))?;
        }
        Ok(())
    }

    /// Writes words to the pool's file and syncs it: used before and after the journal is in use.
    fn write_through(
        &self,
        ranges: &mut dyn Iterator<Item = WordRange>,
        copy: CopyWords<'_>,
    ) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        for range in ranges {
            bytes.clear();
            copy(range, &mut bytes);
            self.write_to_pool(&bytes, range.bytes().0)?;
        }
        self.sync_pool()
    }
}

/// Copies words, by number, before the buffer is locked: a mistake that a test simulates.
#[cold]
fn copy_early(ranges: &[WordRange], copy: CopyWords<'_>) -> HashMap<u64, [u8; WORD as usize]> {
    let words = ranges.iter().flat_map(|range| range.first..range.first + range.words);
    let copied = words.map(|first| {
        let mut bytes = Vec::new();
        copy(WordRange { first, words: 1 }, &mut bytes);
        (first, bytes.first_chunk().copied().unwrap_or([0; WORD as usize]))
    });
    copied.collect()
}

impl Buffer {
    fn push(&mut self, range: WordRange, copy: CopyWords<'_>) {
        self.dirty.mark(range);
        self.batch.push(range, |out| {
            copy(range, out);
        });
        self.end += range.bytes().1 as u64;
    }
}
