//! The place of the data in a stream for replicas is true for the data, whatever crashes.

use std::sync::atomic::Ordering::Relaxed;

use sim::{Crash, Effort, explore};

use crate::positions::Positions;

fn check(crash: Crash, seed: u64) {
    let effort = Effort {
        transactions: 30,
        images: 3,
        depth: 3,
        go_on_one_in: 40,
        ..Effort::new(crash, seed)
    };
    let positions = Positions::default();
    match explore(&positions, effort) {
        Ok(counts) => {
            let found = positions.found.load(Relaxed);
            assert!(counts.images > 100 && found > 50, "{counts:?}, {found} places");
        }
        Err(failure) => panic!("{failure}"),
    }
}

#[test]
fn a_place_belongs_to_the_data_after_any_crash_in_the_strict_model() {
    (1..6).for_each(|seed| check(Crash::Strict, seed));
}

#[test]
fn a_place_belongs_to_the_data_after_any_crash_in_the_x86_model() {
    (6..11).for_each(|seed| check(Crash::X86, seed));
}
