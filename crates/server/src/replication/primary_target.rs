//! The primary that this server is to follow. The thread of [the
//! link](crate::replication::primary_link) obeys.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use commands::Primary;
use replication::Id;

use crate::apply;
use crate::config::choice::OomScoreAdj;
use crate::process::machine;
use crate::replication::replicas;
use crate::shared::Shared;

/// The server that this one is to follow.
#[derive(Default)]
pub(crate) struct PrimaryTarget {
    target: Mutex<Target>,
    changed: Condvar,
    /// How many commands hold the link up.
    holders: AtomicUsize,
}

/// A target.
#[derive(Clone, Default)]
pub(crate) struct Target {
    /// The primary; none if this server is one itself.
    pub(crate) primary: Option<Primary>,
    /// Counts the changes.
    pub(crate) number: u64,
}

impl PrimaryTarget {
    fn target(&self) -> MutexGuard<'_, Target> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the present target.
    pub(crate) fn get(&self) -> Target {
        self.target().clone()
    }

    /// Returns true if this is still the target.
    pub(crate) fn is(&self, number: u64) -> bool {
        self.target().number == number
    }

    /// Runs `step` if this is still the target, while it cannot change.
    pub(crate) fn while_current<R>(&self, number: u64, step: impl FnOnce() -> R) -> Option<R> {
        let target = self.target();
        (target.number == number).then(step)
    }

    /// Runs a step during which no link begins: DEBUG SLEEP, by which tests stop a server.
    pub(crate) fn hold_up(&self, step: impl FnOnce()) {
        self.holders.fetch_add(1, Relaxed);
        step();
        self.holders.fetch_sub(1, Relaxed);
    }

    /// Returns true while no link is to begin.
    pub(crate) fn is_held_up(&self) -> bool {
        self.holders.load(Relaxed) > 0
    }

    /// Waits until the target is another one, but not for long.
    pub(crate) fn wait(&self, number: u64, time: Duration) {
        let same = |target: &mut Target| target.number == number;
        drop(self.changed.wait_timeout_while(self.target(), time, same));
    }

    /// Follows a primary, or nobody: then this server continues the history as a primary itself.
    pub(crate) fn follow(&self, shared: &Shared, primary: Option<Primary>) -> std::io::Result<()> {
        let next = Id::from_random(machine::random()?);
        let mut target = self.target();
        if target.primary == primary {
            return Ok(());
        }
        let stream = shared.engine.replication().stream();
        match &primary {
            Some(Primary { host, port }) => tracing::info!("REPLICAOF {host}:{port} enabled"),
            None => tracing::info!("MASTER MODE enabled"),
        }
        // What the link has in hand belongs to an older history from here on.
        let history = shared.engine.replication().hold_history();
        match &primary {
            Some(_) => {}
            None if stream.is_on() => {
                stream.rename(next);
                stream.forget_database();
            }
            None => stream.switch_off(next),
        }
        drop(history);
        *target = Target { primary: primary.clone(), number: target.number + 1 };
        // Of a node of a cluster its own file says what it follows.
        if !shared.config.values().cluster_enabled {
            shared.config.set_primary(primary.as_ref());
        }
        shared.engine.follow(primary);
        let values = shared.config.values();
        replicas::require(shared, &values);
        if values.oom_score_adj != OomScoreAdj::No {
            // A failure is logged.
            let _ = apply::oom_score(shared, &values);
        }
        drop(target);
        self.changed.notify_all();
        Ok(())
    }

    /// Follows the primary that the configuration names, before any client is served.
    pub(crate) fn follow_configured(&self, shared: &Shared) -> std::io::Result<()> {
        let text = shared.config.values().replicaof.to_text();
        let Some((host, port)) = text.split_once(' ') else { return Ok(()) };
        let port = port.parse().unwrap_or(0);
        self.follow(shared, Some(Primary { host: host.to_owned(), port }))
    }
}
