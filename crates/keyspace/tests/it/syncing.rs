//! The mark that the data of a primary is incomplete: set, taken away, and acted upon, each in one
//! transaction with one fence. A crash leaves the mark with the data, or neither.

use std::collections::BTreeSet;

use crate::common::{NOW, SEED, db, emulated};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Expire, Keyspace};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};

const SHARDS: usize = 2;
/// Names of keys, spread over the shards.
const KEYS: usize = 12;

/// Whether the data is incomplete, and the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    is_syncing: bool,
    keys: BTreeSet<usize>,
}

#[derive(Debug)]
enum Plan {
    /// Sets the mark, or takes it away.
    Mark(bool),
    Put(usize),
    /// As a start does.
    Drop,
}

struct Subjected;

fn geometry() -> Geometry {
    Geometry { shards: SHARDS, ring_parts: 3, ring_part: 512, zone_spans: 20 }
}

fn name(key: usize) -> String {
    format!("key:{key}")
}

impl Subject for Subjected {
    type State = State;
    type Plan = Plan;
    type Store = Keyspace;

    fn reserve(&self) -> usize {
        geometry().zone_spans * 65536 * 2 - 1
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn open(&self, region: Region) -> Result<Keyspace, String> {
        let heap = if Heap::is_blank(&region) {
            let options =
                CreateOptions { geometry: geometry(), hash_seed: SEED, ..CreateOptions::default() };
            Heap::create(region, &options).map_err(|error| error.to_string())?
        } else {
            Heap::open(region, [0; 16]).map_err(|error| error.to_string())?.0
        };
        Ok(Keyspace::new(heap, NOW))
    }

    fn read(&self, ks: &mut Keyspace) -> Result<State, String> {
        let txn = ks.begin_all(NOW);
        let is_there = |key: &usize| txn.peek(db(0), &txn.key(name(*key).as_bytes())).is_some();
        let keys: BTreeSet<usize> = (0..KEYS).filter(is_there).collect();
        drop(txn);
        let checked = ks.check().map_err(|error| error.to_string())?;
        assert_eq!(checked.keys, keys.len() as u64);
        Ok(State { is_syncing: ks.is_syncing(), keys })
    }

    fn plan(&self, state: &State, rng: &mut fastrand::Rng) -> (Plan, State) {
        let mut after = state.clone();
        let plan = match rng.usize(..8) {
            0 | 1 => {
                after.is_syncing = !state.is_syncing;
                Plan::Mark(after.is_syncing)
            }
            2 => {
                if state.is_syncing {
                    after = State::default();
                }
                Plan::Drop
            }
            _ => {
                let key = rng.usize(..KEYS);
                after.keys.insert(key);
                Plan::Put(key)
            }
        };
        (plan, after)
    }

    fn close(&self, ks: &mut Keyspace) -> Result<(), String> {
        ks.heap().close().map_err(|error| error.to_string())
    }

    fn run(&self, ks: &mut Keyspace, plan: &Plan) -> Result<bool, String> {
        Ok(match plan {
            Plan::Mark(yes) => ks.set_syncing(*yes, NOW).is_ok(),
            Plan::Put(key) => {
                let (mut txn, name) = (ks.begin_all(NOW), name(*key));
                let key = txn.key(name.as_bytes());
                let put = txn.strings().set(db(0), &key, b"of the primary", Expire::Clear);
                put.is_ok() && txn.commit().is_ok()
            }
            Plan::Drop => ks.drop_incomplete(NOW).is_ok(),
        })
    }
}

fn check(crash: Crash, seed: u64) {
    let effort = Effort { transactions: 30, images: 6, ..Effort::new(crash, seed) };
    match explore(&Subjected, effort) {
        Ok(counts) => assert!(counts.images > 100, "{counts:?}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_crash_leaves_the_mark_with_the_data_in_the_strict_model() {
    check(Crash::Strict, 1);
}

#[test]
fn a_crash_leaves_the_mark_with_the_data_in_the_x86_model() {
    check(Crash::X86, 2);
}

#[test]
fn the_mark_costs_one_fence() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 4);
    let fences = |yes: bool| {
        let before = pmem::counters();
        ks.set_syncing(yes, NOW).expect("a commit");
        pmem::counters().since(&before).fences
    };
    let least = (0..10).map(|_| (fences(true), fences(false))).min();
    assert_eq!(least, Some((1, 1)));
}
