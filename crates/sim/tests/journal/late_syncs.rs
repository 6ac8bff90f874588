//! How much a power loss takes when acknowledgements do not wait for a sync.

use crate::overlap::late_syncs::{APPLIES_SLOWLY, Background, SYNCS_SLOWLY, lose};
use pmem::SyncPolicy;
use std::time::Duration;

#[test]
fn a_loss_of_power_takes_a_second_however_long_applying_takes() {
    // Acknowledgements wait only for the kernel: the loss is bounded because syncs continue.
    for seed in crate::seeds(0..1) {
        let lost = lose(APPLIES_SLOWLY, SyncPolicy::No, Background::Two, seed);
        println!("{lost:?}");
        assert!(lost.most <= Duration::from_millis(1300), "seed {seed}: {lost:?} is lost");
        assert!(lost.most >= Duration::from_millis(900) && lost.oldest >= lost.most, "{lost:?}");
    }
    // A single thread that does both loses more: this test would notice it.
    let lost = lose(APPLIES_SLOWLY, SyncPolicy::No, Background::One, 0);
    println!("{lost:?}");
    assert!(lost.most > Duration::from_secs(4), "{lost:?}");
}

#[test]
fn a_ring_that_grows_lets_a_loss_of_power_take_no_more() {
    for seed in crate::seeds(0..1) {
        for policy in [SyncPolicy::No, SyncPolicy::EverySecond] {
            let lost = lose(APPLIES_SLOWLY.with_growth(), policy, Background::Two, seed);
            println!("{lost:?}");
            assert!(lost.most <= Duration::from_millis(1300), "seed {seed}: {lost:?} is lost");
            let waits = lost.waited >= Duration::from_secs(1) || lost.acks < 2_000;
            assert!(!waits, "seed {seed}: nobody waits for the growth: {lost:?}");
            assert_eq!(lost.capacity, APPLIES_SLOWLY.ring, "seed {seed}: it grew to its end");
        }
        // Writers wait here: for the growth, and for the limit of a ring that is short.
        let lost = lose(SYNCS_SLOWLY.with_growth(), SyncPolicy::EverySecond, Background::Two, seed);
        println!("{lost:?}");
        assert!(lost.most <= Duration::from_secs(2), "seed {seed}: {lost:?} is lost");
        assert!(lost.capacity > 64 << 10, "seed {seed}: it grew: {lost:?}");
    }
}

#[test]
fn acknowledgements_wait_for_a_sync_that_is_late() {
    for seed in crate::seeds(0..1) {
        let late = lose(SYNCS_SLOWLY, SyncPolicy::EverySecond, Background::Two, seed);
        let quick = lose(APPLIES_SLOWLY, SyncPolicy::EverySecond, Background::Two, seed);
        println!("{late:?}\n{quick:?}");
        for lost in [late, quick] {
            assert!(lost.most <= Duration::from_secs(2), "seed {seed}: {lost:?} is lost");
        }
        let waits = quick.waited >= Duration::from_secs(1) || quick.acks < 2_000;
        assert!(!waits, "nobody waits where no sync is late: {quick:?}");
    }
    // Without it the duration of a sync would be added.
    let lost = lose(SYNCS_SLOWLY, SyncPolicy::No, Background::Two, 0);
    println!("{lost:?}");
    assert!(lost.most > Duration::from_secs(3), "{lost:?}");
}
