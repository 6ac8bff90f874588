//! How the three servers persist, and how many replicas must have what a reply shows.

use testkit::Launch;

/// The replicas that replies wait for, and the one that is promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quorum {
    /// Both of two: any of them may be promoted, also while the old primary lives on.
    All,
    /// One of two: the one that has most is promoted when the primary is gone.
    One,
    /// A canary: replies wait for none.
    None,
    /// A canary: replies wait for one, and the other one is promoted.
    OneAndBehind,
}

/// A way to run three servers.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    launch: fn() -> Launch,
    pub(super) quorum: Quorum,
    /// What was acknowledged is there again after kill -9 of the primary alone.
    pub(super) is_durable: bool,
    /// A primary that was killed comes back, and its replicas continue: nobody takes its place.
    pub(super) returns: bool,
}

const fn durable(name: &'static str, launch: fn() -> Launch, quorum: Quorum) -> Scenario {
    Scenario { name, launch, quorum, is_durable: true, returns: false }
}

const fn returning(name: &'static str, launch: fn() -> Launch) -> Scenario {
    Scenario { name, launch, quorum: Quorum::All, is_durable: true, returns: true }
}

const fn volatile(name: &'static str, quorum: Quorum) -> Scenario {
    let launch = Launch::perdura_volatile;
    Scenario { name, launch, quorum, is_durable: false, returns: false }
}

fn journal() -> Launch {
    Launch::perdura_journal("everysec")
}

/// Replies wait until the replicas have synced, too.
fn journal_durable() -> Launch {
    Launch::perdura_journal("always").args(["--repl-acknowledge-durable", "yes"])
}

/// The end of the stream is in a ring beside the pool.
fn with_ring(launch: Launch) -> Launch {
    launch.args(["--repl-durable-size", "2mb"])
}

pub(super) const SCENARIOS: &[Scenario] = &[
    durable("replicas journal all", journal, Quorum::All),
    durable("replicas journal one", journal, Quorum::One),
    durable("replicas journal durable all", journal_durable, Quorum::All),
    durable("replicas pmem clwb all", Launch::perdura_emulated, Quorum::All),
    durable("replicas pmem clwb one", Launch::perdura_emulated, Quorum::One),
    returning("replicas journal returns", || with_ring(journal())),
    returning("replicas pmem process returns", || with_ring(Launch::perdura_pmem())),
    returning("replicas pmem clwb returns", || with_ring(Launch::perdura_emulated())),
    durable("replicas aof all", || Launch::perdura_aof("everysec"), Quorum::All),
    volatile("replicas memory all", Quorum::All),
    volatile("replicas memory one", Quorum::One),
    volatile("replicas canary none", Quorum::None),
    volatile("replicas canary behind", Quorum::OneAndBehind),
];

impl Scenario {
    /// Returns how to start a server that others reach at `link`, as a replica of what is behind
    /// the port `follows`.
    pub(super) fn launch(&self, link: u16, follows: Option<u16>) -> Launch {
        let quorum = match self.quorum {
            Quorum::All => "2",
            Quorum::One | Quorum::OneAndBehind => "1",
            Quorum::None => "0",
        };
        let port = link.to_string();
        let launch = (self.launch)().args(["--repl-acknowledge", quorum]);
        let launch = launch.args(["--replica-announce-port", &port, "--repl-timeout", "10"]);
        let launch = launch.args(["--repl-ping-replica-period", "1", "--shutdown-timeout", "2"]);
        let launch = launch.args(["--enable-debug-command", "yes"]);
        match follows {
            Some(primary) => launch.args(["--replicaof", &format!("127.0.0.1 {primary}")]),
            None => launch,
        }
    }

    /// Returns true if an acknowledged write must get lost.
    pub(super) fn is_canary(&self) -> bool {
        matches!(self.quorum, Quorum::None | Quorum::OneAndBehind)
    }
}
