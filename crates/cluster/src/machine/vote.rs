//! Whom a primary gives its vote.
//!
//! It votes once in an epoch, for a replica whose primary has failed (or that was told to replace
//! it), and that knows all owners of the slots it asks for. The epoch of the vote is saved durably
//! before the vote is sent.

use super::{Machine, Moment};
use crate::id::Id;
use crate::message::{Body, Header};

impl Machine {
    /// Votes for a replica that asks for it, if it may.
    pub(super) fn consider_vote(&mut self, sender: Id, header: &Header, moment: &Moment<'_>) {
        let topology = &self.topology;
        if !topology.is_voter(topology.me()) || !self.health.may_vote {
            return;
        }
        let epoch = topology.current_epoch;
        if header.current_epoch < epoch || topology.last_vote_epoch == epoch {
            return;
        }
        let Some(candidate) = topology.node(sender).filter(|node| !node.is_primary()) else {
            return;
        };
        let primary = candidate.primary.and_then(|primary| topology.node(primary));
        if !primary.is_some_and(|primary| primary.has_failed() || header.forces_vote) {
            return;
        }
        let owners = header.slots.iter().filter(|slot| !topology.is_free(*slot));
        let mut owners = owners.filter_map(|slot| topology.owner(slot));
        let newer = owners.find(|owner| owner.config_epoch > header.config_epoch);
        if let Some(owner) = newer.map(|owner| owner.id) {
            // Once it knows it can ask again.
            self.send_update(sender, owner, moment);
            return;
        }
        self.topology.last_vote_epoch = epoch;
        self.save_durably();
        self.send_to(sender, Body::Vote, moment);
    }
}
