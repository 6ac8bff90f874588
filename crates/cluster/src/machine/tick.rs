//! What a node does ten times a second: connects, sends PINGs, notices who does not answer.

use super::{Effect, Machine, Moment};
use crate::flags::Flags;
use crate::id::Id;
use crate::message::Body;
use crate::topology::{LinkId, Node};

/// How often a node chosen at random gets a PING.
const RANDOM_PING: u64 = 1000;
/// Of how many nodes chosen at random the one gets it that was heard of longest ago.
const RANDOM_NODES: usize = 5;
/// The least time that a handshake may take.
const MIN_HANDSHAKE: u64 = 1000;
/// How many times a node is tried to be connected to within half a timeout.
const CONNECT_TRIES: u64 = 10;

/// The steps that are due for a node.
enum Care {
    Nothing,
    Ping(LinkId),
    TakeForUnreachable,
}

impl Machine {
    /// Does what is due. To be called ten times a second.
    pub fn tick(&mut self, moment: &mut Moment<'_>) -> Vec<Effect> {
        let now = moment.now();
        for id in self.topology.ids() {
            self.keep_link(id, moment);
        }
        if now >= self.next_random_ping {
            self.next_random_ping = now + RANDOM_PING;
            self.ping_at_random(moment);
        }
        for id in self.topology.ids() {
            self.keep_in_touch(id, moment);
        }
        self.replicate_if_possible();
        self.continue_manual(moment);
        self.try_election(moment);
        self.consider_migration(moment);
        self.todo.update_health |= !self.health.is_up;
        self.finish(moment)
    }

    fn handshake_timeout(&self) -> u64 {
        self.settings.node_timeout.max(MIN_HANDSHAKE)
    }

    pub(super) fn is_past_handshake(&self, node: &Node, now: u64) -> bool {
        now.saturating_sub(node.contact.known_since) > self.handshake_timeout()
    }

    /// Makes a link to a node if there is none, and gives up a handshake that takes too long.
    fn keep_link(&mut self, id: Id, moment: &mut Moment<'_>) {
        let now = moment.now();
        let Some(node) = self.topology.node(id) else { return };
        if node.is(Flags::MYSELF.with(Flags::NO_ADDRESS)) {
            return;
        }
        if node.is(Flags::HANDSHAKE) && self.is_past_handshake(node, now) {
            self.remove_node(id, now);
            return;
        }
        let contact = &node.contact;
        let Some(link) = contact.link else {
            if self.faults.makes_no_links {
                return;
            }
            let pause = self.settings.node_timeout / 2 / CONNECT_TRIES;
            let is_due = contact.connect_tried.is_none_or(|at| now.saturating_sub(at) >= pause);
            if is_due || contact.inbound.is_some() {
                self.connect(id, moment.clock);
            }
            return;
        };
        // A node that never connects may not know this one.
        let is_old = |at: u64| now.saturating_sub(at) > self.handshake_timeout();
        let busy = Flags::HANDSHAKE.with(Flags::MEET).with(Flags::PFAIL).with(Flags::FAIL);
        let is_unknown = contact.inbound.is_none() && is_old(contact.inbound_lost);
        let is_asked = !contact.meet_sent.is_none_or(is_old);
        let is_willing = node.is(Flags::MULTI_MEET) && !node.is(busy);
        if is_unknown && is_willing && !is_asked {
            if let Some(node) = self.topology.node_mut(id) {
                node.flags.add(Flags::MEET);
            }
            self.send_gossip(link, Body::Meet, moment);
        }
    }

    fn ping_at_random(&mut self, moment: &mut Moment<'_>) {
        let hidden = Flags::MYSELF.with(Flags::HANDSHAKE);
        let nodes: Vec<&Node> = self.topology.nodes().collect();
        let chosen = (0..RANDOM_NODES).map(|_| nodes[moment.random.usize(..nodes.len())]);
        let idle = chosen.filter(|node| node.contact.ping_sent.is_none() && !node.is(hidden));
        let linked = idle.filter_map(|node| Some((node.contact.pong_received, node.contact.link?)));
        let oldest: Vec<_> = linked.collect();
        if let Some((_, link)) = oldest.into_iter().min() {
            self.send_gossip(link, Body::Ping, moment);
        }
    }

    fn keep_in_touch(&mut self, id: Id, moment: &mut Moment<'_>) {
        let now = moment.now();
        match self.care_of(id, now) {
            Care::Nothing => {}
            Care::Ping(link) => self.send_gossip(link, Body::Ping, moment),
            Care::TakeForUnreachable => {
                if let Some(node) = self.topology.node_mut(id) {
                    node.flags.add(Flags::PFAIL);
                }
                self.todo.update_health = true;
                if self.topology.is_voter(self.topology.me()) {
                    self.fail_if_agreed(id, moment);
                }
            }
        }
    }

    /// Returns what to do about a node. Closes the link to it if nothing comes.
    fn care_of(&mut self, id: Id, now: u64) -> Care {
        let timeout = self.settings.node_timeout;
        let hidden = Flags::MYSELF.with(Flags::NO_ADDRESS).with(Flags::HANDSHAKE);
        let Some(node) = self.topology.node(id).filter(|node| !node.is(hidden)) else {
            return Care::Nothing;
        };
        let contact = &node.contact;
        let age = |at: Option<u64>| at.map_or(u64::MAX, |at| now.saturating_sub(at));
        let data_age = age(contact.data_received);
        let ping_age = contact.ping_sent.map(|at| now.saturating_sub(at));
        let pong_age = age(contact.pong_received);
        let is_failing = node.is(Flags::PFAIL.with(Flags::FAIL));
        let link = contact.link.filter(|link| {
            let is_silent = ping_age.is_some_and(|age| age > timeout / 2) && data_age > timeout / 2;
            let since = self.links.get(link).map_or(now, |link| link.since);
            !(is_silent && now.saturating_sub(since) > timeout)
        });
        let dead = contact.link.filter(|_| link.is_none());
        let is_replacing = self.manual.ends.is_some() && self.manual.replica == Some(id);
        if let Some(dead) = dead {
            self.close(dead, now);
        }
        match (link, ping_age) {
            (Some(link), None) if pong_age > timeout / 2 => Care::Ping(link),
            (Some(link), _) if is_replacing => Care::Ping(link),
            (_, Some(age)) if age.min(data_age) > timeout && !is_failing => {
                Care::TakeForUnreachable
            }
            _ => Care::Nothing,
        }
    }

    /// Begins to replicate after a start, as soon as the primary's address is known.
    fn replicate_if_possible(&mut self) {
        let me = self.topology.me();
        if let Some(primary) = me.primary.filter(|_| me.is_replica() && !self.is_replicating) {
            self.replicate(primary, false);
        }
    }
}
