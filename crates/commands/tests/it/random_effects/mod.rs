//! Random histories of everything that writes, each step replayed from what was logged of it into
//! an empty engine, which must then hold the same.
//!
//! `write_effects` goes through a table: each request that it names, in each state. What the table
//! does not name is in branches: a word that is out of range after a part was done, a source that
//! expired and is the target too, a count that is negative, an option that a script gives. Here the
//! requests follow from the documented arguments of every command that writes (`requests`), meet
//! whatever the history left of their keys, and come alone, in a run, within EXEC, from a script or
//! a function, and from clients that waited.
//!
//! After each step
//!
//! - what was logged is accepted by an engine with other shards and a later clock, and gives the
//!   same keys, values, times of keys and of fields, groups, consumers and libraries;
//! - a watch of a key that changed has broken, and no key changed if nothing was logged.
//!
//! `RANDOM_EFFECTS_CASES` says how many histories, `RANDOM_EFFECTS_SEED` repeats one:
//! `make effects CASES=1000 SEED=7`.

mod history;
mod requests;
mod world;

use history::History;

/// Histories of `make test`.
const CASES: u64 = 30;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn what_random_histories_log_gives_what_they_left() {
    let first = number("RANDOM_EFFECTS_SEED").unwrap_or(1);
    let cases = number("RANDOM_EFFECTS_CASES").unwrap_or(CASES);
    println!("RANDOM_EFFECTS_SEED={first}, {cases} histories");
    let mut history = History::new();
    for seed in first..first + cases {
        if let Err(what) = history.run(seed) {
            panic!("{what}\nRANDOM_EFFECTS_SEED={seed} RANDOM_EFFECTS_CASES=1 repeats this");
        }
    }
    println!("{}", history.figures());
}

/// An engine that forgets to log what a step did must be noticed.
#[test]
fn a_log_that_misses_a_step_is_noticed() {
    let mut history = History::new();
    history.forgets = true;
    let noticed = (1..6).filter(|&seed| history.run(seed).is_err()).count();
    assert_eq!(noticed, 5, "of five histories with a log that misses one step in five");
}
