//! Steps of the protocols left out, each shown to be necessary, and the explorations of threads in
//! which some are left out.
//!
//! A step is left out in the whole process: so these tests are a separate program, in which one
//! test runs at a time.

mod commit_protocol;
#[path = "../losses/mod.rs"]
mod crashes;
#[path = "../engine/mod.rs"]
mod engine;
mod journal;
#[path = "../journaled/mod.rs"]
mod journaled;
mod locks;
#[path = "../log/mod.rs"]
mod log;
mod losses;
#[path = "../overlap/mod.rs"]
mod overlap;
mod pipelines;
#[path = "../pool/mod.rs"]
mod pool;
#[path = "../positions/mod.rs"]
mod position_histories;
mod positions;
mod rewrite;
mod salvage;
#[path = "../salvaged/mod.rs"]
mod salvaged;
#[path = "../scheduled/mod.rs"]
mod scheduled;
#[path = "../scripts/mod.rs"]
mod script_histories;
mod scripts;
mod snapshot_points;
#[path = "../snapshots/mod.rs"]
mod snapshots;
mod threads;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps the other tests of this process waiting.
fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}
