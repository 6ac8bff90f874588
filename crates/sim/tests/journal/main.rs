//! The journal of a pool with several threads at once: writers, the two that sync and apply in the
//! background, and a reader that asks what is durable.
//!
//! They run under the deterministic scheduler, which may choose another thread at each lock and
//! each call of the two simulated files. The calls take simulated time, and one of them may fail.
//! What a loss of power or the end of the process leaves at each moment is opened, and compared
//! with a model that is in memory and knows nothing of rings, batches and blocks: so it outlives
//! their form.
//!
//! A program of its own: it needs no crate but `pmem`, and is linked in a moment.

#![allow(unsafe_code, reason = "stores into a region are unsafe")]

mod crashes;
mod late_syncs;
mod model;
mod pool;
mod threads;

/// Returns the seeds that the environment asks for: `SIM_SEEDS=100..200`.
fn seeds(usual: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(asked) = std::env::var("SIM_SEEDS") else { return usual };
    let (from, to) = asked.split_once("..").expect("SIM_SEEDS=FROM..TO");
    let number = |text: &str| text.parse::<u64>().expect("SIM_SEEDS=FROM..TO");
    number(from)..number(to)
}
