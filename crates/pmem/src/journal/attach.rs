//! Begins a journal for a pool, reads it again after a crash, and ends its use.
//!
//! The pool's owner names the journal in the pool's file, by number, as long as that file alone may
//! lack writes:
//!
//! 1. A journal is begun: empty, with a new number. Synced.
//! 2. The pool names it. This is written to the pool's file itself, and synced.
//! 3. Only from then on do fences go to the journal.
//! 4. At a clean close everything is applied, so that the journal is empty, and synced. From the
//!    moment that it is empty, fences go to the pool's file.
//! 5. The pool no longer names a journal.
//!
//! So a journal that is not empty belongs to a pool that names it; any other combination of files
//! was made by somebody, and is refused.

use super::append::CopyWords;
use super::batch::{BatchBuffer, BatchHeader, RangeBytes, WordRange, ranges};
use super::checkpoint::Checkpointer;
use super::core::{Buffer, Count, Journal, Progress, locked};
use super::dirty_pages::DirtyPages;
use super::error::JournalError;
use super::grow::first_capacity;
use super::layout::{BLOCK, DEFAULT_CAPACITY, RING_AT, at_once, capacity_for, longest_batch};
use super::limit::{OpenSuperblock, limit_after};
use super::mapped::MappedStorage;
use super::pool_progress::{BYTES as PROGRESS_BYTES, PoolProgress};
use super::read_ahead::ReadAhead;
use super::ring::Ring;
use super::scan::{Scan, ScanEnd};
use super::storage::{Storage, is_no_space};
use super::superblock::{JournalId, Superblock, SuperblockError, VERSION};
use super::unsynced::UnsyncedWrites;
use super::writer::Writer;
use crate::fault_points::FaultPoint;
use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Bytes that are examined at once.
fn copied_at_once() -> u64 {
    at_once(1 << 20, 4 * BLOCK)
}

/// Bytes that the kernel is asked to read ahead: a ring of the usual length.
const READ_AHEAD: u64 = DEFAULT_CAPACITY;

/// The result of recovering from a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalRecovery {
    /// The number of batches that were stored into the working memory.
    pub batches: u64,
    /// The number of bytes of their words.
    pub bytes: u64,
    /// The sequence number of the first of them.
    pub first: u64,
    /// The position in the ring where the first of them begins,
    pub tail: u64,
    /// ... and where the last one ends.
    pub head: u64,
    /// The number of bytes of the ring.
    pub capacity: u64,
}

/// Stores words into the working memory; returns false if it does not contain them.
pub(crate) type StoreWords<'m> = &'m dyn Fn(WordRange, &[u8]) -> bool;

/// The memory that the words of a journal are stored into.
pub(super) struct Target<'m> {
    /// Announces that words will be stored.
    pub(super) announce: &'m mut dyn FnMut(&[RangeBytes<'_>]),
    pub(super) store: StoreWords<'m>,
}

impl Journal {
    /// Begins an empty journal: fences still go to the pool's file until [`Journal::start`]. The
    /// line of the pool's file at `progress_at` belongs to the journal; it is synced with the next
    /// fence.
    pub(crate) fn begin(&self, id: JournalId, progress_at: u64) -> Result<(), JournalError> {
        self.check()?;
        let file = self.place.open_or_create()?;
        let most = capacity_for(self.capacity);
        let capacity = first_capacity(&*file, file.size()?, most);
        let old = found(&*file)?;
        let is_blank = old.is_none();
        let mut superblock = match old {
            Some(old) => emptied(&*file, old, id)?,
            None => blank(&*file, id, capacity)?,
        };
        let (size, needed) = (file.size()?, RING_AT + capacity);
        let limit = limit_after(0, capacity, &*file)?;
        if size < needed {
            self.make_space(&*file, size..needed, RING_AT + limit.min(capacity))?;
        }
        if size < needed || is_blank {
            // A process that ended here may have left a file of this size that was never synced. No
            // superblock may arrive before the size that it contains.
            self.sync_file(&*file)?;
            self.place.sync_name()?;
        }
        superblock = Superblock { id, capacity, tail: 0, limit, ..superblock };
        superblock.incarnation += 1;
        superblock.tail_incarnation = superblock.incarnation;
        superblock.opened_at = superblock.tail_sequence;
        superblock.synced = superblock.tail_sequence;
        superblock.checked_from = superblock.tail_sequence;
        superblock.write(&*file, || self.sync_file(&*file))?;
        let said = PoolProgress::at_tail(&superblock);
        self.say(&said, progress_at)?;
        let end = ScanEnd {
            position: 0,
            sequence: superblock.tail_sequence,
            incarnation: superblock.incarnation,
            synced: superblock.tail_sequence,
        };
        Ring { file: &*file, capacity }.will_overwrite(0, capacity);
        self.prepare(file, superblock, end, Checkpointer::new(said, progress_at))
    }

    /// Extends a file to its full length, with space for all of it, and writes zeros up to
    /// `written`. If the disk has no space for all of it, none of it is kept.
    fn make_space(
        &self,
        file: &dyn Storage,
        space: Range<u64>,
        written: u64,
    ) -> Result<(), JournalError> {
        let Range { start: from, end: to } = space;
        let made = file.allocate(from, to).and_then(|()| file.write_zeros(from, written));
        made.map_err(|error| match is_no_space(&error) {
            true => {
                // If that fails too, a later start finds zeros, and continues from there.
                let _ = file.cut(from);
                JournalError::NoSpace { path: self.place.path(), needed: to, source: error }
            }
            false => error.into(),
        })
    }

    /// Makes fences go to the journal from here on: the pool names it.
    pub(crate) fn start(&self) {
        if locked(&self.writer).is_some() {
            let capacity = self.progress.capacity.load(Acquire);
            locked(&self.buffer).longest = longest_batch(capacity);
        }
    }

    /// Reads the journal that a pool names: `store` stores its words, in order. From here on fences
    /// go to the journal. `said` is the line of the pool's file at `progress_at`.
    pub(crate) fn recover(
        &self,
        id: JournalId,
        progress_at: u64,
        said: &[u8; PROGRESS_BYTES],
        store: StoreWords<'_>,
    ) -> Result<JournalRecovery, JournalError> {
        self.check()?;
        let said = PoolProgress::decode(said)?;
        let missing = || JournalError::Missing { path: self.place.path() };
        let file = self.place.open()?.ok_or_else(missing)?;
        let mut superblock = found(&*file)?.ok_or(JournalError::Superblock)?;
        check_id(&superblock, id)?;
        check_length(&*file, &superblock)?;
        let begin = self.clock.now();
        let mut recovery = JournalRecovery::default();
        let ring = Ring { file: &*file, capacity: superblock.capacity };
        let may_read = superblock.batches_end().saturating_sub(superblock.tail);
        ring.will_read(superblock.tail, may_read.min(READ_AHEAD));
        let dirty = RefCell::new(DirtyPages::default());
        let store = |range: WordRange, bytes: &[u8]| {
            let is_stored = store(range, bytes);
            if is_stored && FaultPoint::MarkRecovered.is_enabled() {
                dirty.borrow_mut().mark(range);
            }
            is_stored
        };
        let mut ahead = ReadAhead::default();
        let mut announce = |ranges: &[RangeBytes<'_>]| ahead.ask(&*self.pool, ranges);
        let target = Target { announce: &mut announce, store: &store };
        let Replayed { end, before_unsynced } =
            replay(&*file, &superblock, said, target, &mut recovery)?;
        self.progress.count(Count::RecoveredBatches, recovery.batches);
        self.progress.count(Count::RecoveredBytes, recovery.bytes);
        let took = self.clock.now().saturating_sub(begin);
        self.progress.count(Count::RecoveryNanos, took.as_nanos() as u64);
        if FaultPoint::RewriteUnsynced.is_enabled() {
            rewrite(&*file, &superblock, before_unsynced, end)?;
        }
        self.sync_file(&*file)?;
        superblock.incarnation += 1;
        superblock.opened_at = end.sequence;
        superblock.synced = end.sequence;
        superblock.checked_from = superblock.checked_from.min(end.sequence);
        superblock.limit = limit_after(end.position, superblock.capacity, &*file)?;
        let said = PoolProgress::at_tail(&superblock);
        self.say(&said, progress_at)?;
        // After the next superblock these bytes must exist. What an earlier process wrote may be in
        // the page cache only: its sync may have failed.
        self.sync_pool()?;
        superblock.write(&*file, || self.sync_file(&*file))?;
        let head = end.position.next_multiple_of(BLOCK);
        ring.will_overwrite(head, superblock.tail / BLOCK * BLOCK + ring.capacity - head);
        locked(&self.buffer).dirty = dirty.into_inner();
        self.prepare(file, superblock, end, Checkpointer::new(said, progress_at))?;
        self.start();
        Ok(recovery)
    }

    /// Ends the use of the journal: applies everything; fences go to the pool's file again. Other
    /// threads may fence meanwhile: a value that is written without a shard's lock, for example.
    pub(crate) fn end(&self, copy: CopyWords<'_>) -> Result<(), JournalError> {
        loop {
            self.checkpoint(copy)?;
            let mut checkpointer = locked(&self.checkpointer);
            self.refuse_held()?;
            let mut writer = locked(&self.writer);
            if !self.stop_appending() {
                continue;
            }
            self.lower_limit()?;
            (*checkpointer, *writer, *locked(&self.superblock)) = (None, None, None);
            return Ok(());
        }
    }

    /// Makes fences go to the pool's file, if the journal is empty; returns false if it is not.
    fn stop_appending(&self) -> bool {
        let mut buffer = locked(&self.buffer);
        let Progress { head, tail, .. } = &self.progress;
        let is_empty = buffer.batch.is_empty() && head.load(Acquire) == tail.load(Acquire);
        if is_empty || !FaultPoint::EndEmpty.is_enabled() {
            *buffer = Buffer { end: buffer.end, ..Buffer::default() };
            return true;
        }
        false
    }

    fn prepare(
        &self,
        file: Arc<dyn Storage>,
        superblock: Superblock,
        end: ScanEnd,
        checkpointer: Checkpointer,
    ) -> Result<(), JournalError> {
        fill_holes(&*file, superblock.capacity)?;
        let (file, is_mapped) = MappedStorage::over(file)?;
        self.progress.is_mapped.store(is_mapped, Release);
        let Superblock { id, incarnation, capacity, tail, limit, .. } = superblock;
        self.progress.limit.store(limit, Release);
        self.progress.tail.store(tail, Release);
        self.progress.head.store(end.position, Release);
        self.progress.synced_sequence.store(end.sequence, Release);
        self.progress.capacity.store(capacity, Release);
        let most = if file.may_grow() { capacity_for(self.capacity) } else { capacity };
        self.progress.most_capacity.store(most, Release);
        self.progress.wants_growth.store(0, Release);
        *locked(&self.writer) = Some(Writer {
            file: Arc::clone(&file),
            id,
            incarnation,
            head: end.position,
            begins_block: true,
            sequence: end.sequence,
            synced_sequence: end.sequence,
            spare: BatchBuffer::default(),
            unsynced: UnsyncedWrites::default(),
        });
        let open = OpenSuperblock::new(file, superblock)?;
        self.progress.is_written.store(open.is_written(), Release);
        *locked(&self.superblock) = Some(open);
        *locked(&self.checkpointer) = Some(checkpointer);
        locked(&self.buffer).ring_at = end.position;
        Ok(())
    }
}

/// Reads the superblock of a file; `None` if it was never written.
pub(super) fn found(file: &dyn Storage) -> Result<Option<Superblock>, JournalError> {
    if file.size()? == 0 {
        return Ok(None);
    }
    let size = file.size()?;
    if size < RING_AT {
        // A power loss may leave the beginning of a file that was being created.
        let mut found = vec![0; size as usize];
        file.read_at(&mut found, 0)?;
        return match found.iter().all(|byte| *byte == 0) {
            true => Ok(None),
            false => Err(JournalError::Cut { expected: RING_AT, found: size }),
        };
    }
    match Superblock::read(file)? {
        Ok(superblock) => Ok(Some(superblock)),
        Err(SuperblockError::Blank) => Ok(None),
        Err(SuperblockError::Magic) => Err(JournalError::NotAJournal),
        Err(SuperblockError::Version { found }) => {
            Err(JournalError::Version { expected: VERSION, found })
        }
        Err(SuperblockError::Damaged) => Err(JournalError::Superblock),
    }
}

/// Refuses a journal that is not the one that the pool names.
pub(super) fn check_id(superblock: &Superblock, id: JournalId) -> Result<(), JournalError> {
    check_owner(superblock, id)?;
    if superblock.id.journal != id.journal {
        let (expected, found) = (id.journal, superblock.id.journal);
        return Err(JournalError::OtherIncarnation { expected, found });
    }
    Ok(())
}

/// Refuses a journal file that is shorter than its ring.
pub(super) fn check_length(
    file: &dyn Storage,
    superblock: &Superblock,
) -> Result<(), JournalError> {
    let (expected, found) = (RING_AT + superblock.capacity, file.size()?);
    if found < expected { Err(JournalError::Cut { expected, found }) } else { Ok(()) }
}

/// Reserves the space that a copy of the file may lack: one with holes where it had zeros. A
/// refusal changes nothing: XFS, when it is full, also refuses space that the file has already.
fn fill_holes(file: &dyn Storage, capacity: u64) -> io::Result<()> {
    let end = RING_AT + capacity;
    if file.written_up_to(RING_AT)? < end {
        let _ = file.allocate(RING_AT, end);
    }
    Ok(())
}

fn check_owner(superblock: &Superblock, id: JournalId) -> Result<(), JournalError> {
    let hex = |pool: [u8; 16]| pool.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match superblock.id.pool == id.pool {
        true => Ok(()),
        false => {
            Err(JournalError::OtherPool { expected: hex(id.pool), found: hex(superblock.id.pool) })
        }
    }
}

/// Returns the superblock of a journal that was used before, positioned after its last batch, if
/// the journal is empty.
pub(super) fn emptied(
    file: &dyn Storage,
    superblock: Superblock,
    id: JournalId,
) -> Result<Superblock, JournalError> {
    check_owner(&superblock, id)?;
    check_length(file, &superblock)?;
    let mut scan = Scan::new(Ring { file, capacity: superblock.capacity }, &superblock);
    if scan.next()?.is_some() {
        let found = superblock.id.journal;
        return Err(JournalError::OtherIncarnation { expected: 0, found });
    }
    scan.refuse_damage()?;
    Ok(superblock)
}

/// Returns the superblock of a new journal. A file that has bytes but no superblock has lost it:
/// the batches in its ring might count again.
fn blank(file: &dyn Storage, id: JournalId, capacity: u64) -> Result<Superblock, JournalError> {
    let size = file.size()?;
    let mut chunk = vec![0; size.min(copied_at_once()) as usize];
    for at in (0..size).step_by(copied_at_once() as usize) {
        let chunk = &mut chunk[..(size - at).min(copied_at_once()) as usize];
        file.read_at(chunk, at)?;
        if chunk.iter().any(|byte| *byte != 0) {
            return Err(JournalError::Superblock);
        }
    }
    Ok(Superblock {
        id,
        generation: 0,
        incarnation: 0,
        tail: 0,
        tail_sequence: 1,
        capacity,
        tail_incarnation: 0,
        opened_at: 0,
        limit: 0,
        synced: 0,
        checked_from: 0,
    })
}

/// The result of replaying a journal.
pub(super) struct Replayed {
    end: ScanEnd,
    /// A place before all batches that no later one records as synced.
    before_unsynced: ScanEnd,
}

/// Stores the words of all valid batches, and records the progress in `recovery`. `said` is the
/// progress recorded in the pool's file.
pub(super) fn replay(
    file: &dyn Storage,
    superblock: &Superblock,
    said: Option<PoolProgress>,
    target: Target<'_>,
    recovery: &mut JournalRecovery,
) -> Result<Replayed, JournalError> {
    PoolProgress::refuse_old_pool(said, superblock)?;
    let Superblock { tail, tail_sequence: first, capacity, .. } = *superblock;
    *recovery = JournalRecovery { first, tail, head: tail, capacity, ..Default::default() };
    let mut scan = Scan::new(Ring { file, capacity }, superblock);
    let mut places = vec![scan.end()];
    loop {
        let ScanEnd { sequence, position, .. } = scan.end();
        if places.last().is_some_and(|last| last.position + copied_at_once() <= position) {
            places.push(scan.end());
        }
        let Some((_, bytes)) = scan.next()? else { break };
        let ranges = ranges(bytes).ok_or(JournalError::Senseless { sequence })?;
        (target.announce)(&ranges);
        for (range, bytes) in ranges {
            if !(target.store)(range, bytes) {
                return Err(JournalError::Senseless { sequence });
            }
            recovery.bytes += bytes.len() as u64;
        }
        recovery.batches += 1;
        recovery.head = scan.end().position;
    }
    scan.refuse_damage()?;
    let end = scan.end();
    PoolProgress::refuse_old_journal(said, superblock, &end)?;
    let known = places.iter().rev().find(|place| place.sequence <= end.synced);
    Ok(Replayed { end, before_unsynced: known.copied().unwrap_or(places[0]) })
}

/// Rewrites batches that no later one records as synced. They may be in the page cache only: a sync
/// of an earlier process may have failed, and the kernel has considered their pages clean since.
fn rewrite(
    file: &dyn Storage,
    superblock: &Superblock,
    from: ScanEnd,
    end: ScanEnd,
) -> Result<(), JournalError> {
    let ring = Ring { file, capacity: superblock.capacity };
    let mut scan = Scan::resume(ring, superblock, from);
    while let Some((position, bytes)) = scan.next()? {
        let rules = superblock.header_rules();
        let header = bytes.first_chunk().and_then(|raw| BatchHeader::parse(raw, &rules));
        if header.is_some_and(|header| header.sequence >= end.synced) {
            ring.write(bytes, position)?;
        }
    }
    // The kernel may have dropped a page in between, and the disk has an older version of it.
    match scan.end() == end {
        true => Ok(()),
        false => Err(io::Error::other("it reads otherwise than a moment ago").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::tests::ID;
    use super::super::layout::LEAST_CAPACITY;
    use super::super::storage::tests::Memory;
    use super::super::superblock::tests::sample;
    use super::*;

    #[test]
    fn a_file_of_zeros_is_new_and_one_with_another_byte_anywhere_is_not() {
        let part = copied_at_once();
        for size in [RING_AT, part - 1, part, part + 1, 2 * part, 3 * part + 1] {
            let is_new = |byte: Option<u64>| {
                let mut bytes = vec![0; size as usize];
                byte.into_iter().for_each(|at| bytes[at as usize] = 1);
                blank(&Memory::from(bytes), ID, LEAST_CAPACITY).is_ok()
            };
            assert!(is_new(None), "{size}");
            let at = [0, RING_AT, part - 1, part, part + 1, 2 * part - 1, size - 1];
            for at in at.into_iter().filter(|at| *at < size) {
                assert!(!is_new(Some(at)), "byte {at} of {size}");
            }
        }
    }

    #[test]
    fn a_journal_is_cut_short_by_a_byte_and_may_be_longer() {
        let superblock = Superblock { capacity: LEAST_CAPACITY, ..sample() };
        let is_whole = |len: u64| check_length(&Memory::new(len as usize), &superblock).is_ok();
        let whole = RING_AT + LEAST_CAPACITY;
        assert_eq!([whole - 1, whole, whole + 1].map(is_whole), [false, true, true]);
    }
}
