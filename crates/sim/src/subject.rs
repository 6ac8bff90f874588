//! A store with transactions, one after the other: the simple way to a [`Workload`].

use crate::workload::{Incarnation, Promise, Promises, Workload, each_state};
use pmem::Region;
use std::fmt::Debug;

/// A kind of store, driven by the explorer.
///
/// A transaction is planned without the store, from the state that the store should have: so the
/// state after it is known before it runs, and a crash may leave one of two states.
pub trait Subject {
    /// Everything that a store holds and a crash must not damage.
    type State: Clone + PartialEq + Debug;
    /// One transaction.
    type Plan: Debug;
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

    /// Draws a transaction, and returns it with the state after it.
    fn plan(&self, state: &Self::State, rng: &mut fastrand::Rng) -> (Self::Plan, Self::State);

    /// Closes a store for good, as before a planned restart. Its content must not change.
    fn close(&self, store: &mut Self::Store) -> Result<(), String>;

    /// Describes for the reader of a failure how the found state differs from the allowed ones.
    fn difference(&self, found: &Self::State, allowed: &[Self::State]) -> String {
        each_state(found, allowed)
    }

    /// Runs and commits a transaction; returns `false` if the store refused it and so must be
    /// unchanged.
    fn run(&self, store: &mut Self::Store, plan: &Self::Plan) -> Result<bool, String>;
}

impl<S: Subject> Workload for S {
    type State = S::State;
    type Store = S::Store;

    fn reserve(&self) -> usize {
        Subject::reserve(self)
    }

    fn empty(&self) -> S::State {
        Subject::empty(self)
    }

    fn open(&self, region: Region) -> Result<S::Store, String> {
        Subject::open(self, region)
    }

    fn read(&self, store: &mut S::Store) -> Result<S::State, String> {
        Subject::read(self, store)
    }

    fn accept(&self, found: &S::State, promised: &S::State) -> Option<S::State> {
        (found == promised).then(|| found.clone())
    }

    fn difference(&self, found: &S::State, allowed: &[S::State]) -> String {
        Subject::difference(self, found, allowed)
    }

    fn run_incarnation(
        &self,
        store: &mut S::Store,
        mut state: S::State,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<S::State>, String> {
        let mut promises = Vec::new();
        for n in (0..incarnation.actions).filter(|n| incarnation.has(*n)) {
            let (plan, after) = self.plan(&state, &mut incarnation.rng_of(n));
            incarnation.record(n, || format!("{plan:?}"));
            let allowed = vec![state.clone(), after.clone()];
            promises.push((incarnation.mark(), Promise { allowed, doing: Vec::new() }));
            if self.run(store, &plan).map_err(|what| format!("{what}\nin {plan:?}"))? {
                state = after;
            } else {
                incarnation.refused();
            }
            promises.push((incarnation.mark(), Promise::exactly(state.clone())));
        }
        let found = Subject::read(self, store)?;
        if found != state {
            let difference = Subject::difference(self, &found, &[state]);
            return Err(format!("without a crash\n{difference}"));
        }
        if incarnation.rng.clone().usize(..3) == 0 {
            self.close(store)?;
        }
        Ok(promises)
    }
}
