//! Threads that use one pool: writers, the two background threads, and a reader.

use super::model::{Contents, Counts, History, WRITERS, own_lines, store_and_flush};
use super::pool::{GROWN, close};
use pmem::{ChargedClient, Clock, JournalCounts, Region, SyncPolicy};
use sim::{FilesState, Named, SimulatedClock, SimulatedFiles, run_scheduled};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a background thread waits between two looks.
const LOOK: Duration = Duration::from_millis(100);
const EVERY: Option<Duration> = Some(Duration::from_secs(1));
/// No run takes this much simulated time, unless it hangs.
const HANGS: Duration = Duration::from_secs(24 * 3600);

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// The number of fences of each writer.
    pub(crate) fences: usize,
    pub(crate) policies: Vec<SyncPolicy>,
    /// The pool grows in the middle.
    pub(crate) grows: bool,
    /// When the journal's use ends, if it does.
    pub(crate) closes: Option<Close>,
    /// Somebody copies the files at some moments.
    pub(crate) copies: bool,
}

/// When the use of a journal ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Close {
    /// While the threads run: later fences go to the pool's file.
    Meanwhile,
    /// After all threads.
    After,
}

/// An acknowledgement that this many fences of a writer are there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) writer: usize,
    pub(crate) count: usize,
    /// Whether it covers a power loss; otherwise only the end of the process.
    pub(crate) is_durable: bool,
    pub(crate) at: Duration,
}

/// What the threads did. The mark `n` in the record of the files is the acknowledgement `n`.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) history: History,
    pub(crate) acks: Vec<Ack>,
    /// Copies of the files, and what had been acknowledged when they were begun.
    pub(crate) copies: Vec<(FilesState, Counts)>,
}

impl Done {
    pub(crate) fn nothing(base: Contents) -> Done {
        Done { history: History::after(base), acks: Vec::new(), copies: Vec::new() }
    }
}

/// What must be there, judging by what has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Required {
    pub(crate) after_power_loss: Counts,
    pub(crate) after_process_end: Counts,
}

impl Required {
    pub(crate) fn add(&mut self, ack: &Ack) {
        let put = |counts: &mut Counts| counts[ack.writer] = counts[ack.writer].max(ack.count);
        put(&mut self.after_process_end);
        if ack.is_durable {
            put(&mut self.after_power_loss);
        }
    }
}

struct Threads<'r> {
    region: &'r Region,
    files: &'r SimulatedFiles,
    clock: &'r SimulatedClock,
    plan: &'r Plan,
    done: Mutex<Done>,
    /// The number of writers that have not ended.
    writing: AtomicUsize,
}

/// Runs the threads of a plan, until the writers have ended or a call fails.
pub(crate) fn run(
    region: &Region,
    files: &SimulatedFiles,
    clock: &SimulatedClock,
    plan: &Plan,
    base: Contents,
) -> Done {
    let (done, writing) = (Mutex::new(Done::nothing(base)), AtomicUsize::new(WRITERS));
    let threads = Threads { region, files, clock, plan, done, writing };
    let on = &threads;
    let mut rng = fastrand::Rng::with_seed(plan.seed);
    let mut bodies: Vec<Box<dyn FnOnce() + Send + '_>> = Vec::new();
    for writer in 0..WRITERS {
        let rng = rng.fork();
        bodies.push(Box::new(move || {
            on.write(writer, rng);
            on.writing.fetch_sub(1, Relaxed);
        }));
    }
    let [mut a, mut b, mut c, mut d, mut e] = std::array::from_fn(|_| rng.fork());
    bodies.push(Box::new(move || on.sync(&mut a)));
    bodies.push(Box::new(move || on.apply(&mut b)));
    bodies.push(Box::new(move || on.read(&mut c)));
    if plan.copies {
        bodies.push(Box::new(move || on.copy(&mut d)));
    }
    if plan.closes == Some(Close::Meanwhile) {
        bodies.push(Box::new(move || on.close(&mut e)));
    }
    run_scheduled(plan.seed, bodies);
    let closes = plan.closes == Some(Close::After);
    if closes && region.journal_failure().is_none() && close(region).is_ok() {
        let counts = std::array::from_fn(|writer| on.done().history.ended(writer).0);
        on.acknowledge_all(counts);
    }
    threads.done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Draws lines to write to: few, or about as many as fit into a batch, or more.
fn draw_lines(rng: &mut fastrand::Rng, own: &[u64]) -> Vec<u64> {
    const RUNS: [usize; 12] = [1, 2, 7, 61, 62, 63, 124, 125, 126, 127, 200, 299];
    const SPREAD: [usize; 6] = [3, 50, 111, 112, 113, 149];
    match rng.usize(..8) {
        0..5 => {
            let mut lines: Vec<u64> =
                (0..rng.usize(1..4)).map(|_| own[rng.usize(..own.len())]).collect();
            lines.sort_unstable();
            lines.dedup();
            lines
        }
        5 | 6 => {
            let len = RUNS[rng.usize(..RUNS.len())];
            let from = rng.usize(..own.len() - len);
            own[from..from + len].to_vec()
        }
        _ => {
            let len = SPREAD[rng.usize(..SPREAD.len())];
            let from = rng.usize(..own.len() - 2 * len);
            own[from..].iter().step_by(2).take(len).copied().collect()
        }
    }
}

impl Threads<'_> {
    /// Returns the record of what was done; it is never locked where another thread may be chosen.
    fn done(&self) -> MutexGuard<'_, Done> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn acknowledge(&self, writer: usize, count: usize, is_durable: bool) {
        let mut done = self.done();
        self.files.mark(done.acks.len());
        done.acks.push(Ack { writer, count, is_durable, at: self.clock.now() });
    }

    fn acknowledge_all(&self, counts: Counts) {
        counts
            .iter()
            .enumerate()
            .for_each(|(writer, count)| self.acknowledge(writer, *count, true));
    }

    fn write(&self, writer: usize, mut rng: fastrand::Rng) {
        let (region, mut client) = (self.region, ChargedClient::default());
        for n in 0..self.plan.fences {
            if self.plan.grows && writer == 0 && n == self.plan.fences / 2 {
                // If there is no space it does not grow.
                let _ = region.grow(GROWN);
            }
            let lines = draw_lines(&mut rng, &own_lines(writer, region.len()));
            let asks = rng.bool();
            if asks {
                self.wait_for_space();
            }
            let (count, value) = self.done().history.begin(writer, &lines);
            store_and_flush(region, writer, &lines, value);
            region.fence();
            if region.journal_failure().is_some() {
                return;
            }
            let position = region.appended();
            self.done().history.end(writer, position);
            // An empty fence.
            region.fence();
            let policy = self.plan.policies[rng.usize(..self.plan.policies.len())];
            if region.acknowledge(position, policy).is_err() {
                return;
            }
            self.acknowledge(writer, count, policy == SyncPolicy::Always);
            if asks {
                self.clock.pass(self.charge(lines.len(), &mut client));
            }
            if rng.usize(..3) == 0 {
                self.clock.pass(Duration::from_millis(rng.u64(..400)));
            }
        }
    }

    /// Waits until the ring has space for a write, as clients of the server do.
    fn wait_for_space(&self) {
        while self.region.is_nearly_full() {
            self.clock.pass(LOOK / 20);
            assert!(self.clock.now() < HANGS, "a hang: the ring gets no space");
        }
    }

    fn charge(&self, lines: usize, client: &mut ChargedClient) -> Duration {
        let delay = self.region.charge(lines as u64 * 64, client);
        assert!(delay <= Duration::from_millis(500), "{delay:?} after a write");
        delay
    }

    /// Waits until it is time to look again; returns false if there is nothing left to do.
    fn goes_on(&self, rng: &mut fastrand::Rng) -> bool {
        // Seldom immediately: each look that finds nothing to do is a change of threads.
        let part = if rng.usize(..4) == 0 { rng.u32(1..20) } else { 1 };
        self.clock.pass(LOOK / part);
        assert!(self.clock.now() < HANGS, "a hang: the writers do not end");
        self.writing.load(Relaxed) > 0
    }

    fn sync(&self, rng: &mut fastrand::Rng) {
        let Some((mut steps, _)) = self.region.background_steps() else { return };
        while self.goes_on(rng) {
            let synced = match rng.usize(..3) {
                0 => self.region.sync_in_background(),
                _ => steps.look(self.region, EVERY),
            };
            if synced.is_err() {
                return;
            }
        }
    }

    fn apply(&self, rng: &mut fastrand::Rng) {
        let Some((_, mut steps)) = self.region.background_steps() else { return };
        while self.goes_on(rng) {
            let applied = match rng.usize(..12) {
                0..4 => self.region.checkpoint_step().map(drop),
                4 => self.region.checkpoint(),
                _ => steps.look(self.region),
            };
            if applied.is_err() {
                return;
            }
        }
    }

    /// Ends the use of the journal at some moment. A copy that is being made prevents it.
    fn close(&self, rng: &mut fastrand::Rng) {
        for _ in 0..rng.usize(..20) {
            if !self.goes_on(rng) {
                break;
            }
        }
        let _ = close(self.region);
    }

    /// Queries what is durable, or waits until everything that it can see is durable.
    fn read(&self, rng: &mut fastrand::Rng) {
        while self.goes_on(rng) {
            let ended: [(usize, u64); WRITERS] =
                std::array::from_fn(|writer| self.done().history.ended(writer));
            let counts = ended.map(|(count, _)| count);
            if rng.bool() {
                let end = self.region.appended();
                if self.region.sync_up_to(end).is_err() {
                    return;
                }
                self.acknowledge_all(counts);
                continue;
            }
            let synced = self.region.synced();
            for (writer, (count, position)) in ended.into_iter().enumerate() {
                if position <= synced {
                    self.acknowledge(writer, count, true);
                }
            }
        }
    }

    /// Copies the pool's file and then the journal's, like somebody who moves both: the journal is
    /// held meanwhile.
    fn copy(&self, rng: &mut fastrand::Rng) {
        while self.goes_on(rng) {
            let is_nearly_empty = |counts: &JournalCounts| counts.used < counts.capacity / 4;
            if !self.region.journal_counts().as_ref().is_some_and(is_nearly_empty) {
                continue;
            }
            self.region.hold_journal(true);
            let len = self.region.len();
            let mut acknowledged = Required::default();
            self.done().acks.iter().for_each(|ack| acknowledged.add(ack));
            let pool = self.files.state();
            (0..rng.usize(..4)).for_each(|_| sim::yield_now());
            let copy = pool.copied_with(Named::Journal, &self.files.state());
            // Lines that came with a growth have no place in the copy.
            let is_whole = len == self.region.len() && self.region.journal_failure().is_none();
            self.region.hold_journal(false);
            if is_whole {
                self.done().copies.push((copy, acknowledged.after_process_end));
            }
        }
    }
}
