//! Single figures of whole servers: `perdura-bench throughput`, `recovery`, `memory`, `types`,
//! `scripts`, `settings`, `snapshots`, `soak`, `stalls` and `generators`.
//!
//! Each measures one thing, most with redis-benchmark as the generator, and prints tables in
//! Markdown; the raw figures go to a file of tab-separated values. [`compare`](crate::compare) is
//! for ways to persist as a whole, with a generator of its own; this is for figures that are looked
//! at one by one, after a change.
//!
//! A system has a fresh server for each run, pinned to one core with all of its threads, and the
//! generator another core. Systems take turns, round by round, so that a slow minute of the machine
//! hurts all of them, and ratios are taken within each round. Logs are on a disk, and
//! pools with a journal; other pools are in `/dev/shm`.

mod bench;
mod common;
pub mod generators;
mod large;
pub mod memory;
mod print;
pub mod recovery;
mod redis_benchmark;
pub mod scripts;
pub mod settings;
pub mod snapshots;
pub mod soak;
pub mod stalls;
mod systems;
pub mod throughput;
pub mod types;

use crate::Verdict;
use crate::compare::server::Failure;

/// Returns what became of a measurement.
fn verdict(result: Result<(), Failure>) -> Verdict {
    match result {
        Ok(()) => Verdict::Done,
        Err(failure) => {
            eprintln!("perdura-bench: {failure}");
            Verdict::Partly
        }
    }
}
