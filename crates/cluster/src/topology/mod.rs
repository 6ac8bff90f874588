//! The nodes of a cluster and the owners of its slots, as one node sees them.
//!
//! Everything that clients and tools ask for is answered from here: [`describe`] writes and reads
//! `nodes.conf` and what CLUSTER NODES replies, [`route`] decides where a request belongs.
//!
//! Invariants: this node is always among the nodes; a slot's owner is a known node; a node that is
//! removed takes its slots, migrations and failure reports with it.

pub mod describe;
mod node;
mod owners;
pub mod route;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use node::{Announced, Contact, LinkId, Node, NodePorts};
use owners::Owners;

use crate::flags::Flags;
use crate::id::Id;
use crate::slot::{SLOTS, SlotSet};

/// The nodes and slots of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    me: Id,
    nodes: BTreeMap<Id, Node>,
    owners: Owners,
    /// The slots that this node gives to others.
    migrating: BTreeMap<u16, Id>,
    /// The slots that this node takes from others.
    importing: BTreeMap<u16, Id>,
    /// Slots that their owner does not claim any more, though nobody else has claimed them yet.
    /// Others are not told that they are its.
    unclaimed: SlotSet,
    /// The highest epoch that was seen.
    pub(crate) current_epoch: u64,
    /// The epoch of the last vote.
    pub(crate) last_vote_epoch: u64,
}

impl Topology {
    /// Makes the cluster of a new node, which knows no other.
    pub fn new(now: u64, random: &mut fastrand::Rng) -> Topology {
        let me = Id::random(random);
        let node = Node::new(me, Flags::MYSELF.with(Flags::PRIMARY), now, random);
        Topology::of(node)
    }

    fn of(me: Node) -> Topology {
        Topology {
            me: me.id,
            nodes: BTreeMap::from([(me.id, me)]),
            owners: Owners::new(),
            migrating: BTreeMap::new(),
            importing: BTreeMap::new(),
            unclaimed: SlotSet::new(),
            current_epoch: 0,
            last_vote_epoch: 0,
        }
    }

    /// Returns the ID of this node.
    pub fn my_id(&self) -> Id {
        self.me
    }

    /// Returns this node.
    pub fn me(&self) -> &Node {
        self.nodes.get(&self.me).expect("this node is always known")
    }

    pub(crate) fn me_mut(&mut self) -> &mut Node {
        self.nodes.get_mut(&self.me).expect("this node is always known")
    }

    /// Returns a node.
    pub fn node(&self, id: Id) -> Option<&Node> {
        self.nodes.get(&id)
    }

    pub(crate) fn node_mut(&mut self, id: Id) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    /// Returns all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.values()
    }

    /// Returns the number of nodes, this one and those in handshake included.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns false: this node is always known.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn ids(&self) -> Vec<Id> {
        self.nodes.keys().copied().collect()
    }

    /// Returns the highest epoch that was seen.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// Returns the epoch of the last vote.
    pub fn last_vote_epoch(&self) -> u64 {
        self.last_vote_epoch
    }

    /// Returns the owner of a slot.
    pub fn owner(&self, slot: u16) -> Option<&Node> {
        self.nodes.get(&self.owners.owner(slot)?)
    }

    pub(crate) fn owner_id(&self, slot: u16) -> Option<Id> {
        self.owners.owner(slot)
    }

    /// Returns the slots of a node.
    pub fn slots_of(&self, node: Id) -> &SlotSet {
        self.owners.of(node)
    }

    /// Returns the number of slots of a node.
    pub fn slot_count(&self, node: Id) -> usize {
        self.owners.count(node)
    }

    /// Returns the number of slots that have an owner.
    pub fn assigned_slots(&self) -> usize {
        self.owners.assigned()
    }

    /// Returns the node that a slot migrates to.
    pub fn migrating_to(&self, slot: u16) -> Option<Id> {
        self.migrating.get(&slot).copied()
    }

    /// Returns the node that a slot is imported from.
    pub fn importing_from(&self, slot: u16) -> Option<Id> {
        self.importing.get(&slot).copied()
    }

    /// Returns the ID of the primary whose data this node has: its own if it is one.
    pub fn my_primary(&self) -> Id {
        let me = self.me();
        if me.is_primary() { me.id } else { me.primary.unwrap_or(me.id) }
    }

    /// Returns the replicas of a node.
    pub fn replicas_of(&self, primary: Id) -> impl Iterator<Item = &Node> {
        self.nodes.values().filter(move |node| node.primary == Some(primary))
    }

    /// Returns true if a node may vote: it is a primary with slots.
    pub fn is_voter(&self, node: &Node) -> bool {
        node.is_primary() && self.owners.count(node.id) > 0
    }

    /// Returns the number of nodes that may vote.
    pub fn size(&self) -> usize {
        self.nodes.values().filter(|node| self.is_voter(node)).count()
    }

    /// Returns the number of votes that decide.
    pub fn majority(&self) -> usize {
        self.size() / 2 + 1
    }

    /// Returns the epoch of a node's slots; of its primary's slots if it is a replica.
    pub fn epoch_of(&self, node: &Node) -> u64 {
        let primary = node.primary.and_then(|primary| self.nodes.get(&primary));
        primary.map_or(node.config_epoch, |primary| primary.config_epoch)
    }

    /// Returns the highest epoch that any node has.
    pub(crate) fn highest_epoch(&self) -> u64 {
        let epochs = self.nodes.values().map(|node| node.config_epoch);
        epochs.max().unwrap_or(0).max(self.current_epoch)
    }

    pub(crate) fn are_in_one_shard(&self, one: Id, other: Id) -> bool {
        let shard = |id| self.nodes.get(&id).map(|node| node.shard);
        shard(one).is_some() && shard(one) == shard(other)
    }

    pub(crate) fn add(&mut self, node: Node) {
        self.nodes.entry(node.id).or_insert(node);
    }

    /// Removes a node and everything that refers to it. This node stays.
    pub(crate) fn remove(&mut self, id: Id) -> Option<Node> {
        if id == self.me {
            return None;
        }
        let node = self.nodes.remove(&id)?;
        self.owners.move_all(id, None);
        self.migrating.retain(|_, to| *to != id);
        self.importing.retain(|_, from| *from != id);
        for other in self.nodes.values_mut() {
            other.contact.reports.remove(&id);
            if other.primary == Some(id) && other.id != self.me {
                other.primary = None;
            }
        }
        if let Some(primary) = node.primary {
            self.replica_left(primary);
        }
        Some(node)
    }

    /// Gives a node the ID that it really has.
    pub(crate) fn rename(&mut self, from: Id, to: Id) {
        if let Some(mut node) = self.nodes.remove(&from) {
            node.id = to;
            self.nodes.insert(to, node);
            self.owners.rename(from, to);
            if self.me == from {
                self.me = to;
            }
        }
    }

    /// Gives a slot to a node, or to none.
    pub(crate) fn assign(&mut self, slot: u16, node: Option<Id>) {
        self.unclaimed.remove(slot);
        self.owners.assign(slot, node);
        let Some(id) = node else { return };
        // A primary that gets its first slot wants replicas if others have some.
        if self.owners.count(id) == 1 && self.have_primaries_replicas() {
            self.flag(id, Flags::MIGRATE_TO);
        }
    }

    /// Takes all slots from a node, or gives them to another one.
    pub(crate) fn move_slots(&mut self, from: Id, to: Option<Id>) {
        let slots = self.owners.move_all(from, to);
        self.unclaimed.remove_all(&slots);
        let Some(to) = to else { return };
        let opened = self.migrating.values_mut().chain(self.importing.values_mut());
        opened.filter(|node| **node == from).for_each(|node| *node = to);
    }

    fn have_primaries_replicas(&self) -> bool {
        self.nodes.values().any(|node| node.primary.is_some())
    }

    fn flag(&mut self, id: Id, flags: Flags) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.flags.add(flags);
        }
    }

    /// Takes away what a primary has for its replicas, if it has none any more.
    fn replica_left(&mut self, primary: Id) {
        if self.replicas_of(primary).next().is_none()
            && let Some(primary) = self.nodes.get_mut(&primary)
        {
            primary.flags.remove(Flags::MIGRATE_TO);
        }
    }

    /// Makes a node a replica of another one.
    pub(crate) fn set_replica(&mut self, id: Id, primary: Option<Id>) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.flags.remove(Flags::PRIMARY.with(Flags::MIGRATE_TO));
        node.flags.add(Flags::REPLICA);
        let before = std::mem::replace(&mut node.primary, primary);
        if let Some(before) = before.filter(|before| Some(*before) != primary) {
            self.replica_left(before);
        }
        if let Some(primary) = primary {
            self.flag(primary, Flags::MIGRATE_TO);
        }
    }

    /// Makes a node a primary.
    pub(crate) fn set_primary(&mut self, id: Id) {
        let is_me = id == self.me;
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.is_primary() {
            return;
        }
        node.flags.remove(Flags::REPLICA.with(Flags::PRIMARY_FAILED));
        node.flags.add(Flags::PRIMARY);
        if let Some(before) = node.primary.take() {
            if !is_me {
                node.flags.add(Flags::MIGRATE_TO);
            }
            self.replica_left(before);
        }
    }

    /// Opens a slot for migration to a node, or closes it.
    pub(crate) fn set_migrating(&mut self, slot: u16, to: Option<Id>) {
        set(&mut self.migrating, slot, to);
    }

    /// Opens a slot for its import from a node, or closes it.
    pub(crate) fn set_importing(&mut self, slot: u16, from: Option<Id>) {
        set(&mut self.importing, slot, from);
    }

    /// Closes all slots.
    pub(crate) fn close_slots(&mut self) {
        self.migrating.clear();
        self.importing.clear();
    }

    /// Notes whether the owner of a slot claims it.
    pub(crate) fn set_claimed(&mut self, slot: u16, is_claimed: bool) {
        if is_claimed {
            self.unclaimed.remove(slot);
        } else {
            self.unclaimed.add(slot);
        }
    }

    /// Returns true if a slot has no owner, or one that does not claim it any more.
    pub(crate) fn is_free(&self, slot: u16) -> bool {
        self.owners.owner(slot).is_none() || self.unclaimed.has(slot)
    }

    /// Returns the slots that a node has and claims.
    pub(crate) fn claimed_slots(&self, node: Id) -> SlotSet {
        let mut slots = self.owners.of(node).clone();
        slots.remove_all(&self.unclaimed);
        slots
    }

    /// Returns the slots of this node that are not open.
    pub(crate) fn closed_slots(&self) -> SlotSet {
        let mut slots = self.owners.of(self.me).clone();
        let open = self.migrating.keys().chain(self.importing.keys());
        open.for_each(|slot| slots.remove(*slot));
        slots
    }

    /// Returns true if each slot has an owner that has not failed.
    pub fn is_covered(&self) -> bool {
        let is_served = |node: &Node| !node.has_failed() || self.owners.count(node.id) == 0;
        self.owners.assigned() == usize::from(SLOTS) && self.nodes().all(is_served)
    }
}

fn set(opened: &mut BTreeMap<u16, Id>, slot: u16, node: Option<Id>) {
    match node {
        Some(node) if slot < SLOTS => opened.insert(slot, node),
        _ => opened.remove(&slot),
    };
}
