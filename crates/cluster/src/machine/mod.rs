//! A node of a cluster, as a state machine: it takes what happened, and returns what to do.
//!
//! What happens is: time passed ([`Machine::tick`], ten times a second), a link came up or was
//! lost, a message came, a person gave a command. What to do is a list of [`Effect`]s, in order.
//! The nodes are saved before anything is sent that depends on them: a node that promised its vote,
//! and then crashed, must not promise it to another one.
//!
//! The rules are those of Redis Cluster, in the version of Valkey 9.1 (`cluster_legacy.c`), where
//! they differ from Redis 7.0. Each file says where it departs from them.
//!
//! - `gossip`: what nodes say of themselves and of others.
//! - `receive`: what follows from a message.
//! - `claims`: who owns a slot if two nodes claim it.
//! - `failure`: when a node is taken for failed.
//! - `health`: when the cluster is down.
//! - `election`, `manual`: how a replica becomes the primary.
//! - `publish`: how what is published reaches other nodes.
//! - `info`: what CLUSTER INFO shows.
//! - `migration`: how a replica comes to a primary that lost its own.
//! - `command`: what people and tools ask for.
//! - `faults`: what DEBUG lets a node do wrong.

mod claims;
pub mod command;
mod effect;
mod election;
mod failure;
mod faults;
mod gossip;
mod health;
mod info;
mod links;
mod manual;
mod migration;
mod publish;
mod receive;
mod settings;
mod tick;
mod vote;

use std::collections::BTreeMap;

pub use command::Refusal;
pub use effect::{Effect, Moment};
pub use faults::{Dropped, Faults};
pub use settings::Settings;

use crate::clock::Clock;
use crate::flags::Flags;
use crate::id::Id;
use crate::message::Text;
use crate::topology::{LinkId, Topology};
use election::Election;
use health::Health;
use info::Traffic;
use links::Link;
pub use links::LinkFacts;
use manual::Manual;

/// The most nodes that a node learns of from others. A cluster of Redis has up to some thousand.
const MAX_NODES: usize = 4096;

/// A node of a cluster.
#[derive(Debug)]
pub struct Machine {
    topology: Topology,
    settings: Settings,
    links: BTreeMap<LinkId, Link>,
    last_link: u64,
    health: Health,
    election: Election,
    manual: Manual,
    /// Nodes that are not added again until a steady time.
    forgotten: BTreeMap<Id, u64>,
    /// Whether this node is a replica that replicates its primary already.
    is_replicating: bool,
    /// When a node chosen at random gets a PING next.
    next_random_ping: u64,
    traffic: Traffic,
    faults: Faults,
    todo: Todo,
    out: Vec<Effect>,
}

/// Work that is done once, at the end of a step.
#[derive(Clone, Copy, Debug, Default)]
struct Todo {
    save: bool,
    is_durable: bool,
    update_health: bool,
    announce: bool,
    election: bool,
}

impl Machine {
    /// Makes a node that has this topology: that of its file, or a new one.
    pub fn new(topology: Topology, settings: Settings) -> Machine {
        let mut machine = Machine {
            topology,
            settings: Settings::default(),
            links: BTreeMap::new(),
            last_link: 0,
            health: Health::default(),
            election: Election::default(),
            manual: Manual::default(),
            forgotten: BTreeMap::new(),
            is_replicating: false,
            next_random_ping: 0,
            traffic: Traffic::default(),
            faults: Faults::default(),
            todo: Todo::default(),
            out: Vec::new(),
        };
        machine.set_settings(settings);
        machine.note_failed_primary();
        machine
    }

    /// Changes the settings.
    pub fn set_settings(&mut self, settings: Settings) {
        let me = self.topology.me_mut();
        if settings.announce_ip != self.settings.announce_ip {
            // Without one to announce, it is found out again.
            me.ip = settings.announce_ip.clone();
        }
        me.ports = settings.ports;
        me.announced = settings.announced.clone();
        me.flags.set(Flags::NO_FAILOVER, settings.replica_no_failover);
        let abilities = Flags::EXTENSIONS.with(Flags::LIGHT_PUBLISH).with(Flags::MULTI_MEET);
        me.flags.add(abilities);
        self.settings = settings;
        self.todo.save = true;
        self.todo.update_health = true;
    }

    /// Returns the nodes and slots.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns what the file must have at an [`Effect::Save`].
    pub fn file(&self, clock: Clock) -> String {
        self.topology.to_file(clock, self.settings.is_tls)
    }

    /// Returns true if the cluster is up for this node.
    pub fn is_up(&self) -> bool {
        self.health.is_up
    }

    /// Returns the number of nodes that do not reach a node, by what they said lately.
    pub fn failure_reports(&self, node: Id, clock: Clock) -> usize {
        self.reports(node, clock.steady)
    }

    fn node_name_is_known(&self, id: Id) -> bool {
        self.topology.node(id).is_some()
    }

    /// Makes this node a replica of another one.
    fn follow(&mut self, primary: Id, closes_slots: bool, is_new_history: bool) {
        let me = self.topology.my_id();
        self.topology.set_replica(me, Some(primary));
        if closes_slots {
            self.topology.close_slots();
        }
        self.learn_shard(me, None);
        self.note_failed_primary();
        self.replicate(primary, is_new_history);
        self.end_manual();
        self.election = Election::default();
    }

    /// Notes whether the primary of this node has failed.
    fn note_failed_primary(&mut self) {
        let me = self.topology.me();
        let primary = me.primary.filter(|_| me.is_replica());
        let primary = primary.and_then(|primary| self.topology.node(primary));
        let has_failed = primary.is_some_and(|primary| primary.has_failed());
        self.topology.me_mut().flags.set(Flags::PRIMARY_FAILED, has_failed);
    }

    /// Replicates the primary, or waits until its address is known. A node that told others what it
    /// has of a failed primary takes nothing more from it.
    fn replicate(&mut self, id: Id, is_new_history: bool) {
        let Some(primary) = self.topology.node(id) else { return };
        let is_detached = self.settings.acknowledging_replicas > 0
            && self.topology.me().is(Flags::PRIMARY_FAILED);
        if primary.is(Flags::NO_ADDRESS) || is_detached {
            return;
        }
        let ports = primary.ports.to_message(self.settings.is_tls);
        let (ip, port) = (primary.ip.clone(), ports.client);
        self.is_replicating = true;
        self.out.push(Effect::Follow { primary: id, ip, port, is_new_history });
    }

    /// Makes a node a primary.
    fn lead(&mut self, id: Id) {
        let is_change = self.topology.node(id).is_some_and(|node| !node.is_primary());
        self.topology.set_primary(id);
        if is_change {
            if id == self.topology.my_id() {
                self.is_replicating = false;
                self.out.push(Effect::Lead);
            }
            self.todo.save = true;
            self.todo.update_health = true;
        }
    }

    fn remove_node(&mut self, id: Id, now: u64) {
        if let Some(node) = self.topology.remove(id) {
            self.close_links_of(&node, now);
        }
    }

    fn is_forgotten(&mut self, id: Id, moment: &Moment<'_>) -> bool {
        let now = moment.now();
        self.forgotten.retain(|_, until| *until >= now);
        self.forgotten.contains_key(&id)
    }

    /// Gives this node a new epoch that nobody agreed to, unless it has the highest one already.
    /// Returns true if it did.
    fn bump_epoch(&mut self) -> bool {
        let highest = self.topology.highest_epoch();
        let epoch = self.topology.me().config_epoch;
        if epoch != 0 && epoch == highest {
            return false;
        }
        self.topology.current_epoch = highest.saturating_add(1);
        self.topology.me_mut().config_epoch = self.topology.current_epoch;
        self.save_durably();
        self.todo.announce = true;
        true
    }

    fn save_durably(&mut self) {
        self.todo.save = true;
        self.todo.is_durable = true;
    }

    /// Does what a step left for its end, and returns its effects.
    fn finish(&mut self, moment: &mut Moment<'_>) -> Vec<Effect> {
        if self.todo.update_health {
            self.update_health(moment.now());
        }
        if self.todo.election {
            self.try_election(moment);
        }
        if self.todo.announce {
            self.announce(None, moment);
        }
        if self.todo.save {
            // First of all: what is sent in this step may depend on it.
            self.out.insert(0, Effect::Save { is_durable: self.todo.is_durable });
        }
        self.todo = Todo::default();
        std::mem::take(&mut self.out)
    }

    /// Sends a PONG to all nodes, or to the replicas of one, so that they hear of a change soon.
    fn announce(&mut self, shard_of: Option<Id>, moment: &mut Moment<'_>) {
        let hidden = Flags::MYSELF.with(Flags::HANDSHAKE);
        let nodes = self.topology.nodes().filter(|node| !node.is(hidden));
        let nodes = nodes.filter(|node| shard_of.is_none() || node.primary == shard_of);
        let links: Vec<LinkId> = nodes.filter_map(|node| node.contact.link).collect();
        for link in links {
            self.send_gossip(link, crate::message::Body::Pong, moment);
        }
    }

    fn my_ip_is_unknown(&self) -> bool {
        self.topology.me().ip.is_empty()
    }

    fn learn_my_ip(&mut self, ip: &Text) {
        if self.settings.announce_ip.is_empty() && !ip.is_empty() && self.topology.me().ip != *ip {
            self.topology.me_mut().ip = ip.clone();
            self.todo.save = true;
        }
    }
}
