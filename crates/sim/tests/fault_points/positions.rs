//! The fault points of the place in a stream for replicas.

use crate::alone;
use crate::position_histories::lines::Lines;
use crate::position_histories::{Positions, journaled};
use keyspace::FaultPoint;
use sim::{Crash, Effort, explore};

#[test]
fn each_fault_point_of_a_place_is_caught_by_a_search() {
    let _alone = alone();
    for point in [FaultPoint::MoveFromStart, FaultPoint::MoveAway, FaultPoint::StayLost] {
        pmem::disable_fault_point(point.number());
        let failure = (0..12).find_map(|seed| {
            let effort = Effort {
                transactions: 60,
                images: 2,
                shrink_seconds: 0,
                ..Effort::new(Crash::Strict, seed)
            };
            explore(&Positions::default(), effort).err()
        });
        pmem::disable_fault_point(0);
        let failure = failure.unwrap_or_else(|| panic!("{point:?} is caught by no search"));
        println!("{point:?} is caught: {failure}");
    }
}

fn explore_lines(seed: u64) -> Result<(), String> {
    let effort = Effort {
        transactions: 60,
        images: 4,
        depth: 1,
        process_one_in: 6,
        shrink_seconds: 0,
        ..Effort::new(if seed.is_multiple_of(2) { Crash::Strict } else { Crash::X86 }, seed)
    };
    let lines = Lines { threads: 3, ..Lines::default() };
    explore(&lines, effort).map(drop).map_err(|failure| failure.to_string())
}

fn explore_journal(seed: u64) -> Result<(), String> {
    journaled::explore(seed, 90).map(drop)
}

type Point = replication::FaultPoint;
/// Explores a seed.
type Explore = fn(u64) -> Result<(), String>;

#[test]
fn each_fault_point_of_a_ring_is_caught_by_a_search() {
    let _alone = alone();
    let mut missed = Vec::new();
    for point in Point::ALL {
        // The search begins with a seed that is known to catch the point, of which there are few.
        let (explored, seeds, first): (Explore, u64, u64) = match point {
            Point::CutAtUncounted => (explore_journal, 200, 0),
            Point::RefuseNewer => (explore_journal, 4000, 1066),
            Point::RefuseAfterUncounted => (explore_journal, 200, 142),
            Point::TakeFurthest => (explore_lines, 60, 54),
            Point::FenceBeginning => (explore_lines, 60, 13),
            Point::SelectAfterUnfinished | Point::MarkBeginning => (explore_lines, 60, 2),
            Point::WriteBackHeads => (explore_lines, 60, 1),
            _ => (explore_lines, 60, 0),
        };
        pmem::disable_fault_point(point.number());
        let mut seeds = (first..seeds).chain(0..first);
        let failure = seeds.find_map(|seed| Some((seed, explored(seed).err()?)));
        pmem::disable_fault_point(0);
        match failure {
            Some((seed, failure)) => println!("{point:?} is caught by seed {seed}: {failure:.400}"),
            None => missed.push(point),
        }
    }
    assert!(missed.is_empty(), "{missed:?} are caught by no search");
}
