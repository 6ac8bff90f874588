//! Crashes of a heap with a journal: at any write and sync of either file, with any part of the
//! unsynced data.
//!
//! An incarnation runs random transactions, acknowledges them by a policy, makes checkpoints at
//! random, between transactions or in a separate thread, and may be closed. Its record is gone
//! through event by event; at some events the power is lost, in several ways, or the process ends.
//! When the result is opened it must hold a state between the last one acknowledged as durable and
//! the newest, whole: a prefix of the commits. Some images are continued, and are crashed again,
//! inside their recovery and after it.
//!
//! In one of the ways the disk also loses whole blocks of the journal that it was writing; but not
//! in a recovery, which writes again what may have been synced.
//!
//! The journal's file may be persistent memory, while the pool's is on a disk. Then crashes are
//! also at any store, write-back and fence of the journal, with any part of the words that no fence
//! has made durable.

pub(crate) mod histories;

use crate::pool::{Contents, Open, Pool};
use pmem::{Region, SyncPolicy};
use sim::{FileEvent, FilesState, Named, SimulatedFiles, Subject, run_scheduled, yield_now};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The smallest ring, so that it is full often.
const RING: u64 = 64 << 10;
/// The number of crashes after a crash.
const DEPTH: usize = 2;
/// How much of the unsynced data arrives.
const WAYS: [&str; 5] = ["nothing", "everything", "half", "nearly all", "blocks are torn"];
/// The mark after which an incarnation is open.
const OPENED: usize = 1;

/// What was examined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) images: u64,
    pub(crate) incarnations: u64,
    pub(crate) failures: u64,
}

type State = Vec<Contents>;

/// The states in order, and from which mark on which of them may be found: `[oldest, newest]`.
struct Promises {
    states: Vec<State>,
    marks: Vec<(usize, usize)>,
}

/// The medium of the journal's file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Medium {
    Disk,
    /// Persistent memory, and whether the processor stores whole lines past its cache.
    Lines {
        streams: bool,
    },
}

struct Explorer {
    pool: Pool,
    medium: Medium,
    rng: fastrand::Rng,
    looked: Looked,
}

/// Explores a seed with the journal on this medium; the first violation is the error.
pub(crate) fn explore(medium: Medium, seed: u64, transactions: usize) -> Result<Looked, String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let pool = Pool { spacious: rng.usize(..4) == 0, ..Pool::of(1 + rng.usize(..3), 3) };
    let mut explorer = Explorer { pool, medium, rng, looked: Looked::default() };
    let empty = Subject::empty(&pool);
    explorer
        .incarnation(FilesState::default(), vec![empty], transactions, 0)
        .map_err(|what| format!("seed {seed}, {medium:?}: {what}"))?;
    Ok(explorer.looked)
}

fn guarded<R>(what: &str, work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| format!("{what}: {error}")),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Err(format!("{what} panicked: {}", text.unwrap_or_default()))
        }
    }
}

impl Explorer {
    fn files(&self, state: FilesState) -> SimulatedFiles {
        let files = SimulatedFiles::new(state);
        match self.medium {
            Medium::Disk => files,
            Medium::Lines { streams } => files.with_lines(streams),
        }
    }

    fn open(&self, files: &SimulatedFiles) -> Result<Open, String> {
        let region = Region::simulated_journaled(
            Subject::reserve(&self.pool),
            files.storage(Named::Pool),
            files.storage(Named::Journal),
            RING,
        );
        guarded("open", || Subject::open(&self.pool, region))
    }

    /// Opens files that may hold any of `allowed`, oldest first; returns which one it is.
    fn read(&self, store: &mut Open, allowed: &[State]) -> Result<State, String> {
        let found = guarded("read", || Subject::read(&self.pool, store))?;
        match allowed.contains(&found) {
            true => Ok(found),
            false => Err(Subject::difference(&self.pool, &found, allowed)),
        }
    }

    /// Opens what a crash left, uses it, and crashes it everywhere.
    fn incarnation(
        &mut self,
        start: FilesState,
        allowed: Vec<State>,
        transactions: usize,
        depth: usize,
    ) -> Result<(), String> {
        self.looked.incarnations += 1;
        let files = self.files(start.clone());
        let newest = allowed.len() - 1;
        let mut promises = Promises { states: allowed, marks: vec![(0, newest)] };
        files.mark(0);
        let mut store = self.open(&files)?;
        let state = self.read(&mut store, &promises.states)?;
        if self.rng.usize(..10) == 0 {
            self.looked.failures += 1;
            files.fail_after(self.rng.u64(..200));
        }
        promises.states.push(state);
        // The state that was found is durable, or is in the journal that the recovery synced.
        promises.marks.push((newest + 1, newest + 1));
        files.mark(OPENED);
        match self.rng.usize(..3) {
            0 => self.with_checkpoints(&mut store, &files, &mut promises, transactions)?,
            _ => self.transactions(&mut store, &files, &mut promises, transactions)?,
        }
        let events = files.take_events();
        drop(store);
        self.crash_everywhere(start, &events, &promises, depth)
    }

    /// Runs transactions while another thread makes checkpoints, at any lock and any call of the
    /// files.
    fn with_checkpoints(
        &mut self,
        store: &mut Open,
        files: &SimulatedFiles,
        promises: &mut Promises,
        transactions: usize,
    ) -> Result<(), String> {
        let (heap, seed) = (Arc::clone(&store.heap), self.rng.u64(..));
        let (has_ended, mut done) = (AtomicBool::new(false), Ok(()));
        let run = || {
            done = self.transactions(store, files, promises, transactions);
            has_ended.store(true, Relaxed);
        };
        let checkpoint = || {
            for _ in 0..4 * transactions {
                if has_ended.load(Relaxed) || heap.region().checkpoint_step().is_err() {
                    return;
                }
                yield_now();
            }
        };
        run_scheduled::<Box<dyn FnOnce() + Send>>(seed, vec![Box::new(run), Box::new(checkpoint)]);
        done
    }

    /// Runs transactions, until a call fails.
    fn transactions(
        &mut self,
        store: &mut Open,
        files: &SimulatedFiles,
        promises: &mut Promises,
        transactions: usize,
    ) -> Result<(), String> {
        let policies = [SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::No];
        let policy = policies[self.rng.usize(..3)];
        for _ in 0..transactions {
            let newest = promises.states.len() - 1;
            let oldest = promises.marks[promises.marks.len() - 1].0;
            let (plan, next) = Subject::plan(&self.pool, &promises.states[newest], &mut self.rng);
            promises.states.push(next);
            promises.mark(files, oldest, newest + 1);
            let done = guarded("run", || Subject::run(&self.pool, store, &plan));
            let region = store.heap.region();
            if done.is_err() && region.journal_failure().is_some() {
                return Ok(());
            }
            if !done? {
                promises.states[newest + 1] = promises.states[newest].clone();
            }
            let position = region.appended();
            let syncs = policy == SyncPolicy::Always || self.rng.usize(..8) == 0;
            let waited = match policy {
                SyncPolicy::EverySecond | SyncPolicy::No if syncs => region.sync_in_background(),
                policy => region.acknowledge(position, policy),
            };
            if waited.is_err() {
                return Ok(());
            }
            if syncs {
                promises.mark(files, newest + 1, newest + 1);
            }
            if self.rng.usize(..6) == 0 && region.checkpoint_step().is_err() {
                return Ok(());
            }
        }
        if self.rng.usize(..3) == 0 {
            let newest = promises.states.len() - 1;
            match Subject::close(&self.pool, store) {
                Ok(()) => promises.mark(files, newest, newest),
                Err(_) if store.heap.region().journal_failure().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn crash_everywhere(
        &mut self,
        start: FilesState,
        events: &[FileEvent],
        promises: &Promises,
        depth: usize,
    ) -> Result<(), String> {
        let mut state = start;
        let mut mark = 0;
        for (n, event) in events.iter().enumerate() {
            let one_in = match event {
                FileEvent::Sync(..) | FileEvent::SyncName | FileEvent::Fence(_) => 2,
                FileEvent::Mark(_) => 3,
                FileEvent::Write(..) | FileEvent::Grow(..) | FileEvent::Cut(..) => 8,
                // A crash before the end of the sync has everything that was written until then.
                FileEvent::SyncBegin(_) => {
                    state.apply(event);
                    continue;
                }
                FileEvent::Store(..) | FileEvent::WriteBack(..) => 8,
            } << depth.min(2);
            if self.rng.usize(..one_in) == 0 {
                self.crash(&state, promises, mark, depth)
                    .map_err(|what| format!("{what}\ncrash before event {n} ({})", kind(event)))?;
            }
            state.apply(event);
            if let FileEvent::Mark(number) = event {
                mark = *number;
            }
        }
        self.crash(&state, promises, mark, depth)
            .map_err(|what| format!("{what}\ncrash at the end"))
    }

    fn crash(
        &mut self,
        state: &FilesState,
        promises: &Promises,
        mark: usize,
        depth: usize,
    ) -> Result<(), String> {
        let allowed = &promises.at(mark);
        let ways = if mark >= OPENED { WAYS.len() } else { WAYS.len() - 1 };
        for (way, name) in WAYS.iter().enumerate().take(ways) {
            let (mut rng, mut other) = (self.rng.fork(), self.rng.fork());
            let arrives = || match way {
                0 => false,
                1 => true,
                2 => rng.bool(),
                _ => rng.usize(..10) > 0,
            };
            let tears = || way == 4 && other.bool();
            let image = state.after_torn_blocks(Named::Journal, arrives, tears);
            self.looked.images += 1;
            if depth < DEPTH && self.rng.usize(..25) == 0 {
                let transactions = self.rng.usize(..12);
                self.incarnation(image, allowed.to_vec(), transactions, depth + 1)?;
            } else {
                let found = self
                    .open(&self.files(image))
                    .and_then(|mut store| self.read(&mut store, allowed));
                found.map_err(|what| format!("{what}\n{name}"))?;
            }
        }
        if depth < DEPTH && self.rng.usize(..12) == 0 {
            let transactions = self.rng.usize(..12);
            let left = state.after_process_end();
            self.incarnation(left, allowed.to_vec(), transactions, depth + 1)
                .map_err(|what| format!("{what}\nof the process only"))?;
        }
        Ok(())
    }
}

fn kind(event: &FileEvent) -> String {
    match event {
        FileEvent::Write(name, at, bytes) => format!("{} bytes to {name:?} at {at}", bytes.len()),
        FileEvent::Store(at, bytes, _) => format!("{} bytes to lines at {at}", bytes.len()),
        other => format!("{other:?}"),
    }
}

impl Promises {
    fn mark(&mut self, files: &SimulatedFiles, oldest: usize, newest: usize) {
        files.mark(self.marks.len());
        self.marks.push((oldest, newest));
    }

    fn at(&self, mark: usize) -> Vec<State> {
        let (oldest, newest) = self.marks[mark];
        self.states[oldest..=newest].to_vec()
    }
}
