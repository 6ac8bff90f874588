//! Explorations of what crashes, panics and failing calls leave, with no step left out: in one
//! program, so that they are linked once.

#[path = "../bytes/mod.rs"]
mod bytes;
mod canary;
mod commands;
mod disks;
#[path = "../engine/mod.rs"]
mod engine;
mod failed_sync;
mod heap;
#[path = "../histories/mod.rs"]
mod histories;
mod journal;
#[path = "../journaled/mod.rs"]
mod journaled;
mod panics;
mod panics_above;
mod places;
#[path = "../pool/mod.rs"]
mod pool;
#[path = "../positions/mod.rs"]
mod positions;
mod regressions;
