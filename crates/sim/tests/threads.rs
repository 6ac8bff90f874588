//! Several threads commit at once, on shards of their own choice, and are crashed everywhere. Which thread runs is drawn
//! from the seed at every lock, flush and fence.

#![forbid(unsafe_code)]

mod pool;
mod turns;

use pool::Pool;
use sim::{Counts, Crash, Effort, explore};
use turns::Threads;

fn run(seed: u64, crash: Crash, zones: u64) -> Counts {
    let threads = Threads { pool: Pool::of(4, zones), threads: 3 };
    let effort =
        Effort { transactions: 100, images: 16, live_on_one_in: 400, ..Effort::new(crash, seed) };
    explore(&threads, effort).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn every_crash_of_several_threads_leaves_each_transaction_whole_or_not_at_all() {
    let mut counts = Counts::default();
    for seed in 0..4 {
        counts.add(&run(seed, Crash::Strict, 4));
        counts.add(&run(seed, Crash::X86, 1 + seed % 2));
    }
    assert!(counts.doing["several threads"] > 500, "the threads hardly met: {counts:?}");
}

#[test]
fn a_seed_repeats_its_turns() {
    assert_eq!(run(7, Crash::Strict, 2), run(7, Crash::Strict, 2));
}
