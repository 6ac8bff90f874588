//! Random histories of everything that writes. The log of each step is replayed into an empty
//! engine, which must then hold the same data.
//!
//! `write_effects` tests a table: each of its requests, in each state. The table does not name
//! branches such as a word out of range after a part was done, an expired source that is the target
//! too, a negative count, or an option given by a script. Here the requests are generated from the
//! documented arguments of every command that writes (`requests`, and about few keys with every
//! option `dense`), find their keys in whatever state the history left, and are executed one by
//! one, in a run, within EXEC, by a script or a function, and by clients that waited.
//!
//! After each step
//!
//! - an engine with other shards and a later clock accepts the log, and gets the same keys, values,
//!   TTLs of keys and of fields, groups, consumers and libraries;
//! - a watch of a changed key has broken, and no key changed if nothing was logged.
//!
//! `RANDOM_EFFECTS_CASES` is the number of histories, `RANDOM_EFFECTS_SEED` repeats one: `make
//! effects CASES=1000 SEED=7`.

mod dense;
mod history;
mod requests;
mod world;

use history::History;

/// The number of histories in `make test`.
const CASES: u64 = 60;

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
