//! How long writers wait while a disk is slower than they are.

use crate::overlap::paced::{Paced, SYNC_POOL, pace};
use std::time::Duration;

#[test]
fn writers_that_ask_wait_a_little_each_and_no_fence_waits_for_space() {
    for seed in crate::seeds(0..3) {
        let Paced { fence, space, charge, writes, passes, idle, full_waits } = pace(seed);
        println!("seed {seed}: {:?}", (fence, space, charge, writes, passes, idle, full_waits));
        assert_eq!(full_waits, 0, "seed {seed}");
        assert!(fence < Duration::from_millis(10), "seed {seed}: {fence:?} in a fence");
        // A pass takes two syncs of the pool, and more.
        assert!(space < SYNC_POOL * 3 / 2, "seed {seed}: {space:?} without space");
        assert!(charge < SYNC_POOL * 3 / 2, "seed {seed}: {charge:?} after a write");
        assert!(
            passes > 100 && idle < Duration::from_millis(20),
            "seed {seed}: {passes}, {idle:?}"
        );
        assert!(writes.iter().all(|count| *count > 6000), "seed {seed}: {writes:?}");
    }
}
