//! Growth of the ring: a new journal takes little of its disk, and its ring becomes longer as it
//! fills, up to the size that was asked for.
//!
//! A position in the ring is at the offset `position mod length`, so a longer ring has it elsewhere
//! in general. It has it at the same place if everything in the ring is in one *lap*, `[n * length,
//! (n + 1) * length)`, that begins a lap of the longer ring too: the first lap always does. An
//! empty ring has no such position, and its tail may go forward to the start of a lap.
//!
//! 1. The file gets space for the longer ring, and zeros where it will be written to first. Synced.
//!    Writers go on meanwhile. If the disk has no space, the ring stays as it is; of the space that
//!    a disk has left, at most half is taken.
//! 2. The limit is lowered to the end of the lap, in memory, with the writer locked: batches before
//!    it have the same place in both rings. A writer that comes to it waits.
//! 3. The superblock gets the new length, in both copies; each is synced.
//! 4. The new length is used, and then the limit is raised again.
//!
//! A crash in between leaves the old superblock or the new one. Both find all batches. The file of
//! a journal may be longer than its ring.
//!
//! The background does this when a quarter of the ring is in use, so that writers do not wait for
//! it; a writer that finds no space does it before it makes a checkpoint.

use super::core::{Journal, Progress, locked};
use super::error::JournalError;
use super::layout::{BLOCK, LEAST_CAPACITY, RING_AT, at_once, longest_batch};
use super::limit::{OpenSuperblock, extent};
use super::storage::{Storage, is_no_space};
use crate::fault_points::FaultPoint;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

/// Length of the ring of a new journal that may grow: it is filled with zeros at once.
fn first() -> u64 {
    at_once(512 << 10, LEAST_CAPACITY)
}

/// How many times as long a ring becomes.
const FACTOR: u64 = 16;

/// The time after which a growth that got no space is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// Returns the length of the ring of a journal that is begun, which may become `most` bytes long:
/// the file has `size` bytes already.
pub(super) fn first_capacity(file: &dyn Storage, size: u64, most: u64) -> u64 {
    match file.may_grow() {
        true => most.min(first().max(size.saturating_sub(RING_AT) / BLOCK * BLOCK)),
        false => most,
    }
}

/// Returns true if a ring of which this much is in use should become longer.
fn needs_growth(used: u64, capacity: u64) -> bool {
    used > capacity / 4
}

/// Returns true if a file may take this much of its disk: at most half of what the disk has left,
/// for the pool and for others.
fn leaves_a_share(file: &dyn Storage, takes: u64) -> bool {
    takes == 0 || file.available().is_none_or(|left| takes <= left / 2)
}

/// The position from which a longer ring is used.
#[derive(Clone, Copy)]
struct Begin {
    tail: u64,
    head: u64,
}

/// The place of a ring's content in a longer one.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// In the same place, up to the end of the lap.
    Same { end: u64 },
    /// The ring is empty, and continues at this position.
    Next { position: u64 },
    /// Elsewhere.
    Other,
}

/// Returns where the content `[tail, head)` of a ring is in one of length `next`.
fn place(tail: u64, head: u64, capacity: u64, next: u64) -> Place {
    let begin = tail / capacity * capacity;
    let end = begin + capacity;
    // The last block has zeros up to its end.
    let is_in_lap = head.next_multiple_of(BLOCK) <= end;
    if is_in_lap && begin.is_multiple_of(next) || !FaultPoint::GrowInPlace.is_enabled() {
        Place::Same { end }
    } else if head == tail {
        Place::Next { position: head.next_multiple_of(next) }
    } else {
        Place::Other
    }
}

impl Journal {
    /// Returns true if the ring should become longer now.
    pub(super) fn should_grow(&self) -> bool {
        let Progress { wants_growth, capacity, growth_after, .. } = &self.progress;
        wants_growth.load(Acquire) == capacity.load(Acquire)
            && self.clock.now().as_nanos() as u64 >= growth_after.load(Acquire)
    }

    /// Returns true if the ring becomes longer as soon as the background comes to it.
    pub(super) fn is_about_to_grow(&self) -> bool {
        self.should_grow() && !self.progress.growth_lacks_place.load(Acquire)
    }

    /// Records that a ring of this length should become longer, if it may and this many of its
    /// bytes are in use. Returns true if that is new.
    pub(super) fn ask_growth(&self, used: u64, capacity: u64) -> bool {
        let may_grow = capacity < self.progress.most_capacity.load(Acquire);
        let is_wanted = needs_growth(used, capacity) && may_grow;
        is_wanted && self.progress.wants_growth.swap(capacity, Release) != capacity
    }

    /// Makes the ring longer if it should be, and can be now. Returns true if it was.
    pub(super) fn grow_ring(&self) -> Result<bool, JournalError> {
        if !self.should_grow() {
            return Ok(false);
        }
        // Nobody moves the tail meanwhile.
        let checkpointer = locked(&self.checkpointer);
        let Some(open) = &*checkpointer else { return Ok(false) };
        self.check()?;
        let most = self.progress.most_capacity.load(Acquire);
        let capacity = self.progress.capacity.load(Acquire);
        if !self.should_grow() || self.is_held() || capacity >= most {
            return Ok(false);
        }
        let may_jump = !open.is_in_pass();
        let mut next = capacity.saturating_mul(FACTOR).min(most);
        loop {
            let (tail, head) = (self.progress.tail.load(Acquire), self.progress.head.load(Acquire));
            let begin = match place(tail, head, capacity, next) {
                Place::Same { .. } if !needs_growth(head - tail, capacity) => {
                    // It was, when growth was asked for or last tried.
                    self.progress.wants_growth.store(0, Release);
                    return Ok(false);
                }
                Place::Same { .. } => Begin { tail, head },
                Place::Next { position } if may_jump => Begin { tail: position, head: position },
                Place::Next { .. } | Place::Other => {
                    self.progress.growth_lacks_place.store(true, Release);
                    return Ok(false);
                }
            };
            self.progress.growth_lacks_place.store(false, Release);
            if self.make_room(capacity, next, begin)? {
                return self.change_capacity(capacity, next, may_jump);
            }
            // The disk may have space for less.
            next = next / 2 / BLOCK * BLOCK;
            if next < 2 * capacity {
                let now = self.clock.now().saturating_add(RETRY).as_nanos() as u64;
                self.progress.growth_after.store(now, Release);
                return Ok(false);
            }
        }
    }

    /// Gives the file space for a ring of length `next`, durably; returns false if the disk has
    /// none, or if somebody has cut the file short.
    fn make_room(&self, capacity: u64, next: u64, begin: Begin) -> Result<bool, JournalError> {
        let file = match &*locked(&self.superblock) {
            Some(open) => Arc::clone(&open.file),
            None => return Ok(false),
        };
        let size = file.size().map_err(|error| self.fail("look at the journal", error))?;
        let (from, needed) = (RING_AT + capacity, RING_AT + next);
        // The space of a file that was cut short must not come back: its content would not.
        if size < from || !leaves_a_share(&*file, needed.saturating_sub(size)) {
            return Ok(false);
        }
        // Also if the file is long enough: a copy of it may have holes.
        let made = match file.allocate(from, needed) {
            Ok(()) => self.write_zeros_ahead(next, begin)?,
            Err(error) if is_no_space(&error) => false,
            Err(error) => return Err(self.fail("make the journal longer", error)),
        };
        if !made {
            if size < needed && file.cut(size).is_ok() {
                // If it fails, the file is longer than its ring.
                locked(&self.superblock).iter_mut().for_each(|open| open.forget_written(size));
            }
            return Ok(false);
        }
        if FaultPoint::SyncGrownRing.is_enabled() {
            self.sync_file(&*file)?;
        }
        Ok(true)
    }

    /// Writes the zeros that the limit of the longer ring will need, a part at a time. Returns
    /// false if the disk has no space for them.
    fn write_zeros_ahead(&self, next: u64, begin: Begin) -> Result<bool, JournalError> {
        let mut is_first = true;
        loop {
            let mut open = locked(&self.superblock);
            let Some(open) = &mut *open else { return Ok(true) };
            let end = extent(begin.tail, open.limit_in(next, begin.head), next);
            if open.has_written(end) {
                return Ok(true);
            }
            if !mem::take(&mut is_first) {
                // So that another thread's sync waits for one part.
                self.sync_file(&*open.file)?;
            }
            match open.write_zeros_to(end, next) {
                Ok(()) => {}
                Err(error) if is_no_space(&error) => return Ok(false),
                Err(error) => return Err(self.fail("write to the journal", error)),
            }
        }
    }

    /// Uses a longer ring, for which the file has space. Returns false if the content would be
    /// elsewhere in it. The caller has the checkpointer, so that the tail does not move.
    fn change_capacity(&self, old: u64, next: u64, may_jump: bool) -> Result<bool, JournalError> {
        let mut writer = locked(&self.writer);
        let Some(open_writer) = &mut *writer else { return Ok(false) };
        let mut superblock = locked(&self.superblock);
        let Some(open) = &mut *superblock else { return Ok(false) };
        self.check()?;
        let (tail, head) = (self.progress.tail.load(Acquire), open_writer.head);
        match place(tail, head, old, next) {
            Place::Same { end } => {
                let before = self.progress.limit.load(Acquire).min(end);
                if FaultPoint::StopAtLap.is_enabled() {
                    self.progress.limit.store(before, Release);
                }
                open.superblock.limit = open.limit_in(next, head).max(before);
            }
            Place::Next { position } if may_jump => {
                // Nothing is written until the superblock has the new tail.
                self.progress.limit.store(0, Release);
                locked(&self.buffer).ring_at = position;
                open_writer.head = position;
                open_writer.begins_block = true;
                self.progress.head.store(position, Release);
                self.progress.tail.store(position, Release);
                open.superblock.tail = position;
                open.superblock.limit = open.limit_in(next, position);
            }
            Place::Next { .. } | Place::Other => return Ok(false),
        }
        drop(writer);
        open.superblock.capacity = next;
        self.write_new_capacity(open)?;
        let mut buffer = locked(&self.buffer);
        if buffer.longest > 0 {
            buffer.longest = longest_batch(next);
        }
        self.progress.wants_growth.store(0, Release);
        Ok(true)
    }

    fn write_new_capacity(&self, open: &mut OpenSuperblock) -> Result<(), JournalError> {
        let limit = open.superblock.limit;
        self.write_superblock(open, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::super::storage::tests::Memory;
    use super::*;

    #[test]
    fn what_is_in_a_lap_that_begins_a_lap_of_the_longer_ring_stays_in_its_place() {
        const C: u64 = 16 * BLOCK;
        let check = |tail, head, next, expected| {
            assert_eq!(place(tail, head, C, next), expected, "{tail} to {head}, {next}");
        };
        for next in [2 * C, 4 * C, C + BLOCK] {
            check(0, 0, next, Place::Same { end: C });
            check(100, C - BLOCK + 64, next, Place::Same { end: C });
            check(100, C, next, Place::Same { end: C });
            check(100, C + 64, next, Place::Other);
        }
        check(C, C + 64, 4 * C, Place::Other);
        check(C + 64, C + 64, 4 * C, Place::Next { position: 4 * C });
        check(3 * C + 64, 3 * C + 64, 4 * C, Place::Next { position: 4 * C });
        check(2 * C + 64, 2 * C + 128, 2 * C, Place::Same { end: 3 * C });
        check(2 * C + 64, 2 * C + 128, 4 * C, Place::Other);
        check(4 * C + 64, 5 * C, 4 * C, Place::Same { end: 5 * C });
        check(17 * C, 17 * C + 64, C + BLOCK, Place::Same { end: 18 * C });
    }

    #[test]
    fn a_new_ring_is_short_and_one_that_has_its_space_is_as_long_as_asked_for() {
        let check = |size, most, expected| {
            let file = Memory::new(0);
            assert_eq!(first_capacity(&file, size, most), expected, "{size} bytes, {most}");
        };
        check(0, LEAST_CAPACITY, LEAST_CAPACITY);
        check(0, 256 << 20, first());
        check(RING_AT + (256 << 20), 256 << 20, 256 << 20);
        check(RING_AT + (256 << 20), 1 << 20, 1 << 20);
        check(RING_AT + (2 << 20) + 1, 256 << 20, 2 << 20);
        check(RING_AT, 256 << 20, first());
    }
}
