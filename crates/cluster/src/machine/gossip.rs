//! What a node says of itself and of others in each PING, PONG and MEET, and what it learns of
//! them.
//!
//! Each of these messages names a tenth of the nodes, at least three, chosen at random, and all
//! that seem to be unreachable, so that a majority hears of a failure within a few PINGs.

use super::{MAX_NODES, Machine, Moment};
use crate::flags::Flags;
use crate::id::Id;
use crate::message::{Body, Entry, Extension, Gossip, Header, Text};
use crate::topology::{Announced, LinkId, Node, NodePorts};

/// The fewest nodes that a message names, if there are as many.
const MIN_ENTRIES: usize = 3;
/// The most nodes that are learned from one message. The next ones name more.
const MAX_LEARNED: usize = 100;

impl Machine {
    /// Returns what each message says of this node.
    pub(super) fn header(&self, moment: &Moment<'_>) -> Header {
        let me = self.topology.me();
        // A replica tells of its primary.
        let slots_of = me.primary.filter(|_| me.is_replica()).unwrap_or(me.id);
        Header {
            sender: me.id,
            ip: self.settings.announce_ip.clone(),
            ports: me.ports.to_message(self.settings.is_tls),
            flags: me.flags,
            primary: me.primary,
            current_epoch: self.topology.current_epoch,
            config_epoch: self.topology.epoch_of(me),
            slots: self.topology.slots_of(slots_of).clone(),
            offset: moment.offset,
            is_down: !self.health.is_up,
            is_paused: me.is_primary() && self.manual.ends.is_some(),
            forces_vote: false,
            has_extensions: false,
        }
    }

    /// Sends a PING, PONG or MEET.
    pub(super) fn send_gossip(
        &mut self,
        link: LinkId,
        make: fn(Gossip) -> Body,
        moment: &mut Moment<'_>,
    ) {
        let Some(entry) = self.links.get(&link) else { return };
        let (node, is_inbound, mut has_extensions) =
            (entry.node, entry.is_inbound, entry.has_extensions);
        let entries = self.entries(node, moment);
        let mut gossip = Gossip { entries, extensions: Vec::new() };
        if let Some(node) = node.and_then(|node| self.topology.node_mut(node)) {
            has_extensions |= node.is(Flags::EXTENSIONS);
            match make(Gossip::default()) {
                Body::Ping(_) if !is_inbound => {
                    node.contact.ping_sent = Some(moment.clock.steady);
                }
                Body::Meet(_) if !is_inbound => {
                    node.contact.meet_sent = Some(moment.clock.steady);
                }
                _ => {}
            }
        }
        if has_extensions {
            gossip.extensions = self.extensions(moment.now());
        }
        let header = Header { has_extensions: true, ..self.header(moment) };
        self.send(link, header, make(gossip));
    }

    /// Chooses the nodes that a message to `receiver` names.
    fn entries(&self, receiver: Option<Id>, moment: &mut Moment<'_>) -> Vec<Entry> {
        let topology = &self.topology;
        let hidden = Flags::HANDSHAKE.with(Flags::MYSELF);
        let is_shown = |node: &&Node| !node.is(hidden) && Some(node.id) != receiver;
        let (failing, mut others): (Vec<&Node>, Vec<&Node>) =
            topology.nodes().filter(is_shown).partition(|node| node.is(Flags::PFAIL));
        others.retain(|node| !node.is(Flags::NO_ADDRESS));
        let is_used = |node: &Node| node.is_connected() || topology.slot_count(node.id) > 0;
        others.retain(|node| is_used(node));
        let wanted = (topology.len() / 10).max(MIN_ENTRIES).min(others.len());
        for at in 0..wanted {
            let chosen = moment.random.usize(at..others.len());
            others.swap(at, chosen);
        }
        let chosen = others[..wanted].iter().chain(&failing);
        chosen.map(|node| self.entry(node, moment)).collect()
    }

    fn entry(&self, node: &Node, moment: &Moment<'_>) -> Entry {
        let seconds = |steady: Option<u64>| {
            steady.map_or(0, |steady| (moment.clock.wall_of(steady) / 1000) as u32)
        };
        Entry {
            node: node.id,
            ping_sent: seconds(node.contact.ping_sent),
            pong_received: seconds(node.contact.pong_received),
            ip: node.ip.clone(),
            ports: node.ports.to_message(self.settings.is_tls),
            flags: node.flags,
        }
    }

    fn extensions(&self, now: u64) -> Vec<Extension> {
        let me = self.topology.me();
        let Announced { host_name, node_name, client_ipv4, client_ipv6, zone, .. } = &me.announced;
        let mut extensions = Vec::new();
        let mut text = |text: &Text, make: fn(Text) -> Extension| {
            if !text.is_empty() {
                extensions.push(make(text.clone()));
            }
        };
        text(host_name, Extension::HostName);
        text(node_name, Extension::NodeName);
        text(client_ipv4, Extension::ClientIpv4);
        text(client_ipv6, Extension::ClientIpv6);
        text(zone, Extension::Zone);
        let ports = [
            (me.announced.client_port, Extension::ClientPort as fn(u16) -> Extension),
            (me.announced.client_tls_port, Extension::ClientTlsPort),
        ];
        extensions.extend(ports.iter().filter(|port| port.0 != 0).map(|port| port.1(port.0)));
        for (node, until) in &self.forgotten {
            if let Some(left) = until.checked_sub(now) {
                extensions.push(Extension::Forgotten { node: *node, seconds: left / 1000 });
            }
        }
        extensions.push(Extension::Shard(me.shard));
        extensions
    }

    /// Learns what a known node says of others.
    pub(super) fn learn_gossip(&mut self, sender: Id, gossip: &Gossip, moment: &mut Moment<'_>) {
        let mut may_learn = MAX_LEARNED.min(MAX_NODES.saturating_sub(self.topology.len()));
        for entry in &gossip.entries {
            if entry.node == self.topology.my_id() {
                continue;
            }
            if self.topology.node(entry.node).is_some() {
                self.learn_reports(sender, entry, moment);
                self.learn_pong(entry, moment);
                self.learn_address(entry, moment);
            } else if may_learn > 0
                && !entry.flags.has(Flags::NO_ADDRESS)
                && !self.is_forgotten(entry.node, moment)
            {
                may_learn -= 1;
                self.learn_node(entry, moment);
            }
        }
    }

    fn learn_reports(&mut self, sender: Id, entry: &Entry, moment: &mut Moment<'_>) {
        let Some(reporter) = self.topology.node(sender) else { return };
        let is_voter = self.topology.is_voter(reporter);
        let is_failing = entry.flags.has(Flags::FAIL.with(Flags::PFAIL));
        let Some(node) = self.topology.node_mut(entry.node) else { return };
        if !is_failing {
            node.contact.reports.remove(&sender);
            return;
        }
        if is_voter && !node.has_failed() {
            node.contact.reports.insert(sender, moment.clock.steady);
        }
        self.fail_if_agreed(entry.node, moment);
    }

    /// Believes a PONG that others received, so that fewer PINGs are needed.
    fn learn_pong(&mut self, entry: &Entry, moment: &Moment<'_>) {
        let failing = Flags::FAIL.with(Flags::PFAIL);
        let busy = failing.with(Flags::HANDSHAKE).with(Flags::MEET);
        let reports = self.reports(entry.node, moment.now());
        let pong = moment.clock.steady_of(u64::from(entry.pong_received) * 1000);
        let Some(node) = self.topology.node_mut(entry.node) else { return };
        let is_quiet = !node.is(busy) && node.contact.ping_sent.is_none() && reports == 0;
        if is_quiet && !entry.flags.has(failing) && entry.pong_received != 0 {
            node.contact.pong_received = node.contact.pong_received.max(pong);
        }
    }

    /// Takes over the address of a node that is not reached at the one that is known.
    fn learn_address(&mut self, entry: &Entry, moment: &Moment<'_>) {
        let failing = Flags::FAIL.with(Flags::PFAIL);
        let ports = NodePorts::from_message(entry.ports, self.settings.is_tls);
        let Some(node) = self.topology.node_mut(entry.node) else { return };
        let is_other = node.ip != entry.ip || node.ports != ports;
        let is_reached = !entry.flags.has(failing.with(Flags::NO_ADDRESS));
        if node.is(failing) && is_reached && is_other {
            node.flags.remove(Flags::NO_ADDRESS);
            (node.ip, node.ports) = (entry.ip.clone(), ports);
            self.address_changed(entry.node, moment);
        }
    }

    /// Connects to a node, and replicates it if it is the primary, at its new address.
    pub(super) fn address_changed(&mut self, id: Id, moment: &Moment<'_>) {
        let link = self.topology.node(id).and_then(|node| node.contact.link);
        if let Some(link) = link {
            self.close(link, moment.now());
        }
        let me = self.topology.me();
        if me.is_replica() && me.primary == Some(id) {
            self.replicate(id, false);
        }
        self.todo.save = true;
        self.todo.update_health = true;
    }

    fn learn_node(&mut self, entry: &Entry, moment: &mut Moment<'_>) {
        let flags = entry.flags;
        let mut node = Node::new(entry.node, Flags::NONE, moment.clock.steady, moment.random);
        // What others say of its health is a report, and no more; the rest it will say itself.
        let told = Flags::PRIMARY.with(Flags::REPLICA).with(Flags::NO_FAILOVER);
        node.flags = flags.only(told.with(Flags::EXTENSIONS).with(Flags::MULTI_MEET));
        node.ip = entry.ip.clone();
        node.ports = NodePorts::from_message(entry.ports, self.settings.is_tls);
        self.topology.add(node);
    }

    /// Learns what a known node says of itself.
    pub(super) fn learn_extensions(&mut self, sender: Id, gossip: &Gossip, moment: &Moment<'_>) {
        let mut announced = Announced::default();
        let mut shard = None;
        for extension in &gossip.extensions {
            match extension {
                Extension::HostName(text) => announced.host_name = text.clone(),
                Extension::NodeName(text) => announced.node_name = text.clone(),
                Extension::ClientIpv4(text) => announced.client_ipv4 = text.clone(),
                Extension::ClientIpv6(text) => announced.client_ipv6 = text.clone(),
                Extension::Zone(text) => announced.zone = text.clone(),
                Extension::ClientPort(port) => announced.client_port = *port,
                Extension::ClientTlsPort(port) => announced.client_tls_port = *port,
                Extension::Shard(id) => shard = Some(*id),
                Extension::Forgotten { node, seconds } => {
                    self.learn_forgotten(*node, *seconds, moment);
                }
            }
        }
        let Some(node) = self.topology.node_mut(sender) else { return };
        if node.announced != announced {
            node.announced = announced;
            self.todo.save = true;
        }
        self.learn_shard(sender, shard);
    }

    fn learn_forgotten(&mut self, node: Id, seconds: u64, moment: &Moment<'_>) {
        let me = self.topology.me();
        if node == me.id || me.primary == Some(node) || self.topology.node(node).is_none() {
            return;
        }
        let until = moment.now().saturating_add(seconds.saturating_mul(1000));
        self.forgotten.insert(node, until);
        self.remove_node(node, moment.now());
        self.todo.save = true;
        self.todo.update_health = true;
    }

    /// Notes the shard of a node. A replica is always in that of its primary, whose word counts.
    pub(super) fn learn_shard(&mut self, id: Id, told: Option<Id>) {
        let Some(node) = self.topology.node(id) else { return };
        let of_primary = node.primary.and_then(|primary| self.topology.node(primary));
        let of_primary = of_primary.map(|primary| primary.shard).filter(|_| node.is_replica());
        let Some(shard) = of_primary.or(told) else { return };
        let followers = self.topology.replicas_of(id).map(|replica| replica.id);
        let members: Vec<Id> = followers.chain([id]).collect();
        for member in members {
            if let Some(node) = self.topology.node_mut(member)
                && node.shard != shard
            {
                node.shard = shard;
                self.todo.save = true;
            }
        }
    }
}
