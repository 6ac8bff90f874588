//! Whether the cluster is up, as this node sees it.
//!
//! It is down while a slot is not served (unless the settings say that this does not matter), and
//! while this node does not reach most of the primaries. A primary that comes back waits a while
//! before it takes writes again: others may have replaced it meanwhile.

use super::Machine;
use crate::flags::Flags;

/// How long a primary waits after its start.
const START_DELAY: u64 = 2000;
/// How long a primary waits at least, and at most, after it was in a minority.
const REJOIN_DELAY: std::ops::RangeInclusive<u64> = 500..=5000;

/// The state of the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    pub(super) is_up: bool,
    /// Whether this node may vote: it has been up long enough to know what happened.
    pub(super) may_vote: bool,
    /// When it was evaluated first.
    began: Option<u64>,
    /// When this node was in a minority last.
    minority_at: Option<u64>,
}

impl Machine {
    /// Evaluates the state of the cluster.
    pub(super) fn update_health(&mut self, now: u64) {
        self.todo.update_health = false;
        let began = *self.health.began.get_or_insert(now);
        let is_primary = self.topology.me().is_primary();
        if is_primary && !self.health.is_up && now - began < START_DELAY {
            self.health.may_vote = false;
            return;
        }
        self.health.may_vote = true;
        let mut is_up = !self.settings.requires_full_coverage || self.topology.is_covered();
        let voters = self.topology.nodes().filter(|node| self.topology.is_voter(node));
        let reached = voters.filter(|node| !node.is(Flags::FAIL.with(Flags::PFAIL))).count();
        if reached < self.topology.majority() {
            is_up = false;
            self.health.minority_at = Some(now);
        }
        let delay = self.settings.node_timeout.clamp(*REJOIN_DELAY.start(), *REJOIN_DELAY.end());
        let is_early = self.health.minority_at.is_some_and(|at| now - at < delay);
        if is_up && !self.health.is_up && is_primary && is_early {
            return;
        }
        self.health.is_up = is_up;
    }
}
