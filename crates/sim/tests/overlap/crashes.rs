//! Crashes at each event of a run: a power loss, with any part of the unsynced data; and the end of
//! the process. Some images are continued, with threads of their own, and are crashed again, in
//! their opening and after it.
//!
//! In one of the ways the disk also loses whole blocks of the journal that it was writing; but not
//! in an opening, which writes again what may have been synced.

use super::model::{Contents, Counts};
use super::pool;
use super::threads::{Close, Done, Plan, Required, run};
use pmem::{Region, SyncPolicy};
use sim::{Counted, FileCall, FileEvent, FilesState, Named, SimulatedClock, SimulatedFiles};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const ENOSPC: i32 = 28;
const EIO: i32 = 5;
/// A part of the error of a full journal that is held.
const HELD: &str = "is not in its place";
/// About how many moments of a run are crashed; half as many in a run after a crash.
const POINTS: usize = 80;
/// The number of crashes after a crash.
const DEPTH: usize = 2;
/// Rings: the smallest, one whose size is not a power of two, and one that few batches fill.
const RINGS: [u64; 4] = [64 << 10, 64 << 10, 68 << 10, 256 << 10];
/// How much of the unsynced data arrives.
const WAYS: [&str; 5] = ["nothing", "everything", "half", "nearly all", "blocks are torn"];

/// What was examined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) images: u64,
    pub(crate) incarnations: u64,
    pub(crate) failures: u64,
    pub(crate) acks: u64,
}

struct Explorer {
    rng: fastrand::Rng,
    ring: u64,
    /// When the use of each journal ends; otherwise that is drawn.
    closes: Option<Close>,
    looked: Looked,
}

/// Explores a seed; the first line of the error says what was violated.
pub(crate) fn explore(seed: u64, fences: usize) -> Result<Looked, String> {
    explore_with(None, seed, fences)
}

/// Like [`explore`]; the use of each journal ends while the threads run.
pub(crate) fn explore_closing(seed: u64, fences: usize) -> Result<Looked, String> {
    explore_with(Some(Close::Meanwhile), seed, fences)
}

fn explore_with(closes: Option<Close>, seed: u64, fences: usize) -> Result<Looked, String> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let ring = RINGS[rng.usize(..RINGS.len())];
    let mut explorer = Explorer { rng, ring, closes, looked: Looked::default() };
    let before = Done::nothing(Contents::empty());
    explorer
        .incarnation(FilesState::default(), &before, Required::default(), (fences, 0))
        .map_err(|what| format!("seed {seed}: {what}\na ring of {ring} bytes"))?;
    Ok(explorer.looked)
}

/// Returns what went wrong, including a panic.
pub(crate) fn guarded<R>(work: impl FnOnce() -> Result<R, String>) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("a panic: {}", text.unwrap_or_default()))
    })
}

/// Opens an image, and compares it with what was done before.
pub(crate) fn check_image(
    image: FilesState,
    ring: u64,
    done: &Done,
    required: &Counts,
) -> Result<Counts, String> {
    let files = SimulatedFiles::new(image);
    let region = pool::map(&files, ring, &SimulatedClock::default());
    guarded(|| {
        pool::open(&region).map_err(|error| format!("it does not open: {error}"))?;
        done.history.check(&Contents::read(&region), required)
    })
}

impl Explorer {
    /// Returns a disk that is fast or slow, depending on the seed.
    fn disk(&mut self, state: FilesState, clock: &SimulatedClock) -> SimulatedFiles {
        let sync = [1, 100, 5_000, 700_000][self.rng.usize(..4)];
        let rng = std::sync::Mutex::new(self.rng.fork());
        let time = move |_: Named, call: FileCall, bytes: usize| {
            let mut rng = rng.lock().expect("no panic");
            Duration::from_micros(match call {
                FileCall::Sync | FileCall::SyncName => rng.u64(..=sync),
                FileCall::Write => rng.u64(..20) + bytes as u64 / 1000,
                _ => rng.u64(..3),
            })
        };
        SimulatedFiles::new(state).with_times(clock, time)
    }

    fn draw_plan(&mut self, fences: usize) -> Plan {
        const POLICIES: [SyncPolicy; 3] =
            [SyncPolicy::Always, SyncPolicy::EverySecond, SyncPolicy::No];
        let policies = match self.rng.usize(..4) {
            3 => POLICIES.to_vec(),
            one => vec![POLICIES[one]],
        };
        let [grows, copies] = [0; 2].map(|_| self.rng.usize(..3) == 0);
        let closes = [None, None, Some(Close::Meanwhile), Some(Close::After)];
        let drawn = closes[self.rng.usize(..closes.len())];
        let closes = self.closes.or(drawn);
        Plan { seed: self.rng.u64(..), fences, policies, grows, closes, copies }
    }

    /// Opens what a crash left, runs threads, and crashes it everywhere.
    fn incarnation(
        &mut self,
        start: FilesState,
        before: &Done,
        required: Required,
        (fences, depth): (usize, usize),
    ) -> Result<(), String> {
        self.looked.incarnations += 1;
        let clock = SimulatedClock::default();
        let files = self.disk(start.clone(), &clock);
        let region = pool::map(&files, self.ring, &clock);
        let may_fail = self.rng.usize(..8) == 0;
        if may_fail {
            let errno = [EIO, ENOSPC][self.rng.usize(..2)];
            let within = [30, 300][self.rng.usize(..2)];
            let calls = self.rng.u64(..within);
            files.fail_with(calls, Counted::All, errno);
        }
        let opened = guarded(|| pool::open(&region));
        let opening = files.take_events();
        match opened {
            Err(_) if may_fail && files.failures_left() == 0 => {
                self.looked.failures += 1;
                return self.crash_everywhere(
                    start,
                    &opening,
                    before,
                    (required, depth, WAYS.len() - 1),
                );
            }
            opened => opened.map_err(|error| format!("it does not open: {error}"))?,
        }
        let found = Contents::read(&region);
        before.history.check(&found, &required.after_process_end)?;
        let opened = files.state();
        self.crash_everywhere(start, &opening, before, (required, depth, WAYS.len() - 1))?;
        let done = self.run(&region, &files, &clock, (found, fences))?;
        let events = files.take_events();
        drop(region);
        self.looked.acks += done.acks.len() as u64;
        self.looked.failures += u64::from(may_fail && files.failures_left() == 0);
        self.crash_everywhere(opened, &events, &done, (Required::default(), depth, WAYS.len()))
    }

    fn run(
        &mut self,
        region: &Region,
        files: &SimulatedFiles,
        clock: &SimulatedClock,
        (found, fences): (Contents, usize),
    ) -> Result<Done, String> {
        let plan = self.draw_plan(fences);
        let fails = files.failures_left();
        let mut done = guarded(|| Ok(run(region, files, clock, &plan, found)))?;
        for (copy, required) in std::mem::take(&mut done.copies) {
            self.looked.images += 1;
            check_image(copy, self.ring, &done, &required)
                .map_err(|what| format!("{what}\na copy of the files"))?;
        }
        // A thread that copies holds the journal: a writer may find it full.
        let is_forgiven = |failure: &str| plan.copies && failure.contains(HELD);
        match region.journal_failure() {
            Some(failure) if files.failures_left() == fails && !is_forgiven(failure) => {
                Err(format!("it failed: {failure}"))
            }
            _ => Ok(done),
        }
    }

    fn crash_everywhere(
        &mut self,
        start: FilesState,
        events: &[FileEvent],
        done: &Done,
        (mut required, depth, ways): (Required, usize, usize),
    ) -> Result<(), String> {
        let mut state = start;
        let one_in_all = (events.len() / POINTS).max(1) << depth;
        for (n, event) in events.iter().enumerate() {
            let one_in = match event {
                FileEvent::Sync(..) | FileEvent::SyncName => one_in_all.div_ceil(2),
                _ => one_in_all,
            };
            if self.rng.usize(..one_in) == 0 {
                self.crash(&state, Some(event), done, (&required, depth, ways))
                    .map_err(|what| format!("{what}\nbefore event {n}, {}", kind(event)))?;
            }
            state.apply(event);
            if let FileEvent::Mark(ack) = event {
                required.add(&done.acks[*ack]);
            }
        }
        self.crash(&state, None, done, (&required, depth, ways))
            .map_err(|what| format!("{what}\nat the end"))
    }

    fn crash(
        &mut self,
        state: &FilesState,
        next: Option<&FileEvent>,
        done: &Done,
        (required, depth, ways): (&Required, usize, usize),
    ) -> Result<(), String> {
        for (way, name) in WAYS.iter().enumerate().take(ways) {
            let image = self.lose_power(state, way);
            let after_process_end = required.after_power_loss;
            self.go_on(image, done, (Required { after_process_end, ..*required }, depth))
                .map_err(|what| format!("{what}\nafter a loss of power: {name}"))?;
        }
        let mut left = state.after_process_end();
        if let Some(FileEvent::Write(name, at, bytes)) = next
            && bytes.len() > 4096
            && self.rng.bool()
        {
            // The process ends in a write.
            let part = bytes[..4096 - *at as usize % 4096].to_vec();
            left.apply(&FileEvent::Write(*name, *at, part));
        }
        self.go_on(left, done, (*required, depth))
            .map_err(|what| format!("{what}\nafter the end of the process"))
    }

    fn lose_power(&mut self, state: &FilesState, way: usize) -> FilesState {
        let (mut rng, mut other) = (self.rng.fork(), self.rng.fork());
        let arrives = || match way {
            0 => false,
            1 => true,
            2 => rng.bool(),
            _ => rng.usize(..10) > 0,
        };
        let tears = || way == 4 && other.bool();
        state.after_torn_blocks(Named::Journal, arrives, tears)
    }

    /// Checks an image, or continues from it.
    fn go_on(
        &mut self,
        image: FilesState,
        done: &Done,
        (required, depth): (Required, usize),
    ) -> Result<(), String> {
        self.looked.images += 1;
        if depth < DEPTH && self.rng.usize(..120 << depth) == 0 {
            let fences = self.rng.usize(..8);
            return self.incarnation(image, done, required, (fences, depth + 1));
        }
        check_image(image, self.ring, done, &required.after_process_end).map(drop)
    }
}

fn kind(event: &FileEvent) -> String {
    match event {
        FileEvent::Write(name, at, bytes) => format!("{} bytes to {name:?} at {at}", bytes.len()),
        other => format!("{other:?}"),
    }
}
