//! What the explorer can crash: a store with transactions.

use pmem::Region;
use std::fmt::Debug;

/// A kind of store, driven by the explorer.
///
/// A transaction is planned without the store, from the state that the store should have: so the state after it
/// is known before it runs, and what a crash may leave is one of two states.
pub trait Subject {
    /// Everything that a store holds and a crash must not damage.
    type State: Clone + PartialEq + Debug;
    /// One transaction.
    type Plan: Debug;
    /// An open store.
    type Store;

    /// Bytes of address space to reserve for the simulated region.
    fn reserve(&self) -> usize;

    /// What a new store holds.
    fn empty(&self) -> Self::State;

    /// Opens what an earlier life left; makes an empty store where none was made before, or not to the end.
    fn open(&self, region: Region) -> Result<Self::Store, String>;

    /// Reads the whole state, and checks what must hold for every store whatever its state.
    fn read(&self, store: &mut Self::Store) -> Result<Self::State, String>;

    /// Draws a transaction, and says what the store holds after it.
    fn plan(&self, state: &Self::State, rng: &mut fastrand::Rng) -> (Self::Plan, Self::State);

    /// Closes a store for good, as before a planned restart. It holds afterwards what it held before.
    fn close(&self, store: &mut Self::Store) -> Result<(), String>;

    /// Runs and commits a transaction; `false` if the store refused and so must be as it was.
    fn run(&self, store: &mut Self::Store, plan: &Self::Plan) -> Result<bool, String>;
}
