//! Checkpoints: write changed pages from the working memory to the pool's file, so that the batches
//! that changed them may leave the ring.
//!
//! A pass begins with the *cut*, the end of what has been written to the ring. Then it goes through
//! the marked pages ([`DirtyPages`](super::dirty_pages::DirtyPages)), a group at a time:
//!
//! 1. the marks of the group's pages are taken, and the pages are copied;
//! 2. everything that was appended until then is synced in the journal;
//! 3. the copies are written to the pool's file.
//!
//! After the last page the file is synced, and the tail of the ring moves to the cut. All words of
//! batches before the cut were marked before it, so the file has them, or newer ones. After a crash
//! in between, recovery stores the batches from the old tail on.
//!
//! A copy contains stores that have not been flushed yet, as persistent memory may when its power
//! fails: the CPU may write back any line at any time. A store after a fence never gets into the
//! file without that fence, since step 2 comes in between.
//!
//! The header of a pool names its journal, and is read before the journal: it is written while no
//! pass is under way, so that a crash never tears both copies of it.
//!
//! A thread that runs a pass holds its lock for one group: others may continue the pass. A failure
//! anywhere, including a panic, stops the journal. It keeps everything.

use super::append::CopyWords;
use super::batch::{WORD, WordRange};
use super::core::{Count, Journal, locked};
use super::dirty_pages::{PAGE_WORDS, Taken};
use super::error::JournalError;
use super::layout::at_once;
use super::pace::Speed;
use super::page_copies::PageCopies;
use super::pool_progress::{BYTES as PROGRESS_BYTES, PoolProgress};
use super::scan::ScanEnd;
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use crate::mapping::PAGE;
use crate::scheduler::pause;
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{Ordering, fence};
use std::thread;

/// Number of pages that are copied and written at once.
fn group() -> u64 {
    at_once(8 << 20, 3 * PAGE) / PAGE
}

/// Number of bytes of pages after which they are synced, so that the sync at the end of a pass is
/// short.
fn sync_each() -> u64 {
    at_once(64 << 20, 4 * group() * PAGE)
}

/// The state of writing pages to the pool's file.
pub(super) struct Checkpointer {
    /// The journal's progress, as recorded in the pool's file,
    said: PoolProgress,
    /// ... and the offset of the line where it is recorded.
    said_at: u64,
    /// The pass under way.
    pass: Option<Pass>,
    /// How fast this pass and earlier ones are.
    speed: Speed,
    /// Copies of pages, kept so that no group allocates.
    copies: PageCopies,
}

/// A pass through the marked pages.
struct Pass {
    /// The end of the batches that the file has after the pass.
    cut: ScanEnd,
    /// The page to continue from.
    next: u64,
    /// Bytes written since the last sync of the pool's file.
    unsynced: u64,
}

/// Fails the journal if it is dropped in a panic: pages were taken, and have not been written.
struct FailInPanic<'j>(&'j Journal);

impl Drop for FailInPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail("write pages", "a panic");
        }
    }
}

impl Checkpointer {
    pub(super) fn new(said: PoolProgress, said_at: u64) -> Checkpointer {
        let copies = PageCopies::default();
        Checkpointer { said, said_at, pass: None, speed: Speed::default(), copies }
    }

    pub(super) fn is_in_pass(&self) -> bool {
        self.pass.is_some()
    }
}

impl Journal {
    /// Continues a checkpoint by one group of pages, or begins one; returns false if everything
    /// that was written to the ring is in the pool's file, or the journal keeps what it has.
    pub(crate) fn checkpoint_step(&self, copy: CopyWords<'_>) -> Result<bool, JournalError> {
        let mut checkpointer = locked(&self.checkpointer);
        let Some(checkpointer) = &mut *checkpointer else { return Ok(false) };
        self.check()?;
        if self.is_held() {
            return Ok(false);
        }
        // Others continue to write meanwhile.
        self.raise_limit()?;
        let mut pass = match checkpointer.pass.take() {
            Some(pass) => pass,
            None => match self.begin_pass()? {
                Some(pass) => {
                    checkpointer.speed.begin(self.clock.now());
                    self.begin_pace();
                    self.set_pace(&checkpointer.speed, 0);
                    pass
                }
                None => return Ok(false),
            },
        };
        let fail_in_panic = FailInPanic(self);
        match self.write_group(checkpointer, &mut pass, copy)? {
            true => {
                self.set_pace(&checkpointer.speed, pass.next);
                checkpointer.pass = Some(pass);
            }
            false => self.end_pass(checkpointer, pass)?,
        }
        mem::forget(fail_in_panic);
        Ok(true)
    }

    /// Returns true while a pass is under way.
    pub(super) fn is_checkpointing(&self) -> bool {
        locked(&self.checkpointer).as_ref().is_some_and(Checkpointer::is_in_pass)
    }

    /// Writes everything that was appended to the pool's file.
    pub(crate) fn checkpoint(&self, copy: CopyWords<'_>) -> Result<(), JournalError> {
        self.sync_up_to(self.appended())?;
        let end = self.progress.head.load(Acquire);
        while self.progress.tail.load(Acquire) < end && self.checkpoint_step(copy)? {}
        self.refuse_held()?;
        self.check()
    }

    /// Begins a pass, unless the ring is empty.
    fn begin_pass(&self) -> Result<Option<Pass>, JournalError> {
        let writer = locked(&self.writer);
        let Some(writer) = &*writer else { return Ok(None) };
        let (position, sequence) = (writer.head, writer.sequence);
        let cut = ScanEnd { position, sequence, incarnation: writer.incarnation, synced: sequence };
        let is_empty = position == self.progress.tail.load(Acquire);
        Ok((!is_empty).then_some(Pass { cut, next: 0, unsynced: 0 }))
    }

    /// Writes the next group of pages; returns false after the last group.
    fn write_group(
        &self,
        checkpointer: &mut Checkpointer,
        pass: &mut Pass,
        copy: CopyWords<'_>,
    ) -> Result<bool, JournalError> {
        let Checkpointer { said, said_at, copies, speed, .. } = checkpointer;
        copies.clear((group() + 1) * PAGE);
        let Taken { next, marks } = self.copy_pages(pass.next, copies, copy)?;
        pass.next = next.unwrap_or(pass.next);
        if copies.is_empty() {
            return Ok(next.is_some());
        }
        // The record of the progress goes past the page cache too: as long as the kernel has any
        // page of the file there, it looks for those of each write.
        if !copies.has(*said_at) {
            let page = WordRange { first: *said_at / PAGE * PAGE_WORDS, words: PAGE_WORDS };
            self.copy_run(page, copies, copy)?;
        }
        // A store in a copy came after fences whose appends have begun: taking the lock now sees
        // them.
        fence(Ordering::SeqCst);
        let appended = locked(&self.buffer).end;
        if FaultPoint::SyncBeforeWrite.is_enabled() && self.synced() < appended {
            self.sync_in_background()?;
        }
        // A journal that lacks what the pages contain is too old for them.
        said.synced = self.progress.synced_sequence.load(Acquire);
        copies.put_line(*said_at, &said.encode());
        self.write_runs_to_pool(&copies.writes())?;
        let len = copies.len();
        self.progress.count(Count::BytesApplied, len);
        speed.add(marks);
        pass.unsynced += len;
        if pass.unsynced >= sync_each() {
            self.sync_pool()?;
            pass.unsynced = 0;
        }
        Ok(next.is_some())
    }

    /// Takes the marks of pages and copies the pages.
    fn copy_pages(
        &self,
        from: u64,
        copies: &mut PageCopies,
        copy: CopyWords<'_>,
    ) -> Result<Taken, JournalError> {
        let takes_first = FaultPoint::TakeBeforeCopy.is_enabled();
        let mut runs = Vec::new();
        let taken = match takes_first {
            true => locked(&self.buffer).dirty.take(from, group(), &mut runs),
            false => locked(&self.buffer).dirty.clone().take(from, group(), &mut runs),
        };
        for run in runs {
            pause();
            self.copy_run(run, copies, copy)?;
        }
        if !takes_first {
            locked(&self.buffer).dirty.take(from, group(), &mut Vec::new());
        }
        Ok(taken)
    }

    fn copy_run(
        &self,
        run: WordRange,
        copies: &mut PageCopies,
        copy: CopyWords<'_>,
    ) -> Result<(), JournalError> {
        if copies.add(run, copy) {
            return Ok(());
        }
        // Once overwritten, the medium would no longer report the loss.
        Err(self.fail("read the pool's pages", "the medium has lost a part of it"))
    }

    /// Syncs the file, which has all pages, and moves the tail to the cut.
    fn end_pass(&self, checkpointer: &mut Checkpointer, pass: Pass) -> Result<(), JournalError> {
        let last = self.clock.now();
        let cut = match FaultPoint::CutBeforeCopy.is_enabled() {
            true => pass.cut,
            false => self.begin_pass()?.map_or(pass.cut, |late| late.cut),
        };
        if FaultPoint::SayApplied.is_enabled() {
            checkpointer.said.applied = cut.sequence;
            self.say(&checkpointer.said, checkpointer.said_at)?;
        }
        if FaultPoint::SyncApplied.is_enabled() {
            self.sync_pool()?;
        }
        let page = checkpointer.said_at / PAGE * PAGE;
        self.pool.will_overwrite(page, page + PAGE);
        self.progress.count(Count::Applied, 1);
        self.move_tail(cut)?;
        checkpointer.speed.end(last, self.clock.now());
        Ok(())
    }

    /// Moves the tail to a cut: the pool has everything before it.
    fn move_tail(&self, cut: ScanEnd) -> Result<(), JournalError> {
        let mut open = locked(&self.superblock);
        let Some(open) = &mut *open else { return self.check() };
        open.superblock.tail = cut.position;
        open.superblock.tail_sequence = cut.sequence;
        open.superblock.tail_incarnation = cut.incarnation;
        if FaultPoint::SyncTail.is_enabled() {
            self.follow_with_limit(open)?;
        }
        self.progress.tail.store(cut.position, Release);
        Ok(())
    }
}

const _: () = {
    assert!(PAGE_WORDS * WORD == PAGE && PROGRESS_BYTES as u64 == LINE);
};
