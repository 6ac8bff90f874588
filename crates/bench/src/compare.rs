//! The comparison: `perdura-bench compare` starts every system, gives all of them the same work,
//! and records how they did.
//!
//! `prepare` finds out what can be measured. `session` measures, and saves the results to disk
//! after every run. `finish` writes the report and prints the summary. `systems` and `workloads`
//! define what is compared, `plan` how much of it and in which order. A [`server`](crate::server)
//! is a child process that cannot outlive this program, however it ends.

mod driver;
mod finish;
mod names;
pub(crate) mod options;
mod plan;
mod prepare;
mod progress;
mod recovery;
mod session;
mod space;
pub(crate) mod systems;
mod workloads;

pub(crate) use options::Options;

use crate::Verdict;
use prepare::{Ready, Refusal};
use session::Session;
use std::sync::atomic::AtomicBool;

/// Runs a comparison and writes its report. When `cancel` is set, it ends soon and reports on what
/// it has measured.
pub(crate) fn run(options: &Options, cancel: &AtomicBool) -> Verdict {
    let ready = match Ready::new(options, cancel) {
        Ok(ready) => ready,
        Err(refusal) => {
            eprintln!("perdura-bench: {refusal}");
            let begun = matches!(refusal, Refusal::Cancelled);
            return if begun { Verdict::Partly } else { Verdict::Refused };
        }
    };
    let path = options.out.join("results.json");
    let (results, troubled) = Session::new(ready, &path, cancel).run();
    finish::finish(&results, troubled, &options.out)
}
