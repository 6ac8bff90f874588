//! Pipelined runs of several threads, crashed everywhere, on a pool without a log: each run is a
//! transaction.

use crate::alone;
use crate::engine::Commands;
use heap::{FaultPoint, disable_fault_point};
use sim::{Counts, Crash, Effort, Failure, explore};

fn run(seed: u64) -> Result<Counts, (String, Failure)> {
    let commands = Commands::pipelining(seed);
    let crash = [Crash::Strict, Crash::X86, Crash::SyncedWords][seed as usize % 3];
    let effort = Effort {
        transactions: 30,
        images: 6,
        all_of: 24,
        go_on_one_in: 600,
        process_one_in: 150,
        shrink_seconds: 0,
        streams: seed % 4 < 2,
        ..Effort::new(crash, seed)
    };
    explore(&commands, effort).map_err(|failure| (format!("{commands:?}"), failure))
}

#[test]
fn every_crash_of_pipelined_runs_of_several_threads_leaves_each_run_whole_or_not_at_all() {
    let _alone = alone();
    let mut counts = Counts::default();
    for seed in 0..6 {
        counts.add(&run(seed).unwrap_or_else(|(kind, failure)| panic!("{kind}\n{failure}")));
    }
    println!("{counts:?}");
    let times_done = |what| counts.doing.get(what).copied().unwrap_or(0);
    assert!(times_done("pipeline") > 100 && times_done("several threads") > 100, "{counts:?}");
}

/// The fault points that a run on several shards needs.
#[test]
fn each_fault_point_of_a_run_is_needed() {
    let _alone = alone();
    for point in [FaultPoint::FenceCommitAll, FaultPoint::LinkRecords, FaultPoint::CheckLinks] {
        disable_fault_point(Some(point));
        let failure = (0..40).find_map(|seed| run(seed).err());
        disable_fault_point(None);
        let (_, failure) = failure.unwrap_or_else(|| panic!("{point:?} is caught by no search"));
        println!("{point:?} is caught: {failure}");
    }
}
