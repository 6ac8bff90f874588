//! The journal of a pool, by a model in memory: with several threads at once, with each failing
//! call by its number, with sizes at each constant, and with starts that are interrupted.
//!
//! A program of its own: it needs no crate but `pmem`, and is linked in a moment.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

mod crashes;
mod failing;
mod late_syncs;
#[path = "../overlap/mod.rs"]
mod overlap;
mod sizes;
mod starts;
mod uses;

/// Returns the seeds that the environment asks for: `SIM_SEEDS=100..200`.
fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("SIM_SEEDS") else { return usual };
    let (from, to) = asked.split_once("..").expect("SIM_SEEDS=FROM..TO");
    let number = |text: &str| text.parse::<u64>().expect("SIM_SEEDS=FROM..TO");
    number(from)..number(to)
}
