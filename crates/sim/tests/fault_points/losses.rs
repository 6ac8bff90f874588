//! The fault points of the resolution of a loss, each shown to be necessary.

use crate::{alone, crashes};
use heap::{FaultPoint, disable_fault_point};
use std::panic::catch_unwind;

#[test]
fn a_loss_is_recorded_before_its_page_is_repaired_and_until_it_is_resolved() {
    let _alone = alone();
    for point in [
        FaultPoint::RecordLosses,
        FaultPoint::ReplayLosses,
        FaultPoint::ForgetResolved,
        FaultPoint::RecordStop,
    ] {
        disable_fault_point(Some(point));
        let done =
            catch_unwind(|| crashes::a_loss_is_resolved_or_recorded_whenever_the_process_ends(37));
        disable_fault_point(None);
        let caught = done.expect_err("nobody catches it");
        let says = caught.downcast_ref::<String>().expect("a violation in words");
        let expected = match point {
            FaultPoint::RecordStop => "stopped is false",
            _ => "Ok(None)",
        };
        assert!(says.ends_with(expected), "{point:?}: {says}");
    }
}

#[test]
fn a_log_that_lost_its_newest_record_is_opened_again() {
    let _alone = alone();
    let history = crashes::a_log_that_lost_its_newest_record_is_opened_again;
    history();
    disable_fault_point(Some(FaultPoint::RenewLog));
    let done = catch_unwind(history);
    disable_fault_point(None);
    assert!(done.is_err(), "nothing depends on RenewLog");
}
