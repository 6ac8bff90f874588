//! The periodic part of a primary's work for its replicas.

use std::sync::Arc;
use std::time::Duration;

use commands::Hold;
use replication::Id;

use crate::config::Values;
use crate::process::machine;
use crate::replication::position::{self, OwnPlaceCare};
use crate::shared::Shared;

/// When this was done last.
#[derive(Default)]
pub(crate) struct ReplicaCare {
    pinged: Option<Duration>,
    /// Since when there are no replicas.
    alone_since: Option<Duration>,
    own_place: OwnPlaceCare,
}

impl ReplicaCare {
    /// Shows the replicas that their primary is alive, ends the stream when nobody has needed it
    /// for long, and refuses writes while there are too few replicas.
    pub(crate) fn tend(&mut self, shared: &Arc<Shared>, now: Duration) {
        let values = shared.config.values();
        require(shared, &values);
        let replication = shared.engine.replication();
        let stream = replication.stream();
        stream.set_limits(values.repl_backlog_size, shared.limits.replica().hard);
        if !replication.takes_effects() {
            self.alone_since = None;
            return;
        }
        self.own_place.tend(shared, &values, now);
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        if replication.replicas().count() > 0 {
            self.alone_since = None;
            let pinged = self.pinged.get_or_insert(now);
            // With a PING the end would be further away.
            let catches_up = replication.failover().has_deadline()
                || shared.engine.admin().holds_writes_for(Hold::Shutdown)
                || shared.engine.admin().holds_writes_for(Hold::Cluster);
            let is_due = now.saturating_sub(*pinged) >= seconds(values.repl_ping_replica_period);
            if is_due && !catches_up {
                *pinged = now;
                replication.append_free(replication::PING);
            }
            return;
        }
        self.pinged = None;
        let ttl = seconds(values.repl_backlog_ttl);
        let since = *self.alone_since.get_or_insert(now);
        if !ttl.is_zero() && now.saturating_sub(since) > ttl {
            let Ok(random) = machine::random() else { return };
            self.alone_since = None;
            stream.switch_off(Id::from_random(random));
            position::spawn_end(shared, |shared| !shared.engine.replication().stream().is_on());
            tracing::info!(
                "Replication backlog freed after {} seconds without connected replicas.",
                ttl.as_secs()
            );
        }
    }
}

/// Puts the directives into effect that say what a replica answers and what is kept for others.
pub(crate) fn restrict(shared: &Shared, values: &Values) {
    shared.engine.config().set_replicas_are_read_only(values.replica_read_only);
    let replication = shared.engine.replication();
    replication.set_serves_stale_data(values.replica_serve_stale_data);
    replication.stream().set_limits(values.repl_backlog_size, shared.limits.replica().hard);
}

/// Refuses writes while fewer replicas than `min-replicas-to-write` were heard during the last
/// `min-replicas-max-lag` seconds.
pub(crate) fn require(shared: &Shared, values: &Values) {
    let engine = &shared.engine;
    let (least, lag) = (values.min_replicas_to_write, values.min_replicas_max_lag);
    let counts = least > 0 && lag > 0 && !engine.replication().is_replica();
    let good = || engine.replication().replicas().good(lag, engine.clock().unix_ms());
    engine.config().set_lacks_replicas(counts && (good() as u64) < least);
}
