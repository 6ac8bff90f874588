//! The figures of replication that INFO and the metrics both show, from the replicas, the stream
//! and the link.

use std::sync::atomic::Ordering::Relaxed;

use ::replication::{Replica, Stage};
use engine::Engine;
use engine::replication::LinkState;

/// A replica's link to its primary.
pub(super) struct Link {
    /// Whether the stream is received.
    pub(super) is_up: bool,
    /// Whether a dump is received.
    pub(super) is_syncing: bool,
    /// Seconds since the primary was heard.
    pub(super) heard_s: Option<u64>,
    /// Seconds since the link was lost; none while it is up, and if there never was one.
    pub(super) lost_s: Option<u64>,
    /// The offset up to which the stream was executed; none without a history, or with one that
    /// needs a dump to be the primary's.
    pub(super) executed: Option<u64>,
    /// The offset up to which the stream has arrived.
    pub(super) arrived: u64,
    /// Bytes of the dump that were loaded,
    pub(super) dump_loaded: u64,
    /// ... of so many; 0 if that is not known.
    pub(super) dump_total: u64,
}

impl Link {
    /// Returns the link as it is now.
    pub(super) fn of(engine: &Engine) -> Link {
        let (replication, facts) = (engine.replication(), engine.replication().facts());
        let now = engine.clock().unix_ms();
        let since = |ms: u64| (ms != 0).then(|| now.saturating_sub(ms) / 1000);
        let needs_dump = facts.needs_dump.load(Relaxed);
        let (is_up, end) = (replication.is_linked(), replication.stream().end());
        Link {
            is_up,
            is_syncing: replication.link_state() == LinkState::Sync,
            heard_s: since(facts.heard_ms.load(Relaxed)),
            lost_s: if is_up { None } else { since(facts.lost_ms.load(Relaxed)) },
            executed: (replication.stream().is_on() && !needs_dump).then_some(end),
            arrived: facts.read_to.load(Relaxed).max(end),
            dump_loaded: facts.dump_loaded.load(Relaxed),
            dump_total: facts.dump_total.load(Relaxed),
        }
    }
}

/// Returns how many seconds ago a replica was heard; 0 until it receives the stream.
pub(super) fn lag_s(replica: &Replica, now_ms: u64) -> u64 {
    match replica.stage() {
        Stage::Online => replica.lag_s(now_ms),
        Stage::WaitsForDump | Stage::ReceivesDump => 0,
    }
}

/// The replicas that a primary must have so that it takes writes, and those that count.
pub(super) struct MinReplicas {
    /// `min-replicas-to-write`.
    pub(super) needed: u64,
    /// Replicas that were heard within `min-replicas-max-lag`.
    pub(super) good: usize,
}

impl MinReplicas {
    /// Returns them, if both directives are set.
    pub(super) fn of(engine: &Engine) -> Option<MinReplicas> {
        let number = |name| String::from_utf8_lossy(&directive(engine, name)).parse::<u64>();
        let (needed, max_lag) =
            (number("min-replicas-to-write").ok()?, number("min-replicas-max-lag").ok()?);
        if needed == 0 || max_lag == 0 {
            return None;
        }
        let good = engine.replication().replicas().good(max_lag, engine.clock().unix_ms());
        Some(MinReplicas { needed, good })
    }
}

/// Returns the value of a directive; nothing if there is no server.
pub(super) fn directive(engine: &Engine, name: &str) -> Vec<u8> {
    let found = engine.host().map(|host| host.config_matching(&[name.as_bytes()]));
    found.and_then(|mut found| found.pop()).map(|(_, value)| value).unwrap_or_default()
}

/// Returns why writes are refused that this server should take. A replica takes its primary's, and
/// refuses those of clients, which is no fault.
pub fn why_no_writes(engine: &Engine) -> Option<String> {
    if !engine.config().is_read_only_replica() {
        return engine.full_store().why_no_writes();
    }
    Some(engine.config().writes_refused()).filter(|why| !why.is_empty())
}

/// The memory that replication takes, shared out as by Redis.
pub(super) struct ReplicaMemory {
    /// The bytes of the stream that are kept,
    pub(super) stream: u64,
    /// ... for replicas that come back,
    pub(super) backlog: u64,
    /// ... and besides for connected ones that are far behind, with what their connections take.
    pub(super) clients: u64,
}

impl ReplicaMemory {
    pub(super) fn of(engine: &Engine) -> ReplicaMemory {
        let replication = engine.replication();
        let stream = replication.stream().memory();
        let has_replicas = replication.replicas().count() > 0;
        let backlog =
            if has_replicas { replication.stream().backlog().min(stream) } else { stream };
        let clients = engine.clients().memory_of_replicas() as u64 + (stream - backlog);
        ReplicaMemory { stream, backlog, clients }
    }
}
