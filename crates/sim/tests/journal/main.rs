//! The journal of a pool, compared with a model in memory: with several threads at once, with each
//! failing call by its number, with sizes at each constant, and with interrupted starts.
//!
//! A separate program: it needs only the crate `pmem`, and links quickly.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

mod crashes;
mod damaged;
mod failing;
mod growth;
mod late_syncs;
mod ledger;
mod meanwhile;
mod order;
#[path = "../overlap/mod.rs"]
mod overlap;
mod paced;
mod sizes;
mod starts;
mod uses;

/// Returns the seeds that the environment requests: `SIM_SEEDS=100..200`.
fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("SIM_SEEDS") else { return usual };
    let (from, to) = asked.split_once("..").expect("SIM_SEEDS=FROM..TO");
    let number = |text: &str| text.parse::<u64>().expect("SIM_SEEDS=FROM..TO");
    number(from)..number(to)
}
