//! A fence: its thread's lines are copied to the end of the buffer.
//!
//! The bytes are copied while the buffer is locked, so that of each line the newest content comes
//! last in the journal. Were they copied before, another thread could copy a newer content of a
//! line that both have flushed, and append it first.
//!
//! A fence of more lines than the buffer has space for is spread over several batches. That breaks
//! no rule: a line may reach the medium before its fence.

use super::batch::LineRange;
use super::core::{Buffer, Journal, locked};
use super::error::JournalError;
use crate::fault_points::FaultPoint;
use std::sync::atomic::Ordering::Release;

/// Copies the lines of a range to the end of a vector.
pub(crate) type CopyLines<'m> = &'m dyn Fn(LineRange, &mut Vec<u8>);

impl Journal {
    /// Appends the lines that a thread flushed.
    pub(crate) fn append(
        &self,
        ranges: &mut dyn Iterator<Item = LineRange>,
        copy: CopyLines<'_>,
    ) -> Result<(), JournalError> {
        let Some(first) = ranges.next() else { return Ok(()) };
        self.check()?;
        let mut rest = Some(first);
        if !FaultPoint::CopyUnderLock.is_enabled() {
            return self.append_early(first, ranges, copy);
        }
        loop {
            let mut buffer = locked(&self.buffer);
            if buffer.longest == 0 {
                return self.write_through(&mut rest.into_iter().chain(ranges), copy);
            }
            while let Some(range) = &mut rest {
                let Some(cut) = range.cut(buffer.space()) else { break };
                buffer.push(cut, copy);
                if range.lines == 0 {
                    rest = ranges.next();
                }
            }
            self.progress.appended.store(buffer.end, Release);
            if rest.is_none() {
                return Ok(());
            }
            drop(buffer);
            self.write_buffer()?;
        }
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
                let early = |_: LineRange, out: &mut Vec<u8>| out.extend_from_slice(&bytes);
                let mut buffer = locked(&self.buffer);
                if buffer.longest == 0 {
                    self.write_through(&mut std::iter::once(cut), &early)?;
                    continue;
                }
                while buffer.space() < bytes.len() + 64 {
                    drop(buffer);
                    self.write_buffer()?;
                    buffer = locked(&self.buffer);
                }
                buffer.push(cut, &early);
                self.progress.appended.store(buffer.end, Release);
            }
        }
        Ok(())
    }

    /// Writes lines to the pool's file and syncs it: before a journal is in use, and after.
    fn write_through(
        &self,
        ranges: &mut dyn Iterator<Item = LineRange>,
        copy: CopyLines<'_>,
    ) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        for range in ranges {
            bytes.clear();
            copy(range, &mut bytes);
            let written = self.pool.write_at(&bytes, range.bytes().0);
            written.map_err(|error| self.fail("write to the pool", error))?;
        }
        self.sync_pool()
    }
}

impl Buffer {
    /// Returns the number of bytes that the batch has space for.
    fn space(&self) -> usize {
        (self.longest as usize).saturating_sub(self.batch.len())
    }

    fn push(&mut self, range: LineRange, copy: CopyLines<'_>) {
        self.batch.push(range, |out| copy(range, out));
        self.end += range.bytes().1 as u64;
    }
}
