//! A cluster of simulated nodes, and the time in which they live.

use std::collections::BTreeMap;

use cluster::machine::{Effect, Machine, Moment, Settings};
use cluster::message::{Body, Message, Text};
use cluster::{Id, LinkId, SLOTS};

use crate::network::{Network, Number};
use crate::node::{Node, TIMEOUT, ip};
use crate::watch::Watch;

/// How often nodes are asked what is due.
const TICK: u64 = 100;

/// A mistake that is planted, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// Nodes do not save how they voted.
    ForgetVotes,
    /// Every vote counts for all candidates.
    VoteForAll,
    /// Messages name epoch 0 for slots.
    NoEpochs,
    /// Nobody hears of failures.
    NoFailures,
    /// Elections do not ask what replicas acknowledged.
    IgnoreAcknowledged,
}

enum Event {
    Tick { node: Number, starts: u64 },
    Deliver { connection: u64, end: usize, bytes: Vec<u8> },
    Connect { from: Number, starts: u64, link: LinkId, to: Option<Number> },
    Closed { connection: u64, end: usize },
}

pub(crate) struct World {
    pub(crate) time: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) network: Network,
    pub(crate) watch: Watch,
    pub(crate) random: fastrand::Rng,
    mistake: Mistake,
    /// Whether the mistake is made already.
    is_planted: bool,
    acknowledging: usize,
    queue: BTreeMap<(u64, u64), Event>,
    last_event: u64,
}

pub(crate) fn settings() -> Settings {
    Settings { node_timeout: TIMEOUT, ..Settings::default() }
}

impl World {
    pub(crate) fn new(nodes: usize, seed: u64, settings: &Settings, mistake: Mistake) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let seeds: Vec<u64> = (0..nodes).map(|_| random.u64(..)).collect();
        let mut of_nodes = settings.clone();
        if mistake == Mistake::IgnoreAcknowledged {
            of_nodes.acknowledging_replicas = 0;
        }
        let make = |number: Number| Node::new(number, seeds[number], &of_nodes);
        let mut world = World {
            time: 0,
            nodes: (0..nodes).map(make).collect(),
            network: Network::new(nodes),
            watch: Watch::default(),
            random,
            mistake,
            is_planted: false,
            acknowledging: settings.acknowledging_replicas,
            queue: BTreeMap::new(),
            last_event: 0,
        };
        for node in 0..nodes {
            world.schedule_tick(node);
        }
        world
    }

    /// Makes a cluster as tools make it: of primaries with a part of the slots each, and their
    /// replicas in turn.
    pub(crate) fn create(&mut self, primaries: usize) {
        let part = SLOTS as usize / primaries;
        for node in 0..primaries {
            let first = node * part;
            let last = if node + 1 == primaries { SLOTS as usize } else { first + part };
            self.command(node, |machine, moment| {
                machine.command_add_slots(first as u16..last as u16, moment).expect("free slots")
            });
        }
        for node in 0..self.nodes.len() {
            self.command(node, |machine, moment| {
                machine.command_set_epoch(node as u64 + 1, moment).expect("a new node")
            });
        }
        for node in 1..self.nodes.len() {
            let address = ip(node);
            self.command(0, |machine, moment| {
                machine.command_meet(address.as_str(), 7000, 17_000, moment).expect("an address")
            });
        }
        let knows_all = |world: &World| {
            let known = |node: &Node| node.topology().map_or(0, |topology| topology.len());
            world.nodes.iter().all(|node| known(node) == world.nodes.len())
        };
        self.run_until(60_000, "all nodes know each other", knows_all);
        self.run(3000);
        for node in primaries..self.nodes.len() {
            let primary = self.nodes[(node - primaries) % primaries].id().expect("up");
            self.command(node, |machine, moment| {
                machine.command_replicate(primary.as_bytes(), false, moment).expect("a primary")
            });
        }
        self.run_until(60_000, "the cluster is up", |world| world.disagreement().is_none());
    }

    pub(crate) fn command(
        &mut self,
        node: Number,
        command: impl FnOnce(&mut Machine, &mut Moment<'_>) -> Vec<Effect>,
    ) {
        let effects = self.nodes[node].step(self.time, command);
        self.perform(node, effects);
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.last_event += 1;
        self.queue.insert((at, self.last_event), event);
    }

    fn schedule_tick(&mut self, node: Number) {
        let starts = self.nodes[node].starts;
        let at = self.time + self.random.u64(1..=TICK);
        self.schedule(at, Event::Tick { node, starts });
    }

    /// Lets time pass.
    pub(crate) fn run(&mut self, duration: u64) {
        let end = self.time + duration;
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > end {
                break;
            }
            let ((time, _), event) = entry.remove_entry();
            self.time = time;
            self.handle(event);
        }
        self.time = end;
    }

    /// Lets time pass until something is so. Returns how long it took.
    #[track_caller]
    pub(crate) fn run_until(
        &mut self,
        limit: u64,
        what: &str,
        is_so: impl Fn(&World) -> bool,
    ) -> u64 {
        let began = self.time;
        while !is_so(self) {
            let late = self.time - began >= limit;
            assert!(!late, "not within {limit} ms: {what}; {:?}", self.disagreement());
            self.run(TICK);
        }
        self.time - began
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick { node, starts } if self.nodes[node].starts == starts => {
                self.replicate(node);
                let effects = self.nodes[node].step(self.time, Machine::tick);
                self.perform(node, effects);
                self.schedule(self.time + TICK, Event::Tick { node, starts });
            }
            Event::Tick { .. } => {}
            Event::Deliver { connection, end, bytes } => self.deliver(connection, end, &bytes),
            Event::Connect { from, starts, link, to } => {
                if self.nodes[from].starts == starts {
                    self.connect(from, link, to);
                }
            }
            Event::Closed { connection, end } => self.close_end(connection, end),
        }
    }

    fn deliver(&mut self, connection: u64, end: usize, bytes: &[u8]) {
        let Some(entry) = self.network.connections.get(&connection) else { return };
        let (node, from) = (entry.ends[end], entry.ends[1 - end]);
        let Some(link) = entry.links[end] else { return };
        if !self.network.reaches(from, node) {
            return;
        }
        let message = Message::decode(bytes).expect("a message of a node is valid");
        if self.is_planted
            && self.mistake == Mistake::VoteForAll
            && matches!(message, Message::Full(_, Body::Vote))
        {
            self.deliver_to_all(from, &message);
            return;
        }
        let effects = self.nodes[node]
            .step(self.time, |machine, moment| machine.received(link, message, moment));
        self.perform(node, effects);
    }

    /// Plants a mistake: a vote is counted by all nodes.
    fn deliver_to_all(&mut self, from: Number, message: &Message) {
        let ends: Vec<(Number, LinkId)> = self
            .network
            .connections
            .values()
            .flat_map(|entry| {
                let to = (0..2).filter(|end| entry.ends[1 - end] == from);
                to.filter_map(|end| Some((entry.ends[end], entry.links[end]?))).collect::<Vec<_>>()
            })
            .collect();
        for (node, link) in ends {
            let message = message.clone();
            let effects = self.nodes[node]
                .step(self.time, |machine, moment| machine.received(link, message, moment));
            self.perform(node, effects);
        }
    }

    fn connect(&mut self, from: Number, link: LinkId, to: Option<Number>) {
        let is_reached = |to: Number| {
            let is_up = self.nodes[to].machine.is_some();
            is_up && self.network.reaches(from, to) && self.network.reaches(to, from)
        };
        let Some(to) = to.filter(|to| is_reached(*to)) else {
            let effects =
                self.nodes[from].step(self.time, |machine, moment| machine.closed(link, moment));
            self.perform(from, effects);
            return;
        };
        let mut accepted = None;
        self.command(to, |machine, moment| {
            accepted = Some(machine.accepted(ip(from), ip(to), moment));
            Vec::new()
        });
        self.network.connect([from, to], [Some(link), accepted]);
        self.command(from, |machine, moment| machine.connected(link, moment));
    }

    fn close_end(&mut self, connection: u64, end: usize) {
        let Some(entry) = self.network.connections.remove(&connection) else { return };
        if let Some(link) = entry.links[end] {
            self.command(entry.ends[end], |machine, moment| machine.closed(link, moment));
        }
    }

    /// Does what a node wants done.
    fn perform(&mut self, node: Number, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send { link, message } => self.send(node, link, message),
                Effect::Connect { link, ip, .. } => {
                    let to = self.number_of(&ip);
                    let at = self.time + self.random.u64(1..=self.network.max_delay);
                    let starts = self.nodes[node].starts;
                    self.schedule(at, Event::Connect { from: node, starts, link, to });
                }
                Effect::Close(link) => self.close(node, link),
                Effect::Follow { primary, is_new_history, .. } => {
                    self.nodes[node].follows = Some(primary);
                    if is_new_history {
                        self.nodes[node].offset = 0;
                    }
                }
                Effect::Detach => self.nodes[node].follows = None,
                Effect::Lead => self.leads(node),
                _ => {}
            }
        }
        if let Some(topology) = self.nodes[node].topology() {
            self.watch.see_claims(topology);
        }
    }

    fn leads(&mut self, node: Number) {
        self.nodes[node].follows = None;
        let offset = self.nodes[node].offset;
        if let Some(topology) = self.nodes[node].topology()
            && self.acknowledging > 0
        {
            self.watch.see_new_primary(topology.me().shard, offset);
        }
    }

    fn number_of(&self, address: &Text) -> Option<Number> {
        (0..self.nodes.len()).find(|number| ip(*number) == *address)
    }

    pub(crate) fn number_of_id(&self, id: Id) -> Option<Number> {
        self.nodes.iter().position(|node| node.id() == Some(id))
    }

    fn send(&mut self, node: Number, link: LinkId, mut bytes: Vec<u8>) {
        let Some((connection, end)) = self.network.find(node, link) else { return };
        let to = self.network.connections[&connection].ends[1 - end];
        self.watch.see_message(&bytes, to);
        if self.is_planted {
            self.make_mistake(&mut bytes);
        }
        if bytes.is_empty() || !self.network.reaches(node, to) || self.is_lost() {
            return;
        }
        let delay = self.random.u64(1..=self.network.max_delay);
        let entry = self.network.connections.get_mut(&connection).expect("found");
        let busy = &mut entry.busy_until[1 - end];
        *busy = (*busy).max(self.time + delay);
        let at = *busy;
        self.schedule(at, Event::Deliver { connection, end: 1 - end, bytes });
    }

    fn is_lost(&mut self) -> bool {
        let one_in = self.network.loses_one_in;
        one_in > 0 && self.random.u64(..one_in) == 0
    }

    fn make_mistake(&self, bytes: &mut Vec<u8>) {
        match self.mistake {
            Mistake::NoEpochs => bytes[24..32].fill(0),
            Mistake::NoFailures if bytes[12..14] == [0, 3] => bytes.clear(),
            Mistake::NoFailures => {
                // The flags of each entry of the gossip: PFAIL and FAIL are taken away.
                let entries = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
                if bytes[12] == 0 && bytes[13] <= 2 {
                    for entry in 0..entries {
                        bytes[2256 + entry * 104 + 99] &= !0b1100;
                    }
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, node: Number, link: LinkId) {
        let Some((connection, end)) = self.network.find(node, link) else { return };
        self.network.connections.get_mut(&connection).expect("found").links[end] = None;
        let at = self.time + self.random.u64(1..=self.network.max_delay);
        self.schedule(at, Event::Closed { connection, end: 1 - end });
    }

    pub(crate) fn crash(&mut self, node: Number) {
        self.nodes[node].crash();
        let ends: Vec<(u64, usize)> = self
            .network
            .connections
            .iter()
            .filter_map(|(id, entry)| {
                (0..2).find(|end| entry.ends[*end] == node).map(|end| (*id, 1 - end))
            })
            .collect();
        for (connection, end) in ends {
            let entry = self.network.connections.get_mut(&connection).expect("found");
            entry.links[1 - end] = None;
            self.schedule(self.time + 1, Event::Closed { connection, end });
        }
    }

    pub(crate) fn restart(&mut self, node: Number) {
        if self.nodes[node].machine.is_none() {
            self.nodes[node].restart(self.time);
            self.schedule_tick(node);
        }
    }

    /// Makes the mistake from now on.
    pub(crate) fn plant(&mut self) {
        self.is_planted = true;
        if self.mistake == Mistake::ForgetVotes {
            self.nodes.iter_mut().for_each(|node| node.forgets_saves = true);
        }
    }

    /// Breaks all connections of a node.
    pub(crate) fn disconnect(&mut self, node: Number) {
        let all = self.network.connections.iter();
        let broken = all.filter(|(_, entry)| entry.ends.contains(&node));
        let broken: Vec<u64> = broken.map(|(id, _)| *id).collect();
        for id in broken {
            let Some(entry) = self.network.connections.remove(&id) else { continue };
            for end in 0..2 {
                if let Some(link) = entry.links[end] {
                    self.command(entry.ends[end], |machine, moment| machine.closed(link, moment));
                }
            }
        }
    }

    /// Models replication: a primary writes, a replica takes what its primary has.
    fn replicate(&mut self, number: Number) {
        let node = &self.nodes[number];
        let Some(machine) = &node.machine else { return };
        if node.leads() && machine.is_up() {
            self.nodes[number].offset += self.random.u64(1..100);
            self.acknowledge(number);
        }
        let Some(primary) = self.nodes[number].follows else { return };
        let Some(primary) = self.number_of_id(primary) else { return };
        let is_reached =
            self.network.reaches(primary, number) && self.network.reaches(number, primary);
        let is_primary =
            self.nodes[primary].topology().is_some_and(|topology| topology.me().is_primary());
        if is_reached && is_primary {
            let end = self.nodes[primary].offset;
            let lags = self.random.u64(..4) == 0;
            let node = &mut self.nodes[number];
            node.heard_at = self.time;
            if !lags || node.offset > end {
                node.offset = end;
            }
            self.acknowledge(primary);
        }
    }

    /// Notes what clients of a primary were told to be written.
    fn acknowledge(&mut self, primary: Number) {
        if self.acknowledging == 0 {
            return;
        }
        let node = &self.nodes[primary];
        let (Some(id), Some(topology)) = (node.id(), node.topology()) else { return };
        if !node.leads() {
            return;
        }
        let shard = topology.me().shard;
        let end = node.offset;
        let replicas = self.nodes.iter().filter(|node| node.follows == Some(id));
        let mut offsets: Vec<u64> = replicas.map(|node| node.offset.min(end)).collect();
        offsets.sort_unstable_by(|one, other| other.cmp(one));
        if let Some(offset) = offsets.get(self.acknowledging - 1) {
            self.watch.see_acknowledged(shard, *offset);
        }
    }

    /// Returns in what nodes disagree, or what keeps the cluster from being up.
    pub(crate) fn disagreement(&self) -> Option<String> {
        let mut first: Option<Vec<String>> = None;
        for node in &self.nodes {
            let Some(machine) = &node.machine else {
                return Some(format!("node {} is down", node.number));
            };
            let topology = machine.topology();
            if !machine.is_up() {
                return Some(format!("the cluster is down for node {}", node.number));
            }
            let line = |node: &cluster::topology::Node| {
                let failing = cluster::Flags::PFAIL.with(cluster::Flags::FAIL);
                let role = if node.is_primary() { "primary" } else { "replica" };
                let (epoch, is_failing) = (topology.epoch_of(node), node.is(failing));
                let slots = topology.slots_of(node.id);
                format!("{} {role} {:?} {epoch} {is_failing} {slots}", node.id, node.primary)
            };
            let view: Vec<String> = topology.nodes().map(line).collect();
            let before = first.get_or_insert_with(|| view.clone());
            if *before != view {
                let number = node.number;
                return Some(format!("node {number} disagrees with node 0: {before:#?} {view:#?}"));
            }
        }
        None
    }
}
