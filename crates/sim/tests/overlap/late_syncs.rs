//! How much a power loss takes when acknowledgements do not wait for a sync: measured by a clock,
//! on disks on which applying, or syncing, takes long.
//!
//! At many moments the power is lost, and nothing unsynced arrives. Whatever was acknowledged and
//! is lost must have been acknowledged within a certain time.

use super::crashes::check_image;
use super::model::{Contents, WRITERS, own_lines, store_and_flush};
use super::pool::{self, LEN};
use super::threads::{Ack, Done};
use pmem::{ApplySteps, Clock, JournalError, Region, SyncPolicy, SyncSteps};
use sim::{FileCall, FileEvent, FilesState, Named, SimulatedClock, SimulatedFiles, run_scheduled};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How long they write.
const WRITES: Duration = Duration::from_secs(60);
/// How often a background thread looks.
const LOOK: Duration = Duration::from_millis(100);
const SECOND: Option<Duration> = Some(Duration::from_secs(1));
/// No run takes this long.
const HANGS: Duration = Duration::from_secs(3600);

/// How long the calls of a disk take, and the size of the ring on it.
#[derive(Clone, Copy)]
pub(crate) struct Disk {
    pub(crate) ring: u64,
    /// The ring begins short, and grows. Each step of that waits for syncs.
    grows: bool,
    write_to_pool: Duration,
    sync_pool: Duration,
    sync_journal: Duration,
}

/// A disk that takes a while to apply a ring, which is half full in a few seconds, and no time to
/// sync a journal.
pub(crate) const APPLIES_SLOWLY: Disk = Disk {
    ring: 6 << 20,
    grows: false,
    write_to_pool: Duration::from_micros(20),
    sync_pool: Duration::from_secs(4),
    sync_journal: Duration::from_millis(5),
};
/// A disk on which each sync takes seconds, with a ring that never becomes full in these runs.
pub(crate) const SYNCS_SLOWLY: Disk = Disk {
    ring: 32 << 20,
    grows: false,
    write_to_pool: Duration::from_micros(20),
    sync_pool: Duration::from_secs(3),
    sync_journal: Duration::from_secs(3),
};

impl Disk {
    /// Returns the disk with a new journal, whose ring grows.
    pub(crate) fn with_growth(self) -> Disk {
        Disk { grows: true, ..self }
    }
}

/// How the background works.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Background {
    /// One thread syncs, and one applies.
    Two,
    /// One thread does both, in turn.
    One,
}

/// The maximum loss: the time between the first and the last acknowledgement that a power loss
/// took; and the longest time that an acknowledgement had to wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Lost {
    pub(crate) most: Duration,
    pub(crate) waited: Duration,
    pub(crate) acks: usize,
    /// The greatest age that the journal reported.
    pub(crate) oldest: Duration,
    /// The length of the ring at the end.
    pub(crate) capacity: u64,
}

struct Writing<'r> {
    region: &'r Region,
    files: &'r SimulatedFiles,
    clock: &'r SimulatedClock,
    policy: SyncPolicy,
    done: Mutex<(Done, Lost)>,
    writing: AtomicUsize,
}

impl Writing<'_> {
    fn write(&self, writer: usize, mut rng: fastrand::Rng) {
        let own = own_lines(writer, LEN);
        while self.clock.now() < WRITES {
            self.clock.pass(Duration::from_millis(rng.u64(5..15)));
            let from = rng.usize(..own.len() - 4);
            let lines = &own[from..from + 1 + rng.usize(..3)];
            let (count, value) = self.done.lock().unwrap().0.history.begin(writer, lines);
            store_and_flush(self.region, writer, lines, value);
            self.region.fence();
            let position = self.region.appended();
            self.done.lock().unwrap().0.history.end(writer, position);
            let begin = self.clock.now();
            self.region.acknowledge(position, self.policy).expect("a disk that does not fail");
            let at = self.clock.now();
            let age = self.region.journal_counts().expect("a journal").unsynced_ns;
            let (done, lost) = &mut *self.done.lock().unwrap();
            lost.waited = lost.waited.max(at - begin);
            lost.oldest = lost.oldest.max(Duration::from_nanos(age));
            self.files.mark(done.acks.len());
            done.acks.push(Ack { writer, count, is_durable: false, at });
        }
    }

    /// Does a part of the background work until the writers have ended.
    fn tend(&self, mut look: impl FnMut(&Region) -> Result<(), JournalError>) {
        while self.writing.load(Relaxed) > 0 {
            self.clock.pass(LOOK);
            assert!(self.clock.now() < HANGS, "a hang: the writers do not end");
            look(self.region).expect("a disk that does not fail");
        }
    }
}

/// Writes under a policy for a while, and loses power at many moments.
pub(crate) fn lose(disk: Disk, policy: SyncPolicy, background: Background, seed: u64) -> Lost {
    let clock = SimulatedClock::default();
    let time = move |name: Named, call: FileCall, _: usize| match (name, call) {
        (Named::Pool, FileCall::Write) => disk.write_to_pool,
        (Named::Pool, FileCall::Sync) => disk.sync_pool,
        (Named::Journal, FileCall::Sync) => disk.sync_journal,
        _ => Duration::from_micros(10),
    };
    let files = SimulatedFiles::default();
    if !disk.grows {
        files.storage(Named::Journal).allocate(0, 8192 + disk.ring).expect("space");
    }
    pool::open(&pool::map(&files, disk.ring, &clock)).expect("a pool");
    let start = files.state();
    let files = SimulatedFiles::new(start.clone()).with_times(&clock, time);
    let region = pool::map(&files, disk.ring, &clock);
    pool::open(&region).expect("a pool");
    let done = Mutex::new((Done::nothing(Contents::empty()), Lost::default()));
    let writing = AtomicUsize::new(WRITERS);
    let threads = Writing { region: &region, files: &files, clock: &clock, policy, done, writing };
    let on = &threads;
    let mut bodies: Vec<Box<dyn FnOnce() + Send + '_>> = Vec::new();
    let mut rng = fastrand::Rng::with_seed(seed);
    for writer in 0..WRITERS {
        let rng = rng.fork();
        bodies.push(Box::new(move || {
            on.write(writer, rng);
            on.writing.fetch_sub(1, Relaxed);
        }));
    }
    let (mut syncs, mut applies): (SyncSteps, ApplySteps) =
        region.background_steps().expect("a journal");
    match background {
        Background::Two => {
            bodies.push(Box::new(move || on.tend(|region| syncs.look(region, SECOND))));
            bodies.push(Box::new(move || on.tend(|region| applies.look(region))));
        }
        Background::One => bodies.push(Box::new(move || {
            on.tend(|region| syncs.look(region, SECOND).and_then(|()| applies.look(region)));
        })),
    }
    run_scheduled(seed, bodies);
    let (done, lost) = threads.done.into_inner().unwrap();
    let capacity = region.journal_counts().expect("a journal").capacity;
    drop(region);
    let most = most_lost((start, disk.ring), &files.take_events(), &done, &mut rng);
    Lost { most, acks: done.acks.len(), capacity, ..lost }
}

/// Loses power at some of the moments, most of them before a sync ends.
fn most_lost(
    (mut state, ring): (FilesState, u64),
    events: &[FileEvent],
    done: &Done,
    rng: &mut fastrand::Rng,
) -> Duration {
    let (mut acks, mut most) = (0, Duration::ZERO);
    let syncs = events.iter().filter(|event| matches!(event, FileEvent::Sync(..))).count();
    for event in events {
        let is_sync = matches!(event, FileEvent::Sync(Named::Journal, _));
        if is_sync && rng.usize(..(syncs / 60).max(1)) == 0 || rng.usize(..2000) == 0 {
            let image = state.after_power_loss(|| false);
            let whole = check_image(image, ring, done, &[0; WRITERS]).expect("a prefix");
            let made = &done.acks[..acks];
            let is_lost = |ack: &&Ack| ack.count > whole[ack.writer];
            if let (Some(first), Some(last)) = (made.iter().find(is_lost), made.last()) {
                most = most.max(last.at - first.at);
            }
        }
        state.apply(event);
        acks += usize::from(matches!(event, FileEvent::Mark(_)));
    }
    most
}
