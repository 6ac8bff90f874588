//! Heaps with a journal, crashed everywhere.

use crate::journaled::{Medium, explore};

fn check(medium: impl Fn(u64) -> Medium, seeds: std::ops::Range<u64>) {
    let (mut images, mut incarnations, mut failures) = (0, 0, 0);
    for seed in seeds {
        match explore(medium(seed), seed, 60) {
            Ok(looked) => {
                images += looked.images;
                incarnations += looked.incarnations;
                failures += looked.failures;
            }
            Err(violation) => panic!("{violation}"),
        }
    }
    println!("{images} images, {incarnations} incarnations, {failures} with a failing call");
    assert!(images > 1000 && incarnations > 20, "{images} images, {incarnations} incarnations");
}

#[test]
fn every_crash_leaves_a_prefix_of_the_commits_and_all_that_were_synced() {
    check(|_| Medium::Disk, 0..6);
}

/// Persistent memory of processors that store whole lines past their caches, and of others.
fn lines(seed: u64) -> Medium {
    Medium::Lines { streams: seed.is_multiple_of(2) }
}

#[test]
fn so_does_every_crash_with_the_journal_in_persistent_memory() {
    check(lines, 0..6);
}

/// More of them: `SIM_SEEDS=100..200 cargo test -p perdura-sim --test it journal::`.
#[test]
fn so_does_every_crash_of_many_seeds() {
    let seeds = std::env::var("SIM_SEEDS").unwrap_or_else(|_| "100..101".into());
    let (from, to) = seeds.split_once("..").expect("SIM_SEEDS=FROM..TO");
    let number = |text: &str| text.parse::<u64>().expect("SIM_SEEDS=FROM..TO");
    check(|_| Medium::Disk, number(from)..number(to));
    check(lines, number(from)..number(to));
}
