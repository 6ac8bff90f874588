//! The links of a node: one to each other node, which it made, and one from each, which it
//! accepted.
//!
//! A node asks on the links that it made, and answers on those that it accepted.

use super::{Effect, Machine, Moment};
use crate::clock::Clock;
use crate::flags::Flags;
use crate::id::Id;
use crate::message::{Body, Header, Message, Text};
use crate::topology::{LinkId, Node};

/// A connection to or from another node.
#[derive(Clone, Debug, Default)]
pub(super) struct Link {
    /// The node at its other end, if known.
    pub(super) node: Option<Id>,
    /// Whether the other node made it.
    pub(super) is_inbound: bool,
    /// Whether messages can be sent.
    pub(super) is_up: bool,
    /// When it was made.
    pub(super) since: u64,
    /// The same by the time of day.
    made_at: u64,
    /// Whether the other end understands extensions.
    pub(super) has_extensions: bool,
    /// The addresses of both ends, of a link that was accepted.
    pub(super) remote: Text,
    pub(super) local: Text,
}

/// A link, as CLUSTER LINKS shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// Its number.
    pub link: LinkId,
    /// The node at its other end.
    pub node: Id,
    /// Whether the other node made it.
    pub is_inbound: bool,
    /// When it was made, in milliseconds since 1970.
    pub since: u64,
}

impl Machine {
    /// Returns the links whose other end is known, sorted by nodes.
    pub fn links(&self) -> Vec<LinkFacts> {
        let known = |(link, entry): (&LinkId, &Link)| {
            let (node, since) = (entry.node?, entry.made_at);
            Some(LinkFacts { link: *link, node, is_inbound: entry.is_inbound, since })
        };
        let mut links: Vec<LinkFacts> = self.links.iter().filter_map(known).collect();
        links.sort_by_key(|link| (link.node, link.is_inbound, link.link));
        links
    }

    /// Returns true if a link is known.
    pub fn knows(&self, link: LinkId) -> bool {
        self.links.contains_key(&link)
    }

    /// Notes a connection that another node made, with the addresses of both its ends.
    pub fn accepted(&mut self, remote: Text, local: Text, moment: &Moment<'_>) -> LinkId {
        let link = Link { is_inbound: true, is_up: true, remote, local, ..Link::default() };
        self.add_link(link, moment.clock)
    }

    fn add_link(&mut self, link: Link, clock: Clock) -> LinkId {
        self.last_link += 1;
        let id = LinkId(self.last_link);
        self.links.insert(id, Link { since: clock.steady, made_at: clock.wall, ..link });
        id
    }

    /// Notes that a link is up.
    pub fn connected(&mut self, link: LinkId, moment: &mut Moment<'_>) -> Vec<Effect> {
        if let Some(entry) = self.links.get_mut(&link) {
            entry.is_up = true;
            let node = entry.node.and_then(|node| self.topology.node(node));
            if let Some(node) = node {
                let (id, is_meet) = (node.id, node.is(Flags::MEET));
                let before = node.contact.ping_sent;
                let make = if is_meet { Body::Meet } else { Body::Ping };
                self.send_gossip(link, make, moment);
                // The time of a PING that was not answered before the link was lost counts on.
                if let (Some(before), Some(node)) = (before, self.topology.node_mut(id)) {
                    node.contact.ping_sent = Some(before);
                }
            }
        }
        self.finish(moment)
    }

    /// Notes that a link was lost, or could not be made.
    pub fn closed(&mut self, link: LinkId, moment: &mut Moment<'_>) -> Vec<Effect> {
        let failed = self.links.get(&link).filter(|link| !link.is_up).and_then(|link| link.node);
        self.forget_link(link, moment.now());
        if let Some(node) = failed.and_then(|node| self.topology.node_mut(node)) {
            node.contact.ping_sent.get_or_insert(moment.clock.steady);
        }
        self.finish(moment)
    }

    /// Closes a link.
    pub(super) fn close(&mut self, link: LinkId, now: u64) {
        if self.forget_link(link, now) {
            self.out.push(Effect::Close(link));
        }
    }

    fn forget_link(&mut self, id: LinkId, now: u64) -> bool {
        let Some(link) = self.links.remove(&id) else { return false };
        if let Some(node) = link.node.and_then(|node| self.topology.node_mut(node)) {
            if node.contact.link == Some(id) {
                node.contact.link = None;
            }
            if node.contact.inbound == Some(id) {
                node.contact.inbound = None;
                node.contact.inbound_lost = now;
            }
        }
        true
    }

    /// Makes a link to a node.
    pub(super) fn connect(&mut self, id: Id, clock: Clock) {
        let Some(node) = self.topology.node_mut(id) else { return };
        let (ip, port) = (node.ip.clone(), node.ports.bus);
        node.contact.connect_tried = Some(clock.steady);
        let link = self.add_link(Link { node: Some(id), ..Link::default() }, clock);
        if let Some(node) = self.topology.node_mut(id) {
            node.contact.link = Some(link);
        }
        self.out.push(Effect::Connect { link, ip, port });
    }

    /// Notes from which node a link comes. An older one from the same node is closed.
    pub(super) fn bind_inbound(&mut self, link: LinkId, id: Id, now: u64) {
        let before = self.topology.node(id).and_then(|node| node.contact.inbound);
        if let Some(before) = before.filter(|before| *before != link) {
            self.close(before, now);
        }
        if let Some(entry) = self.links.get_mut(&link) {
            entry.node = Some(id);
        }
        if let Some(node) = self.topology.node_mut(id) {
            node.contact.inbound = Some(link);
        }
    }

    /// Closes the links of a node that is not known any more.
    pub(super) fn close_links_of(&mut self, node: &Node, now: u64) {
        let links = [node.contact.link, node.contact.inbound];
        links.into_iter().flatten().for_each(|link| self.close(link, now));
    }

    /// Sends a message, if the link is up.
    pub(super) fn send(&mut self, link: LinkId, header: Header, body: Body) {
        self.send_bytes(link, Message::full(header, body).encode());
    }

    /// Sends the bytes of a message, if the link is up.
    pub(super) fn send_bytes(&mut self, link: LinkId, message: Vec<u8>) {
        if self.links.get(&link).is_some_and(|link| link.is_up) {
            self.traffic.sent(crate::message::kind_of(&message));
            self.out.push(Effect::Send { link, message });
        }
    }

    /// Sends a message to a node, on the link that was made to it.
    pub(super) fn send_to(&mut self, node: Id, body: Body, moment: &Moment<'_>) {
        let link = self.topology.node(node).and_then(|node| node.contact.link);
        if let Some(link) = link {
            let header = self.header(moment);
            self.send(link, header, body);
        }
    }

    /// Sends a message to every node.
    pub(super) fn broadcast(&mut self, header: &Header, body: &Body) {
        let is_receiver = |node: &&Node| !node.is(Flags::MYSELF.with(Flags::HANDSHAKE));
        let nodes = self.topology.nodes().filter(is_receiver);
        let links: Vec<LinkId> = nodes.filter_map(|node| node.contact.link).collect();
        for link in links {
            self.send(link, header.clone(), body.clone());
        }
    }
}
