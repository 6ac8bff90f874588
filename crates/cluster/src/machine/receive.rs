//! What follows from a message.
//!
//! A node believes what a known node says of itself, and of its slots as far as its epoch allows.
//! An unknown node becomes known if it says MEET, or if this node was told to meet it and it
//! answers; then by its PONG to the PING of a link that this node makes, which shows that its
//! address is right.
//!
//! It departs from Valkey in these points: a link that was accepted and on which another node
//! speaks than before is that of the other one; slots that a node had when it became a replica in
//! its shard are its new primary's; a node at whose address another one answers has failed if a
//! majority finds so; what a stranger says of other nodes is believed when its handshake has ended.

use super::{Effect, MAX_NODES, Machine, Moment};
use crate::flags::Flags;
use crate::id::Id;
use crate::message::{Body, Gossip, Header, Message, Text};
use crate::topology::{LinkId, Node, NodePorts};

/// Whether more is to be learned from a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Continue,
    Stop,
}

impl Machine {
    /// Takes a message that came on a link.
    pub fn received(
        &mut self,
        link: LinkId,
        message: Message,
        moment: &mut Moment<'_>,
    ) -> Vec<Effect> {
        if self.links.contains_key(&link) && !self.drops(link, &message, moment.now()) {
            self.traffic.received(message.kind());
            match message {
                Message::Full(header, body) => self.take(link, &header, body, moment),
                Message::Light(published) => {
                    if self.light_sender(link, moment.now()) {
                        self.out.push(Effect::Deliver(published));
                    }
                }
                Message::LightModule => {
                    self.light_sender(link, moment.now());
                }
            }
        }
        self.finish(moment)
    }

    /// Notes a message without a header. Returns false, and closes the link, if it does not say who
    /// speaks.
    fn light_sender(&mut self, link: LinkId, now: u64) -> bool {
        let node = self.links.get(&link).and_then(|link| link.node);
        let node = node.and_then(|node| self.topology.node_mut(node));
        if let Some(node) = node.filter(|node| !node.is(Flags::HANDSHAKE)) {
            node.contact.data_received = Some(now);
            return true;
        }
        self.close(link, now);
        false
    }

    fn take(&mut self, link: LinkId, header: &Header, body: Body, moment: &mut Moment<'_>) {
        // Nothing of what another node says there is true of the expected one.
        if let Some(id) = self.expected(link).filter(|id| *id != header.sender) {
            self.lose_address(id, link, moment);
            return;
        }
        let sender = self.sender(link, header, moment.now());
        let was_replica =
            sender.and_then(|id| self.topology.node(id)).is_some_and(|node| node.is_replica());
        if let Some(entry) = self.links.get_mut(&link) {
            entry.has_extensions |= header.has_extensions;
        }
        if let Some(sender) = sender {
            self.learn_sender(sender, link, header, moment.now());
        }
        match body {
            Body::Ping(gossip) => {
                if self.my_ip_is_unknown() {
                    self.learn_my_ip_from(link);
                }
                self.send_gossip(link, Body::Pong, moment);
                self.learn(link, sender, header, &gossip, Kind::Ping, was_replica, moment);
            }
            Body::Meet(gossip) => {
                self.learn_my_ip_from(link);
                self.meet(link, sender, header, moment);
                self.send_gossip(link, Body::Pong, moment);
                self.learn(link, sender, header, &gossip, Kind::Meet, was_replica, moment);
            }
            Body::Pong(gossip) => {
                self.learn(link, sender, header, &gossip, Kind::Pong, was_replica, moment);
            }
            body => {
                if let Some(sender) = sender {
                    self.take_order(sender, link, header, body, moment);
                }
            }
        }
    }

    /// Takes a message of a known node that is about one thing.
    fn take_order(
        &mut self,
        sender: Id,
        link: LinkId,
        header: &Header,
        body: Body,
        moment: &mut Moment<'_>,
    ) {
        match body {
            Body::Fail(id) => {
                let known = Flags::FAIL.with(Flags::MYSELF);
                if self.topology.node(id).is_some_and(|node| !node.is(known)) {
                    self.fail(id, moment.now());
                }
            }
            Body::Publish(published) => self.out.push(Effect::Deliver(published)),
            Body::AskVote => self.consider_vote(sender, header, moment),
            Body::Vote => self.count_vote(sender, header, moment),
            Body::Update(update) => self.learn_update(&update),
            Body::StartFailover => self.pause_for(sender, link, moment),
            Body::Ping(_) | Body::Pong(_) | Body::Meet(_) | Body::Other(_) => {}
        }
    }

    /// Returns the node to which this node made a link, if their handshake is over.
    fn expected(&self, link: LinkId) -> Option<Id> {
        let node = self.links.get(&link).filter(|link| !link.is_inbound)?.node?;
        self.topology.node(node).filter(|node| !node.is(Flags::HANDSHAKE)).map(|node| node.id)
    }

    /// Returns the known node that a message is from.
    fn sender(&mut self, link: LinkId, header: &Header, now: u64) -> Option<Id> {
        let entry = self.links.get(&link)?;
        let (is_inbound, node) = (entry.is_inbound, entry.node);
        let known = node.and_then(|node| self.topology.node(node));
        let known = known.filter(|node| !node.is(Flags::HANDSHAKE)).map(|node| node.id);
        if known.is_some() && (!is_inbound || known == Some(header.sender)) {
            return known;
        }
        if !self.node_name_is_known(header.sender) {
            return None;
        }
        // This node does not speak to itself, but for a handshake with its own address.
        if is_inbound && header.sender != self.topology.my_id() {
            self.bind_inbound(link, header.sender, now);
        }
        Some(header.sender)
    }

    /// Learns what every message says.
    fn learn_sender(&mut self, sender: Id, link: LinkId, header: &Header, now: u64) {
        let has_extensions = self.links.get(&link).is_some_and(|link| link.has_extensions);
        if sender == self.topology.my_id() {
            return;
        }
        let Some(node) = self.topology.node_mut(sender) else { return };
        if has_extensions {
            node.flags.add(Flags::EXTENSIONS);
        }
        for flag in [Flags::LIGHT_PUBLISH, Flags::MULTI_MEET, Flags::PRIMARY_FAILED] {
            node.flags.set(flag, header.flags.has(flag));
        }
        node.contact.data_received = Some(now);
        (node.contact.offset, node.contact.offset_at) = (header.offset, now);
        self.topology.current_epoch = self.topology.current_epoch.max(header.current_epoch);
        let is_newer = |node: &Node| header.config_epoch > node.config_epoch;
        if header.primary.is_none()
            && let Some(node) = self.topology.node_mut(sender).filter(|node| is_newer(node))
        {
            node.config_epoch = header.config_epoch;
            self.save_durably();
            self.epoch_was_taken(header.config_epoch);
        }
        self.learn_pause(sender, header);
    }

    fn learn_my_ip_from(&mut self, link: LinkId) {
        let local = self.links.get(&link).map(|link| link.local.clone());
        self.learn_my_ip(&local.unwrap_or_default());
    }

    /// Takes a MEET: adds the node, or connects anew to one that does not know this one.
    fn meet(&mut self, link: LinkId, sender: Option<Id>, header: &Header, moment: &mut Moment<'_>) {
        let now = moment.now();
        if let Some(node) = sender.and_then(|sender| self.topology.node(sender)) {
            if let Some(outbound) = node.contact.link.filter(|_| self.is_past_handshake(node, now))
            {
                self.close(outbound, now);
            }
            return;
        }
        let Some(entry) = self.links.get(&link) else { return };
        let ip = if header.ip.is_empty() { entry.remote.clone() } else { header.ip.clone() };
        // Without a link to bind, it said so before, and the handshake goes on.
        if entry.node.is_some() || ip.is_empty() || self.topology.len() >= MAX_NODES {
            return;
        }
        let id = Id::random(moment.random);
        let mut node = Node::new(id, Flags::HANDSHAKE, now, moment.random);
        node.flags.set(Flags::EXTENSIONS, entry.has_extensions);
        node.ip = ip;
        node.ports = NodePorts::from_message(header.ports, self.settings.is_tls);
        self.topology.add(node);
        self.bind_inbound(link, id, now);
    }

    /// Learns what a PING, PONG or MEET says.
    #[expect(clippy::too_many_arguments, reason = "the parts of one message")]
    fn learn(
        &mut self,
        link: LinkId,
        sender: Option<Id>,
        header: &Header,
        gossip: &Gossip,
        kind: Kind,
        was_replica: bool,
        moment: &mut Moment<'_>,
    ) {
        let now = moment.now();
        if let Some(node) = sender.and_then(|sender| self.topology.node_mut(sender)) {
            node.flags.remove(Flags::MEET);
        }
        let is_outbound = self.links.get(&link).is_some_and(|link| !link.is_inbound);
        if is_outbound && self.greet(link, sender, header, moment) == Next::Stop {
            return;
        }
        if let Some(sender) = sender.filter(|sender| *sender != self.topology.my_id()) {
            self.learn_no_failover(sender, header);
            if kind == Kind::Ping {
                self.learn_own_address(sender, link, header, moment);
            }
        }
        if is_outbound && kind == Kind::Pong {
            self.learn_answer(link, now);
        }
        let Some(sender) = sender.filter(|sender| *sender != self.topology.my_id()) else { return };
        if self.learn_role(sender, header) == Next::Stop {
            return;
        }
        if header.primary.is_none() {
            if was_replica || *self.topology.slots_of(sender) != header.slots {
                self.learn_slots(sender, header.config_epoch, &header.slots);
                self.correct_claims(sender, header.config_epoch, &header.slots, moment);
            }
            self.resolve_collision(sender, header);
        }
        self.learn_gossip(sender, gossip, moment);
        self.learn_extensions(sender, gossip, moment);
    }

    /// Ends the handshake with the node at the other end of a link that this node made.
    fn greet(
        &mut self,
        link: LinkId,
        sender: Option<Id>,
        header: &Header,
        moment: &mut Moment<'_>,
    ) -> Next {
        let node = self.links.get(&link).and_then(|link| link.node);
        let Some(node) = node.and_then(|node| self.topology.node(node)) else { return Next::Stop };
        let (id, ip, now) = (node.id, node.ip.clone(), moment.now());
        if node.is(Flags::HANDSHAKE) {
            if let Some(sender) = sender {
                self.remove_node(id, now);
                if sender != self.topology.my_id() {
                    self.learn_address_of(sender, ip, header, moment);
                }
                return Next::Stop;
            }
            self.end_handshake(id, header);
        }
        Next::Continue
    }

    fn end_handshake(&mut self, id: Id, header: &Header) {
        let real = header.sender;
        self.topology.rename(id, real);
        for link in self.links.values_mut().filter(|link| link.node == Some(id)) {
            link.node = Some(real);
        }
        if let Some(node) = self.topology.node_mut(real) {
            node.flags.remove(Flags::HANDSHAKE.with(Flags::MEET));
            node.flags.add(header.flags.only(Flags::PRIMARY.with(Flags::REPLICA)));
        }
        self.todo.save = true;
    }

    /// Another node answers at the address of this one, which this node does not reach any more.
    /// Others may know its new address: it has failed if most primaries do not.
    fn lose_address(&mut self, id: Id, link: LinkId, moment: &Moment<'_>) {
        self.close(link, moment.now());
        let Some(node) = self.topology.node_mut(id) else { return };
        node.flags.add(Flags::NO_ADDRESS);
        node.ip = Text::default();
        node.ports = NodePorts::default();
        if !node.has_failed() {
            node.flags.add(Flags::PFAIL);
            self.fail_if_agreed(id, moment);
        }
        self.todo.save = true;
        self.todo.update_health = true;
    }

    fn learn_no_failover(&mut self, sender: Id, header: &Header) {
        if let Some(node) = self.topology.node_mut(sender) {
            let flag = header.flags.only(Flags::NO_FAILOVER);
            self.todo.save |= node.flags.only(Flags::NO_FAILOVER) != flag;
            node.flags.set(Flags::NO_FAILOVER, flag != Flags::NONE);
        }
    }

    /// Learns from a PING where its sender is.
    fn learn_own_address(
        &mut self,
        sender: Id,
        link: LinkId,
        header: &Header,
        moment: &Moment<'_>,
    ) {
        let Some(entry) = self.links.get(&link) else { return };
        let is_link_to_it =
            self.topology.node(sender).is_some_and(|node| node.contact.link == Some(link));
        if !is_link_to_it {
            self.learn_address_of(sender, entry.remote.clone(), header, moment);
        }
    }

    /// Notes that a node is at the address that it announces, or else at that of its link.
    fn learn_address_of(&mut self, sender: Id, ip: Text, header: &Header, moment: &Moment<'_>) {
        let ip = if header.ip.is_empty() { ip } else { header.ip.clone() };
        let ports = NodePorts::from_message(header.ports, self.settings.is_tls);
        let Some(node) = self.topology.node_mut(sender) else { return };
        if !ip.is_empty() && (node.ip != ip || node.ports != ports) {
            (node.ip, node.ports) = (ip, ports);
            node.flags.remove(Flags::NO_ADDRESS);
            self.address_changed(sender, moment);
        }
    }

    fn learn_answer(&mut self, link: LinkId, now: u64) {
        let node = self.links.get(&link).and_then(|link| link.node);
        if let Some(node) = node.and_then(|node| self.topology.node_mut(node)) {
            node.contact.pong_received = Some(now);
            node.contact.ping_sent = None;
            let id = node.id;
            self.answered(id, now);
        }
    }

    /// Learns whether a node is a primary, or whose replica it is. Stops if that is older than what
    /// is known.
    fn learn_role(&mut self, sender: Id, header: &Header) -> Next {
        let Some(claimed) = header.primary else {
            self.lead_if_other(sender);
            return Next::Continue;
        };
        let Some(node) = self.topology.node(sender) else { return Next::Stop };
        let before = node.primary;
        let known = self.topology.node(claimed).map(|node| node.id);
        if !node.is_replica() {
            if self.primary_became_replica(sender, claimed, header) == Next::Stop {
                return Next::Stop;
            }
            self.topology.set_replica(sender, known);
            self.save_durably();
            self.todo.update_health = true;
        }
        if let Some(claimed) = known.filter(|known| before != Some(*known)) {
            self.topology.set_replica(sender, Some(claimed));
            self.avoid_chain();
            self.learn_shard(sender, None);
            self.todo.save = true;
        }
        Next::Continue
    }

    fn primary_became_replica(&mut self, sender: Id, claimed: Id, header: &Header) -> Next {
        let epoch = header.config_epoch;
        if !self.topology.are_in_one_shard(claimed, sender) {
            // It left its shard: its slots have no owner until somebody claims them.
            self.topology.move_slots(sender, None);
            return Next::Continue;
        }
        let epoch_of = |id| self.topology.node(id).map_or(0, |node| self.topology.epoch_of(node));
        if epoch_of(sender) > epoch || epoch_of(claimed) > epoch {
            return Next::Stop;
        }
        // A failover of which this node had not heard.
        self.topology.move_slots(sender, Some(claimed));
        if claimed != self.topology.my_id() {
            self.lead_if_other(claimed);
            if let Some(node) = self.topology.node_mut(claimed) {
                node.config_epoch = epoch;
            }
        }
        Next::Continue
    }

    /// Follows the primary of the primary, if that became a replica.
    fn avoid_chain(&mut self) {
        let me = self.topology.my_id();
        let mine = self.topology.me().primary.and_then(|id| self.topology.node(id));
        if let Some(top) = mine.and_then(|mine| mine.primary).filter(|top| *top != me) {
            let is_new_history = !self.topology.are_in_one_shard(top, me);
            self.follow(top, true, is_new_history);
            self.save_durably();
            self.todo.update_health = true;
            self.todo.announce = true;
        }
    }

    /// Takes a new epoch if another primary has the same one. The one with the smaller ID does, so
    /// that in the end all differ.
    fn resolve_collision(&mut self, sender: Id, header: &Header) {
        let me = self.topology.me();
        let epoch = me.config_epoch;
        let known = self.topology.node(sender).map(|sender| sender.config_epoch);
        // A message may be older than what is known of its sender.
        let is_equal = me.is_primary() && header.config_epoch == epoch && known == Some(epoch);
        if is_equal && self.topology.my_id() < sender {
            self.topology.current_epoch = self.topology.current_epoch.saturating_add(1);
            self.topology.me_mut().config_epoch = self.topology.current_epoch;
            self.save_durably();
            self.todo.announce = true;
        }
    }
}

/// The kinds of messages that have gossip.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ping,
    Pong,
    Meet,
}
