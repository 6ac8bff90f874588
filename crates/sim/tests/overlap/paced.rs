//! How long writers wait on a disk to which a checkpoint takes longer to write than they take to
//! fill the ring: measured by a clock. They ask before they write, and wait after it, as clients of
//! the server do.

use super::model::{Contents, WRITERS, own_lines, store_and_flush};
use super::pool::{self, LEN};
use pmem::{ChargedClient, Clock, Region, SyncPolicy};
use sim::{FileCall, Named, SimulatedClock, SimulatedFiles, run_scheduled};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// How long they write.
const WRITES: Duration = Duration::from_secs(60);
/// How long a writer takes for a write, apart from all waits.
const WORKS: Duration = Duration::from_millis(1);
/// How often a background thread looks, and a writer that waits for space.
const LOOK: Duration = Duration::from_millis(5);
const RING: u64 = 256 << 10;
/// The disk: two such syncs, and some writes, are a pass.
pub(crate) const SYNC_POOL: Duration = Duration::from_millis(200);
const SYNC_JOURNAL: Duration = Duration::from_millis(3);

/// What was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Paced {
    /// The longest time in a fence, where its thread could serve nobody,
    pub(crate) fence: Duration,
    /// ... before a write, until the ring had space,
    pub(crate) space: Duration,
    /// ... and after one.
    pub(crate) charge: Duration,
    /// The number of writes of each writer.
    pub(crate) writes: [usize; WRITERS],
    /// The number of passes, and the longest time more than half full without one.
    pub(crate) passes: u64,
    pub(crate) idle: Duration,
    pub(crate) full_waits: u64,
}

struct Writing<'r> {
    region: &'r Region,
    clock: &'r SimulatedClock,
    paced: Mutex<Paced>,
    writing: AtomicUsize,
}

impl Writing<'_> {
    /// Changes the result, which is never locked where another thread may be chosen.
    fn add(&self, add: impl FnOnce(&mut Paced)) {
        add(&mut self.paced.lock().expect("no panic"));
    }

    fn write(&self, writer: usize, mut rng: fastrand::Rng) {
        let (region, clock, own) = (self.region, self.clock, own_lines(writer, LEN));
        let (mut value, mut client) = (0, ChargedClient::default());
        while clock.now() < WRITES {
            clock.pass(WORKS);
            let begin = clock.now();
            while region.is_nearly_full() {
                clock.pass(LOOK);
            }
            let space = clock.now() - begin;
            let before = pmem::counters();
            // The first of them writes much at once.
            let count = if writer == 0 { 12 } else { 1 + rng.usize(..3) };
            let from = rng.usize(..own.len() - count);
            value += 1;
            store_and_flush(region, writer, &own[from..from + count], value);
            let begin = clock.now();
            region.fence();
            let fence = clock.now() - begin;
            region.acknowledge(region.appended(), SyncPolicy::No).expect("a disk that works");
            let bytes = pmem::counters().since(&before).lines * pmem::LINE;
            let turn = clock.now() + region.charge(bytes, &mut client);
            let begin = clock.now();
            while clock.now() < turn && region.is_half_full() {
                clock.pass((turn - clock.now()).min(LOOK));
            }
            let charge = clock.now() - begin;
            self.add(|paced| {
                paced.fence = paced.fence.max(fence);
                paced.space = paced.space.max(space);
                paced.charge = paced.charge.max(charge);
                paced.writes[writer] += 1;
            });
        }
    }

    /// Applies until the writers have ended.
    fn apply(&self) {
        let (_, mut steps) = self.region.background_steps().expect("a journal");
        let mut ended = Duration::ZERO;
        while self.writing.load(Relaxed) > 0 {
            self.clock.pass(LOOK);
            let counts = self.region.journal_counts().expect("a journal");
            let begin = self.clock.now();
            if counts.used <= counts.capacity / 2 {
                ended = begin;
            }
            self.add(|paced| paced.idle = paced.idle.max(begin - ended));
            steps.look(self.region).expect("a disk that works");
            ended = self.clock.now();
        }
    }

    fn sync(&self) {
        let (mut steps, _) = self.region.background_steps().expect("a journal");
        while self.writing.load(Relaxed) > 0 {
            self.clock.pass(LOOK);
            steps.look(self.region, Some(Duration::from_secs(1))).expect("a disk that works");
        }
    }
}

/// Writes for a while, as fast as the journal lets writers.
pub(crate) fn pace(seed: u64) -> Paced {
    let clock = SimulatedClock::default();
    let time = move |name: Named, call: FileCall, _: usize| match (name, call) {
        (Named::Pool, FileCall::Write) => Duration::from_millis(2),
        (Named::Pool, FileCall::Sync) => SYNC_POOL,
        (Named::Journal, FileCall::Sync) => SYNC_JOURNAL,
        _ => Duration::from_micros(10),
    };
    let files = SimulatedFiles::default();
    // A ring that has its whole length.
    files.storage(Named::Journal).allocate(0, 8192 + RING).expect("space");
    pool::open(&pool::map(&files, RING, &clock)).expect("a pool");
    let files = SimulatedFiles::new(files.state()).with_times(&clock, time);
    let region = pool::map(&files, RING, &clock);
    pool::open(&region).expect("a pool");
    let (paced, writing) = (Mutex::default(), AtomicUsize::new(WRITERS));
    let threads = Writing { region: &region, clock: &clock, paced, writing };
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
    bodies.push(Box::new(|| on.sync()));
    bodies.push(Box::new(|| on.apply()));
    run_scheduled(seed, bodies);
    let paced = threads.paced.into_inner().expect("no panic");
    let counts = region.journal_counts().expect("a journal");
    // What they wrote is there.
    let written = Contents::read(&region);
    drop(region);
    let opened = pool::map(&SimulatedFiles::new(files.state()), RING, &clock);
    pool::open(&opened).expect("a pool");
    assert!(Contents::read(&opened) == written, "a write is lost");
    Paced { passes: counts.applied, full_waits: counts.full_waits, ..paced }
}
