//! The smallest history that fails.
//!
//! Actions of the first incarnation are left out, in ever smaller pieces, as long as the rest still
//! fails. Any violation will do: a smaller history that shows another one is just as welcome.

use crate::explore::{Effort, without};
use crate::failure::Failure;
use crate::workload::Workload;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Returns a failure with fewer actions, as far as there is time to search for one.
pub(crate) fn smallest<W: Workload>(workload: &W, effort: Effort, mut failure: Failure) -> Failure {
    let (start, most) = (Instant::now(), Duration::from_secs(effort.shrink_seconds));
    let mut dropped = BTreeSet::new();
    let mut piece = effort.transactions.div_ceil(2);
    while piece > 0 {
        let mut at = effort.transactions;
        while at > 0 {
            if start.elapsed() >= most {
                return failure;
            }
            let from = at.saturating_sub(piece);
            let more: BTreeSet<usize> = dropped.iter().copied().chain(from..at).collect();
            at = from;
            if more.len() == dropped.len() {
                continue;
            }
            if let Err(smaller) = without(workload, Effort { until: None, ..effort }, &more) {
                (failure, dropped) = (smaller, more);
            }
        }
        piece /= 2;
    }
    failure
}
