//! What is measured in which order, and what is left out when time runs short.
//!
//! Systems take turns: within a round each group of workloads sees all of them, one right after the
//! other, and the order is another one in each round, so that neither a slow minute nor a
//! neighbour's traces in a cache always meet the same system. In its turn a system does all
//! workloads of the group that find the same data, which it is filled with once.
//!
//! A limit of time cuts whole *stages*, never systems: a stage is a round, or the recovery of one
//! size by all systems. The first round comes first, then recovery and media, once, and further
//! rounds use the time that is left. Time for [`FEWEST`] rounds is set aside before anything else
//! may repeat, and where a limit has no space for this many, runs are shorter ([`Shape::fit`]):
//! three short rounds say more than a long one, which has no spread.

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

/// Rounds from which a median and a spread say something.
pub(super) const FEWEST: u32 = 3;

/// The shortest run that a limit of time may lead to, in seconds.
const SHORTEST: f64 = 0.5;

/// The part of a limit that is given away beforehand; estimates are not exact.
const PLANNED: f64 = 0.9;

impl Shape {
    /// Returns what the options ask for.
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
            "perdura-journal-always",
            "perdura-journal-everysec",
            "perdura-journal-tail",
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
            // Writes alone: reads are the same whatever persists.
            workloads: ["throughput-100", "latency-100"].map(str::to_owned).to_vec(),
            recovery: vec![32 * MIB],
            recovery_rounds: 1,
            device: Duration::from_secs(8),
            time_limit: Some(Duration::from_secs(170)),
        }
    }

    fn usual() -> Shape {
        Shape {
            size: "default",
            rounds: 7,
            seconds: 2.0,
            systems: Vec::new(),
            workloads: ["throughput", "latency", "durable"].map(str::to_owned).to_vec(),
            recovery: vec![100 * MIB, 1024 * MIB],
            recovery_rounds: 3,
            device: Duration::from_secs(150),
            time_limit: Some(Duration::from_secs(28 * 60)),
        }
    }

    fn full() -> Shape {
        let workloads = ["throughput", "latency", "durable", "small", "ycsb", "types"];
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

    /// Shortens runs where a limit of time would not leave [`FEWEST`] rounds otherwise. `overhead`
    /// and `runs` are those of one round: what starting and filling takes, and how many runs there
    /// are. `recovery` is the time of recovering all sizes once.
    pub(super) fn fit(&mut self, overhead: Duration, runs: usize, recovery: Duration) {
        let Some(limit) = self.time_limit else { return };
        let others = recovery.as_secs_f64() + self.device.as_secs_f64();
        let time_left = limit.as_secs_f64() * PLANNED - others;
        let round = time_left / f64::from(self.rounds.clamp(1, FEWEST)) - overhead.as_secs_f64();
        let most = (round / runs.max(1) as f64).max(SHORTEST);
        self.seconds = self.seconds.min(most);
    }

    /// Returns the stages in their order.
    pub(super) fn stages(&self) -> Vec<Stage> {
        let recover = |round| {
            let wanted = round < self.recovery_rounds;
            self.recovery
                .iter()
                .filter(move |_| wanted)
                .map(move |&bytes| Stage::Recovery { round, bytes })
        };
        let mut stages = vec![Stage::Load(0)];
        stages.extend(recover(0));
        stages.push(Stage::Media);
        // Two rounds for each further recovery.
        let mut recovered = 1;
        for round in 1..self.rounds {
            stages.push(Stage::Load(round));
            if round % 2 == 0 {
                stages.extend(recover(recovered));
                recovered += 1;
            }
        }
        stages.extend((recovered..self.recovery_rounds).flat_map(recover));
        stages
    }

    /// Returns what the results say of it.
    pub(super) fn plan(&self) -> results::Plan {
        results::Plan {
            size: self.size.into(),
            rounds: self.rounds,
            seconds: self.seconds,
            driver: "builtin".into(),
            recovery: self.recovery.clone(),
            time_limit: self.time_limit.map(|limit| limit.as_secs_f64()),
        }
    }
}

/// What is measured, or left out, as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// A round, from 0: every system with every workload.
    Load(u32),
    /// A data set of this many bytes, recovered by every system.
    Recovery {
        /// From 0.
        round: u32,
        /// The size of the data set.
        bytes: u64,
    },
    /// What the media can do.
    Media,
}

/// A turn of a system with a group of workloads, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) group: usize,
    pub(super) system: usize,
}

/// Returns the turns of a round.
pub(super) fn turns(round: u32, groups: usize, systems: usize) -> Vec<Turn> {
    let mut turns = Vec::with_capacity(groups * systems);
    for group in 0..groups {
        turns.extend(order(round, systems).map(|system| Turn { group, system }));
    }
    turns
}

/// Returns the systems in the order of a round: each round begins with another one, every second
/// goes backwards, so that each has each other one before it at some time.
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

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Returns the time until the limit; `None` without one.
    pub(super) fn left(&self) -> Option<Duration> {
        Some(self.limit?.saturating_sub(self.elapsed()))
    }

    /// Returns true if something that takes so long still ends within the limit.
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
            let all: HashSet<_> = turns.iter().map(|turn| (turn.group, turn.system)).collect();
            assert_eq!((turns.len(), all.len()), (12, 12), "round {round}");
            // Turns with one group follow each other.
            assert!(turns.is_sorted_by_key(|turn| turn.group), "round {round}");
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
    fn everything_comes_once_before_anything_comes_a_fourth_time() {
        let shape = Shape::of(&Options::for_tests());
        let stages = shape.stages();
        let of = |wanted: fn(&Stage) -> bool| stages.iter().filter(|stage| wanted(stage)).count();
        assert_eq!(of(|stage| matches!(stage, Stage::Load(_))), shape.rounds as usize);
        let restarts = shape.recovery.len() * shape.recovery_rounds as usize;
        assert_eq!(of(|stage| matches!(stage, Stage::Recovery { .. })), restarts);
        assert_eq!(of(|stage| *stage == Stage::Media), 1);
        let media = stages.iter().position(|stage| *stage == Stage::Media);
        let fourth = stages.iter().position(|stage| *stage == Stage::Load(FEWEST));
        assert!(media < fourth, "{stages:?}");
    }

    #[test]
    fn a_limit_shortens_runs_before_it_costs_the_third_round() {
        let round = |shape: &Shape| 60.0 + 64.0 * shape.seconds;
        let fit = |limit: u64| {
            let mut shape = Shape::of(&Options {
                time_limit: Some(Duration::from_secs(limit)),
                no_device: true,
                ..Options::for_tests()
            });
            shape.fit(Duration::from_secs(60), 64, Duration::from_secs(300));
            shape
        };
        assert_eq!(fit(3600).seconds, 2.0, "there is room");
        let tight = fit(800);
        assert!(tight.seconds < 2.0 && tight.seconds > SHORTEST, "{}", tight.seconds);
        let takes = 300.0 + f64::from(FEWEST) * round(&tight);
        assert!((takes - 800.0 * PLANNED).abs() < 1.0, "{takes}");
        assert_eq!(fit(10).seconds, SHORTEST, "no run is without any length");
    }

    #[test]
    fn a_quick_comparison_has_time_for_its_rounds_of_ten_systems() {
        let mut shape = Shape::of(&Options { quick: true, ..Options::for_tests() });
        // Two of the names are those of two systems each.
        let systems = shape.systems.len() + 2;
        let runs = systems * shape.workloads.len();
        let around = Duration::from_secs(1) * systems as u32;
        let bytes = shape.recovery.iter().sum::<u64>() * systems as u64;
        shape.fit(around, runs, Duration::from_secs(bytes / (60 << 20)));
        assert!(shape.seconds > SHORTEST, "{}", shape.seconds);
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
