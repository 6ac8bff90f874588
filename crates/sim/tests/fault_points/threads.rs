//! Several threads commit at once, on shards of their own choice, and are crashed everywhere. The
//! seed determines which thread runs at every lock, flush and fence.

use crate::alone;
use crate::pool::Pool;
use crate::scheduled::Threads;
use heap::{FaultPoint, disable_fault_point};
use sim::{Counts, Crash, Effort, Failure, explore};

fn run(seed: u64, crash: Crash, zones: u64, transactions: usize) -> Counts {
    let threads = Threads::new(Pool::of(4, zones), 3, false);
    let effort = Effort { transactions, images: 8, go_on_one_in: 400, ..Effort::new(crash, seed) };
    explore(&threads, effort).unwrap_or_else(|failure| panic!("{failure}"))
}

/// Runs threads that prepare values in the spans of one shard or two; returns how many times they
/// met in a span.
fn prepare(seed: u64, crash: Crash) -> Result<(Counts, u64), Failure> {
    let pool = Pool::of(1 + seed as usize % 2, 1 + seed % 3);
    let threads = Threads::new(pool, 2 + seed as usize % 2, true);
    let effort = Effort {
        transactions: 40,
        images: 12,
        go_on_one_in: 200,
        shrink_seconds: 0,
        streams: seed % 4 < 2,
        ..Effort::new(crash, seed)
    };
    let counts = explore(&threads, effort)?;
    Ok((counts, threads.shared_spans.into_inner()))
}

#[test]
fn every_crash_of_several_threads_leaves_each_transaction_whole_or_not_at_all() {
    let _alone = alone();
    let mut counts = Counts::default();
    for seed in 0..4 {
        let first = seed as usize % 2 * 2;
        counts.add(&run(seed, Crash::ALL[first], 4, 100));
        counts.add(&run(seed, Crash::ALL[first + 1], 1 + seed % 2, 100));
    }
    assert!(counts.doing["several threads"] > 500, "the threads hardly met: {counts:?}");
}

#[test]
fn a_seed_repeats_its_schedule() {
    let _alone = alone();
    for crash in [Crash::Strict, Crash::SyncedWords] {
        assert_eq!(run(7, crash, 2, 40), run(7, crash, 2, 40));
    }
}

#[test]
fn values_that_threads_prepare_in_one_span_are_each_whole_or_not_at_all() {
    let _alone = alone();
    let mut concurrent = 0;
    for seed in 0..6 {
        let crash = [Crash::Strict, Crash::X86, Crash::SyncedWords][seed as usize % 3];
        let found = prepare(seed, crash).unwrap_or_else(|failure| panic!("{failure}"));
        concurrent += found.1;
    }
    assert!(concurrent > 100, "the threads hardly met in a span: {concurrent} times");
}

/// What a prepared value needs, and nothing else needs as much: its own fence, its place among the
/// fresh ranges, and a check of what happened to its span while it was prepared.
#[test]
fn each_fault_point_of_a_prepared_value_is_needed() {
    let _alone = alone();
    for point in [FaultPoint::FenceDetached, FaultPoint::ListDetached, FaultPoint::AskSpanAgain] {
        disable_fault_point(Some(point));
        let mut attempts = (0..10).flat_map(|seed| [(seed, Crash::Strict), (seed, Crash::X86)]);
        let failure = attempts.find_map(|(seed, crash)| prepare(seed, crash).err());
        disable_fault_point(None);
        let failure = failure.unwrap_or_else(|| panic!("{point:?} is caught by no search"));
        println!("{point:?} is caught: {failure}");
    }
}

/// Runs threads that retire the logs, as at rest, while others commit.
fn retire(seed: u64, crash: Crash) -> Result<Counts, Failure> {
    let threads =
        Threads { retires: true, ..Threads::new(Pool::of(1 + seed as usize % 3, 3), 3, false) };
    let effort = Effort {
        transactions: 80,
        images: 16,
        go_on_one_in: 300,
        shrink_seconds: 0,
        ..Effort::new(crash, seed)
    };
    explore(&threads, effort)
}

#[test]
fn logs_are_retired_at_rest_beside_commits_of_other_threads() {
    let _alone = alone();
    for seed in 0..6 {
        let crash = [Crash::Strict, Crash::X86][seed as usize % 2];
        retire(seed, crash).unwrap_or_else(|failure| panic!("{failure}"));
    }
    disable_fault_point(Some(FaultPoint::FenceRested));
    let mut attempts = (0..20).flat_map(|seed| [(seed, Crash::Strict), (seed, Crash::X86)]);
    let failure = attempts.find_map(|(seed, crash)| retire(seed, crash).err());
    disable_fault_point(None);
    println!("caught: {}", failure.expect("the fence at rest is caught by no search"));
}
