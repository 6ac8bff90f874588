//! The place of the data in a stream for replicas is true for the data, whatever crashes.

use std::sync::atomic::Ordering::Relaxed;

use sim::{Crash, Effort, explore};

use crate::positions::Positions;
use crate::positions::journaled;
use crate::positions::lines::Lines;

fn check(crash: Crash, seed: u64) {
    let effort = Effort {
        transactions: 30,
        images: 3,
        depth: 3,
        go_on_one_in: 40,
        ..Effort::new(crash, seed)
    };
    let positions = Positions::default();
    match explore(&positions, effort) {
        Ok(counts) => {
            let found = positions.found.load(Relaxed);
            assert!(counts.images > 100 && found > 50, "{counts:?}, {found} places");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_place_belongs_to_the_data_after_any_crash_in_the_strict_model() {
    (1..6).for_each(|seed| check(Crash::Strict, seed));
}

#[test]
fn a_place_belongs_to_the_data_after_any_crash_in_the_x86_model() {
    (6..11).for_each(|seed| check(Crash::X86, seed));
}

/// More of them: `SIM_SEEDS=100..200 cargo test -p perdura-sim --test it places::replicas`.
fn seeds(usual: impl Iterator<Item = u64>) -> Vec<u64> {
    let Ok(text) = std::env::var("SIM_SEEDS") else { return usual.collect() };
    let (from, to) = text.split_once("..").expect("SIM_SEEDS=FROM..TO");
    let number = |text: &str| text.parse().expect("SIM_SEEDS=FROM..TO");
    (number(from)..number(to)).collect()
}

fn check_lines(crash: Crash, seed: u64) {
    let effort = Effort {
        transactions: 40,
        images: 4,
        depth: 2,
        go_on_one_in: 60,
        process_one_in: 12,
        ..Effort::new(crash, seed)
    };
    let lines = Lines { threads: 1 + seed as usize % 3, ..Lines::default() };
    match explore(&lines, effort) {
        Ok(counts) => {
            let [found, whole, lacking] =
                [&lines.found, &lines.whole, &lines.lacking].map(|count| count.load(Relaxed));
            println!("{found} places, {whole} with bytes, {lacking} lack some; {counts:?}");
            assert!(counts.images > 100 && whole > 50, "{counts:?}, {whole} places");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn replicas_of_a_primary_on_persistent_memory_get_its_data_after_any_crash() {
    // Of the last two, the first has a commit with more bytes than a ring takes, and the second a
    // ring that began where the one before it had begun.
    for seed in seeds((0..6).chain([8, 17])) {
        check_lines(if seed.is_multiple_of(2) { Crash::Strict } else { Crash::X86 }, seed);
    }
}

#[test]
fn replicas_of_a_primary_with_a_journal_get_its_data_after_any_end_of_its_process() {
    let mut images = 0;
    for seed in seeds(0..15) {
        match journaled::explore(seed, 60) {
            Ok(looked) => {
                println!("{looked:?}");
                images += looked.images;
            }
            Err(violation) => panic!("{violation}"),
        }
    }
    assert!(images > 750, "{images} images");
}
