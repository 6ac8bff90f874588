//! Structures on a simulated medium, crashed everywhere: each transaction is whole or absent, every
//! checksum is right, and the allocated blocks are the reachable ones, including the free queue.

use crate::pool;
use crate::store::{Plan, State, read, run};
use heap::{CommitError, Full, Heap};
use pmem::Region;
use sim::{Crash, Effort, Subject, explore};

/// The structures in a pool of at most this many bytes.
struct Structures {
    limit: usize,
}

const ROOMY: Structures = Structures { limit: 4 << 20 };
const TIGHT: Structures = Structures { limit: 3 << 19 };

impl Subject for Structures {
    type State = State;
    type Plan = Plan;
    type Store = Heap;

    fn reserve(&self) -> usize {
        self.limit
    }

    fn empty(&self) -> State {
        State::default()
    }

    fn open(&self, region: Region) -> Result<Heap, String> {
        pool::open(region)
    }

    fn read(&self, heap: &mut Heap) -> Result<State, String> {
        let (state, reached) = read(&heap.lock(0))?;
        pool::check_reached(heap, reached)?;
        Ok(state)
    }

    fn plan(&self, state: &State, random: &mut fastrand::Rng) -> (Plan, State) {
        let plan = Plan::random(state, random);
        let mut after = state.clone();
        after.apply(&plan);
        (plan, after)
    }

    fn close(&self, heap: &mut Heap) -> Result<(), String> {
        heap.close().map_err(|error| error.to_string())
    }

    fn run(&self, heap: &mut Heap, plan: &Plan) -> Result<bool, String> {
        transaction(heap, plan)
    }
}

/// Returns `false` if the heap was full.
fn transaction(heap: &Heap, plan: &Plan) -> Result<bool, String> {
    let mut shard = heap.lock(0);
    let done =
        run(&mut shard, plan).map_err(|Full| CommitError::Full).and_then(|()| shard.commit());
    match done {
        Ok(()) => Ok(true),
        Err(CommitError::Full) => {
            shard.rollback();
            Ok(false)
        }
        Err(error) => Err(error.to_string()),
    }
}

fn check(seed: u64, crash: Crash) {
    let effort = Effort { transactions: 24, images: 4, depth: 1, ..Effort::new(crash, seed) };
    match explore(&ROOMY, effort) {
        Ok(counts) => {
            println!("seed {seed} {crash:?}: {counts:?}");
            assert!(counts.images > 200, "{counts:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

/// Two seeds, or those that the environment requests: `CRASH_SEEDS=100..120 cargo test -p
/// perdura-structures --test it crash::`.
fn seeds() -> std::ops::Range<u64> {
    let asked = std::env::var("CRASH_SEEDS").unwrap_or_else(|_| "0..2".into());
    let (from, to) = asked.split_once("..").expect("CRASH_SEEDS=FROM..TO");
    let number = |text: &str| text.parse().expect("CRASH_SEEDS=FROM..TO");
    number(from)..number(to)
}

#[test]
fn a_crash_leaves_each_structure_whole_when_words_arrive_in_any_order() {
    seeds().for_each(|seed| check(seed, Crash::Strict));
}

#[test]
fn a_crash_leaves_each_structure_whole_when_lines_arrive_in_store_order() {
    seeds().for_each(|seed| check(seed, Crash::X86));
}

#[test]
fn a_crash_leaves_each_structure_whole_in_a_full_pool() {
    let effort = Effort { transactions: 40, images: 4, depth: 1, ..Effort::new(Crash::X86, 7) };
    let counts = explore(&TIGHT, effort).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{counts:?}");
    assert!(counts.refused > 3, "{counts:?}");
}
