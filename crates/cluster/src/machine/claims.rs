//! Who owns a slot if two nodes claim it: the one with the higher epoch.
//!
//! A node that lost its last slot to another one follows that one. Keys of slots that it lost
//! otherwise are deleted.

use super::{Effect, Machine, Moment};
use crate::id::Id;
use crate::message::{Body, Update};
use crate::slot::{SLOTS, SlotSet};

/// The slots that changed hands by a node's claim.
#[derive(Default)]
struct Changes {
    /// Slots that this node lost.
    lost: SlotSet,
    /// How many slots this node, or its primary, lost.
    lost_by_shard: usize,
}

impl Machine {
    /// Believes a node's claim to its slots, as far as its epoch allows.
    pub(super) fn learn_slots(&mut self, sender: Id, epoch: u64, slots: &SlotSet) {
        let me = self.topology.my_id();
        if sender == me {
            return;
        }
        // Before the slots move: which node this one's data is of.
        let my_primary = self.topology.my_primary();
        let is_same_shard = self.topology.are_in_one_shard(sender, me);
        let mut changes = Changes::default();
        for slot in 0..SLOTS {
            if slots.has(slot) {
                self.learn_claim(sender, epoch, slot, is_same_shard, &mut changes);
            } else {
                self.learn_no_claim(sender, epoch, slot);
            }
        }
        let mut new_primary = changes.lost_by_shard > 0;
        // Both own nothing: the one with the higher epoch leads.
        let mine = self.topology.me();
        let is_empty = slots.is_empty() && self.topology.slot_count(me) == 0;
        let is_older = self.topology.epoch_of(mine) < epoch;
        new_primary |= mine.primary != Some(sender) && is_empty && is_older && is_same_shard;
        let is_bare = self.topology.slot_count(my_primary) == 0;
        if new_primary && is_bare {
            if self.settings.allows_replica_migration || is_same_shard {
                self.follow(sender, !is_same_shard, !is_same_shard);
                self.save_durably();
                self.todo.update_health = true;
                self.todo.announce = true;
                return;
            }
            if !mine.is_primary() || slots.len() < changes.lost_by_shard {
                return;
            }
        }
        if !changes.lost.is_empty() {
            self.out.push(Effect::DropSlots(changes.lost));
        }
    }

    fn learn_claim(
        &mut self,
        sender: Id,
        epoch: u64,
        slot: u16,
        is_same_shard: bool,
        changes: &mut Changes,
    ) {
        let owner = self.topology.owner_id(slot);
        if owner == Some(sender) {
            self.topology.set_claimed(slot, true);
            return;
        }
        let owner_epoch = self.topology.owner(slot).map_or(0, |owner| owner.config_epoch);
        if !self.topology.is_free(slot) && owner_epoch >= epoch {
            return;
        }
        if owner == Some(self.topology.my_id()) {
            changes.lost.add(slot);
        }
        if owner == Some(self.topology.my_primary()) {
            changes.lost_by_shard += 1;
        }
        // Somebody gave the slot to another shard: what this node was doing with it is over. After
        // a failover within the shard it goes on.
        if !is_same_shard {
            self.topology.set_migrating(slot, None);
        }
        if let Some(from) = self.topology.importing_from(slot).filter(|from| *from != sender) {
            let is_failover = self.topology.are_in_one_shard(sender, from);
            self.topology.set_importing(slot, is_failover.then_some(sender));
        }
        self.topology.assign(slot, Some(sender));
        self.save_durably();
        self.todo.update_health = true;
    }

    /// A slot that its owner does not claim stays its own until another node claims it.
    fn learn_no_claim(&mut self, sender: Id, epoch: u64, slot: u16) {
        if self.topology.owner_id(slot) == Some(sender) {
            self.topology.set_claimed(slot, false);
        }
        if let Some(to) = self.topology.migrating_to(slot).filter(|to| *to != sender) {
            let target = self.topology.node(to);
            let is_replaced = target.is_some_and(|to| to.config_epoch < epoch || to.is_replica());
            if is_replaced && self.topology.are_in_one_shard(to, sender) {
                self.topology.set_migrating(slot, Some(sender));
                self.save_durably();
            }
        }
        let me = self.topology.me();
        if me.is_primary() && self.topology.importing_from(slot) == Some(sender) {
            self.finish_import(slot);
        }
    }

    /// The node that a slot was imported from gave it up: it is this one's.
    fn finish_import(&mut self, slot: u16) {
        let me = self.topology.my_id();
        self.topology.set_importing(slot, None);
        if self.topology.owner_id(slot) != Some(me) {
            self.topology.assign(slot, Some(me));
            self.bump_epoch();
            self.save_durably();
            self.todo.update_health = true;
        }
    }

    /// Tells a node of one that has a slot of its by a higher epoch, if there is one.
    pub(super) fn correct_claims(
        &mut self,
        sender: Id,
        epoch: u64,
        slots: &SlotSet,
        moment: &Moment<'_>,
    ) {
        let owners = slots.iter().filter(|slot| !self.topology.is_free(*slot));
        let mut owners = owners.filter_map(|slot| self.topology.owner(slot));
        let newer = owners.find(|owner| owner.id != sender && owner.config_epoch > epoch);
        if let Some(owner) = newer.map(|owner| owner.id) {
            self.send_update(sender, owner, moment);
        }
    }

    /// Tells a node which slots another one has.
    pub(super) fn send_update(&mut self, to: Id, about: Id, moment: &Moment<'_>) {
        let Some(node) = self.topology.node(about) else { return };
        let config_epoch = node.config_epoch;
        let slots = self.topology.claimed_slots(about);
        self.send_to(to, Body::Update(Update { node: about, config_epoch, slots }), moment);
    }

    /// Learns from another node which slots a third one has.
    pub(super) fn learn_update(&mut self, update: &Update) {
        let Some(node) = self.topology.node(update.node) else { return };
        if node.config_epoch >= update.config_epoch {
            return;
        }
        self.lead_if_other(update.node);
        if let Some(node) = self.topology.node_mut(update.node) {
            node.config_epoch = update.config_epoch;
        }
        self.save_durably();
        self.learn_slots(update.node, update.config_epoch, &update.slots);
    }

    /// Takes another node for a primary.
    pub(super) fn lead_if_other(&mut self, id: Id) {
        if id != self.topology.my_id() {
            self.lead(id);
        }
    }
}
