//! Writing and syncing the journal: one thread for all that wait.
//!
//! Whoever needs its lines written or synced takes the writer. The thread that had it before may
//! have done it meanwhile; if not, this one writes everything that was appended so far, as one
//! batch, and syncs once. Those that come meanwhile wait for the writer, and share the next write.

use super::batch::{BatchBuffer, BatchHeader};
use super::core::{Count, Journal, locked};
use super::error::JournalError;
use super::layout::BLOCK;
use super::ring::Ring;
use super::storage::Storage;
use super::superblock::JournalId;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// What it takes to write the next batch.
pub(super) struct Writer {
    pub(super) file: Arc<dyn Storage>,
    pub(super) id: JournalId,
    pub(super) incarnation: u64,
    pub(super) capacity: u64,
    /// Position in the ring, and sequence number, of the next batch.
    pub(super) head: u64,
    pub(super) sequence: u64,
    /// All batches before this one are synced.
    pub(super) synced_sequence: u64,
    /// An empty batch, to be exchanged for the full one.
    pub(super) spare: BatchBuffer,
}

impl Journal {
    /// Returns the position after all lines that were appended so far.
    #[inline]
    pub(crate) fn appended(&self) -> u64 {
        self.progress.appended.load(Acquire)
    }

    /// Returns the position up to which lines are written to the journal's file.
    pub(crate) fn written(&self) -> u64 {
        self.progress.written.load(Acquire)
    }

    /// Returns the position up to which lines are durable.
    pub(crate) fn synced(&self) -> u64 {
        self.progress.synced.load(Acquire)
    }

    /// Returns when lines are written up to `position`, by whatever thread.
    pub(crate) fn write_up_to(&self, position: u64) -> Result<(), JournalError> {
        if self.written() >= position {
            return Ok(());
        }
        let mut writer = locked(&self.writer);
        match &mut *writer {
            Some(writer) if self.written() < position => self.write(writer),
            _ => self.check(),
        }
    }

    /// Returns when lines are durable up to `position`, by whatever thread.
    pub(crate) fn sync_up_to(&self, position: u64) -> Result<(), JournalError> {
        if self.synced() >= position {
            return Ok(());
        }
        let mut writer = locked(&self.writer);
        match &mut *writer {
            Some(writer) if self.synced() < position => {
                self.write(writer)?;
                self.sync_written(writer)
            }
            _ => self.check(),
        }
    }

    /// Writes what was appended, so that there is space in the buffer.
    pub(super) fn write_buffer(&self) -> Result<(), JournalError> {
        match &mut *locked(&self.writer) {
            Some(writer) => self.write(writer),
            None => self.check(),
        }
    }

    /// Writes what was appended.
    pub(super) fn write(&self, writer: &mut Writer) -> Result<(), JournalError> {
        self.check()?;
        let mut buffer = locked(&self.buffer);
        if buffer.batch.is_empty() {
            return Ok(());
        }
        mem::swap(&mut buffer.batch, &mut writer.spare);
        let end = buffer.end;
        drop(buffer);
        let space = (writer.spare.len() as u64).next_multiple_of(BLOCK);
        self.wait_for_space(writer, space)?;
        let header = BatchHeader {
            incarnation: writer.incarnation,
            sequence: writer.sequence,
            synced: writer.synced_sequence,
            len: 0,
        };
        let ring = Ring { file: &*writer.file, capacity: writer.capacity };
        let bytes = writer.spare.finish(&writer.id.pool, header);
        let written = ring.write(bytes, writer.head);
        written.map_err(|error| self.fail("write to the journal", error))?;
        writer.spare.clear();
        writer.head += space;
        writer.sequence += 1;
        self.progress.count(Count::Batches, 1);
        self.progress.count(Count::BytesWritten, space);
        self.progress.head.store(writer.head, Release);
        self.progress.written.store(end, Release);
        self.notify_if_half_full(writer.head, space, writer.capacity);
        Ok(())
    }

    /// Syncs what was written.
    fn sync_written(&self, writer: &mut Writer) -> Result<(), JournalError> {
        self.sync_batches(&*writer.file)?;
        writer.synced_sequence = writer.sequence;
        self.progress.synced_head.store(writer.head, Release);
        self.progress.synced.store(self.written(), Release);
        Ok(())
    }

    /// Applies batches until the ring has this much space.
    fn wait_for_space(&self, writer: &mut Writer, space: u64) -> Result<(), JournalError> {
        let is_full = |writer: &Writer| {
            writer.head + space - self.progress.tail.load(Acquire) > writer.capacity
        };
        if !is_full(writer) {
            return Ok(());
        }
        self.progress.count(Count::FullWaits, 1);
        self.sync_written(writer)?;
        while is_full(writer) {
            self.apply_step()?;
        }
        Ok(())
    }
}
