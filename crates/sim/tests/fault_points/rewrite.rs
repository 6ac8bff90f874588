//! A command log is rewritten while threads append to it, and crashed everywhere: each transaction
//! is loaded exactly once.

use crate::alone;
use crate::log::{Explored, Rewriting};

#[test]
fn a_log_that_is_rewritten_under_load_gives_each_transaction_back_once() {
    let _alone = alone();
    let mut explored = Explored::default();
    for seed in 0..24 {
        explored += Rewriting::of(seed).explore().unwrap_or_else(|what| panic!("{what}"));
    }
    println!("{explored:?}");
    assert!(explored.divided > 1000 && explored.during_rewrite > 100, "{explored:?}");
    assert!(explored.rewritten > 24 && explored.given_up > 6, "{explored:?}");
}

#[test]
fn a_seed_repeats_its_rewrites() {
    let _alone = alone();
    for seed in [1, 2] {
        let explore = || Rewriting::of(seed).explore();
        assert_eq!(explore(), explore());
    }
}

/// Each fault point of the log, and the cut under the locks of all shards.
#[test]
fn each_fault_point_of_a_rewrite_is_needed() {
    let _alone = alone();
    let of_log = aof::FaultPoint::ALL.iter().map(|point| (point.number(), format!("{point:?}")));
    let cut = heap::FaultPoint::CutUnderLocks;
    for (number, point) in of_log.chain([(cut.number(), format!("{cut:?}"))]) {
        pmem::disable_fault_point(number);
        let caught = (0..60).find_map(|seed| Some((seed, Rewriting::of(seed).explore().err()?)));
        pmem::disable_fault_point(0);
        let (seed, what) = caught.unwrap_or_else(|| panic!("{point} is caught by no search"));
        println!("{point} is caught by seed {seed}: {what}");
    }
}
