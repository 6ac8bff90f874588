//! A panic anywhere in a transaction: in its steps, in its commit, in the allocator, while spans
//! are transferred.
//!
//! The same transaction runs again and again, and panics one place later each time, until it
//! passes. After each panic the heap either takes no more writes, or has exactly its previous
//! content and continues; and a restart recovers what was acknowledged, or that and the whole
//! transaction that panicked.

use crate::bytes::Bytes;
use crate::pool::{Open, Pool};
use pmem::{Region, panic_after};
use sim::Subject;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Transactions before the one that panics, and after it.
const BEFORE: usize = 12;
const AFTER: usize = 6;

type State = <Pool as Subject>::State;

/// A store, its bytes, and its expected content.
struct Incarnation {
    store: Open,
    bytes: Arc<Bytes>,
    state: State,
}

impl Incarnation {
    fn open(pool: &Pool, image: &[u8], state: State) -> Incarnation {
        let bytes = Bytes::of(image);
        let region = Region::simulated_from(image, pool.reserve(), bytes.clone());
        let store = pool.open(region).expect("what a panic leaves can be opened");
        Incarnation { store, bytes, state }
    }

    /// Runs transactions that succeed or find no space.
    fn go_on(&mut self, pool: &Pool, transactions: usize, rng: &mut fastrand::Rng) {
        for _ in 0..transactions {
            let (plan, after) = pool.plan(&self.state, rng);
            match pool.run(&mut self.store, &plan) {
                Ok(true) => self.state = after,
                Ok(false) => {}
                Err(error) => panic!("{error} in {plan:?}"),
            }
        }
        check_holds(pool, &mut self.store, &self.state, "after other transactions");
    }
}

/// Checks that the store holds this state, and is sound.
fn check_holds(pool: &Pool, store: &mut Open, state: &State, place: &str) {
    let found = pool.read(store).unwrap_or_else(|why| panic!("{why}: {place}"));
    assert!(found == *state, "another state: {place}");
}

/// Returns true if the transaction panicked at its `place`th place.
fn panicked_at(place: u64, pool: &Pool, seed: u64) -> bool {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut incarnation = Incarnation::open(pool, &[], pool.empty());
    incarnation.go_on(pool, BEFORE, &mut rng);
    let (plan, after) = pool.plan(&incarnation.state, &mut rng);
    let plan = plan.on_this_thread();
    panic_after(Some(place));
    let done = catch_unwind(AssertUnwindSafe(|| pool.run(&mut incarnation.store, &plan)));
    panic_after(None);
    let place = format!("place {place} of seed {seed}, {plan:?}");
    let Incarnation { mut store, bytes, state: before } = incarnation;
    if done.is_ok() {
        return false;
    }
    if store.heap.is_poisoned() {
        let image = bytes.get().clone();
        let (next, _) = pool.plan(&before, &mut rng);
        // Refused, unless it changes nothing; and what it wrote before that does not matter.
        let _ = pool.run(&mut store, &next);
        check_restart(pool, &[image, bytes.get().clone()], &[before, after], &place);
    } else {
        check_holds(pool, &mut store, &before, &place);
        let mut incarnation = Incarnation { store, bytes, state: before };
        incarnation.go_on(pool, AFTER, &mut rng);
        check_restart(pool, &[incarnation.bytes.get().clone()], &[incarnation.state], &place);
    }
    true
}

/// Checks that a restart finds one of these states in each of these images, and continues from
/// there.
fn check_restart(pool: &Pool, images: &[Vec<u8>], allowed: &[State], place: &str) {
    for image in images {
        let mut incarnation = Incarnation::open(pool, image, Vec::new());
        incarnation.state =
            pool.read(&mut incarnation.store).unwrap_or_else(|why| panic!("{why}: {place}"));
        assert!(allowed.contains(&incarnation.state), "neither before nor after: {place}");
        incarnation.go_on(pool, AFTER, &mut fastrand::Rng::with_seed(7));
    }
}

/// Makes one transaction after the other panic at each of its places.
fn check(pool: &Pool, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let places = (0..).find(|&place| !panicked_at(place, pool, seed));
        assert!(places > Some(2), "seed {seed}: {places:?}");
    }
}

#[test]
fn a_panic_in_a_transaction_leaves_a_whole_or_a_poisoned_heap() {
    check(&Pool::of(1, 3), 0..12);
}

#[test]
fn so_does_a_panic_in_a_transaction_on_several_shards() {
    check(&Pool::of(3, 3), 20..35);
}

#[test]
fn so_does_a_panic_while_spans_change_hands_and_the_pool_grows() {
    check(&Pool { spacious: true, ..Pool::of(3, 2) }, 45..60);
}

#[test]
fn so_does_a_panic_while_a_part_of_the_log_is_retired() {
    check(&Pool { long_records: true, ..Pool::of(2, 2) }, 70..76);
}
