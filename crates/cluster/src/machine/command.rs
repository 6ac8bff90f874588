//! What people and tools ask of a node: CLUSTER MEET, FORGET, ADDSLOTS, SETSLOT and the like.
//!
//! Each returns the effects, or why it is refused, with the text of Redis's error.

use std::net::IpAddr;

use super::{Effect, Machine, Moment};
use crate::flags::Flags;
use crate::id::Id;
use crate::message::Text;
use crate::slot::SlotSet;
use crate::topology::{Node, NodePorts};

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The address to meet is none.
    #[error("ERR Invalid node address specified: {ip}:{port}")]
    Address {
        /// The address.
        ip: String,
        /// The port.
        port: u16,
    },
    /// There is no such node.
    #[error("ERR Unknown node {0}")]
    UnknownNode(String),
    /// There is no such node, for SETSLOT.
    #[error("ERR I don't know about node {0}")]
    UnknownPeer(String),
    /// It is the node itself.
    #[error("ERR I tried hard but I can't forget myself...")]
    ForgetMyself,
    /// It is the node's primary.
    #[error("ERR Can't forget my master!")]
    ForgetPrimary,
    /// It has an owner.
    #[error("ERR Slot {0} is already busy")]
    SlotBusy(u16),
    /// It has none.
    #[error("ERR Slot {0} is already unassigned")]
    SlotUnassigned(u16),
    /// It is named twice.
    #[error("ERR Slot {0} specified multiple times")]
    SlotTwice(u16),
    /// The node has keys.
    #[error("ERR DB must be empty to perform CLUSTER FLUSHSLOTS.")]
    FlushWithKeys,
    /// The node is a replica.
    #[error("ERR Please use SETSLOT only with masters.")]
    SlotOfReplica,
    /// The slot is another node's.
    #[error("ERR I'm not the owner of hash slot {0}")]
    NotOwner(u16),
    /// The slot is this node's.
    #[error("ERR I'm already the owner of hash slot {0}")]
    AlreadyOwner(u16),
    /// The other node is this one.
    #[error("ERR Target node is myself")]
    TargetMyself,
    /// The other node is a replica.
    #[error("ERR Target node is not a master")]
    TargetReplica,
    /// The slot has keys.
    #[error(
        "ERR Can't assign hashslot {0} to a different node while I still hold keys for this hash slot."
    )]
    SlotHasKeys(u16),
    /// It would replicate itself.
    #[error("ERR Can't replicate myself")]
    ReplicateMyself,
    /// It would replicate a replica.
    #[error("ERR I can only replicate a master, not a replica.")]
    ReplicateReplica,
    /// It has keys or slots.
    #[error("ERR To set a master the node must be empty and without assigned slots.")]
    NotEmpty,
    /// It is a primary.
    #[error("ERR You should send CLUSTER FAILOVER to a replica")]
    FailoverOfPrimary,
    /// Its primary is not known.
    #[error("ERR I'm a replica but my master is unknown to me")]
    PrimaryUnknown,
    /// Its primary does not answer.
    #[error("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")]
    PrimaryDown,
    /// It knows other nodes.
    #[error(
        "ERR The user can assign a config epoch only when the node does not know any other node."
    )]
    EpochTooLate,
    /// It has an epoch.
    #[error("ERR Node config epoch is already non-zero")]
    EpochSet,
    /// It is a primary with keys.
    #[error("ERR CLUSTER RESET can't be called with master nodes containing keys")]
    ResetWithKeys,
}

/// The change that CLUSTER SETSLOT makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetSlot {
    /// Opens the slot to give it to a node.
    Migrating(Id),
    /// Opens the slot to take it from a node.
    Importing(Id),
    /// Closes the slot.
    Stable,
    /// Gives the slot to a node.
    Node(Id),
}

/// How CLUSTER FAILOVER proceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// With the primary, which stops first.
    Agreed,
    /// Without the primary.
    Force,
    /// Without anybody's vote.
    TakeOver,
}

type Answer = Result<Vec<Effect>, Refusal>;

impl Machine {
    /// CLUSTER MEET.
    pub fn command_meet(
        &mut self,
        ip: &str,
        port: u16,
        bus_port: u16,
        moment: &mut Moment<'_>,
    ) -> Answer {
        let refused = || Refusal::Address { ip: ip.to_owned(), port };
        let address: IpAddr = ip.parse().map_err(|_| refused())?;
        let address = Text::parse(address.to_string().as_bytes()).ok_or_else(refused)?;
        let (tcp, tls) = if self.settings.is_tls { (0, port) } else { (port, 0) };
        let ports = NodePorts { tcp, tls, bus: bus_port };
        let is_same = |node: &Node| node.ip == address && node.ports == ports;
        let is_meeting = |node: &Node| node.is(Flags::HANDSHAKE) && is_same(node);
        let has_begun = self.topology.nodes().any(is_meeting);
        if !has_begun {
            let id = Id::random(moment.random);
            let flags = Flags::HANDSHAKE.with(Flags::MEET);
            let node = Node::new(id, flags, moment.clock.steady, moment.random);
            self.topology.add(Node { ip: address, ports, ..node });
        }
        Ok(self.finish(moment))
    }

    /// CLUSTER FORGET.
    pub fn command_forget(&mut self, id: &[u8], moment: &mut Moment<'_>) -> Answer {
        let unknown = || Refusal::UnknownNode(String::from_utf8_lossy(id).into_owned());
        let id = Id::parse(id).ok_or_else(unknown)?;
        if self.topology.node(id).is_none() {
            // Another node may have told of it already.
            return if self.is_forgotten(id, moment) { Ok(Vec::new()) } else { Err(unknown()) };
        }
        let me = self.topology.me();
        if id == me.id {
            return Err(Refusal::ForgetMyself);
        }
        if me.is_replica() && me.primary == Some(id) {
            return Err(Refusal::ForgetPrimary);
        }
        let until = moment.now().saturating_add(self.settings.forgotten_for);
        self.forgotten.insert(id, until);
        self.remove_node(id, moment.now());
        self.changed(moment)
    }

    fn changed(&mut self, moment: &mut Moment<'_>) -> Answer {
        self.todo.save = true;
        self.todo.update_health = true;
        Ok(self.finish(moment))
    }

    /// CLUSTER ADDSLOTS and ADDSLOTSRANGE.
    pub fn command_add_slots(
        &mut self,
        slots: impl IntoIterator<Item = u16>,
        moment: &mut Moment<'_>,
    ) -> Answer {
        let set = self.distinct(slots, |owner| owner.is_some(), Refusal::SlotBusy)?;
        let me = self.topology.my_id();
        for slot in set.iter() {
            self.topology.set_importing(slot, None);
            self.topology.assign(slot, Some(me));
        }
        self.changed(moment)
    }

    /// CLUSTER DELSLOTS and DELSLOTSRANGE.
    pub fn command_delete_slots(
        &mut self,
        slots: impl IntoIterator<Item = u16>,
        moment: &mut Moment<'_>,
    ) -> Answer {
        let set = self.distinct(slots, |owner| owner.is_none(), Refusal::SlotUnassigned)?;
        set.iter().for_each(|slot| self.topology.assign(slot, None));
        self.changed(moment)
    }

    /// Returns the slots as a set, if none is there twice or has the wrong owner.
    fn distinct(
        &self,
        slots: impl IntoIterator<Item = u16>,
        is_wrong: fn(Option<Id>) -> bool,
        refusal: fn(u16) -> Refusal,
    ) -> Result<SlotSet, Refusal> {
        let mut set = SlotSet::new();
        for slot in slots {
            if is_wrong(self.topology.owner_id(slot)) {
                return Err(refusal(slot));
            }
            if set.has(slot) {
                return Err(Refusal::SlotTwice(slot));
            }
            set.add(slot);
        }
        Ok(set)
    }

    /// CLUSTER FLUSHSLOTS.
    pub fn command_flush_slots(&mut self, has_keys: bool, moment: &mut Moment<'_>) -> Answer {
        if has_keys {
            return Err(Refusal::FlushWithKeys);
        }
        self.topology.move_slots(self.topology.my_id(), None);
        self.changed(moment)
    }

    /// CLUSTER SETSLOT.
    pub fn command_set_slot(
        &mut self,
        slot: u16,
        action: SetSlot,
        has_keys: bool,
        moment: &mut Moment<'_>,
    ) -> Answer {
        let me = self.topology.me();
        if me.is_replica() {
            return Err(Refusal::SlotOfReplica);
        }
        let me = me.id;
        let is_mine = self.topology.owner_id(slot) == Some(me);
        match action {
            SetSlot::Migrating(_) if !is_mine => return Err(Refusal::NotOwner(slot)),
            SetSlot::Importing(_) if is_mine => return Err(Refusal::AlreadyOwner(slot)),
            SetSlot::Migrating(id) => {
                self.target(id, Refusal::UnknownPeer, false)?;
                self.topology.set_migrating(slot, Some(id));
            }
            SetSlot::Importing(id) => {
                self.target(id, Refusal::UnknownPeer, false)?;
                self.topology.set_importing(slot, Some(id));
            }
            SetSlot::Stable => {
                self.topology.set_migrating(slot, None);
                self.topology.set_importing(slot, None);
            }
            SetSlot::Node(id) => {
                self.target(id, Refusal::UnknownNode, true)?;
                if is_mine && id != me && has_keys {
                    return Err(Refusal::SlotHasKeys(slot));
                }
                self.give_slot(slot, id, has_keys);
            }
        }
        self.changed(moment)
    }

    fn target(
        &self,
        id: Id,
        unknown: fn(String) -> Refusal,
        may_be_me: bool,
    ) -> Result<(), Refusal> {
        let node = self.topology.node(id).ok_or_else(|| unknown(id.to_string()))?;
        match node {
            node if node.is(Flags::MYSELF) && !may_be_me => Err(Refusal::TargetMyself),
            node if node.is_replica() => Err(Refusal::TargetReplica),
            _ => Ok(()),
        }
    }

    fn give_slot(&mut self, slot: u16, id: Id, has_keys: bool) {
        let me = self.topology.my_id();
        if !has_keys {
            self.topology.set_migrating(slot, None);
        }
        let was_mine = self.topology.owner_id(slot) == Some(me);
        self.topology.assign(slot, Some(id));
        let is_bare = self.topology.slot_count(me) == 0;
        if was_mine && id != me && is_bare && self.settings.allows_replica_migration {
            self.follow(id, true, true);
            self.save_durably();
            self.todo.announce = true;
        }
        if id == me && self.topology.importing_from(slot).is_some() {
            self.topology.set_importing(slot, None);
            self.bump_epoch();
            self.todo.announce = true;
        }
    }

    /// CLUSTER BUMPEPOCH. Returns whether there is a new epoch.
    pub fn command_bump_epoch(&mut self, moment: &mut Moment<'_>) -> (bool, Vec<Effect>) {
        let is_new = self.bump_epoch();
        (is_new, self.finish(moment))
    }

    /// CLUSTER SET-CONFIG-EPOCH.
    pub fn command_set_epoch(&mut self, epoch: u64, moment: &mut Moment<'_>) -> Answer {
        if self.topology.len() > 1 {
            return Err(Refusal::EpochTooLate);
        }
        let me = self.topology.me_mut();
        if me.config_epoch != 0 {
            return Err(Refusal::EpochSet);
        }
        me.config_epoch = epoch;
        self.topology.current_epoch = self.topology.current_epoch.max(epoch);
        self.save_durably();
        self.changed(moment)
    }

    /// CLUSTER REPLICATE.
    pub fn command_replicate(
        &mut self,
        id: &[u8],
        has_keys: bool,
        moment: &mut Moment<'_>,
    ) -> Answer {
        let known = Id::parse(id).and_then(|id| self.topology.node(id));
        let unknown = || Refusal::UnknownNode(String::from_utf8_lossy(id).into_owned());
        let primary = known.ok_or_else(unknown)?;
        let me = self.topology.me();
        if primary.id == me.id {
            return Err(Refusal::ReplicateMyself);
        }
        if primary.is_replica() {
            return Err(Refusal::ReplicateReplica);
        }
        if me.is_primary() && (has_keys || self.topology.slot_count(me.id) > 0) {
            return Err(Refusal::NotEmpty);
        }
        let id = primary.id;
        if me.primary == Some(id) {
            return Ok(Vec::new());
        }
        self.follow(id, true, true);
        self.todo.announce = true;
        self.changed(moment)
    }

    /// CLUSTER FAILOVER.
    pub fn command_failover(&mut self, how: Failover, moment: &mut Moment<'_>) -> Answer {
        let me = self.topology.me();
        if me.is_primary() {
            return Err(Refusal::FailoverOfPrimary);
        }
        let primary = me.primary.and_then(|primary| self.topology.node(primary));
        let primary = primary.ok_or(Refusal::PrimaryUnknown)?;
        let is_reached = !primary.has_failed() && primary.contact.link.is_some();
        if how == Failover::Agreed && !is_reached {
            return Err(Refusal::PrimaryDown);
        }
        if how == Failover::TakeOver {
            self.bump_epoch();
            self.replace_primary();
        } else {
            self.begin_manual(how == Failover::Force, moment);
        }
        Ok(self.finish(moment))
    }

    /// CLUSTER RESET.
    pub fn command_reset(
        &mut self,
        is_hard: bool,
        has_keys: bool,
        moment: &mut Moment<'_>,
    ) -> Answer {
        let me = self.topology.me();
        let (id, was_replica) = (me.id, me.is_replica());
        if !was_replica && has_keys {
            return Err(Refusal::ResetWithKeys);
        }
        self.topology.close_slots();
        self.end_manual();
        self.topology.move_slots(id, None);
        for other in self.topology.ids() {
            self.remove_node(other, moment.now());
        }
        self.forgotten.clear();
        self.lead(id);
        if was_replica {
            self.out.push(Effect::Flush);
        }
        self.topology.me_mut().shard = Id::random(moment.random);
        if is_hard {
            self.topology.current_epoch = 0;
            self.topology.last_vote_epoch = 0;
            self.topology.me_mut().config_epoch = 0;
            self.topology.rename(id, Id::random(moment.random));
        }
        self.save_durably();
        self.changed(moment)
    }
}
