//! Writes and syncs the journal: one thread does it for all that wait.
//!
//! A thread that needs its words written or synced takes the writer. The previous holder may have
//! done it meanwhile; if not, this thread writes everything that was appended so far, as one batch,
//! and syncs once. Threads that come meanwhile wait for the writer, and share the next write.
//!
//! The first batch after a sync begins a new block, so that a block with synced bytes is never
//! written again: a power loss meanwhile could destroy them too. Batches without a sync in between
//! follow each other within the block, so that a small unsynced write costs only its own bytes.
//! Whenever a batch enters a block, the rest of the block is filled with zeros: nothing has to be
//! read for that, and old content does not look like the next batch.

use super::batch::{BatchBuffer, BatchHeader};
use super::core::{Count, Journal, locked};
use super::error::JournalError;
use super::layout::BLOCK;
use super::ring::Ring;
use super::storage::Storage;
use super::superblock::JournalId;
use super::unsynced::UnsyncedWrites;
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// The state for writing the next batch.
pub(super) struct Writer {
    pub(super) file: Arc<dyn Storage>,
    pub(super) id: JournalId,
    pub(super) incarnation: u64,
    /// Position in the ring after the last batch.
    pub(super) head: u64,
    /// The next batch begins a block.
    pub(super) begins_block: bool,
    /// Sequence number of the next batch.
    pub(super) sequence: u64,
    /// All batches before this one are synced.
    pub(super) synced_sequence: u64,
    /// An empty batch, to swap with the full one.
    pub(super) spare: BatchBuffer,
    pub(super) unsynced: UnsyncedWrites,
}

impl Journal {
    /// Returns the position after all words that were appended so far.
    #[inline]
    pub(crate) fn appended(&self) -> u64 {
        self.progress.appended.load(Acquire)
    }

    /// Returns the position up to which words have been written to the journal's file.
    pub(crate) fn written(&self) -> u64 {
        self.progress.written.load(Acquire)
    }

    /// Returns the position up to which words are durable.
    pub(crate) fn synced(&self) -> u64 {
        self.progress.synced.load(Acquire)
    }

    /// Returns when some thread has written the words up to `position`.
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

    /// Returns when some thread has written the words up to `position`, and no unsynced write is as
    /// old as `age`: waits for a late sync.
    pub(crate) fn write_within(&self, position: u64, age: Duration) -> Result<(), JournalError> {
        self.write_up_to(position)?;
        match self.unsynced_age() < age || !FaultPoint::WaitForLateSync.is_enabled() {
            true => Ok(()),
            false => self.sync_up_to(position),
        }
    }

    /// Returns when some thread has made the words up to `position` durable.
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

    /// Writes everything appended, so that there is space in the buffer.
    pub(super) fn write_buffer(&self) -> Result<(), JournalError> {
        match &mut *locked(&self.writer) {
            Some(writer) => self.write(writer),
            None => self.check(),
        }
    }

    /// Writes everything appended.
    pub(super) fn write(&self, writer: &mut Writer) -> Result<(), JournalError> {
        self.check()?;
        let mut buffer = locked(&self.buffer);
        if buffer.batch.is_empty() {
            return Ok(());
        }
        mem::swap(&mut buffer.batch, &mut writer.spare);
        let end = buffer.end;
        let len = writer.spare.len();
        buffer.ring_at = writer.place(len).end(len);
        drop(buffer);
        let place = self.wait_for_place(writer, len)?;
        let header = BatchHeader {
            incarnation: writer.incarnation,
            sequence: writer.sequence,
            synced: writer.synced_sequence,
            len: 0,
        };
        let tail = self.progress.tail.load(Acquire) / BLOCK * BLOCK;
        // Read after the limit: a batch before that has the same place in a longer ring.
        let capacity = self.progress.capacity.load(Acquire);
        if place.end(len) - tail > capacity {
            return Err(self.fail("write to the journal", "more was appended than has space"));
        }
        let ring = Ring { file: &*writer.file, capacity };
        let bytes = writer.spare.finish(&writer.id, header, place.padding);
        let now = self.clock.now();
        let (written, byte_count) = (ring.write(bytes, place.at), bytes.len() as u64);
        writer.unsynced.write(now);
        written.map_err(|error| self.fail("write to the journal", error))?;
        writer.spare.clear();
        let space = place.head - writer.head;
        (writer.head, writer.begins_block) = (place.head, false);
        writer.sequence += 1;
        self.progress.count(Count::Batches, 1);
        self.progress.count(Count::BytesWritten, byte_count);
        self.progress.note_unsynced(&writer.unsynced);
        self.progress.head.store(writer.head, Release);
        self.progress.written.store(end, Release);
        self.notify_if_due(writer.head, space, capacity);
        Ok(())
    }

    /// Syncs everything written.
    fn sync_written(&self, writer: &mut Writer) -> Result<(), JournalError> {
        let written = self.written();
        writer.begin_sync(written);
        self.sync_batches(&*writer.file)?;
        writer.synced_sequence = writer.sequence;
        self.progress.synced_sequence.store(writer.sequence, Release);
        self.progress.synced.store(written, Release);
        self.end_sync(writer, written);
        Ok(())
    }

    /// Records that everything written up to a position is synced.
    pub(super) fn end_sync(&self, writer: &mut Writer, written: u64) {
        writer.unsynced.end_sync(written);
        self.progress.note_unsynced(&writer.unsynced);
    }

    /// Returns the place for a batch of this length, once the superblock's limit is past it. The
    /// ring has space: no more is appended than fits.
    fn wait_for_place(&self, writer: &mut Writer, len: usize) -> Result<Place, JournalError> {
        let place = writer.place(len);
        if self.is_before_limit(place.end(len)) || !FaultPoint::KeepLimit.is_enabled() {
            return Ok(place);
        }
        self.progress.count(Count::FullWaits, 1);
        let begin = self.clock.now();
        // Nobody else can sync what was written: this thread holds the writer's lock.
        self.sync_written(writer)?;
        // Synced bytes share no block with the batch.
        let place = writer.place(len);
        self.wait_for_limit(place.end(len))?;
        let waited = self.clock.now().saturating_sub(begin);
        self.progress.count(Count::FullWaitNanos, waited.as_nanos() as u64);
        Ok(place)
    }
}

/// The place of a batch in the ring.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    at: u64,
    /// Position after it,
    head: u64,
    /// ... and the number of zeros that are written after it.
    padding: usize,
}

impl Place {
    /// Returns the position after the zeros.
    fn end(&self, len: usize) -> u64 {
        self.at + (len + self.padding) as u64
    }
}

impl Writer {
    /// Records that a sync begins, of everything written up to a position. Later writes share no
    /// block with that.
    pub(super) fn begin_sync(&mut self, written: u64) {
        self.begins_block = true;
        self.unsynced.begin_sync(written);
    }

    /// Returns the place of a batch of this length.
    fn place(&self, len: usize) -> Place {
        let begins_block = self.begins_block && FaultPoint::BeginBlock.is_enabled();
        let at = if begins_block { self.head.next_multiple_of(BLOCK) } else { self.head };
        let head = at + (len as u64).next_multiple_of(LINE);
        let stays_in_block = !at.is_multiple_of(BLOCK) && at / BLOCK == (head - 1) / BLOCK;
        let end = if stays_in_block { head } else { head.next_multiple_of(BLOCK) };
        Place { at, head, padding: (end - at) as usize - len }
    }
}

#[cfg(test)]
mod tests {
    use super::super::storage::tests::Memory;
    use super::*;

    #[test]
    fn a_batch_after_a_sync_begins_a_block_and_others_share_it() {
        let place = |head, begins_block, len| {
            let writer = Writer {
                file: Arc::new(Memory::new(0)),
                id: JournalId { pool: [7; 16], journal: 1 },
                incarnation: 1,
                head,
                begins_block,
                sequence: 1,
                synced_sequence: 1,
                spare: BatchBuffer::default(),
                unsynced: UnsyncedWrites::default(),
            };
            let Place { at, head, padding } = writer.place(len);
            (at, head, padding)
        };
        // Into a new block: the rest of it is zeros.
        assert_eq!(place(0, true, 200), (0, 256, 3896));
        assert_eq!(place(256, true, 200), (4096, 4352, 3896));
        assert_eq!(place(4096, false, 4096), (4096, 8192, 0));
        assert_eq!(place(4096, true, 4097), (4096, 8256, 4095));
        // After an unsynced batch.
        assert_eq!(place(256, false, 200), (256, 512, 56));
        assert_eq!(place(256, false, 3840), (256, 4096, 0));
        assert_eq!(place(256, false, 3841), (256, 4160, 4095));
    }
}
