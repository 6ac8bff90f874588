//! The steps that keep a loss known until it is resolved, each shown to be needed.

use crate::{alone, crashes};
use heap::{Step, knock_out};
use std::panic::catch_unwind;

#[test]
fn a_loss_is_recorded_before_its_page_is_repaired_and_until_it_is_resolved() {
    let _alone = alone();
    for step in [Step::RecordLosses, Step::ReplayLosses, Step::ForgetResolved, Step::RecordStop] {
        knock_out(Some(step));
        let done =
            catch_unwind(|| crashes::a_loss_is_resolved_or_recorded_whenever_the_process_ends(37));
        knock_out(None);
        let caught = done.expect_err("nobody catches it");
        let says = caught.downcast_ref::<String>().expect("a violation in words");
        let expected = match step {
            Step::RecordStop => "stopped is false",
            _ => "Ok(None)",
        };
        assert!(says.ends_with(expected), "{step:?}: {says}");
    }
}
