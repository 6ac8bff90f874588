//! The place of the data in a stream for replicas, which a clean end leaves: the next opening finds
//! it with the data for which it was written, or not at all, whatever crashes and whoever opens the
//! pool in between.

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::{NOW, SEED, db, emulated};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Expire, Keyspace, StreamPosition};
use pmem::{DomainRequest, MapOptions, Region};
use sim::{Crash, Effort, Incarnation, Promise, Promises, Workload, explore};

const SHARDS: usize = 2;
/// Names of keys, spread over the shards.
const KEYS: usize = 12;

/// The keys, and the offset that was found with them: their sum, if it is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    keys: BTreeSet<usize>,
    offset: Option<u64>,
}

impl State {
    fn sum(&self) -> u64 {
        self.keys.iter().map(|key| 1 << key).sum()
    }
}

struct Subjected;

fn geometry() -> Geometry {
    Geometry { shards: SHARDS, ring_parts: 3, ring_part: 512, zone_spans: 20 }
}

fn name(key: usize) -> String {
    format!("key:{key}")
}

fn position(offset: u64) -> StreamPosition {
    let second = offset.is_multiple_of(2).then_some(([7; 20], offset / 2));
    StreamPosition { id: std::array::from_fn(|n| n as u8), offset, db: Some(3), second }
}

impl Workload for Subjected {
    type State = State;
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
        let found = ks.take_position();
        if let Some(found) = found {
            assert_eq!(found, position(found.offset));
        }
        Ok(State { keys, offset: found.map(|found| found.offset) })
    }

    fn accept(&self, found: &State, promised: &State) -> Option<State> {
        let is_true = found.offset.is_none_or(|offset| offset == found.sum());
        (found.keys == promised.keys && is_true).then(|| found.clone())
    }

    fn run_incarnation(
        &self,
        ks: &mut Keyspace,
        mut state: State,
        incarnation: &Incarnation<'_>,
    ) -> Result<Promises<State>, String> {
        let mut promises = Vec::new();
        for n in (0..incarnation.actions).filter(|n| incarnation.has(*n)) {
            let before = state.clone();
            let number = incarnation.rng_of(n).usize(..KEYS);
            let is_last = n + 1 == incarnation.actions;
            if !is_last && !state.keys.remove(&number) {
                state.keys.insert(number);
            }
            incarnation.record(n, || format!("{number}, last: {is_last}"));
            let allowed = vec![before, state.clone()];
            promises.push((incarnation.mark(), Promise { allowed, doing: Vec::new() }));
            if is_last {
                // The end, half of which leaves a position.
                if number.is_multiple_of(2) {
                    let left = ks.leave_position(|| Some(position(state.sum())), NOW);
                    left.map_err(|e| e.to_string())?;
                }
            } else {
                let (mut txn, name) = (ks.begin_all(NOW), name(number));
                let key = txn.key(name.as_bytes());
                if state.keys.contains(&number) {
                    let set = txn.strings().set(db(0), &key, b"value", Expire::Clear);
                    set.map_err(|error| error.to_string())?;
                } else {
                    txn.keys().delete(db(0), &key).map_err(|error| error.to_string())?;
                }
                txn.commit().map_err(|error| error.to_string())?;
            }
            promises.push((incarnation.mark(), Promise::exactly(state.clone())));
        }
        if incarnation.rng.clone().usize(..2) == 0 {
            ks.heap().close().map_err(|error| error.to_string())?;
        }
        Ok(promises)
    }
}

fn check(crash: Crash, seed: u64) {
    let effort = Effort {
        transactions: 24,
        images: 6,
        depth: 3,
        go_on_one_in: 8,
        ..Effort::new(crash, seed)
    };
    match explore(&Subjected, effort) {
        Ok(counts) => assert!(counts.images > 100, "{counts:?}"),
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_position_belongs_to_the_data_after_any_crash_in_the_strict_model() {
    check(Crash::Strict, 1);
}

#[test]
fn a_position_belongs_to_the_data_after_any_crash_in_the_x86_model() {
    check(Crash::X86, 2);
}

fn open(path: &Path) -> Heap {
    let map =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(256 << 20) };
    let region = Region::open(path, &map).expect("a mapping");
    Heap::open(region, [0; 16]).expect("the same pool").0
}

fn close(heap: &Heap) {
    heap.close().expect("it closes");
}

#[test]
fn a_position_is_found_once_and_only_by_the_next_opening() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    for offset in [0, 1, 2, u64::MAX] {
        let ks = match path.exists() {
            true => Keyspace::new(open(&path), NOW),
            false => emulated(&path, SHARDS),
        };
        assert_eq!(ks.take_position(), None);
        let left = position(offset);
        ks.leave_position(|| Some(left), NOW).expect("a commit");
        close(ks.heap());
        drop(ks);
        let ks = Keyspace::new(open(&path), NOW);
        assert_eq!(ks.take_position(), Some(left));
        assert_eq!(ks.take_position(), None);
        // A crash: nothing is closed.
        drop(ks);
        let ks = Keyspace::new(open(&path), NOW);
        assert_eq!(ks.take_position(), None);
        ks.leave_position(|| Some(left), NOW).expect("a commit");
        close(ks.heap());
        drop(ks);
        // A program that does not know positions.
        let heap = open(&path);
        close(&heap);
        drop(heap);
        let ks = Keyspace::new(open(&path), NOW);
        assert_eq!(ks.take_position(), None);
        close(ks.heap());
    }
}

#[test]
fn a_position_costs_one_fence_and_none_costs_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let ks = emulated(&path, SHARDS);
    let before = pmem::counters();
    ks.leave_position(|| Some(position(5)), NOW).expect("a commit");
    assert_eq!(pmem::counters().since(&before).fences, 1);
    close(ks.heap());
    drop(ks);
    let fences = [(); 2].map(|()| {
        let heap = open(&path);
        let before = pmem::counters();
        let ks = Keyspace::new(heap, NOW);
        let fences = pmem::counters().since(&before).fences;
        close(ks.heap());
        fences
    });
    assert_eq!(fences, [1, 0]);
}
