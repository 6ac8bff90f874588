//! Random commands, crashed everywhere: the keyspace is afterwards what some prefix of each connection's commands gives.

#![forbid(unsafe_code)]

mod engine;

use engine::Commands;
use sim::{Counts, Crash, Effort, explore};
use std::collections::BTreeMap;

/// Explores a seed; what changed anything.
fn check(seed: u64, counts: &mut Counts) -> BTreeMap<&'static str, u64> {
    let crash = if seed.is_multiple_of(2) { Crash::Strict } else { Crash::X86 };
    let commands = Commands::of(seed);
    let effort =
        Effort { transactions: 60, images: 12, live_on_one_in: 200, ..Effort::new(crash, seed) };
    match explore(&commands, effort) {
        Ok(found) => counts.add(&found),
        Err(failure) => panic!("{commands:?}\n{failure}"),
    }
    commands.changed.into_inner().unwrap()
}

#[test]
fn every_crash_leaves_a_prefix_of_each_connections_commands() {
    let mut counts = Counts::default();
    let seeds = std::env::var("SIM_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(12);
    for seed in 0..seeds {
        let before = std::time::Instant::now();
        check(seed, &mut counts);
        println!(
            "{seed}: {:?} {} images {} points",
            before.elapsed(),
            counts.images,
            counts.crashes
        );
    }
    println!("{:?}", counts.doing);
}
