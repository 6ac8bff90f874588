//! Messages that no honest node sends: whatever they say, a node goes on, and its table stays
//! whole.

use cluster::machine::{Machine, Moment, Settings};
use cluster::message::{Body, Entry, Extension, Gossip, Header, Message, Ports, Text, Update};
use cluster::topology::Topology;
use cluster::{Clock, Flags, Id, LinkId, SlotSet};

use crate::node::ip;

struct Liar {
    random: fastrand::Rng,
    ids: Vec<Id>,
}

impl Liar {
    fn id(&mut self) -> Id {
        let id = self.random.usize(..self.ids.len() + 1);
        self.ids.get(id).copied().unwrap_or_else(|| Id::random(&mut self.random))
    }

    fn number(&mut self) -> u64 {
        match self.random.u32(..4) {
            0 => self.random.u64(..20),
            1 => u64::MAX - self.random.u64(..3),
            _ => self.random.u64(..),
        }
    }

    fn slots(&mut self) -> SlotSet {
        let first = self.random.u16(..16384);
        let count = self.random.u16(..16384 - first);
        (first..first + count).collect()
    }

    fn ports(&mut self) -> Ports {
        let mut port = || self.random.u16(..);
        Ports { client: port(), other: port(), bus: port() }
    }

    fn address(&mut self) -> Text {
        if self.random.bool() { Text::default() } else { ip(self.random.usize(..5)) }
    }

    fn header(&mut self) -> Header {
        Header {
            sender: self.id(),
            ip: self.address(),
            ports: self.ports(),
            flags: Flags::from_bits(self.random.u16(..)),
            primary: if self.random.bool() { Some(self.id()) } else { None },
            current_epoch: self.number(),
            config_epoch: self.number(),
            slots: self.slots(),
            offset: self.number(),
            is_down: self.random.bool(),
            is_paused: self.random.bool(),
            forces_vote: self.random.bool(),
            has_extensions: self.random.bool(),
        }
    }

    fn gossip(&mut self) -> Gossip {
        let entry = |liar: &mut Liar| Entry {
            node: liar.id(),
            ping_sent: liar.random.u32(..),
            pong_received: liar.random.u32(..),
            ip: liar.address(),
            ports: liar.ports(),
            flags: Flags::from_bits(liar.random.u16(..)),
        };
        let entries = (0..self.random.usize(..4)).map(|_| entry(self)).collect();
        let mut extensions = Vec::new();
        if self.random.bool() {
            extensions.push(Extension::Shard(self.id()));
        }
        if self.random.u32(..10) == 0 {
            extensions.push(Extension::Forgotten { node: self.id(), seconds: self.number() });
        }
        Gossip { entries, extensions }
    }

    fn message(&mut self) -> Message {
        let body = match self.random.u32(..12) {
            0..=2 => Body::Ping(self.gossip()),
            3..=5 => Body::Pong(self.gossip()),
            6 => Body::Meet(self.gossip()),
            7 => Body::Fail(self.id()),
            8 => Body::AskVote,
            9 => Body::Vote,
            10 => Body::StartFailover,
            _ => Body::Update(Update {
                node: self.id(),
                config_epoch: self.number(),
                slots: self.slots(),
            }),
        };
        Message::full(self.header(), body)
    }
}

fn check_whole(topology: &Topology) {
    let me = topology.me();
    assert!(me.is(Flags::MYSELF) && me.id == topology.my_id());
    assert!(me.is_primary() != me.is_replica());
    assert_ne!(me.primary, Some(me.id));
    assert_eq!(topology.nodes().filter(|node| node.is(Flags::MYSELF)).count(), 1);
    let counted: usize = topology.nodes().map(|node| topology.slot_count(node.id)).sum();
    assert_eq!(counted, topology.assigned_slots(), "every owner is known");
}

#[test]
fn lies_never_cause_a_panic_and_the_table_stays_whole() {
    for seed in 0..12 {
        let mut random = fastrand::Rng::with_seed(seed);
        let topology = Topology::new(0, &mut random);
        let settings =
            Settings { acknowledging_replicas: seed as usize % 2, ..Settings::default() };
        let mut machine = Machine::new(topology, settings);
        let mut liar = Liar { random: random.fork(), ids: vec![machine.topology().my_id()] };
        let mut links = Vec::new();
        let mut steady = 0;
        for _ in 0..400 {
            steady += random.u64(..3000);
            let clock = Clock { steady, wall: random.u64(..) };
            let offset = random.u64(..100);
            let mut moment = Moment {
                clock,
                offset,
                data_age: 0,
                is_synced: true,
                has_data: true,
                random: &mut random,
            };
            if links.len() < 6 {
                links.push(machine.accepted(ip(1), ip(0), &moment));
            }
            let effects = match liar.random.u32(..8) {
                0 => machine.tick(&mut moment),
                1 => {
                    let link = links.swap_remove(liar.random.usize(..links.len()));
                    machine.closed(link, &mut moment)
                }
                _ => {
                    let link = links[liar.random.usize(..links.len())];
                    machine.received(link, liar.message(), &mut moment)
                }
            };
            for effect in effects {
                if let cluster::Effect::Connect { link, .. } = effect {
                    machine.connected(link, &mut moment);
                    links.push(link);
                }
            }
            check_whole(machine.topology());
            let nodes = machine.topology().nodes();
            liar.ids = nodes.map(|node| node.id).collect();
            let text = machine.file(clock);
            let read = Topology::from_file(&text, clock, false, &mut random);
            assert!(read.is_ok(), "seed {seed}: {read:?} of\n{text}");
        }
    }
}

/// A node, and the time that passes for it.
struct Target {
    machine: Machine,
    random: fastrand::Rng,
    steady: u64,
}

impl Target {
    fn new() -> Target {
        let mut random = fastrand::Rng::with_seed(1);
        let topology = Topology::new(0, &mut random);
        Target { machine: Machine::new(topology, Settings::default()), random, steady: 0 }
    }

    fn step<T>(&mut self, step: impl FnOnce(&mut Machine, &mut Moment<'_>) -> T) -> T {
        self.steady += 100;
        let clock = Clock { steady: self.steady, wall: self.steady };
        let random = &mut self.random;
        let (data_age, offset, is_synced, has_data) = (0, 0, true, true);
        let mut moment = Moment { clock, offset, data_age, is_synced, has_data, random };
        step(&mut self.machine, &mut moment)
    }

    fn nodes(&self) -> usize {
        self.machine.topology().len()
    }

    /// Takes a message on a link.
    fn take(&mut self, link: LinkId, header: &Header, body: Body) {
        let message = Message::full(header.clone(), body);
        self.step(|machine, moment| machine.received(link, message, moment));
    }

    /// Accepts a connection on which a stranger says MEET.
    fn meet(&mut self, header: &Header, gossip: Gossip) -> LinkId {
        let link = self.step(|machine, moment| machine.accepted(ip(7), ip(0), moment));
        self.take(link, header, Body::Meet(gossip));
        link
    }

    /// Lets the stranger answer on the link that this node makes to it.
    fn end_handshake(&mut self, header: &Header) {
        let effects = self.step(Machine::tick);
        let link = effects.iter().find_map(|effect| match effect {
            cluster::Effect::Connect { link, .. } => Some(*link),
            _ => None,
        });
        let link = link.expect("the node connects");
        self.step(|machine, moment| machine.connected(link, moment));
        self.take(link, header, Body::Pong(Gossip::default()));
        assert!(self.machine.topology().node(header.sender).is_some());
    }
}

fn invented(number: usize, random: &mut fastrand::Rng) -> Gossip {
    let entry = |random: &mut fastrand::Rng| Entry {
        node: Id::random(random),
        ping_sent: 0,
        pong_received: 0,
        ip: ip(random.usize(..200)),
        ports: Ports { client: 1, other: 0, bus: 2 },
        flags: Flags::PRIMARY,
    };
    let entries = (0..number).map(|_| entry(random)).collect();
    Gossip { entries, extensions: Vec::new() }
}

#[test]
fn a_stranger_does_not_fill_the_table() {
    let mut target = Target::new();
    let mut liar = Liar { random: fastrand::Rng::with_seed(2), ids: Vec::new() };
    let sender = Id::random(&mut liar.random);
    let header = Header { sender, ip: ip(7), primary: None, ..liar.header() };
    let gossip = invented(60_000, &mut liar.random);
    let link = target.meet(&header, gossip.clone());
    assert_eq!(target.nodes(), 2, "the node, and the stranger");
    target.end_handshake(&header);
    target.take(link, &header, Body::Ping(gossip));
    assert_eq!(target.nodes(), 102, "a part of what a message names");
    for _ in 0..60 {
        target.take(link, &header, Body::Ping(invented(100, &mut liar.random)));
    }
    assert_eq!(target.nodes(), 4096, "as many as a cluster may have");
}

#[test]
fn a_late_message_makes_nobody_take_another_epoch() {
    let mut target = Target::new();
    target.step(|machine, moment| machine.command_set_epoch(5, moment).expect("a new node"));
    let mut liar = Liar { random: fastrand::Rng::with_seed(3), ids: Vec::new() };
    let sender = Id::parse(&[b'z'; 40]).expect("the highest ID");
    let header = Header {
        sender,
        ip: ip(7),
        primary: None,
        slots: SlotSet::new(),
        current_epoch: 7,
        config_epoch: 7,
        ..liar.header()
    };
    let link = target.meet(&header, Gossip::default());
    target.end_handshake(&header);
    target.take(link, &header, Body::Ping(Gossip::default()));
    // It was sent before the other one took its epoch.
    let late = Header { config_epoch: 5, current_epoch: 5, ..header };
    target.take(link, &late, Body::Ping(Gossip::default()));
    assert_eq!(target.machine.topology().me().config_epoch, 5);
}
