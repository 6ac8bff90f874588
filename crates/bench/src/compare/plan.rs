//! How much is measured, how often, and in which order.
//!
//! Systems take turns: within a round, each group of workloads runs on all of them, one right after
//! the other, in an order that varies from round to round. So neither a slow minute nor a
//! neighbour's traces in a cache always hit the same system. In its turn, a system runs all
//! workloads of the group over the same data, with which it is filled once. Recovery and the media
//! follow the first round, so that everything has been measured once before anything is measured
//! again: a comparison that is interrupted later has all its parts.

use super::options::Options;
use crate::results::Plan;

/// The extent of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shape {
    /// The part that the results record.
    pub(super) plan: Plan,
    /// The names of the systems; all systems if empty.
    pub(super) systems: Vec<String>,
    /// The names of the workloads.
    pub(super) workloads: Vec<String>,
    /// How often each data set is recovered.
    pub(super) recovery_rounds: u32,
    /// Seconds of each row of the device study; `None` to leave it out.
    pub(super) device: Option<f64>,
}

const MIB: u64 = 1 << 20;

impl Shape {
    /// Returns the shape that the options ask for.
    pub(super) fn of(options: &Options) -> Shape {
        let mut shape = if options.quick {
            Shape::quick()
        } else if options.full {
            Shape::full()
        } else {
            Shape::usual()
        };
        let plan = &mut shape.plan;
        plan.same_server = options.same_server;
        if let Some(rounds) = options.rounds {
            plan.rounds = rounds;
            shape.recovery_rounds = shape.recovery_rounds.min(rounds);
        }
        if let Some(seconds) = options.seconds {
            plan.seconds = seconds;
        }
        if let Some(sizes) = &options.recovery {
            plan.recovery = sizes.iter().copied().filter(|bytes| *bytes > 0).collect();
        }
        if !options.systems.is_empty() {
            shape.systems.clone_from(&options.systems);
        }
        if options.workloads.iter().any(|name| name == "none") {
            shape.workloads.clear();
        } else if !options.workloads.is_empty() {
            shape.workloads.clone_from(&options.workloads);
        }
        if options.no_device {
            shape.device = None;
        }
        shape
    }

    /// A comparison of about half an hour.
    fn usual() -> Shape {
        let plan = Plan {
            size: "default".into(),
            rounds: 3,
            seconds: 2.0,
            driver: "builtin".into(),
            recovery: vec![100 * MIB, 1024 * MIB],
            same_server: false,
        };
        Shape {
            plan,
            systems: Vec::new(),
            workloads: ["throughput", "latency", "durable"].map(str::to_owned).to_vec(),
            recovery_rounds: 2,
            device: Some(0.2),
        }
    }

    /// A comparison of about three minutes.
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
        let plan = Plan {
            size: "quick".into(),
            seconds: 1.0,
            recovery: vec![32 * MIB],
            ..Shape::usual().plan
        };
        Shape {
            plan,
            systems: systems.map(str::to_owned).to_vec(),
            // Writes only: reads do not depend on how a system persists.
            workloads: ["throughput-100", "latency-100"].map(str::to_owned).to_vec(),
            recovery_rounds: 1,
            device: Some(0.05),
        }
    }

    /// A comparison of several hours.
    fn full() -> Shape {
        let workloads =
            ["throughput", "latency", "durable", "small", "ycsb", "types", "strings", "type"];
        let plan = Plan {
            size: "full".into(),
            rounds: 7,
            seconds: 5.0,
            recovery: vec![100 * MIB, 1024 * MIB, 4096 * MIB],
            ..Shape::usual().plan
        };
        Shape {
            plan,
            workloads: workloads.map(str::to_owned).to_vec(),
            recovery_rounds: 3,
            device: Some(1.0),
            ..Shape::usual()
        }
    }
}

/// Returns the order of the systems in a round: the first one moves on by one every two rounds, and
/// every second round runs backwards, so that no system always runs after the same one.
pub(super) fn order(round: u32, systems: usize) -> impl Iterator<Item = usize> {
    let first = round as usize / 2;
    (0..systems).map(move |at| {
        let at = if round % 2 == 1 { systems - 1 - at } else { at };
        (at + first) % systems
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_changes_each_round() {
        let orders: Vec<Vec<usize>> = (0..4).map(|round| order(round, 4).collect()).collect();
        assert_eq!(orders[0], [0, 1, 2, 3]);
        assert_eq!(orders[1], [3, 2, 1, 0]);
        assert_eq!(orders[2], [1, 2, 3, 0]);
        assert_eq!(orders[3], [0, 3, 2, 1]);
    }

    #[test]
    fn options_change_the_shape() {
        let usual = Shape::of(&Options::for_tests());
        assert_eq!((usual.plan.rounds, usual.plan.recovery), (3, vec![100 << 20, 1 << 30]));
        let own = Options {
            rounds: Some(1),
            workloads: vec!["none".into()],
            recovery: Some(vec![0]),
            no_device: true,
            ..Options::for_tests()
        };
        let shape = Shape::of(&own);
        assert_eq!((shape.plan.rounds, shape.recovery_rounds, shape.device), (1, 1, None));
        assert!(shape.workloads.is_empty() && shape.plan.recovery.is_empty());
    }
}
