//! The order of the calls to a pool's two files, whatever a crash would leave: rules that hold at
//! each call, so that a breach is seen even if no crash that was tried could show it.
//!
//! This file knows the format of the journal ([docs/format/journal.md]) as far as the rules need
//! it: the superblock's counters, the header of a batch, and the line of progress in the pool.
//!
//! [docs/format/journal.md]: ../../../../docs/format/journal.md

use crate::overlap::crashes::guarded;
use crate::overlap::model::Contents;
use crate::overlap::pool::{self, PROGRESS_AT};
use crate::overlap::threads::{Close, Plan, run};
use crate::uses::RING;
use pmem::SyncPolicy;
use sim::{Counted, FileCall, FileEvent, FilesState, Named, SimulatedClock, SimulatedFiles};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const BLOCK: u64 = 4096;
pub(crate) const RING_AT: u64 = 8192;
const SUPERBLOCK: usize = 128;

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns the position of a batch at this place of a ring, which follows others that end at `end`.
pub(crate) fn position(end: u64, at: u64, capacity: u64) -> u64 {
    let lap = end / capacity * capacity;
    if lap + at < end { lap + capacity + at } else { lap + at }
}

/// A copy of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    journal: u64,
    generation: u64,
    incarnation: u64,
    pub(crate) tail: u64,
    pub(crate) tail_sequence: u64,
    pub(crate) capacity: u64,
    tail_incarnation: u64,
    opened_at: u64,
    pub(crate) limit: u64,
    synced: u64,
    checked_from: u64,
}

impl Superblock {
    pub(crate) fn of(bytes: &[u8]) -> Superblock {
        Superblock {
            journal: u64_at(bytes, 32),
            generation: u64_at(bytes, 40),
            incarnation: u64_at(bytes, 48),
            tail: u64_at(bytes, 56),
            tail_sequence: u64_at(bytes, 64),
            capacity: u64_at(bytes, 72),
            tail_incarnation: u64_at(bytes, 80),
            opened_at: u64_at(bytes, 88),
            limit: u64_at(bytes, 96),
            synced: u64_at(bytes, 104),
            checked_from: u64_at(bytes, 112),
        }
    }
}

/// A batch in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Its place in the ring.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// All batches before this sequence number were synced when it was written.
    pub(crate) synced: u64,
    words: u64,
}

/// The line of progress in the pool.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    journal: u64,
    applied: u64,
    synced: u64,
}

/// A part of a file in three states: as it was written last, as the sync under way makes it
/// durable, and as it is durable.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps<T> {
    pub(crate) written: T,
    pub(crate) syncing: T,
    pub(crate) durable: T,
}

impl<T: Copy> Steps<T> {
    pub(crate) fn end_sync(&mut self, is_done: bool) {
        if is_done {
            self.durable = self.syncing;
        }
    }
}

/// Follows the calls.
#[derive(Default)]
struct Order {
    /// Each copy of the superblock.
    copies: [Steps<Option<Superblock>>; 2],
    said: Steps<Option<Said>>,
    /// The sequence number after the last batch.
    next: Steps<u64>,
    /// The position after the last batch.
    end: u64,
    /// The incarnation of each batch.
    incarnations: BTreeMap<u64, u64>,
    /// The batches in the ring that a start finds.
    found_batches: BTreeMap<u64, Found>,
    /// The position after each batch that was written since the start.
    ends: BTreeMap<u64, u64>,
    /// The sequence number after the last batch that a sync made durable which followed it.
    counted: Steps<u64>,
    /// The last write to the journal since its last sync is no batch.
    is_other: bool,
    /// The number of batches that were written since the start.
    writes: u64,
    has_failed: bool,
    /// Nobody writes to the journal while a pass writes pages.
    is_alone: bool,
    /// The incarnation of the process, once it has written a superblock; and the one before.
    incarnation: Option<u64>,
    found: u64,
}

impl Order {
    /// Begins with what a start finds; all of it counts as durable.
    fn of(state: &FilesState) -> Order {
        let mut order = Order::default();
        let files = SimulatedFiles::new(state.clone());
        let (journal, pool) = (files.storage(Named::Journal), files.storage(Named::Pool));
        let len = journal.size().expect("a size");
        let mut ring = vec![0; len as usize];
        journal.read_at(&mut ring, 0).expect("the journal");
        if len > RING_AT {
            for (copy, at) in [0, BLOCK as usize].into_iter().enumerate() {
                let superblock = Superblock::of(&ring[at..at + SUPERBLOCK]);
                let found = Some(superblock).filter(|found| found.generation > 0);
                order.copies[copy] = Steps { written: found, syncing: found, durable: found };
            }
            order.end = order.durable().map_or(0, |superblock| superblock.tail);
            ring[RING_AT as usize..].chunks_exact(64).for_each(|line| order.note_batch(line));
            order.note_found(&ring[RING_AT as usize..]);
            order.next.syncing = order.next.written;
            order.next.durable = order.next.written;
            order.found = order.durable().map_or(0, |superblock| superblock.incarnation);
        }
        let mut line = [0; 64];
        if pool.size().expect("a size") > PROGRESS_AT {
            pool.read_at(&mut line, PROGRESS_AT).expect("the line");
            order.say(&line);
            order.said = Steps { syncing: order.said.written, ..order.said };
            order.said.end_sync(true);
        }
        order
    }

    /// Returns the durable superblock.
    fn durable(&self) -> Option<Superblock> {
        self.copies.iter().filter_map(|copy| copy.durable).max_by_key(|one| one.generation)
    }

    fn note_batch(&mut self, bytes: &[u8]) {
        if bytes.starts_with(b"PJBATCH\0") {
            let sequence = u64_at(bytes, 24);
            self.next.written = self.next.written.max(sequence + 1);
            self.incarnations.insert(sequence, u64_at(bytes, 16));
        }
    }

    /// Notes the words of the batches in a ring, and where those end that a start stores.
    fn note_found(&mut self, ring: &[u8]) {
        let is_batch = |at: &usize| ring[*at..].starts_with(b"PJBATCH\0");
        for at in (0..ring.len()).step_by(64).filter(is_batch) {
            let word = |from: usize| {
                let bytes = (at + from..at + from + 8).map(|at| ring[at % ring.len()]);
                u64_at(&bytes.collect::<Vec<u8>>(), 0)
            };
            let (len, mut range, mut words) = (word(8) >> 32, 64, 0);
            while range < len {
                let some = word(range as usize) & 0xffff;
                (words, range) = (words + some, range + 8 + 8 * some);
            }
            let batch = Found { at: at as u64, len, synced: word(32), words };
            self.found_batches.insert(word(24), batch);
        }
        let Some(durable) = self.durable() else { return };
        for (sequence, batch) in self.found_batches.range(durable.tail_sequence..) {
            let at = position(self.end, batch.at, durable.capacity);
            self.end = at + batch.len.next_multiple_of(64);
            self.ends.insert(*sequence, self.end);
        }
    }

    fn say(&mut self, line: &[u8]) {
        let said =
            Said { journal: u64_at(line, 8), applied: u64_at(line, 16), synced: u64_at(line, 24) };
        self.said.written = Some(said).filter(|said| said.journal > 0);
    }

    /// Takes a call; returns the rule that it breaks.
    fn take(&mut self, event: &FileEvent) -> Result<(), String> {
        match event {
            FileEvent::Write(Named::Journal, at, bytes) if *at < RING_AT => {
                self.write_superblock((*at / BLOCK) as usize, bytes)
            }
            FileEvent::Write(Named::Journal, at, bytes) => self.write_ring(at - RING_AT, bytes),
            FileEvent::Write(Named::Pool, at, bytes) => self.write_pool(*at, bytes),
            FileEvent::SyncBegin(_) if self.has_failed => {
                Err("a sync begins after another one failed".into())
            }
            FileEvent::SyncBegin(Named::Journal) => {
                self.copies.iter_mut().for_each(|copy| copy.syncing = copy.written);
                self.next.syncing = self.next.written;
                let is_other = std::mem::take(&mut self.is_other);
                self.counted.syncing =
                    if is_other { self.counted.durable } else { self.next.written };
                Ok(())
            }
            FileEvent::Grow(Named::Journal, _) => {
                self.is_other = true;
                Ok(())
            }
            FileEvent::SyncBegin(Named::Pool) => {
                self.said.syncing = self.said.written;
                Ok(())
            }
            FileEvent::Sync(name, is_done) => {
                self.has_failed |= !is_done;
                match name {
                    Named::Journal => {
                        self.copies.iter_mut().for_each(|copy| copy.end_sync(*is_done));
                        self.next.end_sync(*is_done);
                        self.counted.end_sync(*is_done);
                    }
                    Named::Pool => self.said.end_sync(*is_done),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn write_superblock(&mut self, copy: usize, bytes: &[u8]) -> Result<(), String> {
        self.is_other = true;
        if bytes.len() < SUPERBLOCK {
            return Ok(());
        }
        let new = Superblock::of(bytes);
        let generation = |one: Option<Superblock>| one.map_or(0, |one| one.generation);
        let other = &self.copies[1 - copy];
        if generation(other.written) != generation(other.durable) {
            return Err("a superblock is written before the other copy is synced".into());
        }
        if new.synced.max(new.opened_at) > self.next.durable.max(new.tail_sequence) {
            return Err(format!("{new:?} names batches as synced, of {:?}", self.next));
        }
        // A new file is first filled with zeros.
        if new.generation > 0 {
            self.note_process(new)?;
        }
        let old = self.copies.iter().filter_map(|copy| copy.written);
        let old = old.max_by_key(|one| one.generation).filter(|old| old.journal == new.journal);
        if self.is_alone && new.generation > 0 {
            self.check_words(&new, old)?;
        }
        match old {
            Some(old) if new.synced < old.synced => {
                return Err(format!("{new:?} names fewer batches as synced than {old:?}"));
            }
            None => self.end = new.tail,
            Some(old) if old.tail_sequence != new.tail_sequence => {
                let said = self.said.durable.filter(|said| said.journal == new.journal);
                if said.is_none_or(|said| said.applied != new.tail_sequence) {
                    return Err(format!("{new:?} has a tail that the pool does not say: {said:?}"));
                }
                let end = self.ends.get(&(new.tail_sequence - 1));
                if end.is_some_and(|end| *end != new.tail) {
                    return Err(format!("{new:?} has its tail where its batches end not: {end:?}"));
                }
                let last = self.incarnations.get(&(new.tail_sequence - 1));
                // That of the process is right too, if it has written no batch yet.
                let tail = new.tail_incarnation;
                if last.is_some_and(|last| *last != tail && tail != new.incarnation) {
                    return Err(format!("{new:?} has not the incarnation {last:?} of its tail"));
                }
                // A scan from the tail refuses batches of an earlier one.
                let next = self.incarnations.get(&new.tail_sequence);
                if next.is_some_and(|next| *next < tail) {
                    return Err(format!("{new:?} refuses batches of {next:?} from its tail on"));
                }
            }
            Some(_) => {}
        }
        self.copies[copy].written = Some(new);
        Ok(())
    }

    /// Compares every word of a superblock with what one user has done, who is alone.
    fn check_words(&self, new: &Superblock, old: Option<Superblock>) -> Result<(), String> {
        let is_first = self
            .copies
            .iter()
            .all(|copy| copy.written.is_none_or(|found| found.incarnation != new.incarnation));
        let expected = match (old, is_first) {
            (None, _) => {
                let tail_sequence = self.next.written.max(1);
                Superblock {
                    tail: 0,
                    tail_sequence,
                    tail_incarnation: new.incarnation,
                    opened_at: tail_sequence,
                    synced: tail_sequence,
                    checked_from: tail_sequence,
                    ..*new
                }
            }
            (Some(old), true) => Superblock {
                incarnation: old.incarnation + 1,
                opened_at: self.next.written.max(1),
                synced: self.next.written.max(1),
                limit: new.limit,
                generation: new.generation,
                ..old
            },
            // What is synced may be more: syncs of superblocks are not counted.
            (Some(old), false) => Superblock {
                generation: old.generation.max(new.generation),
                tail: new.tail,
                tail_sequence: new.tail_sequence,
                tail_incarnation: match new.tail_sequence == old.tail_sequence {
                    true => old.tail_incarnation,
                    false => new.incarnation,
                },
                capacity: new.capacity,
                limit: new.limit,
                synced: new.synced.max(self.counted.durable).max(old.synced),
                ..old
            },
        };
        let most = self.end.max(new.tail) + (new.capacity / 4).max(BLOCK);
        let most = old.map_or(most, |old| if is_first { most } else { most.max(old.limit) });
        match *new == expected && new.limit <= most {
            true => Ok(()),
            false => Err(format!("{new:?} is not {expected:?}, with a limit up to {most}")),
        }
    }

    /// Takes a superblock of the process that was started: its incarnation is a new one.
    fn note_process(&mut self, new: Superblock) -> Result<(), String> {
        if new.limit < new.tail.max(1) {
            return Err(format!("{new:?} has no limit"));
        }
        match self.incarnation {
            None if new.incarnation <= self.found => {
                Err(format!("{new:?} has the incarnation of an earlier process"))
            }
            Some(own) if own != new.incarnation => {
                Err(format!("{new:?} has another incarnation than {own}"))
            }
            _ => {
                self.incarnation = Some(new.incarnation);
                Ok(())
            }
        }
    }

    fn write_ring(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        self.is_other = !bytes.starts_with(b"PJBATCH\0");
        if self.is_other {
            return Ok(());
        }
        let (sequence, synced) = (u64_at(bytes, 24), u64_at(bytes, 32));
        if synced > self.next.durable.max(1) {
            return Err(format!("batch {sequence} names {synced} as synced, of {:?}", self.next));
        }
        if self.is_alone && synced < self.counted.durable {
            return Err(format!(
                "batch {sequence} names {synced} as synced, of {:?}",
                self.counted
            ));
        }
        let is_old = sequence < self.next.written;
        self.writes += u64::from(!is_old);
        self.note_batch(bytes);
        let incarnation = self.incarnations.get(&sequence).copied();
        if !is_old && incarnation != self.incarnation {
            return Err(format!("batch {sequence} is of incarnation {incarnation:?}"));
        }
        let Some(durable) = self.durable().filter(|_| !is_old) else { return Ok(()) };
        let position = position(self.end, at, durable.capacity);
        let len = u64::from(u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes")));
        let end = position + len;
        self.end = end.next_multiple_of(64);
        self.ends.insert(sequence, self.end);
        let ring_end = durable.tail / BLOCK * BLOCK + durable.capacity;
        if end.next_multiple_of(BLOCK) > ring_end {
            return Err(format!("a batch ends at {end}, in the block of the tail of {durable:?}"));
        }
        if durable.limit > 0 && position + bytes.len() as u64 > durable.limit {
            return Err(format!("a batch ends at {end}, after the limit of {durable:?}"));
        }
        Ok(())
    }

    /// Returns true if a start has written nothing yet and says that less is synced than it found.
    fn says_too_little(&self, said: Said) -> bool {
        self.writes == 0 && said.synced != self.next.written.max(1)
    }

    /// Returns true if the line of progress may become this one: what was applied changes at the
    /// end of a pass alone, when nothing but the line is written.
    fn may_say(&self, said: Said, before: Option<Said>, is_alone: bool) -> bool {
        match before.filter(|before| before.journal == said.journal) {
            Some(before) if said.synced < before.synced => false,
            Some(before) if is_alone => {
                (before.applied..=self.next.written.max(1)).contains(&said.applied)
            }
            Some(before) => said.applied == before.applied,
            None => true,
        }
    }

    fn write_pool(&mut self, at: u64, bytes: &[u8]) -> Result<(), String> {
        let Some(line) = PROGRESS_AT.checked_sub(at).and_then(|at| bytes.get(at as usize..)) else {
            return Ok(());
        };
        if line.len() < 64 {
            return Ok(());
        }
        let before = self.said.written;
        self.say(&line[..64]);
        match self.said.written {
            Some(said) if !self.may_say(said, before, bytes.len() == 64) => {
                Err(format!("{said:?} comes after {before:?}, of {:?}", self.next))
            }
            Some(said) if said.synced > self.next.durable.max(1) => {
                Err(format!("{said:?} names batches as synced, of {:?}", self.next))
            }
            // A start says that all that it found is synced.
            Some(said) if self.is_alone && self.says_too_little(said) => {
                Err(format!("{said:?} is said at a start, of {:?}", self.next))
            }
            // All that the pages contain was synced before them.
            Some(said) if self.is_alone && bytes.len() > 64 && said.synced < self.next.written => {
                Err(format!("pages are written after {said:?}, of {:?}", self.next))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the superblock that counts.
pub(crate) fn durable(state: &FilesState) -> Option<Superblock> {
    Order::of(state).durable()
}

/// Returns how many batches a start finds that it stores, and the bytes of their words, if all that
/// was written is whole.
pub(crate) fn waiting(start: &FilesState) -> (u64, u64) {
    let order = Order::of(start);
    let first = order.durable().map_or(0, |superblock| superblock.tail_sequence);
    let batches = order.found_batches.range(first..);
    batches.fold((0, 0), |(count, bytes), (_, batch)| (count + 1, bytes + 8 * batch.words))
}

/// Returns the batches that a start finds from the tail on, by their sequence numbers; the number
/// before which the journal's superblock says that all are synced; and that of the pool.
pub(crate) fn found(state: &FilesState) -> (BTreeMap<u64, Found>, u64, u64) {
    let mut order = Order::of(state);
    let Some(superblock) = order.durable() else { return (BTreeMap::new(), 0, 0) };
    let waiting = order.found_batches.split_off(&superblock.tail_sequence);
    let said = order.said.durable.map_or(0, |said| said.synced);
    (waiting, superblock.synced.max(superblock.opened_at), said)
}

/// Follows the calls that were made since a start, by one thread or by several.
pub(crate) fn follow(
    start: &FilesState,
    events: &[FileEvent],
    is_alone: bool,
) -> Result<usize, String> {
    let mut order = Order { is_alone, ..Order::of(start) };
    for (n, event) in events.iter().enumerate() {
        order.take(event).map_err(|what| format!("{what}\nevent {n} of {}", events.len()))?;
    }
    Ok(events.len())
}

/// Threads, whose calls take time, and one of whose syncs may fail.
fn follow_threads(seed: u64) -> Result<usize, String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let clock = SimulatedClock::default();
    let sync = [100, 5000, 700_000][rng.usize(..3)];
    let times = std::sync::Mutex::new(rng.fork());
    let time = move |_: Named, call: FileCall, _: usize| {
        let mut rng = times.lock().expect("no panic");
        let most = if call == FileCall::Sync { sync } else { 20 };
        Duration::from_micros(rng.u64(..=most))
    };
    let files = SimulatedFiles::default().with_times(&clock, time);
    let region = pool::map(&files, RING, &clock);
    pool::open(&region)?;
    if rng.usize(..3) == 0 {
        files.fail_with(rng.u64(..60), Counted::All, 5);
    }
    let policies = vec![SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::No];
    let closes = [None, Some(Close::After)][rng.usize(..2)];
    let plan = Plan { seed, fences: 25, policies, grows: rng.bool(), closes, copies: false };
    guarded(|| Ok(run(&region, &files, &clock, &plan, Contents::empty())))?;
    follow(&FilesState::default(), &files.take_events(), false)
}

#[test]
fn so_do_threads_and_a_sync_that_fails_is_the_last_one() {
    for seed in crate::seeds(0..40) {
        follow_threads(seed).unwrap_or_else(|what| panic!("{what}\nseed {seed}"));
    }
}

#[test]
fn a_pool_that_has_grown_is_as_long_after_a_power_loss() {
    let (files, clock) = (SimulatedFiles::default(), SimulatedClock::default());
    let region = pool::map(&files, RING, &clock);
    pool::open(&region).expect("a pool");
    region.grow(pool::GROWN).expect("space");
    let left = SimulatedFiles::new(files.state().after_power_loss(|| false));
    let len = left.storage(Named::Pool).size().expect("a size");
    assert!(len >= pool::GROWN, "{len} bytes");
}
