//! Runs a store through incarnations and crashes.
//!
//! In an incarnation a store is opened (or created) and runs some transactions; then every
//! interesting moment of its trace is crashed. These moments are: before each fence, when most is
//! pending; after each acknowledgement, when a promise has just been made; and some in between.
//! Each crash leaves images. An image is opened and its state compared: it must be the last
//! acknowledged one or, if a transaction was under way, the state after the whole transaction. From
//! then on that state is the promise: a crash inside the recovery, or after it, must not change it.
//! Some images are continued: their own recovery and transactions are crashed in turn, to a given
//! depth. In some crashes only the process ends: what it left may be lost until the recovery is
//! complete, so the promise is renewed only then. See `durability`.
//!
//! Most of the time goes into opening images. So an incarnation that is only examined is not
//! recorded further, and images are made by patching and restoring memory, here and where they are
//! opened.

use crate::counts::Counts;
use crate::durability::{Choose, Crash, Durability, Image};
use crate::failure::Failure;
use crate::medium::{Event, Medium, Trace};
use crate::scratch::Scratch;
use crate::shrink;
use crate::workload::{Incarnation, Left, Promise, Promises, Workload};
use pmem::{FAULT_POINTS, FaultPointSet, Region};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

/// How much to explore.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The crash model.
    pub crash: Crash,
    /// Determines everything that is drawn.
    pub seed: u64,
    /// Transactions of the first incarnation; later incarnations have up to a quarter of that.
    pub transactions: usize,
    /// Images for a crash in the first incarnation if there are too many for all; later
    /// incarnations have fewer.
    pub images: usize,
    /// All images of a crash in the first incarnation, if there are at most this many.
    pub all_of: usize,
    /// Further crashes after the first, each inside or after the recovery from the previous one.
    pub depth: usize,
    /// One in this many images is continued.
    pub go_on_one_in: usize,
    /// One in this many moments is also a crash of the process.
    pub process_one_in: usize,
    /// The latest time to end, with what was explored by then.
    pub until: Option<Instant>,
    /// Whether copies past the cache are distinguished from other stores, unless pages are synced.
    pub streams: bool,
    /// Seconds to spend, after a failure, on finding a smaller history that also fails.
    pub shrink_seconds: u64,
}

impl Effort {
    /// Returns an effort of a few seconds for a small store.
    pub fn new(crash: Crash, seed: u64) -> Effort {
        Effort {
            crash,
            seed,
            transactions: 60,
            images: 24,
            all_of: 64,
            depth: 2,
            go_on_one_in: 40,
            process_one_in: 40,
            until: None,
            streams: seed / 2 % 2 == 1,
            shrink_seconds: 20,
        }
    }

    fn medium(&self) -> Arc<Medium> {
        Medium::of(self.crash, self.streams)
    }
}

/// Explores the crashes of `workload`; the first violation is the error.
pub fn explore<W: Workload>(workload: &W, effort: Effort) -> Result<Counts, Failure> {
    let first = without(workload, effort, &BTreeSet::new());
    first.map_err(|failure| shrink::smallest(workload, effort, failure))
}

/// Explores without some actions of the first incarnation.
pub(crate) fn without<W: Workload>(
    workload: &W,
    effort: Effort,
    dropped: &BTreeSet<usize>,
) -> Result<Counts, Failure> {
    let mut explorer = Explorer {
        workload,
        effort,
        dropped,
        rng: fastrand::Rng::with_seed(effort.seed),
        counts: Counts::default(),
        path: Vec::new(),
        history: Vec::new(),
    };
    explorer.first_incarnation().map_err(|what| Failure {
        seed: effort.seed,
        crash: effort.crash,
        path: explorer.path.clone(),
        history: explorer.history.clone(),
        what,
    })?;
    Ok(explorer.counts)
}

struct Explorer<'s, W: Workload> {
    workload: &'s W,
    effort: Effort,
    dropped: &'s BTreeSet<usize>,
    rng: fastrand::Rng,
    counts: Counts,
    path: Vec<String>,
    /// What was done in the first incarnation.
    history: Vec<(usize, String)>,
}

impl<W: Workload> Explorer<'_, W> {
    fn first_incarnation(&mut self) -> Result<(), String> {
        let medium = self.effort.medium();
        let workload = self.workload;
        let region = Region::simulated_growing(workload.reserve(), medium.clone());
        let state = workload.empty();
        pmem::take_passed_fault_points();
        medium.mark(0);
        let mut promises = vec![(0, Promise::exactly(state.clone()))];
        let mut store = guarded("create", || workload.open(region))?;
        let rng = self.rng.fork();
        let incarnation = Incarnation::new(&medium, rng, self.effort.transactions, self.dropped, 1);
        let ran = guarded("run", || workload.run_incarnation(&mut store, state, &incarnation));
        self.counts.refused += incarnation.refusals();
        self.history = incarnation.into_history();
        promises.extend(ran?);
        self.counts.incarnations += 1;
        let trace = medium.take();
        drop(store);
        self.crash_everywhere(Durability::of(self.effort.crash, Vec::new()), &trace, promises, 0)
    }

    /// Crashes at the moments of a trace that started on `medium`.
    fn crash_everywhere(
        &mut self,
        mut medium: Durability,
        trace: &Trace,
        mut promises: Promises<W::State>,
        depth: usize,
    ) -> Result<(), String> {
        self.counts.deepest = self.counts.deepest.max(depth);
        promises.sort_by_key(|(mark, _)| *mark);
        let mut scratch = Scratch::new(self.workload.reserve(), self.effort.crash.domain());
        medium.changed_everywhere();
        let mut now = None;
        let (mut fences, mut passed) = (0, FaultPointSet::default());
        for (at, &event) in trace.events.iter().enumerate() {
            if self.effort.until.is_some_and(|until| Instant::now() >= until) {
                return Ok(());
            }
            if let Some(now) = now
                && self.is_moment(trace, at, depth)
            {
                let promise: &(usize, Promise<_>) = &promises[now];
                self.path.push(format!(
                    "crash before event {at} of {} ({event:?}), after {fences} fences and mark {}",
                    trace.events.len(),
                    promise.0,
                ));
                // Few moments are within a growth: at every second of them the process is crashed
                // too.
                let most = if event == Event::SyncLength { 2 } else { usize::MAX };
                let process = self.effort.process_one_in.min(most);
                self.crash(&mut medium, &mut scratch, &promise.1, depth, process, passed)?;
                self.path.pop();
                passed = FaultPointSet::default();
            }
            medium.apply(trace, event);
            match event {
                Event::Mark(mark) => now = promises.binary_search_by_key(&mark, |p| p.0).ok(),
                Event::Fence { .. } | Event::Sync { .. } => fences += 1,
                Event::Passed(of) => {
                    (0..FAULT_POINTS / 64).for_each(|n| passed[n] |= trace.passed[of][n]);
                }
                _ => {}
            }
        }
        match promises.last() {
            Some((_, promise)) => {
                self.path.push("crash at the end".into());
                let process = self.effort.process_one_in;
                self.crash(&mut medium, &mut scratch, promise, depth, process, passed)?;
                self.path.pop();
                if depth == 0 || self.rng.usize(..4) == 0 {
                    let mut rng = self.rng.fork();
                    let states = promises.iter().rev().map(|(_, promise)| &promise.allowed[0]);
                    let left = Left {
                        everything: &medium.visible(),
                        certain: medium.certain(),
                        states: states.collect(),
                    };
                    let workload = self.workload;
                    self.counts.opened += guarded("damage", || workload.damage(&left, &mut rng))?;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Returns true if there should be a crash before the event at `at`.
    fn is_moment(&mut self, trace: &Trace, at: usize, depth: usize) -> bool {
        let one_in = |rng: &mut fastrand::Rng, n| rng.usize(..n) == 0;
        let ends = |event| match event {
            Event::Fence { .. } | Event::Sync { .. } | Event::SyncLength | Event::Grow(_) => true,
            Event::Store { .. }
            | Event::Stream { .. }
            | Event::Flush { .. }
            | Event::Mark(_)
            | Event::Passed(_) => false,
        };
        let telling = ends(trace.events[at]) || matches!(trace.events[at - 1], Event::Mark(_));
        match trace.events[at] {
            _ if telling => depth == 0 || one_in(&mut self.rng, 2),
            Event::Store { .. } => one_in(&mut self.rng, 25),
            // A flush of several lines is one event here: the moments around it are worth as much.
            Event::Stream { .. } => one_in(&mut self.rng, 8),
            _ => false,
        }
    }

    /// Crashes at one moment: loses power and, at one in this many moments, also ends only the
    /// process.
    fn crash(
        &mut self,
        medium: &mut Durability,
        scratch: &mut Scratch,
        promise: &Promise<W::State>,
        depth: usize,
        process_one_in: usize,
        passed: FaultPointSet,
    ) -> Result<(), String> {
        let mut rng = self.rng.fork();
        let mut outcome = Ok(());
        let mut opened = 0;
        medium.images(self.effort.crash, self.choose(depth), &mut rng, |mut image, described| {
            opened += 1;
            outcome = if self.goes_on(depth) {
                let medium = Durability::of(self.effort.crash, image.bytes.to_vec());
                self.go_on(image.bytes, medium, promise, depth)
            } else {
                self.look(scratch, &mut image, promise)
            };
            if outcome.is_err() {
                self.path.push(described());
            }
            outcome.is_ok()
        });
        self.counts.crash(opened, &promise.doing, passed);
        outcome?;
        if depth < self.effort.depth && self.rng.usize(..process_one_in) == 0 {
            self.path.push("of the process only".into());
            let visible = medium.visible();
            self.go_on(&visible, medium.orphaned(), promise, depth)?;
            self.path.pop();
        }
        Ok(())
    }

    fn choose(&self, depth: usize) -> Choose {
        let Effort { images, all_of, .. } = self.effort;
        match depth {
            0 => Choose { all_of, some: images },
            _ => Choose { all_of: images, some: (images / 4).max(4) },
        }
    }

    fn goes_on(&mut self, depth: usize) -> bool {
        depth < self.effort.depth && self.rng.usize(..self.effort.go_on_one_in) == 0
    }

    /// Opens an image and compares.
    fn look(
        &mut self,
        scratch: &mut Scratch,
        image: &mut Image<'_>,
        promise: &Promise<W::State>,
    ) -> Result<(), String> {
        let region = scratch.open(image);
        let workload = self.workload;
        let mut store = guarded("open", || workload.open(region))?;
        let found = guarded("read", || workload.read(&mut store))?;
        self.accept(&found, promise).map(|_| ())
    }

    fn accept(&self, found: &W::State, promise: &Promise<W::State>) -> Result<W::State, String> {
        let mut allowed = promise.allowed.iter();
        allowed
            .find_map(|state| self.workload.accept(found, state))
            .ok_or_else(|| self.workload.difference(found, &promise.allowed))
    }

    /// Opens an image, compares it, continues from `next` and crashes again.
    fn go_on(
        &mut self,
        image: &[u8],
        next: Durability,
        promise: &Promise<W::State>,
        depth: usize,
    ) -> Result<(), String> {
        let medium = self.effort.medium();
        let workload = self.workload;
        let region = Region::simulated_from(image, workload.reserve(), medium.clone());
        pmem::take_passed_fault_points();
        medium.mark(0);
        let mut store = guarded("open", || workload.open(region))?;
        let found = guarded("read", || workload.read(&mut store))?;
        let state = self.accept(&found, promise)?;
        let recovered = Promise { allowed: vec![state.clone()], doing: vec!["recovery"] };
        let until_open = if next.has_nothing_pending() {
            recovered
        } else {
            Promise { doing: vec!["recovery"], ..promise.clone() }
        };
        medium.mark(1);
        let mut promises = vec![(0, until_open), (1, Promise::exactly(state.clone()))];
        let actions = self.rng.usize(..=self.effort.transactions / 4);
        let nothing = BTreeSet::new();
        let incarnation = Incarnation::new(&medium, self.rng.fork(), actions, &nothing, 2);
        let ran = guarded("run", || workload.run_incarnation(&mut store, state, &incarnation));
        self.counts.refused += incarnation.refusals();
        if ran.is_err() {
            let described = incarnation.into_history().into_iter().map(|(_, what)| what);
            self.path.push(format!("went on: {}", described.collect::<Vec<_>>().join("; ")));
        }
        promises.extend(ran?);
        self.counts.incarnations += 1;
        let trace = medium.take();
        drop(store);
        self.crash_everywhere(next, &trace, promises, depth + 1)
    }
}

/// Runs a part of the workload; a panic is a finding like any other.
fn guarded<T>(part: &str, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(what)) => Err(format!("{part}: {what}")),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("{part}: panicked: {}", text.unwrap_or_default()))
        }
    }
}
