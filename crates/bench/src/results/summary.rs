//! Computes medians, spreads and ratios from the runs.
//!
//! Systems take turns, and a ratio is taken round by round, between two runs that were close
//! together in time; the median of the ratios is shown. A slowdown of the machine for a minute
//! affects both runs, whereas the ratio of two medians from different minutes would contain it.
//! Rounds in which only one of the two systems ran are left out.

use super::{Recovery, Results, Run, Workload};
use crate::stats::Summary;
use crate::units::amount;

/// The metrics of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Operations per second.
    Rate,
    /// Microseconds of the server's CPU time per operation.
    ServerCpu,
    /// Mean latency in microseconds.
    Mean,
    /// The 99th percentile of the latency in microseconds.
    P99,
}

impl Run {
    /// Operations per second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// Microseconds of the server's CPU time per operation.
    pub fn server_cpu(&self) -> f64 {
        self.server_cpu_seconds / self.operations as f64 * 1e6
    }

    /// Bytes written to the disk per operation; `None` if they were not counted.
    pub fn written(&self) -> Option<f64> {
        Some(self.written_bytes? as f64 / self.operations as f64)
    }

    /// Returns a metric of the run.
    pub fn metric(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Rate => self.rate(),
            Metric::ServerCpu => self.server_cpu(),
            Metric::Mean => self.latency.mean,
            Metric::P99 => self.latency.p99,
        }
    }
}

impl Results {
    /// Returns the runs of a workload on a system, in order.
    pub fn runs_of(&self, workload: &str, system: &str) -> impl Iterator<Item = &Run> {
        let of = move |run: &&Run| run.workload == workload && run.system == system;
        self.runs.iter().filter(of)
    }

    /// Returns a metric of a workload on a system over all rounds; `None` if it did not run.
    pub fn summary(&self, workload: &str, system: &str, metric: Metric) -> Option<Summary> {
        let figures: Vec<f64> =
            self.runs_of(workload, system).map(|run| run.metric(metric)).collect();
        Summary::of(&figures)
    }

    /// Returns the bytes that a system wrote to the disk per operation of a workload; `None` if
    /// they were not counted.
    pub fn written(&self, workload: &str, system: &str) -> Option<Summary> {
        let runs = self.runs_of(workload, system);
        Summary::of(&runs.filter_map(Run::written).collect::<Vec<_>>())
    }

    /// Returns the bytes of memory that a system reported per key of a workload; `None` if it was
    /// not filled, or in older results.
    pub fn memory(&self, workload: &Workload, system: &str) -> Option<Summary> {
        let each = |run: &Run| Some(run.data_bytes? as f64 / workload.keys as f64);
        Summary::of(&self.runs_of(&workload.id, system).filter_map(each).collect::<Vec<_>>())
    }

    /// Returns a metric of the system `over` divided by that of `under`, round by round; `None` if
    /// they have no round in common, or if a divisor is zero.
    pub fn ratio(
        &self,
        workload: &str,
        over: &str,
        under: &str,
        metric: Metric,
    ) -> Option<Summary> {
        let mut ratios = Vec::new();
        for run in self.runs_of(workload, over) {
            let mut others = self.runs_of(workload, under);
            let Some(other) = others.find(|other| other.round == run.round) else { continue };
            let divisor = other.metric(metric);
            if divisor == 0.0 {
                return None;
            }
            ratios.push(run.metric(metric) / divisor);
        }
        Summary::of(&ratios)
    }

    /// Returns true if the generator limited the rate in any run of a workload on a system.
    pub fn is_saturated(&self, workload: &str, system: &str) -> bool {
        self.runs_of(workload, system).any(|run| run.saturated)
    }

    /// Returns a figure over all restarts of a system with a data set of this size.
    pub fn restarts(
        &self,
        system: &str,
        target_bytes: u64,
        figure: impl Fn(&Recovery) -> Option<f64>,
    ) -> Option<Summary> {
        let of = self.recovery.iter();
        let of = of.filter(|row| row.system == system && row.target_bytes == target_bytes);
        Summary::of(&of.filter_map(figure).collect::<Vec<_>>())
    }

    /// Returns the time that `over` takes to its first answer, divided by that of `under`, with a
    /// data set of this size. Restarts are not paired: the range is that of all quotients.
    pub fn restart_ratio(&self, over: &str, under: &str, target_bytes: u64) -> Option<Summary> {
        let first_get = |system| self.restarts(system, target_bytes, |row| row.first_get_seconds);
        let slow = first_get(over)?;
        let fast = first_get(under).filter(|fast| fast.lowest > 0.0)?;
        Some(Summary {
            median: slow.median / fast.median,
            lowest: slow.lowest / fast.highest,
            highest: slow.highest / fast.lowest,
            count: slow.count.min(fast.count),
        })
    }

    /// Returns the sizes of the recovered data sets, in ascending order.
    pub fn recovered_sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.recovery.iter().map(|row| row.target_bytes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Returns the most important ratios: what the pool gains, and what it costs.
    pub fn key_ratios(&self) -> Vec<KeyRatio> {
        let mut rows = Vec::new();
        for (under, title) in
            [("perdura-aof-always", "AOF always"), ("perdura-aof-everysec", "AOF everysec")]
        {
            rows.push(KeyRatio {
                what: format!("write throughput, PMEM to {title}"),
                found: self.ratio("throughput-100", "perdura-pmem", under, Metric::Rate),
            });
            rows.push(KeyRatio {
                what: format!("mean write latency, {title} to PMEM"),
                found: self.ratio("latency-100", under, "perdura-pmem", Metric::Mean),
            });
        }
        rows.push(KeyRatio {
            what: "throughput of pure reads, PMEM to DRAM".into(),
            found: self.ratio("throughput-0", "perdura-pmem", "perdura-volatile", Metric::Rate),
        });
        // For the largest data set that both systems recovered.
        let of = |bytes| {
            let found = self.restart_ratio("perdura-aof-everysec", "perdura-pmem", bytes)?;
            Some((bytes, found))
        };
        if let Some((bytes, found)) = self.recovered_sizes().into_iter().filter_map(of).next_back()
        {
            let data = amount(bytes);
            rows.push(KeyRatio {
                what: format!("time to the first answer with {data}, AOF everysec to PMEM"),
                found: Some(found),
            });
        }
        rows
    }
}

/// A named ratio of two systems.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRatio {
    /// The metric and the two systems.
    pub what: String,
    /// The ratio; `None` if it was not measured.
    pub found: Option<Summary>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(system: &str, round: u32, operations: u64) -> Run {
        Run {
            workload: "throughput-100".into(),
            system: system.into(),
            round,
            seconds: 2.0,
            operations,
            server_cpu_seconds: 1.0,
            ..Run::default()
        }
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // A slow second round halves both: the ratio of medians would change, that of pairs does
        // not.
        let runs = vec![
            run("perdura-pmem", 0, 400),
            run("perdura-aof-always", 0, 200),
            run("perdura-aof-always", 1, 100),
            run("perdura-pmem", 1, 200),
            run("perdura-pmem", 2, 900),
        ];
        let results = Results { runs, ..Results::default() };
        let rate = |over, under| results.ratio("throughput-100", over, under, Metric::Rate);
        let found = rate("perdura-pmem", "perdura-aof-always").expect("two rounds have both");
        assert_eq!((found.median, found.lowest, found.highest, found.count), (2.0, 2.0, 2.0, 2));
        assert_eq!(rate("perdura-pmem", "redis-always"), None);
        let mut stopped = results.clone();
        stopped.runs[2].operations = 0;
        let rate = |over, under| stopped.ratio("throughput-100", over, under, Metric::Rate);
        assert_eq!(rate("perdura-pmem", "perdura-aof-always"), None);
        assert_eq!(results.key_ratios()[0].found, Some(found));
        let cpu = results.summary("throughput-100", "perdura-pmem", Metric::ServerCpu);
        assert_eq!(cpu.expect("three runs").median, 2500.0);
    }
}
