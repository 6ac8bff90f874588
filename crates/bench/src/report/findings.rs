//! Every comparison that the results allow, as a ratio that is above 1 if Perdura is better.
//!
//! No comparison is left out by choice. A pool is compared with every other system. A variant of
//! the pool, on an emulated medium or with a read cache, is also compared with the plain pool, and
//! a pool with a read cache with the same medium without one. A log, or plain memory, is compared
//! with the peers that promise the same durability on the same medium; a journal is compared with
//! Perdura's own logs too. Losses and wins come from the same list, and a ratio whose range
//! includes 1 is neither.

use super::ranges::written;
use crate::results::summary::Metric;
use crate::results::{Family, Results, System, Workload, WorkloadKind};
use crate::stats::Summary;
use crate::units::amount;

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Won,
    Lost,
    /// The range includes 1, or there was only one round, which decides nothing.
    Even,
}

/// A comparison.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The load and the metric.
    pub(crate) what: String,
    /// The index of Perdura's system among all systems; `theirs` is that of the other.
    pub(crate) ours: usize,
    pub(crate) theirs: usize,
    /// The ratio; above 1 if Perdura is better.
    pub(crate) ratio: Summary,
    /// Whether the generator limited the rate of either system: the true ratio is then farther from
    /// 1.
    pub(crate) saturated: bool,
}

impl Finding {
    pub(crate) fn verdict(&self) -> Verdict {
        if self.ratio.count < 2 {
            Verdict::Even
        } else if self.ratio.lowest > 1.0 {
            Verdict::Won
        } else if self.ratio.highest < 1.0 {
            Verdict::Lost
        } else {
            Verdict::Even
        }
    }

    /// Returns the ratio with its range, and a note if the generator was saturated.
    pub(crate) fn figure(&self) -> String {
        let note = if self.saturated { ", generator saturated" } else { "" };
        format!("{}{note}", written(&self.ratio))
    }
}

/// Returns all comparisons, in the order of systems and loads.
pub(crate) fn findings(results: &Results) -> Vec<Finding> {
    let mut found = Vec::new();
    for (ours, theirs) in pairs(&results.systems) {
        for workload in &results.workloads {
            let metrics = match workload.kind {
                WorkloadKind::Latency => [Metric::Mean, Metric::P99],
                _ => [Metric::Rate, Metric::ServerCpu],
            };
            for metric in metrics {
                found.extend(compare(results, workload, metric, ours, theirs));
            }
        }
        found.extend(recovery(results, ours, theirs));
    }
    found
}

/// Returns the pairs of systems that are compared: the indices of Perdura's system and of the
/// other.
fn pairs(systems: &[System]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (o, ours) in systems.iter().enumerate() {
        for (t, theirs) in systems.iter().enumerate() {
            let is_peer = matches!(theirs.family, Family::Redis | Family::Peer);
            let fits = match ours.family {
                Family::PerduraPmem => {
                    theirs.family != Family::PerduraPmem || is_variant(&ours.id, &theirs.id)
                }
                Family::PerduraJournal => {
                    (is_peer || theirs.family == Family::PerduraAof)
                        && theirs.durability == ours.durability
                        && theirs.place == ours.place
                }
                Family::PerduraAof | Family::PerduraVolatile => {
                    is_peer && theirs.durability == ours.durability && theirs.place == ours.place
                }
                Family::Redis | Family::Peer => false,
            };
            if fits {
                pairs.push((o, t));
            }
        }
    }
    pairs
}

/// Returns true if a pool is another pool with something added: an emulated medium or a read cache.
fn is_variant(ours: &str, theirs: &str) -> bool {
    let plain = ours.strip_suffix("-cache");
    ours != theirs && (theirs == "perdura-pmem" || plain == Some(theirs))
}

fn compare(
    results: &Results,
    workload: &Workload,
    metric: Metric,
    ours: usize,
    theirs: usize,
) -> Option<Finding> {
    let (our_id, their_id) = (&results.systems[ours].id, &results.systems[theirs].id);
    let Workload { id, title, .. } = workload;
    let is_rate = metric == Metric::Rate;
    // Of all but rates, the lower figure is the better one.
    let (over, under) = if is_rate { (our_id, their_id) } else { (their_id, our_id) };
    let ratio = results.ratio(id, over, under, metric)?;
    let name = match metric {
        Metric::Rate => "operations per second",
        Metric::ServerCpu => "server CPU per operation",
        Metric::Mean => "mean latency",
        Metric::P99 => "p99 latency",
    };
    let saturated =
        is_rate && (results.is_saturated(id, our_id) || results.is_saturated(id, their_id));
    let what = format!("{title}: {name}");
    let finite = ratio.median.is_finite() && ratio.median > 0.0;
    finite.then_some(Finding { what, ours, theirs, ratio, saturated })
}

fn recovery(results: &Results, ours: usize, theirs: usize) -> Vec<Finding> {
    let (our_id, their_id) = (&results.systems[ours].id, &results.systems[theirs].id);
    let of = |bytes: u64| {
        let ratio = results.restart_ratio(their_id, our_id, bytes)?;
        let what = format!("restart with {}: time to the first answer", amount(bytes));
        Some(Finding { what, ours, theirs, ratio, saturated: false })
    };
    results.recovered_sizes().into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::sample;

    fn with(lowest: f64, highest: f64) -> Verdict {
        let ratio = Summary { median: f64::midpoint(lowest, highest), lowest, highest, count: 3 };
        let what = String::new();
        Finding { what, ours: 0, theirs: 1, ratio, saturated: false }.verdict()
    }

    #[test]
    fn a_range_around_one_decides_nothing() {
        assert_eq!(with(1.1, 2.0), Verdict::Won);
        assert_eq!(with(0.5, 0.9), Verdict::Lost);
        assert_eq!(with(0.9, 1.1), Verdict::Even);
        assert_eq!(with(1.0, 1.5), Verdict::Even);
    }

    #[test]
    fn one_round_decides_nothing() {
        let mut results = sample();
        results.runs.retain(|run| run.round == 0);
        let found = findings(&results);
        let loads = found.iter().filter(|found| !found.what.starts_with("restart"));
        assert!(loads.clone().count() > 0);
        assert!(loads.into_iter().all(|found| found.verdict() == Verdict::Even));
    }

    #[test]
    fn a_pool_is_compared_with_all_and_a_log_with_its_like() {
        let sample = sample();
        let id = |n: usize| sample.systems[n].id.as_str();
        let found: Vec<_> =
            pairs(&sample.systems).into_iter().map(|(o, t)| (id(o), id(t))).collect();
        assert!(found.contains(&("perdura-pmem", "perdura-volatile")));
        assert!(found.contains(&("perdura-pmem", "redis-always")));
        assert!(found.contains(&("perdura-aof-always", "redis-always")));
        assert!(!found.contains(&("perdura-aof-everysec", "redis-always")));
        assert!(!found.iter().any(|(ours, _)| ours.starts_with("redis")));
    }

    #[test]
    fn a_cache_is_compared_with_the_same_pool_without_one() {
        assert!(is_variant("perdura-pmem-cxl-cache", "perdura-pmem-cxl"));
        assert!(is_variant("perdura-pmem-cxl-cache", "perdura-pmem"));
        assert!(!is_variant("perdura-pmem", "perdura-pmem-cache"));
        assert!(!is_variant("perdura-pmem-cxl", "perdura-pmem-optane"));
    }

    #[test]
    fn a_peer_that_is_made_faster_is_shown_as_faster() {
        let mut results = sample();
        let lost = |results: &Results| {
            let found = findings(results);
            let of = |f: &&Finding| {
                f.verdict() == Verdict::Lost
                    && f.what.ends_with("operations per second")
                    && results.systems[f.theirs].id == "redis-always"
                    && results.systems[f.ours].id == "perdura-pmem"
            };
            found.iter().filter(of).count()
        };
        let before = lost(&results);
        for run in results.runs.iter_mut().filter(|run| run.system == "redis-always") {
            run.operations *= 100;
        }
        assert!(lost(&results) > before);
        assert!(findings(&Results::default()).is_empty());
    }
}
