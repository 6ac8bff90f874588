//! Steps of background work, each contained: a panic in one ends that step, not the task, so that
//! expiry and freeing go on in the other shards and, at the next round, in this one.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a step of background work. A panic in it is logged, and the step counts as one that did
/// nothing: its changes are rolled back or its shard is poisoned, as after a panic of a command.
pub(crate) fn contained<R>(what: &str, step: impl FnOnce() -> R) -> Option<R> {
    let done = catch_unwind(AssertUnwindSafe(step));
    if done.is_err() {
        tracing::error!("Background work ({what}) panicked; it is tried again later");
    }
    done.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::resume_unwind;

    #[test]
    fn a_panic_in_background_work_ends_one_step_and_no_other() {
        let mut done = Vec::new();
        for round in 0..3 {
            for shard in 0..3 {
                let step = || match (round, shard) {
                    (1, 1) => resume_unwind(Box::new("a bug")),
                    _ => (round, shard),
                };
                done.extend(contained("a test", step));
            }
        }
        let all = (0..3).flat_map(|round| (0..3).map(move |shard| (round, shard)));
        assert!(done.into_iter().eq(all.filter(|at| *at != (1, 1))));
    }
}
