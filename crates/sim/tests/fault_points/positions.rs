//! The fault points of the place in a stream for replicas.

use crate::alone;
use crate::position_histories::Positions;
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
