//! Random transactions on a heap, crashed everywhere: few images of each crash. `make crash` takes
//! more of them, of more seeds.

use crate::pool::Pool;
use sim::{Crash, Effort, explore};

/// Explores one seed with this many shards, in a pool that can grow to this many zones.
fn check(crash: Crash, seed: u64, shards: usize, zones: u64) {
    explore_in(&Pool::of(shards, zones), crash, seed);
}

fn explore_in(pool: &Pool, crash: Crash, seed: u64) {
    let effort = Effort { images: 10, all_of: 32, go_on_one_in: 120, ..Effort::new(crash, seed) };
    match explore(pool, effort) {
        Ok(counts) => {
            println!(
                "{crash:?}, seed {seed}, {} shards, {} zones: {counts:?}",
                pool.geometry.shards, pool.zones
            );
            assert!(counts.images > 500 && counts.incarnations > 1, "{counts:?}");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn every_crash_leaves_the_last_or_the_next_state_whole() {
    for seed in 0..4 {
        let shards = 1 + seed as usize;
        let first = seed as usize % 2 * 2;
        Crash::ALL[first..first + 2].iter().for_each(|crash| check(*crash, seed, shards, 3));
    }
    check(Crash::FlushedWords, 14, 3, 3);
}

#[test]
fn so_does_every_crash_of_a_full_pool() {
    for seed in 4..8 {
        check(Crash::Strict, seed, 2, 1);
    }
}

#[test]
fn so_does_every_crash_of_a_growing_pool() {
    check(Crash::Strict, 8, 4, 4);
    check(Crash::X86, 9, 4, 4);
    check(Crash::SyncedWords, 10, 4, 4);
    check(Crash::SyncedPages, 11, 4, 4);
    check(Crash::FlushedWords, 15, 4, 4);
}

#[test]
fn so_does_every_crash_around_holes() {
    for (seed, crash) in [(12, Crash::Strict), (13, Crash::SyncedPages)] {
        let pool =
            Pool { purges: true, spacious: seed % 2 == 0, ..Pool::of(1 + seed as usize % 3, 2) };
        explore_in(&pool, crash, seed);
    }
}

/// More of them: `SIM_SEEDS=100..200 cargo test -p perdura-sim --test it heap::`.
#[test]
fn so_does_every_crash_of_many_seeds() {
    let seeds = std::env::var("SIM_SEEDS").unwrap_or_else(|_| "100..101".into());
    let (from, to) = seeds.split_once("..").expect("SIM_SEEDS=FROM..TO");
    let number = |text: &str| text.parse::<u64>().expect("SIM_SEEDS=FROM..TO");
    for seed in number(from)..number(to) {
        let crash = Crash::ALL[seed as usize % Crash::ALL.len()];
        check(crash, seed, 1 + seed as usize % 4, 1 + seed / 4 % 4);
    }
}
