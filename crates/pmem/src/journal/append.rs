//! A fence: copies its thread's lines to the end of the buffer.
//!
//! The bytes are copied while the buffer is locked, so that the newest content of each line comes
//! last in the journal. If they were copied before, another thread could copy newer content of a
//! line that both have flushed, and append it first.
//!
//! A fence with more lines than fit into the buffer is spread over several batches. That breaks no
//! rule: a line may reach the medium before its fence.
//!
//! No more is appended than fits into the ring. So appended lines can be written at any time, and a
//! checkpoint, which makes space, never waits for space.

use super::batch::LineRange;
use super::core::{Buffer, Count, Journal, locked};
use super::error::JournalError;
use super::layout::BLOCK;
use crate::fault_points::FaultPoint;
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Copies the lines of a range to the end of a vector; returns false if the medium has lost some of
/// the region, so that there may be zeros instead. A thread's own stores are never lost.
pub(crate) type CopyLines<'m> = &'m dyn Fn(LineRange, &mut Vec<u8>) -> bool;

impl Journal {
    /// Appends the lines that a thread flushed.
    pub(crate) fn append(
        &self,
        ranges: &mut dyn Iterator<Item = LineRange>,
        copy: CopyLines<'_>,
    ) -> Result<(), JournalError> {
        let Some(first) = ranges.next() else { return Ok(()) };
        self.check()?;
        let (mut rest, mut has_waited) = (Some(first), false);
        if !FaultPoint::CopyUnderLock.is_enabled() {
            return self.append_early(first, ranges, copy);
        }
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
                if range.lines == 0 {
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

    /// Continues a checkpoint, so that the ring gets space.
    #[cold]
    fn free_ring(&self, copy: CopyLines<'_>) -> Result<(), JournalError> {
        if !self.checkpoint_step(copy)? {
            self.refuse_held().map_err(|held| self.fail("write to the journal", held))?;
        }
        Ok(())
    }

    /// Appends lines as they were before the buffer was locked: a mistake that a test simulates.
    #[cold]
    fn append_early(
        &self,
        first: LineRange,
        ranges: &mut dyn Iterator<Item = LineRange>,
        copy: CopyLines<'_>,
    ) -> Result<(), JournalError> {
        for mut range in std::iter::once(first).chain(ranges) {
            while let Some(cut) = range.cut(2048) {
                let mut bytes = Vec::new();
                copy(cut, &mut bytes);
                let early = |_: LineRange, out: &mut Vec<u8>| {
                    out.extend_from_slice(&bytes);
                    true
                };
                let mut buffer = locked(&self.buffer);
                if buffer.longest == 0 {
                    self.write_through(&mut std::iter::once(cut), &early)?;
                    continue;
                }
                while self.longest_now(&buffer) < buffer.batch.len() + bytes.len() + 64 {
                    let is_empty = buffer.batch.is_empty();
                    drop(buffer);
                    match is_empty {
                        true => self.free_ring(copy)?,
                        false => self.write_buffer()?,
                    }
                    buffer = locked(&self.buffer);
                }
                buffer.push(cut, &early);
                self.progress.appended.store(buffer.end, Release);
            }
        }
        Ok(())
    }

    /// Writes lines to the pool's file and syncs it: used before and after the journal is in use.
    fn write_through(
        &self,
        ranges: &mut dyn Iterator<Item = LineRange>,
        copy: CopyLines<'_>,
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

impl Buffer {
    fn push(&mut self, range: LineRange, copy: CopyLines<'_>) {
        self.dirty.mark(range);
        self.batch.push(range, |out| {
            copy(range, out);
        });
        self.end += range.bytes().1 as u64;
    }
}
