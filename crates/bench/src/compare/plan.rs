//! What is measured in which order, and what is left out when time runs short.
//!
//! Systems take turns: within a round each workload sees all of them, one right after the other, and the order is another one
//! in each round, so that neither a slow minute nor a neighbour's traces in a cache always meet the same system. The first
//! round comes first of all and then, once, what the media can do and the recovery; further rounds use the time that is left.
//! So a limit, or an early end, costs repeats before it costs a picture.

use super::options::Options;
use crate::results;
use std::time::{Duration, Instant};

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// `quick`, `default` or `full`.
    pub(super) size: &'static str,
    /// Turns of each system with each workload.
    pub(super) rounds: u32,
    /// Seconds of a run.
    pub(super) seconds: f64,
    /// Systems; all when empty.
    pub(super) systems: Vec<String>,
    /// Workloads.
    pub(super) workloads: Vec<String>,
    /// Bytes of the data sets to recover.
    pub(super) recovery: Vec<u64>,
    /// How often each of them is recovered.
    pub(super) recovery_rounds: u32,
    /// For the device study.
    pub(super) device: Duration,
    /// For everything.
    pub(super) time_limit: Option<Duration>,
}

const MIB: u64 = 1 << 20;

impl Shape {
    /// What the options ask for.
    pub(super) fn of(options: &Options) -> Shape {
        let shape = if options.quick {
            Shape::quick()
        } else if options.full {
            Shape::full()
        } else {
            Shape::usual()
        };
        let given = |own: &[String], usual: Vec<String>| {
            if own.is_empty() { usual } else { own.to_vec() }
        };
        let recovery = options.recovery.clone().unwrap_or(shape.recovery);
        let none = options.workloads.iter().any(|name| name == "none");
        Shape {
            size: shape.size,
            rounds: options.rounds.unwrap_or(shape.rounds),
            seconds: options.seconds.unwrap_or(shape.seconds),
            systems: given(&options.systems, shape.systems),
            workloads: if none { Vec::new() } else { given(&options.workloads, shape.workloads) },
            recovery: recovery.into_iter().filter(|bytes| *bytes > 0).collect(),
            recovery_rounds: shape.recovery_rounds,
            device: if options.no_device { Duration::ZERO } else { shape.device },
            time_limit: options.time_limit.or(shape.time_limit),
        }
    }

    fn quick() -> Shape {
        let systems = [
            "perdura-pmem",
            "perdura-aof-always",
            "perdura-aof-everysec",
            "perdura-volatile",
            "redis",
        ];
        Shape {
            size: "quick",
            rounds: 3,
            seconds: 1.0,
            systems: systems.map(str::to_owned).to_vec(),
            workloads: ["throughput-0", "throughput-100", "latency-100"]
                .map(str::to_owned)
                .to_vec(),
            recovery: vec![100 * MIB],
            recovery_rounds: 1,
            device: Duration::from_secs(15),
            time_limit: Some(Duration::from_secs(170)),
        }
    }

    fn usual() -> Shape {
        Shape {
            size: "default",
            rounds: 5,
            seconds: 2.0,
            systems: Vec::new(),
            workloads: ["throughput", "latency"].map(str::to_owned).to_vec(),
            recovery: vec![100 * MIB, 1024 * MIB],
            recovery_rounds: 2,
            device: Duration::from_secs(240),
            time_limit: Some(Duration::from_secs(28 * 60)),
        }
    }

    fn full() -> Shape {
        let workloads = ["throughput", "latency", "small", "ycsb", "types"];
        Shape {
            size: "full",
            rounds: 7,
            seconds: 5.0,
            systems: Vec::new(),
            workloads: workloads.map(str::to_owned).to_vec(),
            recovery: vec![100 * MIB, 1024 * MIB, 4096 * MIB],
            recovery_rounds: 3,
            device: Duration::from_secs(900),
            time_limit: None,
        }
    }

    /// What the results say of it.
    pub(super) fn plan(&self, driver: &str) -> results::Plan {
        results::Plan {
            size: self.size.into(),
            rounds: self.rounds,
            seconds: self.seconds,
            driver: driver.into(),
            recovery: self.recovery.clone(),
            time_limit: self.time_limit.map(|limit| limit.as_secs_f64()),
        }
    }
}

/// A turn of a system with a workload, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) workload: usize,
    pub(super) system: usize,
}

/// The turns of a round.
pub(super) fn turns(round: u32, workloads: usize, systems: usize) -> Vec<Turn> {
    let mut turns = Vec::with_capacity(workloads * systems);
    for workload in 0..workloads {
        turns.extend(order(round, systems).map(|system| Turn { workload, system }));
    }
    turns
}

/// The systems in the order of a round: each round begins with another one, every second goes backwards, so that each has
/// each other one before it at some time.
pub(super) fn order(round: u32, systems: usize) -> impl Iterator<Item = usize> {
    let first = round as usize / 2;
    (0..systems).map(move |at| {
        let at = if round % 2 == 1 { systems - 1 - at } else { at };
        (at + first) % systems
    })
}

/// The time that is left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Instant,
    limit: Option<Duration>,
}

impl Clock {
    /// Starts now.
    pub(super) fn start(limit: Option<Duration>) -> Clock {
        Clock { began: Instant::now(), limit }
    }

    /// Time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Time until the limit; `None` without one.
    pub(super) fn left(&self) -> Option<Duration> {
        Some(self.limit?.saturating_sub(self.elapsed()))
    }

    /// Whether something that takes so long still ends within the limit.
    pub(super) fn allows(&self, estimate: Duration) -> bool {
        self.left().is_none_or(|left| left >= estimate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_system_has_its_turn_with_every_workload() {
        for round in 0..6 {
            let turns = turns(round, 3, 4);
            let all: HashSet<_> = turns.iter().map(|turn| (turn.workload, turn.system)).collect();
            assert_eq!((turns.len(), all.len()), (12, 12), "round {round}");
            // Turns with one workload follow each other.
            assert!(turns.is_sorted_by_key(|turn| turn.workload), "round {round}");
        }
    }

    #[test]
    fn the_order_changes_each_round() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| order(round, 4).collect()).collect();
        assert_eq!(orders[0], [0, 1, 2, 3]);
        assert_eq!(orders[1], [3, 2, 1, 0]);
        assert_eq!(orders[2], [1, 2, 3, 0]);
        assert_eq!(orders[3], [0, 3, 2, 1]);
    }

    #[test]
    fn a_limit_refuses_what_would_not_end_in_time() {
        let clock = Clock::start(Some(Duration::from_secs(100)));
        assert!(clock.allows(Duration::from_secs(50)));
        assert!(!clock.allows(Duration::from_secs(101)));
        assert!(Clock::start(None).allows(Duration::from_secs(1 << 40)));
        let over = Clock::start(Some(Duration::ZERO));
        assert!(!over.allows(Duration::from_millis(1)));
    }

    #[test]
    fn options_change_the_shape() {
        let quick = Shape::of(&Options { quick: true, ..Options::for_tests() });
        assert!(quick.time_limit.is_some_and(|limit| limit < Duration::from_secs(180)));
        let usual = Shape::of(&Options::for_tests());
        assert!(usual.time_limit.is_some_and(|limit| limit < Duration::from_secs(1800)));
        assert_eq!(usual.recovery, [100 << 20, 1 << 30]);
        let own = Options {
            rounds: Some(9),
            workloads: vec!["none".into()],
            recovery: Some(vec![0]),
            no_device: true,
            ..Options::for_tests()
        };
        let shape = Shape::of(&own);
        assert_eq!((shape.rounds, shape.device), (9, Duration::ZERO));
        assert!(shape.workloads.is_empty() && shape.recovery.is_empty());
    }
}
