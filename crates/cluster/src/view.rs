//! What clients of a node get to see of the cluster: its nodes and slots at one moment.
//!
//! The machine changes with every message; a view is made when something changes that decides where
//! a request belongs, and many threads read it meanwhile. What most requests ask, whether a slot is
//! served here without a doubt, is one bit.

use crate::machine::Machine;
use crate::slot::SlotSet;
use crate::topology::Topology;
use crate::topology::route::{Endpoint, Health, Presence, Request, Route};

/// The settings by an administrator that replies to clients depend on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Policy {
    /// Clients may read while the cluster is down (`cluster-allow-reads-when-down`).
    pub allows_reads: bool,
    /// Clients may publish to shard channels while the cluster is down
    /// (`cluster-allow-pubsubshard-when-down`).
    pub allows_pubsub: bool,
    /// The kind of address that names a node (`cluster-preferred-endpoint-type`).
    pub endpoint: Endpoint,
}

/// The nodes and slots of a cluster at one moment.
#[derive(Clone, Debug)]
pub struct View {
    topology: Topology,
    health: Health,
    endpoint: Endpoint,
    /// The slots of which every request belongs here.
    served: SlotSet,
}

impl View {
    /// Returns the view of a node as it is now.
    pub fn of(machine: &Machine, policy: Policy) -> View {
        let topology = machine.topology().clone();
        let health = Health {
            is_up: machine.is_up(),
            allows_reads: policy.allows_reads,
            allows_pubsub: policy.allows_pubsub,
        };
        let served = match health.is_up && topology.me().is_primary() {
            true => topology.closed_slots(),
            false => SlotSet::new(),
        };
        View { topology, health, endpoint: policy.endpoint, served }
    }

    /// Returns the same view of a cluster that is down.
    pub fn down(&self) -> View {
        let health = Health { is_up: false, ..self.health };
        View { health, served: SlotSet::new(), ..self.clone() }
    }

    /// Returns true if keys of a slot may be here: this node or its primary has it, or imports it.
    pub fn may_hold(&self, slot: u16) -> bool {
        self.is_of_my_shard(slot) || self.topology.importing_from(slot).is_some()
    }

    /// Returns true if every request for a slot belongs here.
    #[inline]
    pub fn serves(&self, slot: u16) -> bool {
        self.served.has(slot)
    }

    /// Returns the slots that this node or its primary has.
    pub fn slots_of_my_shard(&self) -> SlotSet {
        self.topology.slots_of(self.topology.my_primary()).clone()
    }

    /// Returns true if this node or its primary has a slot.
    pub fn is_of_my_shard(&self, slot: u16) -> bool {
        let owner = self.topology.owner(slot);
        owner.is_some_and(|owner| owner.id == self.topology.my_primary())
    }

    /// Returns the nodes and slots.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns what nodes are named by.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
    }

    /// Returns where a request belongs. Which of its keys are here is asked if its slot is open.
    pub fn route(&self, request: Request, presence: impl FnOnce() -> Presence) -> Route<'_> {
        self.topology.route(request, self.health, presence)
    }
}
