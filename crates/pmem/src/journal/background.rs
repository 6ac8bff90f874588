//! The background work of a journal: syncing words that nobody waits for, and checkpoints.
//!
//! Each region has two threads for this, so that a sync never waits for a checkpoint: otherwise the
//! fill level of the ring would determine how much a power loss may take. They sleep on a condition
//! variable, look several times a second, and at once when the ring becomes half full or when they
//! are told to end. What is due is computed from positions and times alone ([`Syncing`],
//! [`Applying`]), so that it can be tested without waiting.
//!
//! Checkpoints are late, since a page that changes again meanwhile is then written only once: a
//! pass begins when the ring is half full, and when nothing was fenced for a while, so that the
//! ring becomes empty. Neither thread holds the writer's lock during a sync, so that threads that
//! only write do not wait for it.
//!
//! A failure is one of the region, like any other, and ends the threads.

use super::append::CopyWords;
use super::core::{Journal, JournalCounts, locked};
use super::error::JournalError;
use super::writer::Writer;
use crate::fault_points::FaultPoint;
use crate::region::Region;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The maximum time between two looks of the threads,
const LOOK: Duration = Duration::from_millis(100);

/// ... and the minimum.
const SHORTEST: Duration = Duration::from_millis(1);

/// Everything is applied after this time without a fence.
const REST: Duration = Duration::from_millis(500);

/// The threads that do the background work of a region's journal. Dropping it ends them, and waits
/// until they have ended.
pub struct JournalThread {
    attention: Arc<Attention>,
    threads: Vec<JoinHandle<()>>,
}

impl JournalThread {
    /// Starts the threads for the region of `owner`, which they keep while they run; starts none if
    /// the region has no journal. They sync at this interval, or only what is applied.
    pub fn start<T: Send + Sync + 'static>(
        owner: Arc<T>,
        region: fn(&T) -> &Region,
        sync_every: Option<Duration>,
    ) -> io::Result<JournalThread> {
        let Some(journal) = &region(&owner).journal else {
            return Ok(JournalThread { attention: Arc::default(), threads: Vec::new() });
        };
        let attention = Arc::clone(&journal.attention);
        attention.ask(|asked| *asked = Asked { sync_every, looks: asked.looks, ends: false });
        let (syncing, applying) = (Syncing::new(journal), Applying::new(journal));
        // If starting fails, dropping this ends the threads that have started.
        let mut threads = JournalThread { attention, threads: Vec::new() };
        let of_owner = Arc::clone(&owner);
        threads.add("journal-sync", move || work(region(&of_owner), syncing))?;
        threads.add("journal-apply", move || work(region(&owner), applying))?;
        Ok(threads)
    }

    fn add(&mut self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.into()).spawn(run)?);
        Ok(())
    }

    /// Changes the interval at which words that nobody waits for are synced.
    pub fn sync_every(&self, sync_every: Option<Duration>) {
        self.attention.ask(|asked| asked.sync_every = sync_every);
    }
}

impl Drop for JournalThread {
    fn drop(&mut self) {
        self.attention.ask(|asked| asked.ends = true);
        for thread in self.threads.drain(..) {
            // A panic of a thread is already a failure of the region.
            let _ = thread.join();
        }
    }
}

/// Wakes the threads.
#[derive(Default)]
pub(super) struct Attention {
    asked: Mutex<Asked>,
    changed: Condvar,
}

/// Requests to the threads.
#[derive(Clone, Copy, Default)]
struct Asked {
    ends: bool,
    /// How many times they were asked to look at once.
    looks: u64,
    sync_every: Option<Duration>,
}

impl Attention {
    /// Makes the threads look at once.
    pub(super) fn look(&self) {
        self.ask(|_| {});
    }

    fn ask(&self, change: impl FnOnce(&mut Asked)) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut asked);
        asked.looks += 1;
        drop(asked);
        self.changed.notify_all();
    }

    /// Returns true unless the threads are to end.
    fn goes_on(&self) -> bool {
        !self.asked.lock().unwrap_or_else(PoisonError::into_inner).ends
    }

    /// Waits until it is time to look, or until there is a request that is newer than `seen`.
    fn wait(&self, seen: u64) -> Asked {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = asked.sync_every.map_or(LOOK, |every| (every / 4).clamp(SHORTEST, LOOK));
        let waited = self
            .changed
            .wait_timeout_while(asked, longest, |asked| asked.looks == seen && !asked.ends);
        let (asked, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *asked
    }
}

/// The work of one of the threads.
pub(super) trait Duty {
    /// Does what is due; `every` is the interval at which words that nobody waits for are synced.
    fn look(
        &mut self,
        journal: &Journal,
        every: Option<Duration>,
        copy: CopyWords<'_>,
    ) -> Result<(), JournalError>;
}

/// Runs one of the threads, until it is told to end or the journal has failed.
fn work(region: &Region, mut duty: impl Duty) {
    let Some(journal) = &region.journal else { return };
    let mut seen = 0;
    loop {
        let asked = journal.attention.wait(seen);
        if asked.ends {
            return;
        }
        seen = asked.looks;
        let every = asked.sync_every;
        let step =
            || region.with_journal_and_words(|journal, copy| duty.look(journal, every, copy));
        match catch_unwind(AssertUnwindSafe(step)) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return region.fail(),
            Err(_) => {
                journal.fail("background work", "a panic");
                return region.fail();
            }
        }
    }
}

/// The progress of a journal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// Positions of words.
    appended: u64,
    synced: u64,
    /// Bytes of the ring in use, and in total.
    used: u64,
    capacity: u64,
    is_near_limit: bool,
    is_far_from_limit: bool,
}

/// Decides when words that nobody waits for are to be synced.
pub(super) struct Syncing {
    /// When everything was last synced, or a sync was last due.
    synced: Duration,
}

impl Syncing {
    pub(super) fn new(journal: &Journal) -> Syncing {
        Syncing { synced: journal.clock.now() }
    }

    fn is_due(&mut self, now: Duration, state: State, sync_every: Option<Duration>) -> bool {
        let is_synced = state.synced >= state.appended;
        let is_time = sync_every.is_some_and(|every| now.saturating_sub(self.synced) >= every);
        if is_synced || is_time {
            self.synced = now;
        }
        is_time && !is_synced
    }
}

impl Duty for Syncing {
    fn look(
        &mut self,
        journal: &Journal,
        every: Option<Duration>,
        _: CopyWords<'_>,
    ) -> Result<(), JournalError> {
        match self.is_due(journal.clock.now(), journal.state(), every) {
            true => journal.sync_in_background(),
            false => Ok(()),
        }
    }
}

/// Decides when a checkpoint is due.
pub(super) struct Applying {
    /// The position after everything that was appended, as of the last look, and when it was
    /// reached.
    appended: u64,
    since: Duration,
}

/// The work that is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Due {
    /// First write and sync everything that was appended; otherwise the words in the buffer stay in
    /// it.
    sync: bool,
    /// Raise the limit.
    raise_limit: bool,
    /// Lower the limit.
    lower_limit: bool,
    /// Make checkpoints until this many bytes of the ring are in use.
    apply_to: Option<u64>,
}

impl Applying {
    pub(super) fn new(journal: &Journal) -> Applying {
        Applying { appended: 0, since: journal.clock.now() }
    }

    fn due(&mut self, now: Duration, state: State) -> Due {
        let State { appended, synced, used, capacity, .. } = state;
        if appended != self.appended {
            (self.appended, self.since) = (appended, now);
        }
        let rests = now.saturating_sub(self.since) >= REST;
        let mut due = Due { raise_limit: state.is_near_limit, ..Due::default() };
        if used > capacity / 2 {
            due.apply_to = Some(capacity / 2);
        }
        if rests && (used > 0 || synced < appended) {
            due.apply_to = Some(0);
        }
        due.sync = synced < appended && due.apply_to.is_some();
        due.lower_limit = rests && used == 0 && state.is_far_from_limit;
        due
    }
}

impl Duty for Applying {
    fn look(
        &mut self,
        journal: &Journal,
        _: Option<Duration>,
        copy: CopyWords<'_>,
    ) -> Result<(), JournalError> {
        while journal.grow_ring()? {}
        let due = self.due(journal.clock.now(), journal.state());
        journal.tend(due, copy, &|| journal.attention.goes_on())
    }
}

impl Journal {
    fn state(&self) -> State {
        let JournalCounts { used, capacity, .. } = self.counts();
        // `synced` is read first, so that it never exceeds `appended`.
        let synced = self.synced();
        let head = self.progress.head.load(Acquire);
        let is_near_limit = self.is_near_limit(head, capacity);
        let is_far_from_limit = self.is_far_from_limit(head, capacity);
        let appended = self.appended();
        State { appended, synced, used, capacity, is_near_limit, is_far_from_limit }
    }

    /// Does what is due, as long as `goes_on` allows it.
    fn tend(
        &self,
        due: Due,
        copy: CopyWords<'_>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), JournalError> {
        if due.raise_limit {
            self.raise_limit()?;
        }
        if due.lower_limit {
            self.lower_limit_at_rest()?;
        }
        if due.sync {
            self.sync_in_background()?;
        }
        let Some(left) = due.apply_to else { return Ok(()) };
        // Lines written from here on are left for later, unless they fill half the ring.
        let end = self.progress.head.load(Acquire);
        let is_due = || {
            let JournalCounts { used, capacity, .. } = self.counts();
            let is_before_end = self.progress.tail.load(Acquire) < end;
            self.is_checkpointing() || used > capacity / 2 || used > left && is_before_end
        };
        while goes_on() && is_due() && self.checkpoint_step(copy)? {
            self.grow_ring()?;
        }
        Ok(())
    }

    /// Makes durable what has been appended so far. Others may write and sync meanwhile.
    pub(crate) fn sync_in_background(&self) -> Result<(), JournalError> {
        let mut writer = locked(&self.writer);
        let Some(open) = &mut *writer else { return self.check() };
        self.write(open)?;
        let (file, incarnation) = (Arc::clone(&open.file), open.incarnation);
        let written_so_far = |open: &Writer| (open.sequence, self.written());
        let (mut sequence, mut written) = written_so_far(open);
        open.begin_sync(written);
        drop(writer);
        self.sync_batches(&*file)?;
        let mut writer = locked(&self.writer);
        // The journal may have ended meanwhile.
        if let Some(open) = writer.as_mut().filter(|open| open.incarnation == incarnation) {
            if !FaultPoint::CountBeforeSync.is_enabled() {
                (sequence, written) = written_so_far(open);
            }
            open.synced_sequence = open.synced_sequence.max(sequence);
            self.progress.synced_sequence.fetch_max(sequence, Release);
            self.progress.synced.fetch_max(written, Release);
            self.end_sync(open, written);
        }
        Ok(())
    }

    /// Wakes the thread if the last write made the ring more than half full, or a quarter full if
    /// it may grow, or came near the limit.
    pub(super) fn notify_if_due(&self, head: u64, space: u64, capacity: u64) {
        let used = head - self.progress.tail.load(Acquire);
        let is_half_full = used > capacity / 2 && used - space <= capacity / 2;
        let is_near = |head: u64| self.is_near_limit(head, capacity);
        let asks_growth = self.ask_growth(used, capacity);
        if is_half_full || asks_growth || is_near(head) && !is_near(head - space) {
            self.attention.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::WordRange;
    use super::super::place::JournalPlace;
    use super::super::storage::Storage;
    use super::super::storage::tests::Memory;
    use super::super::superblock::JournalId;
    use super::*;
    use crate::domain::Domain;
    use crate::journaled::SyncPolicy;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::Instant;

    const LEN: u64 = 1 << 20;
    const RING: u64 = 64 << 10;
    const SECOND: Option<Duration> = Some(Duration::from_secs(1));

    fn state(appended: u64, synced: u64, used: u64) -> State {
        State { appended, synced, used, capacity: RING, ..State::default() }
    }

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn paces() -> (Syncing, Applying) {
        (Syncing { synced: at(0) }, Applying { appended: 0, since: at(0) })
    }

    #[test]
    fn what_nobody_waits_for_is_synced_after_a_second_and_applied_at_rest() {
        let (mut syncing, mut applying) = paces();
        let mut check = |ms: u64, state: State, syncs: bool, apply_to: Option<u64>| {
            assert_eq!(syncing.is_due(at(ms), state, SECOND), syncs, "{ms} ms");
            let due = applying.due(at(ms), state);
            assert_eq!(due, Due { apply_to, ..Due::default() }, "{ms} ms");
        };
        check(100, state(0, 0, 0), false, None);
        // Continuous fences: never at rest.
        for ms in (200..1100).step_by(100) {
            check(ms, state(ms, 0, 0), false, None);
        }
        check(1100, state(1100, 0, 0), true, None);
        for ms in (1200..2100).step_by(100) {
            check(ms, state(ms, 1100, 4096), false, None);
        }
        check(2099, state(2099, 1100, 4096), false, None);
        check(2100, state(2100, 1100, 4096), true, None);
        // No more fences: everything is synced and applied, and then there is nothing to do.
        check(2599, state(2100, 2100, 8192), false, None);
        check(2600, state(2100, 2100, 8192), false, Some(0));
        check(9000, state(2100, 2100, 0), false, None);
        // Lines that are fenced after that have their whole second.
        check(9100, state(2200, 2100, 0), false, None);
        check(9999, state(2300, 2100, 0), false, None);
        check(10_000, state(2400, 2100, 0), true, None);
    }

    #[test]
    fn a_sync_that_is_due_waits_for_nothing_that_is_applied() {
        let (mut syncing, mut applying) = paces();
        let full = state(100, 0, RING);
        assert!(syncing.is_due(at(1000), full, SECOND));
        let apply = Due { sync: true, apply_to: Some(RING / 2), ..Due::default() };
        assert_eq!(applying.due(at(1000), full), apply);
        // While one thread applies, the other one syncs again.
        assert!(!syncing.is_due(at(1999), full, SECOND));
        assert!(syncing.is_due(at(2000), full, SECOND));
    }

    #[test]
    fn the_limit_is_raised_before_the_writer_comes_to_it() {
        let near = State { is_near_limit: true, ..state(0, 0, 0) };
        let raise = Due { raise_limit: true, ..Due::default() };
        assert_eq!(paces().1.due(at(0), near), raise);
        let region = region(1 << 20, false);
        let journal = region.journal.as_ref().unwrap();
        let mut writes = 0;
        while !journal.state().is_near_limit {
            put(&region, 64, 1);
            region.sync_up_to(region.appended()).unwrap();
            writes += 1;
        }
        assert_eq!(writes, 2, "an eighth of the ring has two blocks, and half of it is used");
        let syncs = region.journal_counts().unwrap().syncs;
        journal.tend(raise, &|_, _| true, &|| true).unwrap();
        assert!(!journal.state().is_near_limit);
        // Nothing is written twice.
        journal.tend(raise, &|_, _| true, &|| true).unwrap();
        assert_eq!(region.journal_counts().unwrap().syncs, syncs + 2);
    }

    #[test]
    fn the_limit_is_lowered_at_rest_and_raised_by_the_next_writers() {
        let (_, mut applying) = paces();
        let mut check = |ms: u64, is_far_from_limit, used, expected| {
            let state = State { is_far_from_limit, ..state(64, 64, used) };
            assert_eq!(applying.due(at(ms), state).lower_limit, expected, "{ms} ms");
        };
        check(100, true, 0, false);
        check(599, true, 0, false);
        check(600, true, 64, false);
        check(700, false, 0, false);
        check(800, true, 0, true);

        let region = region(1 << 20, false);
        let journal = region.journal.as_ref().unwrap();
        let distance = || {
            let (head, limit) = (&journal.progress.head, &journal.progress.limit);
            limit.load(Acquire) - head.load(Acquire)
        };
        let write = || {
            put(&region, 64, 1);
            region.sync_up_to(region.appended()).unwrap();
        };
        let lower = Due { lower_limit: true, ..Due::default() };
        let raise = Due { raise_limit: true, ..Due::default() };
        (0..5).for_each(|_| {
            write();
            journal.tend(raise, &|_, _| true, &|| true).unwrap();
        });
        write();
        let far = distance();
        assert!(journal.state().is_far_from_limit, "{far}");
        let syncs = region.journal_counts().unwrap().syncs;
        journal.tend(lower, &|_, _| true, &|| true).unwrap();
        journal.tend(lower, &|_, _| true, &|| true).unwrap();
        assert_eq!(region.journal_counts().unwrap().syncs, syncs + 2, "two copies, once");
        let lowered = distance();
        assert!(lowered < far && !journal.state().is_near_limit, "{lowered} of {far}");
        while region.checkpoint_step().unwrap() {}
        assert_eq!(distance(), lowered, "the tail moved, and the limit did not");
        while !journal.state().is_near_limit {
            write();
        }
        journal.tend(raise, &|_, _| true, &|| true).unwrap();
        assert!(distance() >= far, "{} of {far}", distance());
    }

    #[test]
    fn without_an_interval_only_what_is_applied_is_synced() {
        let (mut syncing, mut applying) = paces();
        for ms in (100..60_000).step_by(100) {
            let half = state(ms, 0, RING / 2);
            assert!(!syncing.is_due(at(ms), half, None), "{ms} ms");
            assert_eq!(applying.due(at(ms), half), Due::default(), "{ms} ms");
        }
        let half_full = Due { sync: true, apply_to: Some(RING / 2), ..Due::default() };
        assert_eq!(applying.due(at(60_000), state(60_000, 0, RING / 2 + 1)), half_full);
        let at_rest = Due { sync: true, apply_to: Some(0), ..Due::default() };
        assert_eq!(applying.due(at(60_500), state(60_000, 0, RING / 4)), at_rest);
    }

    /// A file whose syncs or writes begin to fail, or panic.
    struct Failing {
        file: Memory,
        syncs_left: AtomicUsize,
        panics: bool,
    }

    impl Storage for Failing {
        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
            self.file.read_at(bytes, at)
        }

        fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            self.file.write_at(bytes, at)
        }

        fn sync(&self) -> io::Result<()> {
            let left = self.syncs_left.load(Relaxed);
            assert!(left > 0 || !self.panics, "a bug");
            self.syncs_left.store(left.saturating_sub(1), Relaxed);
            if left == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn size(&self) -> io::Result<u64> {
            self.file.size()
        }

        /// A new file: nothing has been written.
        fn written_up_to(&self, from: u64) -> io::Result<u64> {
            Ok(from)
        }

        fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
            self.file.allocate(from, to)
        }
    }

    /// Returns a region with an empty journal in use, of which this many more syncs succeed.
    fn region(syncs: usize, panics: bool) -> Arc<Region> {
        // Beginning the journal takes some syncs.
        let beginning = 3;
        let syncs_left = AtomicUsize::new(syncs + beginning);
        let file = Arc::new(Failing { file: Memory::new(0), syncs_left, panics });
        let place = JournalPlace::Given(Arc::clone(&file) as Arc<dyn Storage>);
        let pool = Arc::new(Memory::new(0));
        let region = Region::anonymous(LEN as usize).unwrap();
        let mut region = region.with_journal(Journal::new(place, RING, pool));
        region.domain = Domain::Journal;
        region.grow(LEN).unwrap();
        region.begin_journal(JournalId { pool: [7; 16], journal: 1 }, 64).unwrap();
        region.start_journal();
        assert_eq!(file.syncs_left.load(Relaxed), syncs);
        Arc::new(region)
    }

    fn start(region: &Arc<Region>, sync_every: Option<Duration>) -> JournalThread {
        JournalThread::start(Arc::clone(region), |region| region, sync_every).unwrap()
    }

    fn put(region: &Region, off: u64, value: u64) {
        // SAFETY: no slice of the region is held while these tests store.
        unsafe { region.store(off, value) };
        region.flush(off, 8);
        region.fence();
    }

    /// Waits until a condition holds.
    fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what} does not come");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn words_that_nobody_waits_for_become_durable_and_leave_the_ring() {
        let region = region(1 << 20, false);
        let thread = start(&region, SyncPolicy::EverySecond.sync_every());
        put(&region, 64, 1);
        wait_until("the sync", || region.synced() == region.appended());
        wait_until("the rest", || region.journal_counts().unwrap().used == 0);
        thread.sync_every(SyncPolicy::No.sync_every());
        for n in 0..3000 {
            put(&region, n % 512 * 2048, n);
            region.write_up_to(region.appended()).unwrap();
        }
        wait_until("the rest", || region.journal_counts().unwrap().used == 0);
        assert_eq!(region.synced(), region.appended());
        drop(thread);
        assert_eq!(region.journal_failure(), None);
        // After one has ended, another may start.
        let thread = start(&region, Some(Duration::ZERO));
        put(&region, 64, 1);
        wait_until("the sync", || region.synced() == region.appended());
        drop(thread);
    }

    #[test]
    fn a_failure_or_a_panic_is_the_regions() {
        for (panics, cause) in [(false, "sync the journal"), (true, "background work: a panic")] {
            let region = region(0, panics);
            let thread = start(&region, Some(Duration::ZERO));
            put(&region, 64, 1);
            wait_until("the failure", || region.failed());
            let failure = region.journal_failure().unwrap().to_owned();
            assert!(failure.contains(cause), "{failure}");
            let refused = region.write_up_to(region.appended() + 1).unwrap_err();
            assert!(refused.to_string().contains(cause), "{refused}");
            drop(thread);
        }
    }

    #[test]
    fn a_region_without_a_journal_needs_none() {
        let region = Arc::new(Region::anonymous(4096).unwrap());
        let thread = start(&region, SECOND);
        thread.sync_every(None);
        assert!(thread.threads.is_empty());
    }

    #[test]
    fn a_checkpoint_at_rest_ends_though_others_go_on_writing() {
        let region = region(1 << 20, false);
        put(&region, 64, 1);
        region.sync_up_to(region.appended()).unwrap();
        let at_rest = Due { sync: true, apply_to: Some(0), ..Due::default() };
        let tended = region.with_journal_and_words(|journal, copy| {
            // Each page that is copied is changed again.
            let copy_and_change = |range: WordRange, out: &mut Vec<u8>| {
                let copied = copy(range, out);
                put(&region, range.bytes().0 + 64, 2);
                region.write_up_to(region.appended()).unwrap();
                copied
            };
            journal.tend(at_rest, &copy_and_change, &|| true)
        });
        tended.unwrap();
        let counts = region.journal_counts().unwrap();
        assert!(counts.applied == 1 && counts.used > 0, "{counts:?}");
    }

    #[test]
    fn nothing_is_written_over_what_the_medium_has_lost() {
        let region = region(1 << 20, false);
        put(&region, 64, 1);
        region.sync_up_to(region.appended()).unwrap();
        let lost = region.with_the_journal(|journal| {
            journal.checkpoint_step(&|range, out| {
                out.resize(out.len() + range.bytes().1, 0);
                false
            })?;
            Ok(())
        });
        let text = lost.unwrap_err().to_string();
        assert!(text.contains("the medium has lost a part of it"), "{text}");
        assert_eq!(region.journal_counts().unwrap().bytes_applied, 0);
        assert!(region.failed());
    }

    #[test]
    fn a_sync_in_the_background_counts_what_was_written_before_it() {
        let region = region(1 << 20, false);
        put(&region, 64, 1);
        let before = region.appended();
        region.sync_in_background().unwrap();
        assert_eq!(region.synced(), before);
        put(&region, 128, 1);
        assert_eq!(region.synced(), before);
        region.sync_in_background().unwrap();
        assert_eq!(region.synced(), region.appended());
        assert!(region.checkpoint_step().unwrap());
        assert_eq!(region.journal_counts().unwrap().used, 0);
        region.end_journal().unwrap();
        region.sync_in_background().unwrap();
    }
}
