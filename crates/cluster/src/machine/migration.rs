//! How a replica comes to a primary that has lost all of its own.
//!
//! Of the primaries with the most replicas, the replica with the smallest ID goes, if its primary
//! keeps enough. It waits until the other primary has been alone for a while: after a failover its
//! replicas need time to say whom they follow.

use super::{Machine, Moment};
use crate::flags::Flags;
use crate::id::Id;
use crate::topology::Node;

/// How long a primary must have been alone.
const ALONE_FOR: u64 = 5000;

impl Machine {
    fn working_replicas(&self, primary: Id) -> usize {
        self.topology.replicas_of(primary).filter(|replica| !replica.has_failed()).count()
    }

    /// Follows a primary without replicas, if this node is the one to go.
    pub(super) fn consider_migration(&mut self, moment: &Moment<'_>) {
        let me = self.topology.me();
        let Some(mine) = me.primary.filter(|_| me.is_replica()) else { return };
        let hidden = Flags::NO_ADDRESS.with(Flags::HANDSHAKE).with(Flags::FAIL);
        let is_primary = |node: &&Node| node.is_primary() && !node.is(hidden);
        let primaries: Vec<Id> =
            self.topology.nodes().filter(is_primary).map(|node| node.id).collect();
        let most = primaries.iter().map(|id| self.working_replicas(*id)).max().unwrap_or(0);
        let alone = self.note_orphans(&primaries, moment.now());
        if most < 2 || self.working_replicas(mine) != most {
            return;
        }
        if !self.settings.allows_replica_migration || !self.health.is_up {
            return;
        }
        let is_ok = |replica: &&Node| !replica.is(Flags::FAIL.with(Flags::PFAIL));
        let left = self.topology.replicas_of(mine).filter(is_ok).count();
        if left <= self.settings.migration_barrier {
            return;
        }
        let fullest = primaries.iter().filter(|id| self.working_replicas(**id) == most);
        let candidate = fullest.flat_map(|id| self.topology.replicas_of(*id)).map(|node| node.id);
        if candidate.min() == Some(self.topology.my_id())
            && let Some(target) = alone
        {
            self.follow(target, true, true);
            self.save_durably();
            self.todo.announce = true;
        }
    }

    /// Notes which primaries are alone. Returns the first that has been so long enough.
    fn note_orphans(&mut self, primaries: &[Id], now: u64) -> Option<Id> {
        let mut alone = None;
        for id in primaries {
            let has_slots = self.topology.slot_count(*id) > 0;
            let is_bare = self.working_replicas(*id) == 0;
            let node = self.topology.node_mut(*id)?;
            if !is_bare || !node.is(Flags::MIGRATE_TO) {
                node.contact.orphaned_since = None;
                continue;
            }
            let since = *node.contact.orphaned_since.get_or_insert(now);
            if has_slots && alone.is_none() && now.saturating_sub(since) > ALONE_FOR {
                alone = Some(*id);
            }
        }
        alone
    }
}
