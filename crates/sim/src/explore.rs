//! Runs a store through lives and crashes.
//!
//! A life is: open (or create), some transactions, and then every interesting moment of its trace is a crash. The
//! moments: before each fence, when most is pending; after each acknowledgement, when a promise has just been
//! made; and some in between. Each crash leaves images. An image is opened and its state compared: it must be the
//! last acknowledged or, if a transaction was under way, that transaction's, whole. From then on that state is the
//! promise: a crash inside the recovery, or after it, must not change it. Some images live on: their own recovery
//! and transactions are crashed in turn, to a given depth. Some crashes are of the process only: what it left may
//! be lost until its recovery is through, so the promise is renewed only then. See `durability`.
//!
//! Opening many images is what takes the time. So a life that is only looked at is not recorded further, and images
//! are made by patching and restoring one buffer.

use crate::durability::{Crash, Durability};
use crate::failure::Failure;
use crate::medium::{Event, Medium, Trace};
use crate::subject::Subject;
use pmem::Region;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How much to explore.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// The crash model.
    pub crash: Crash,
    /// Fixes everything that is drawn.
    pub seed: u64,
    /// Transactions of the first life; later lives have a quarter.
    pub transactions: usize,
    /// Images for a crash in the first life; later lives have fewer.
    pub images: usize,
    /// Further crashes after the first, one inside or after the other's recovery.
    pub depth: usize,
    /// One image in so many lives on.
    pub live_on_one_in: usize,
}

impl Effort {
    /// A few seconds of work for a small store.
    pub fn new(crash: Crash, seed: u64) -> Effort {
        Effort { crash, seed, transactions: 60, images: 24, depth: 2, live_on_one_in: 40 }
    }
}

/// What was explored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Crash images opened and compared.
    pub images: u64,
    /// Moments at which a crash was tried.
    pub crashes: u64,
    /// Lives that ran transactions.
    pub lives: u64,
    /// Transactions that the store refused.
    pub refused: u64,
    /// Deepest chain of crashes.
    pub deepest: usize,
}

/// Explores the crashes of `subject`; the first violation is the error.
pub fn explore<S: Subject>(subject: &S, effort: Effort) -> Result<Counts, Failure> {
    let mut explorer = Explorer {
        subject,
        effort,
        rng: fastrand::Rng::with_seed(effort.seed),
        counts: Counts::default(),
        path: Vec::new(),
    };
    explorer.first_life().map_err(|what| Failure {
        seed: effort.seed,
        crash: effort.crash,
        path: explorer.path.clone(),
        what,
    })?;
    Ok(explorer.counts)
}

/// What a store may hold after a crash.
#[derive(Clone)]
struct Expected<T> {
    acknowledged: T,
    under_way: Option<T>,
}

impl<T: PartialEq> Expected<T> {
    fn allows(&self, state: &T) -> bool {
        *state == self.acknowledged || self.under_way.as_ref() == Some(state)
    }
}

/// What is expected from each mark of a trace on; before the first nothing is, since there is no store yet.
type Promises<T> = Vec<Expected<T>>;

struct Explorer<'s, S: Subject> {
    subject: &'s S,
    effort: Effort,
    rng: fastrand::Rng,
    counts: Counts,
    path: Vec<String>,
}

impl<S: Subject> Explorer<'_, S> {
    fn first_life(&mut self) -> Result<(), String> {
        let medium = Medium::new();
        let region = Region::simulated_growing(self.subject.reserve(), medium.clone());
        let subject = self.subject;
        let state = subject.empty();
        let mut promises = Vec::new();
        promise(&medium, &mut promises, state.clone(), None);
        let mut store = guarded("create", || subject.open(region))?;
        self.transact(&medium, &mut store, state, self.effort.transactions, &mut promises)?;
        let trace = medium.take();
        drop(store);
        self.crash_everywhere(Durability::new(Vec::new()), &trace, &promises, 0)
    }

    /// Runs transactions, noting the promises made; at the end, some stores are closed.
    fn transact(
        &mut self,
        medium: &Arc<Medium>,
        store: &mut S::Store,
        mut state: S::State,
        transactions: usize,
        promises: &mut Promises<S::State>,
    ) -> Result<(), String> {
        self.counts.lives += 1;
        for _ in 0..transactions {
            let (plan, after) = self.subject.plan(&state, &mut self.rng);
            promise(medium, promises, state.clone(), Some(after.clone()));
            let subject = self.subject;
            let done = guarded("transaction", || subject.run(store, &plan))
                .map_err(|what| format!("{what}\nin {plan:?}"))?;
            if done {
                state = after;
            } else {
                self.counts.refused += 1;
            }
            promise(medium, promises, state.clone(), None);
        }
        let subject = self.subject;
        let found = guarded("read", || subject.read(store))?;
        if found != state {
            return Err(format!("without a crash\n{}", difference(&found, &state, None)));
        }
        if self.rng.usize(..3) == 0 { guarded("close", || subject.close(store)) } else { Ok(()) }
    }

    /// Crashes at the moments of a trace that started on `medium`.
    fn crash_everywhere(
        &mut self,
        mut medium: Durability,
        trace: &Trace,
        promises: &Promises<S::State>,
        depth: usize,
    ) -> Result<(), String> {
        self.counts.deepest = self.counts.deepest.max(depth);
        let mut now = None;
        let mut fences = 0;
        for (at, &event) in trace.events.iter().enumerate() {
            if let Some(expected) = now.map(|mark: usize| &promises[mark])
                && self.is_moment(trace, at, depth)
            {
                self.path.push(format!(
                    "crash before event {at} ({event:?}), after {fences} fences and promise {} of {}",
                    now.unwrap_or(0),
                    promises.len(),
                ));
                self.crash(&mut medium, expected, depth)?;
                self.path.pop();
            }
            medium.apply(trace, event);
            match event {
                Event::Mark(mark) => now = Some(mark),
                Event::Fence { .. } => fences += 1,
                _ => {}
            }
        }
        match promises.last() {
            Some(expected) => self.crash(&mut medium, expected, depth),
            None => Ok(()),
        }
    }

    /// Whether to crash before the event at `at`.
    fn is_moment(&mut self, trace: &Trace, at: usize, depth: usize) -> bool {
        let one_in = |rng: &mut fastrand::Rng, n| rng.usize(..n) == 0;
        let telling = matches!(trace.events[at], Event::Fence { .. } | Event::Grow(_))
            || matches!(trace.events[at - 1], Event::Mark(_));
        match trace.events[at] {
            _ if telling => depth == 0 || one_in(&mut self.rng, 2),
            Event::Store { .. } => one_in(&mut self.rng, 25),
            _ => false,
        }
    }

    /// A crash at one moment: loses power, or only the process.
    fn crash(
        &mut self,
        medium: &mut Durability,
        expected: &Expected<S::State>,
        depth: usize,
    ) -> Result<(), String> {
        self.counts.crashes += 1;
        let limit = if depth == 0 { self.effort.images } else { (self.effort.images / 4).max(4) };
        let mut rng = self.rng.fork();
        let mut outcome = Ok(());
        medium.images(self.effort.crash, limit, &mut rng, |image| {
            let lives_on = self.lives_on(depth);
            let next = || Durability::new(image.to_vec());
            outcome = self.recover(image, lives_on.then(next), expected, depth);
            outcome.is_ok()
        });
        outcome?;
        if self.lives_on(depth) {
            self.path.push("of the process only".into());
            let visible = medium.visible();
            self.recover(&visible, Some(medium.clone()), expected, depth)?;
            self.path.pop();
        }
        Ok(())
    }

    fn lives_on(&mut self, depth: usize) -> bool {
        depth < self.effort.depth && self.rng.usize(..self.effort.live_on_one_in) == 0
    }

    /// Opens an image and compares; on `next`, goes on from there and crashes again.
    fn recover(
        &mut self,
        image: &[u8],
        next: Option<Durability>,
        expected: &Expected<S::State>,
        depth: usize,
    ) -> Result<(), String> {
        self.counts.images += 1;
        let medium = Medium::new();
        if next.is_none() {
            medium.take();
        }
        let mut promises = Vec::new();
        let region = Region::simulated_from(image, self.subject.reserve(), medium.clone());
        let subject = self.subject;
        medium.mark(0);
        let mut store = guarded("open", || subject.open(region))?;
        let state = guarded("read", || subject.read(&mut store))?;
        if !expected.allows(&state) {
            return Err(difference(&state, &expected.acknowledged, expected.under_way.as_ref()));
        }
        let Some(next) = next else { return Ok(()) };
        let recovered = Expected { acknowledged: state.clone(), under_way: None };
        promises.push(if next.is_settled() { recovered } else { expected.clone() });
        promise(&medium, &mut promises, state.clone(), None);
        let transactions = self.rng.usize(..=self.effort.transactions / 4);
        self.transact(&medium, &mut store, state, transactions, &mut promises)?;
        let trace = medium.take();
        drop(store);
        self.crash_everywhere(next, &trace, &promises, depth + 1)
    }
}

/// Notes in the trace what is promised from here on.
fn promise<T>(
    medium: &Arc<Medium>,
    promises: &mut Promises<T>,
    acknowledged: T,
    under_way: Option<T>,
) {
    medium.mark(promises.len());
    promises.push(Expected { acknowledged, under_way });
}

/// Runs a step of the subject; a panic is a finding like any other.
fn guarded<T>(step: &str, run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(what)) => Err(format!("{step}: {what}")),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("{step}: panicked: {}", text.unwrap_or_default()))
        }
    }
}

fn difference<T: std::fmt::Debug>(found: &T, acknowledged: &T, under_way: Option<&T>) -> String {
    let mut text = format!("found        {found:?}\nacknowledged {acknowledged:?}");
    if let Some(state) = under_way {
        text += &format!("\nunder way    {state:?}");
    }
    text
}
