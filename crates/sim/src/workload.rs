//! What the explorer can crash: a store that is used for a while.
//!
//! [`Workload`] is the whole interface: an incarnation of a store on a recorded medium, and what
//! may be found at each moment of it. [`Subject`](crate::Subject) is the simple way for a store
//! with transactions one after the other.

use crate::medium::Medium;
use pmem::Region;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What may be found after a crash.
#[derive(Clone, Debug)]
pub struct Promise<S> {
    /// The possible states; the first one is what was acknowledged.
    pub allowed: Vec<S>,
    /// The names of the actions under way.
    pub doing: Vec<&'static str>,
}

impl<S> Promise<S> {
    /// Returns the promise of exactly this state, with nothing under way.
    pub fn exactly(state: S) -> Promise<S> {
        Promise { allowed: vec![state], doing: Vec::new() }
    }
}

/// Promises, each from its mark in the trace on.
pub type Promises<S> = Vec<(usize, Promise<S>)>;

/// Sets the marks of an incarnation.
#[derive(Clone)]
pub struct Marker {
    medium: Arc<Medium>,
    next: Arc<Mutex<usize>>,
}

impl Marker {
    /// Sets a mark in the trace; returns its number.
    pub fn set(&self) -> usize {
        let mut next = self.next.lock().expect("no panic");
        let mark = *next;
        *next += 1;
        self.medium.mark(mark);
        mark
    }
}

/// One incarnation of a store, as the explorer passes it to a workload.
pub struct Incarnation<'a> {
    /// The medium on which it is recorded.
    pub medium: &'a Arc<Medium>,
    /// Draws everything in it.
    pub rng: fastrand::Rng,
    /// The number of its actions.
    pub actions: usize,
    dropped: &'a BTreeSet<usize>,
    marker: Marker,
    refused: AtomicU64,
    history: Mutex<Vec<(usize, String)>>,
}

impl<'a> Incarnation<'a> {
    pub(crate) fn new(
        medium: &'a Arc<Medium>,
        rng: fastrand::Rng,
        actions: usize,
        dropped: &'a BTreeSet<usize>,
        marks: usize,
    ) -> Incarnation<'a> {
        Incarnation {
            medium,
            rng,
            actions,
            dropped,
            marker: Marker { medium: Arc::clone(medium), next: Arc::new(Mutex::new(marks)) },
            refused: AtomicU64::new(0),
            history: Mutex::default(),
        }
    }

    /// Sets a mark in the trace; returns its number.
    pub fn mark(&self) -> usize {
        self.marker.set()
    }

    /// Returns the marker, for code that outlives the incarnation.
    pub fn marker(&self) -> Marker {
        self.marker.clone()
    }

    /// Returns true if action number `n` is a part of this incarnation: actions that a failure does
    /// not need are left out.
    pub fn has(&self, n: usize) -> bool {
        !self.dropped.contains(&n)
    }

    /// Returns a generator for action number `n`, which is the same whatever was left out.
    pub fn rng_of(&self, n: usize) -> fastrand::Rng {
        let mut rng = self.rng.clone();
        fastrand::Rng::with_seed(rng.u64(..) ^ (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Records what was done, for the reader of a failure.
    pub fn record(&self, n: usize, what: impl FnOnce() -> String) {
        self.history.lock().expect("no panic").push((n, what()));
    }

    /// Counts an action that the store refused.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(crate) fn into_history(self) -> Vec<(usize, String)> {
        self.history.into_inner().expect("no panic")
    }
}

/// What an incarnation left.
pub struct Left<'a, S> {
    /// The image if everything stored has arrived.
    pub everything: &'a [u8],
    /// The image if only what is certain has arrived.
    pub certain: &'a [u8],
    /// The acknowledged states, from mark to mark, the newest first.
    pub states: Vec<&'a S>,
}

/// A kind of store and its use.
pub trait Workload {
    /// Everything that a store holds and a crash must not damage.
    type State: Clone + Debug;
    /// An open store.
    type Store;

    /// Returns the number of bytes of address space to reserve for the simulated region.
    fn reserve(&self) -> usize;

    /// Returns the content of a new store.
    fn empty(&self) -> Self::State;

    /// Opens what an earlier incarnation left; creates an empty store if none was created before,
    /// or not completely.
    fn open(&self, region: Region) -> Result<Self::Store, String>;

    /// Reads the whole state, and checks what must hold for every store.
    fn read(&self, store: &mut Self::Store) -> Result<Self::State, String>;

    /// Returns the state from which the next incarnation continues, if the found state is what was
    /// promised.
    fn accept(&self, found: &Self::State, promised: &Self::State) -> Option<Self::State>;

    /// Runs an incarnation of a store that holds `state`. Returns what may be found from each of
    /// its marks on.
    fn run_incarnation(
        &self,
        store: &mut Self::Store,
        state: Self::State,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<Self::State>, String>;

    /// Damage by the medium must be reported, or cost nothing: tries that on copies of the images
    /// that an incarnation left, and returns how many were examined.
    fn damage(&self, left: &Left<'_, Self::State>, rng: &mut fastrand::Rng) -> Result<u64, String> {
        let _ = (left, rng);
        Ok(0)
    }

    /// Describes how two states differ, for the reader of a failure.
    fn difference(&self, found: &Self::State, allowed: &[Self::State]) -> String {
        each_state(found, allowed)
    }
}

/// Describes what was found, and what is allowed.
pub(crate) fn each_state<S: Debug>(found: &S, allowed: &[S]) -> String {
    let mut text = format!("found        {found:?}");
    for (n, state) in allowed.iter().enumerate() {
        let word = if n == 0 { "acknowledged" } else { "under way   " };
        text += &format!("\n{word} {state:?}");
    }
    text
}
