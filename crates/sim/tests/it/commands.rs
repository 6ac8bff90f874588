//! Random commands, crashed everywhere: the keyspace afterwards is the result of some prefix of
//! each connection's commands. Few images of each crash are opened: `make crash` opens more.

use crate::engine::{Commands, generate};
use commands::{Engine, EngineOptions};
use heap::{CreateOptions, Heap};
use keyspace::Keyspace;
use sim::{Counts, Crash, Effort, explore};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Seeds that are tried, and those that may follow until each command has changed something: there
/// are many commands.
const SEEDS: u64 = 12;
const MOST_SEEDS: u64 = 30;

/// Explores a seed; returns how many times each command changed anything.
fn check(seed: u64, counts: &mut Counts) -> BTreeMap<&'static str, u64> {
    let crash = Crash::ALL[seed as usize % Crash::ALL.len()];
    let commands = Commands::of(seed);
    // A command that stores thousands of words has thousands of moments.
    let images = if commands.taste.many > 0 { 2 } else { 6 };
    let effort = Effort {
        images,
        all_of: 24,
        go_on_one_in: 200,
        process_one_in: 80,
        ..Effort::new(crash, seed)
    };
    match explore(&commands, effort) {
        Ok(found) => counts.add(&found),
        Err(failure) => {
            let setting: String = format!("{commands:#?}").lines().take(20).collect();
            panic!("{failure}\n{setting:.1000}")
        }
    }
    commands.changed.into_inner().expect("no panic")
}

#[test]
fn every_crash_leaves_a_prefix_of_each_connections_commands() {
    let (mut counts, mut changed) = (Counts::default(), BTreeMap::new());
    let writers = writers();
    for seed in 0..MOST_SEEDS {
        if seed >= SEEDS && writers.iter().all(|name| changed.contains_key(name)) {
            break;
        }
        for (name, count) in check(seed, &mut counts) {
            *changed.entry(name).or_insert(0) += count;
        }
    }
    println!("{counts:?}\n{changed:?}");
    for what in [
        "a script",
        "a function",
        "a script that failed",
        "a killed script",
        "a script that was run again",
    ] {
        assert!(changed.get(what).is_some_and(|count| *count > 5), "{what}: {changed:?}");
    }
    for name in writers {
        assert!(changed.contains_key(name), "{name} never changed anything");
        assert!(counts.doing.contains_key(name), "no crash during {name}");
    }
}

/// Every command in the table is tried: a generator that cannot produce one would be noticed.
fn writers() -> Vec<&'static str> {
    let heap = Heap::volatile(1 << 20, &CreateOptions::default()).expect("a heap in memory");
    let engine = Engine::new(EngineOptions::new(Arc::new(Keyspace::new(heap, 0))));
    let writers = generate::writers(engine.table());
    assert!(writers.len() >= 28, "{} commands write", writers.len());
    writers.into_iter().filter_map(|(words, _)| words.last().copied()).collect()
}
