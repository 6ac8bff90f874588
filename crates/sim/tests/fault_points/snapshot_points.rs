//! The fault points of snapshots: what they read, what they hold, and when they are given up.

use crate::alone;
use crate::pool::Pool;
use crate::scheduled::Threads;
use crate::snapshots;
use heap::FaultPoint;
use sim::{Crash, Effort, explore};
use std::panic::catch_unwind;

/// The fault points of saving and holding: a search notices their absence.
const READ: [FaultPoint; 6] = [
    FaultPoint::SaveOverlay,
    FaultPoint::SaveInEach,
    FaultPoint::ReadOwnCut,
    FaultPoint::SaveEachWord,
    FaultPoint::SaveFirstValue,
    FaultPoint::ReturnAfterPins,
];

#[test]
fn each_promise_of_a_snapshot_is_kept() {
    let _alone = alone();
    snapshots::ALL.iter().for_each(|(_, history)| history());
}

/// Each is caught by one of the known histories, with which a search of mutants begins.
#[test]
fn each_fault_point_of_a_snapshot_is_needed() {
    let _alone = alone();
    let of_heap = READ.into_iter().chain([
        FaultPoint::ReturnInSteps,
        FaultPoint::RefuseReleased,
        FaultPoint::GiveUpOverLimit,
        FaultPoint::GiveUpFull,
    ]);
    let of_walk = keyspace::FaultPoint::ReleaseAfterRead;
    let all = of_heap.map(|point| (point.number(), format!("{point:?}")));
    for (number, point) in all.chain([(of_walk.number(), format!("{of_walk:?}"))]) {
        pmem::disable_fault_point(number);
        let caught = snapshots::ALL.iter().find(|(_, history)| catch_unwind(history).is_err());
        pmem::disable_fault_point(0);
        let (history, _) = caught.unwrap_or_else(|| panic!("{point} is caught by no history"));
        println!("{point} is caught: {history}");
    }
}

#[test]
fn each_fault_point_of_what_a_snapshot_reads_is_caught_by_a_search() {
    let _alone = alone();
    for point in READ {
        pmem::disable_fault_point(point.number());
        let failure = (0..12).find_map(|seed| {
            let effort = Effort {
                transactions: 60,
                images: 1,
                go_on_one_in: 1000,
                shrink_seconds: 0,
                ..Effort::new(Crash::Strict, seed)
            };
            let pool = Pool::of(2 + seed as usize % 2, 3);
            match seed % 2 {
                0 => explore(&pool, effort).err(),
                _ => explore(&Threads::new(pool, 3, false), effort).err(),
            }
        });
        pmem::disable_fault_point(0);
        let failure = failure.unwrap_or_else(|| panic!("{point:?} is caught by no search"));
        println!("{point:?} is caught: {failure}");
    }
}
