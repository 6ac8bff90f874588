//! Crashes at each event of runs of several threads.

use crate::overlap::crashes::{Looked, explore};

#[test]
fn every_crash_of_several_threads_leaves_a_prefix_and_all_that_was_acknowledged() {
    let mut sum = Looked::default();
    for seed in crate::seeds(0..12) {
        let Looked { images, incarnations, failures, acks } =
            explore(seed, 14).unwrap_or_else(|violation| panic!("{violation}"));
        sum.images += images;
        sum.incarnations += incarnations;
        sum.failures += failures;
        sum.acks += acks;
    }
    println!("{sum:?}");
    assert!(sum.images > 1000 && sum.incarnations > 20 && sum.acks > 100, "{sum:?}");
}
