//! What a journal says of itself, at each call of its files: its counters, how far it has come and
//! the age of what is not synced are compared with those that follow from the calls before it.

use crate::order::{self, BLOCK, RING_AT, Steps, Superblock, u64_at};
use crate::overlap::crashes::guarded;
use crate::overlap::model::Contents;
use crate::overlap::pool::{self, PROGRESS_AT};
use crate::starts::{self, Start};
use crate::uses::{RING, User};
use pmem::{Clock, JournalCounts, Region};
use sim::{Counted, FileCall, FileEvent, FilesState, Named, SimulatedClock, SimulatedFiles};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread::ThreadId;
use std::time::Duration;

/// The marks of this file begin here, after those of others.
const MARKS: usize = 1 << 32;
/// How long a read takes, in nanoseconds.
const READ: u64 = 1_000_000;

/// The counters and positions of a region, at the beginning of a call or between two calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    thread: ThreadId,
    at: Duration,
    /// How long the call takes.
    takes: Duration,
    /// The call, and its file.
    of: Option<(Named, FileCall)>,
    appended: u64,
    synced: u64,
    has_failed: bool,
    counts: JournalCounts,
}

/// Asks a region at each call of its files.
pub(crate) struct Witness {
    files: SimulatedFiles,
    clock: SimulatedClock,
    region: Arc<OnceLock<Weak<Region>>>,
    said: Arc<Mutex<Vec<Said>>>,
}

impl Witness {
    /// Begins with files whose calls take as long as `time` says, which is asked first: it may run
    /// something else meanwhile.
    pub(crate) fn of(
        files: &SimulatedFiles,
        clock: &SimulatedClock,
        time: impl Fn(Named, FileCall) -> Duration + Send + Sync + 'static,
    ) -> Witness {
        let (region, said) = (Arc::<OnceLock<Weak<Region>>>::default(), Arc::default());
        let (files, clock) = (files.clone(), clock.clone());
        let witness = Witness { files, clock, region, said };
        let asks = witness.clone();
        let on = move |of: Named, call: FileCall, _: usize| {
            let takes = time(of, call);
            asks.ask(Some((of, call)), takes);
            takes
        };
        drop(witness.files.clone().with_times(&witness.clock, on));
        witness
    }

    fn clone(&self) -> Witness {
        let (files, clock) = (self.files.clone(), self.clock.clone());
        Witness { files, clock, region: Arc::clone(&self.region), said: Arc::clone(&self.said) }
    }

    /// Asks this region from now on; and now.
    pub(crate) fn watch(&self, region: &Arc<Region>) {
        self.region.set(Arc::downgrade(region)).expect("one region");
        self.ask(None, Duration::ZERO);
    }

    /// Asks the region, between two calls.
    pub(crate) fn ask(&self, of: Option<(Named, FileCall)>, takes: Duration) {
        let Some(region) = self.region.get().and_then(Weak::upgrade) else { return };
        let Some(counts) = region.journal_counts() else { return };
        let said = Said {
            thread: std::thread::current().id(),
            at: self.clock.now(),
            takes,
            of,
            synced: region.synced(),
            appended: region.appended(),
            has_failed: region.journal_failure().is_some(),
            counts,
        };
        let mut all = self.said.lock().expect("no panic");
        self.files.mark(MARKS + all.len());
        all.push(said);
    }

    /// Ends it. Returns the calls, and what was said at them.
    pub(crate) fn end(self) -> (Vec<FileEvent>, Vec<Said>) {
        drop(self.files.clone().with_times(&self.clock, |_, _, _| Duration::ZERO));
        let said = std::mem::take(&mut *self.said.lock().expect("no panic"));
        (self.files.take_events(), said)
    }
}

/// A batch that was written.
#[derive(Debug)]
struct Batch {
    at: Duration,
    /// Threads that may have written it, and have made no call since.
    by: Vec<ThreadId>,
    /// The position after it, in bytes that were appended.
    bytes: u64,
    /// Its place in the ring, and where it ends.
    begin: u64,
    end: u64,
}

/// Follows the calls from the first time that a region is asked.
struct Ledger {
    /// The region's counters and positions at the last call.
    last: Said,
    /// When a wait was last counted.
    waited_at: Duration,
    copies: [Steps<Option<Superblock>>; 2],
    /// The position in the ring after the last batch.
    head: u64,
    /// Bytes of a batch of which a part is missing, its place, and when its write began.
    part: Vec<u8>,
    part_at: u64,
    part_begin: Duration,
    /// Threads that write to the journal, and when they began.
    writing: Vec<(ThreadId, Duration)>,
    /// The position after the last batch, in bytes that were appended; of those that a sync has
    /// counted; and of those that are durable.
    bytes: u64,
    counted: Steps<u64>,
    durable: Steps<u64>,
    /// Batches that are not said to be synced, and where the last one ends that is.
    unsynced: VecDeque<Batch>,
    synced_end: u64,
    /// The sync under way is one of batches.
    syncs_batches: bool,
    /// The last write to the journal since its last sync is no batch.
    is_other: bool,
    /// The line of progress was written alone, at the end of a pass.
    ends_pass: bool,
    expected: JournalCounts,
}

impl Ledger {
    fn begin(state: &FilesState, base: Said) -> Ledger {
        let file = SimulatedFiles::new(state.clone()).storage(Named::Journal);
        let copies = [0, BLOCK].map(|at| {
            let mut bytes = [0; 128];
            file.read_at(&mut bytes, at).expect("the journal");
            let found = Some(Superblock::of(&bytes));
            Steps { written: found, syncing: found, durable: found }
        });
        let mut ledger = Ledger {
            last: base,
            waited_at: base.at,
            copies,
            head: 0,
            part: Vec::new(),
            part_at: 0,
            part_begin: Duration::ZERO,
            writing: Vec::new(),
            bytes: base.appended,
            counted: Steps { durable: base.synced, ..Steps::default() },
            durable: Steps { durable: base.synced, ..Steps::default() },
            unsynced: VecDeque::new(),
            synced_end: 0,
            syncs_batches: false,
            is_other: false,
            ends_pass: false,
            expected: base.counts,
        };
        ledger.head = ledger.least(|one| one.tail) + base.counts.used;
        ledger
    }

    /// Returns what both copies of the superblock have reached.
    fn least(&self, of: impl Fn(Superblock) -> u64) -> u64 {
        self.copies.iter().filter_map(|copy| copy.durable).map(of).min().unwrap_or(0)
    }

    fn take(&mut self, event: &FileEvent, said: &[Said], is_alone: bool) -> Result<(), String> {
        match event {
            FileEvent::Mark(mark) if *mark >= MARKS => {
                let before = std::mem::replace(&mut self.last, said[mark - MARKS]);
                self.note_call();
                if is_alone {
                    self.check_waited(&before)?;
                }
                self.check_blocks()?;
                return match is_alone {
                    true => self.compare(),
                    false => self.bound(),
                };
            }
            FileEvent::Write(Named::Journal, at, bytes) if *at < RING_AT => {
                self.is_other = true;
                if bytes.len() >= 128 {
                    self.copies[(*at / BLOCK) as usize].written = Some(Superblock::of(bytes));
                }
            }
            FileEvent::Write(Named::Journal, at, bytes) => self.write(at - RING_AT, bytes),
            FileEvent::Write(Named::Pool, PROGRESS_AT, bytes) if bytes.len() == 64 => {
                self.ends_pass = true;
            }
            FileEvent::Write(Named::Pool, at, bytes) if *at > 0 || bytes.len() > 64 => {
                self.expected.bytes_applied += bytes.len() as u64;
            }
            FileEvent::SyncBegin(Named::Journal) => {
                self.expected.syncs += 1;
                self.syncs_batches = !std::mem::take(&mut self.is_other);
                self.durable.syncing = self.bytes;
                self.copies.iter_mut().for_each(|copy| copy.syncing = copy.written);
            }
            // A ring that gets space is synced then.
            FileEvent::Grow(Named::Journal, _) => self.is_other = true,
            FileEvent::Sync(Named::Journal, true) => self.end_sync(),
            FileEvent::Sync(Named::Pool, true) if std::mem::take(&mut self.ends_pass) => {
                self.expected.applied += 1;
            }
            _ => {}
        }
        Ok(())
    }

    /// A wait ends with a call: it took at least as long, and no longer than since the last one.
    fn check_waited(&mut self, before: &Said) -> Result<(), String> {
        let (counts, earlier) = (&self.last.counts, &before.counts);
        let waited = Duration::from_nanos(counts.full_wait_ns - earlier.full_wait_ns);
        if waited.is_zero() && counts.full_waits == earlier.full_waits {
            return Ok(());
        }
        let since = std::mem::replace(&mut self.waited_at, self.last.at);
        let is_right = waited.is_zero() || waited >= before.takes && waited <= self.last.at - since;
        match is_right && counts.full_waits > 0 {
            true => Ok(()),
            false => Err(format!("{waited:?} are counted since {since:?}, by {:?}", self.last)),
        }
    }

    /// A thread that makes a call has counted what it wrote before.
    fn note_call(&mut self) {
        let Said { thread, at, of, .. } = self.last;
        self.unsynced.iter_mut().for_each(|batch| batch.by.retain(|by| *by != thread));
        self.writing.retain(|(by, _)| *by != thread);
        self.writing
            .extend((of == Some((Named::Journal, FileCall::Write))).then_some((thread, at)));
    }

    fn end_sync(&mut self) {
        self.copies.iter_mut().for_each(|copy| copy.end_sync(true));
        self.durable.end_sync(true);
        // An empty ring that grows continues at the beginning of a lap.
        self.head = self.head.max(self.least(|one| one.tail));
        if !self.syncs_batches {
            return;
        }
        self.counted.durable = self.durable.durable;
        let took = self.last.takes;
        self.expected.batch_syncs += 1;
        self.expected.batch_sync_ns += took.as_nanos() as u64;
        let longest = |n: usize| Duration::from_micros(1 << n);
        let bucket = (0..23).find(|n| took <= longest(*n)).unwrap_or(23);
        self.expected.batch_sync_times[bucket] += 1;
    }

    /// Takes a batch, or a part of one at an end of the ring.
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let begins = bytes.starts_with(b"PJBATCH\0");
        // Somebody else may write zeros between the two parts of a batch.
        let goes_on = !self.part.is_empty() && at == 0;
        self.is_other = !begins && !goes_on;
        if self.is_other {
            return;
        }
        if begins {
            self.part.clear();
            let began = self.writing.iter().map(|(_, at)| *at).max();
            (self.part_at, self.part_begin) = (at, began.unwrap_or(self.last.at));
        }
        self.part.extend(bytes);
        let len = u32::from_le_bytes(self.part[12..16].try_into().expect("four bytes")) as usize;
        if self.part.len() < len {
            return;
        }
        let part = std::mem::take(&mut self.part);
        let capacity = self.least(|one| one.capacity);
        let position = order::position(self.head, self.part_at, capacity);
        self.head = position + (len as u64).next_multiple_of(64);
        let end = self.head;
        let mut range = 64;
        while range < len {
            let words = u64_at(&part, range) & 0xffff;
            self.bytes += 8 * words;
            range += 8 + 8 * words as usize;
        }
        let by = self.writing.iter().map(|(thread, _)| *thread).collect();
        let batch = Batch { at: self.part_begin, by, bytes: self.bytes, begin: position, end };
        self.unsynced.push_back(batch);
        self.expected.batches += 1;
        self.expected.bytes_written += part.len() as u64;
    }

    /// Refuses a batch in the block of one that is said to be synced: a loss of power while the
    /// disk writes that block could take both.
    fn check_blocks(&mut self) -> Result<(), String> {
        let synced = self.last.synced;
        while let Some(batch) = self.unsynced.front().filter(|batch| batch.bytes <= synced) {
            self.synced_end = batch.end;
            self.unsynced.pop_front();
        }
        match self.unsynced.front() {
            Some(next) if next.begin / BLOCK * BLOCK < self.synced_end => {
                Err(format!("{next:?} shares a block with what ends at {}", self.synced_end))
            }
            _ => Ok(()),
        }
    }

    /// Compares everything: one thread has made all calls.
    fn compare(&mut self) -> Result<(), String> {
        let said = self.last;
        if said.has_failed {
            return Ok(());
        }
        let synced = self.counted.durable;
        let oldest = self.unsynced.iter().find(|batch| batch.bytes > synced);
        let oldest = oldest.map_or(said.at, |batch| batch.at);
        let found = said.counts;
        let expected = JournalCounts {
            used: self.head - self.least(|one| one.tail),
            capacity: self.least(|one| one.capacity),
            unsynced_ns: (said.at - oldest).as_nanos() as u64,
            // Some pages of a group may be written.
            bytes_applied: match said.of {
                Some((Named::Pool, _)) => found.bytes_applied,
                _ => self.expected.bytes_applied,
            },
            full_waits: found.full_waits,
            full_wait_ns: found.full_wait_ns,
            ..self.expected
        };
        if found != expected {
            return Err(format!("the journal counts {found:?}, and not {expected:?}"));
        }
        if said.synced != synced || said.appended < self.bytes {
            return Err(format!("it says {said:?}, and {} of {} is synced", synced, self.bytes));
        }
        Ok(())
    }

    /// Checks what others may rely on meanwhile: nothing counts as synced that is not, and nothing
    /// that was written is younger than it is.
    fn bound(&mut self) -> Result<(), String> {
        let said = self.last;
        if said.has_failed {
            return Ok(());
        }
        let durable = self.durable.durable;
        let is_counted = |batch: &&Batch| batch.by.is_empty() && batch.bytes > durable;
        let oldest = self.unsynced.iter().find(is_counted);
        let age = oldest.map_or(0, |batch| (said.at - batch.at).as_nanos() as u64);
        if said.counts.unsynced_ns < age {
            return Err(format!("it says {said:?}, and what is not synced is {age} ns old"));
        }
        if said.synced > durable || said.synced > said.appended {
            return Err(format!("it says {said:?}, and {durable} is durable"));
        }
        Ok(())
    }
}

/// Follows the calls since a region was watched first, by one thread or by several.
pub(crate) fn follow(
    opened: &FilesState,
    events: &[FileEvent],
    said: &[Said],
    is_alone: bool,
) -> Result<usize, String> {
    let first = |event: &FileEvent| matches!(event, FileEvent::Mark(mark) if *mark == MARKS);
    let begin = events.iter().position(first).ok_or("it is never asked")?;
    let mut ledger = Ledger::begin(opened, said[0]);
    for (n, event) in events[begin..].iter().enumerate() {
        ledger
            .take(event, said, is_alone)
            .map_err(|what| format!("{what}\nevent {n} of {}", events.len() - begin))?;
    }
    Ok(said.len())
}

/// The calls since a start, the counters and positions at each, and the files at the first.
struct Books {
    opened: FilesState,
    events: Vec<FileEvent>,
    said: Vec<Said>,
}

impl Books {
    fn follow(&self, start: &Start) -> Result<usize, String> {
        order::follow(&start.state, &self.events, true)?;
        follow(&self.opened, &self.events, &self.said, true)
    }
}

/// Uses a pool, whose syncs are slow, and one of whose calls may fail.
fn keep_books(start: &Start, seed: u64, most: u64, fences: usize) -> Result<Books, String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (files, clock) = (SimulatedFiles::new(start.state.clone()), SimulatedClock::default());
    let slowest = [0, 2, 1_000, 700_000, 3_000_000][seed as usize % 5];
    let times = Mutex::new(rng.fork());
    let witness = Witness::of(&files, &clock, move |_, call| {
        let mut rng = times.lock().expect("no panic");
        Duration::from_nanos(match call {
            FileCall::Sync => rng.u64(..=1000 * slowest),
            FileCall::Read => READ,
            _ => rng.u64(..20_000),
        })
    });
    let region = Arc::new(pool::map(&files, most, &clock));
    pool::open(&region)?;
    check_recovered(start, &region.journal_counts().ok_or("no journal")?, clock.now())?;
    let opened = files.state();
    witness.watch(&region);
    if rng.usize(..4) == 0 {
        files.fail_with(rng.u64(..200), Counted::All, 5);
    }
    let mut user = User::new(&region, &clock, Contents::read(&region));
    user.go(seed as usize, fences);
    user.close();
    witness.ask(None, Duration::ZERO);
    let (events, said) = witness.end();
    if user.said.is_empty() {
        check_closed(&files.state())?;
    }
    Ok(Books { opened, events, said })
}

/// Refuses a closed journal of which the next start would read more than there is.
fn check_closed(state: &FilesState) -> Result<(), String> {
    let found = order::durable(state).ok_or("no superblock")?;
    let least = found.tail.next_multiple_of(BLOCK).max(BLOCK);
    if found.limit == least { Ok(()) } else { Err(format!("it is closed with {found:?}")) }
}

/// Compares what a start says that it found with what there was.
fn check_recovered(start: &Start, found: &JournalCounts, took: Duration) -> Result<(), String> {
    let (batches, bytes) = order::waiting(&start.state);
    let is_right = (found.recovered_batches, found.recovered_bytes) == (batches, bytes)
        && (batches == 0 || found.recovery_ns >= READ)
        && found.recovery_ns <= took.as_nanos() as u64;
    match is_right {
        true => Ok(()),
        false => Err(format!("{batches} batches of {bytes} bytes, in {took:?}: {found:?}")),
    }
}

#[test]
fn at_each_call_a_journal_says_of_itself_what_it_has_done() {
    let mut said = 0;
    for seed in crate::seeds(0..15) {
        let starts = starts::all(seed).into_iter().filter(|start| start.name != "an older format");
        for start in starts.chain([starts::crashed_twice(seed)]) {
            let growth = [4 * RING, 100 << 10][seed as usize % 2];
            for (most, fences) in [(RING, 0), (RING, 45), (growth, 45)] {
                let kept = guarded(|| keep_books(&start, seed, most, fences)?.follow(&start));
                said += kept.unwrap_or_else(|what| {
                    panic!("{what}\nseed {seed}, {}, {most}, {fences}", start.name)
                });
            }
        }
    }
    assert!(said > 5000, "{said}");
}

#[test]
fn every_number_that_is_not_right_is_noticed() {
    let start = &starts::all(0)[0];
    let mut books = keep_books(start, 2, RING, 45).expect("books");
    assert_eq!(books.follow(start), Ok(books.said.len()));
    let last = books.said.len() - 1;
    let wrong: [fn(&mut Said); 11] = [
        |said| said.counts.batches += 1,
        |said| said.counts.syncs += 1,
        |said| said.counts.applied += 1,
        |said| said.counts.bytes_written += 64,
        |said| said.counts.batch_syncs += 1,
        |said| said.counts.batch_sync_ns += 1,
        |said| said.counts.batch_sync_times[3] += 1,
        |said| said.counts.used += 64,
        |said| said.counts.capacity += 4096,
        |said| said.counts.unsynced_ns += 1,
        |said| said.synced += 64,
    ];
    for at in [1, last / 3, last / 2, last] {
        let right = books.said[at];
        for (n, wrong) in wrong.iter().enumerate() {
            wrong(&mut books.said[at]);
            assert!(books.follow(start).is_err(), "number {n} at call {at} of {last}");
            books.said[at] = right;
        }
    }
    let is_superblock = |event: &FileEvent| match event {
        FileEvent::Write(Named::Journal, at, bytes) => *at <= BLOCK && bytes.len() == 128,
        _ => false,
    };
    let written: Vec<usize> =
        (0..books.events.len()).filter(|at| is_superblock(&books.events[*at])).collect();
    for at in [written[0], written[written.len() / 2], written[written.len() - 1]] {
        for word in [48, 56, 64, 80, 88, 96, 104, 112] {
            let right = books.events[at].clone();
            if let FileEvent::Write(.., bytes) = &mut books.events[at] {
                let wrong = u64_at(bytes, word).wrapping_add(1 << 20);
                bytes[word..word + 8].copy_from_slice(&wrong.to_le_bytes());
            }
            assert!(books.follow(start).is_err(), "word {word} of the superblock in event {at}");
            books.events[at] = right;
        }
    }
}
