//! The comparison: `perdura-bench compare` starts every system, gives all of them the same work,
//! and writes down what they did.
//!
//! `prepare` finds out what there is, `session` measures and keeps the results on disk after every
//! run, `finish` makes the report and the last words. `systems` and `workloads` say what is
//! compared with what, `plan` in which order, and what gives way when time is short. A
//! [`server`](crate::server) is a child that cannot outlive this program, however it ends.

mod driver;
mod finish;
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

/// Runs a comparison, and makes its report. When `cancel` is set it ends soon, and reports on what
/// it has.
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
