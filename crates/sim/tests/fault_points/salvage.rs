//! The fault points of a salvage, each shown to be necessary.

use crate::{alone, salvaged};
use heap::{FaultPoint, disable_fault_point};
use std::panic::catch_unwind;

#[test]
fn a_salvage_stores_no_word_that_a_lost_record_may_have_changed() {
    let _alone = alone();
    let history = salvaged::a_lost_record_brings_no_older_word_back_into_a_salvaged_pool;
    history();
    salvaged::a_transaction_of_two_shards_is_salvaged_whole();
    let of_recovery = salvaged::a_record_that_a_recovery_has_retired_may_be_lost;
    of_recovery();
    let histories: [(FaultPoint, fn()); 4] = [
        (FaultPoint::FlushFenced, history),
        (FaultPoint::SkipRetired, history),
        (FaultPoint::SkipStored, history),
        (FaultPoint::FlushRecoveredFenced, of_recovery),
    ];
    for (point, history) in histories {
        disable_fault_point(Some(point));
        let done = catch_unwind(history);
        disable_fault_point(None);
        assert!(done.is_err(), "nothing depends on {point:?}");
    }
}
