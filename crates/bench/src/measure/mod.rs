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
pub(crate) mod generators;
mod large;
pub(crate) mod memory;
mod print;
pub(crate) mod recovery;
mod redis_benchmark;
pub(crate) mod scripts;
pub(crate) mod settings;
pub(crate) mod snapshots;
pub(crate) mod soak;
pub(crate) mod stalls;
mod systems;
pub(crate) mod throughput;
pub(crate) mod types;

use crate::server::Failure;
use crate::{Verdict, interrupt};
use bench::Bench;
use common::Common;
use systems::System;

/// A measurement, with its options.
pub(crate) trait Measurement {
    /// The systems that are measured where none is named.
    const SYSTEMS: &[&str];

    fn common(&self) -> &Common;

    /// Refuses, by a sentence, what does not fit together.
    fn check(&self, _systems: &[&System]) -> Result<(), String> {
        Ok(())
    }

    /// Measures and prints.
    fn measure(&self, bench: &Bench<'_>, systems: &[&'static System]) -> Result<(), Failure>;
}

/// Does what the options of a measurement ask for, until Ctrl-C.
pub(crate) fn run<M: Measurement>(measurement: &M) -> Verdict {
    let cancel = interrupt::listen();
    let chosen = measurement.common().chosen(M::SYSTEMS);
    let checked = chosen.and_then(|systems| measurement.check(&systems).map(|()| systems));
    let systems = match checked {
        Ok(systems) => systems,
        Err(why) => {
            eprintln!("perdura-bench: {why}");
            return Verdict::Refused;
        }
    };
    let bench = measurement.common().bench(cancel);
    match bench.and_then(|bench| measurement.measure(&bench, &systems)) {
        Ok(()) => Verdict::Done,
        Err(failure) => {
            eprintln!("perdura-bench: {failure}");
            Verdict::Partly
        }
    }
}
