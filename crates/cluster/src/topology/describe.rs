//! Nodes as text: `nodes.conf`, and what CLUSTER NODES replies.
//!
//! A line is a node:
//!
//! ```text
//! ID ip:port@busport[,hostname[,name=value...]] flags primary|- ping pong epoch connected slots...
//! ```
//!
//! and the last line of the file is `vars currentEpoch N lastVoteEpoch N`. Files of Redis 7.0, of
//! Redis 8.0 and of Valkey 9.1 are read; what is written is as Valkey 9.1 writes it. A file that
//! cannot be understood is refused as a whole: a node that forgot how it voted must not start.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::route::Connection;
use super::{Node, Topology};
use crate::clock::Clock;
use crate::flags::Flags;
use crate::id::Id;
use crate::message::Text;
use crate::slot::SLOTS;

/// The distance of the bus's port from that for clients, where a file does not say it.
const BUS_PORT_OFFSET: u16 = 10_000;

/// A line of `nodes.conf` that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cluster's file is damaged at line {line}: {problem}")]
pub struct FileError {
    /// The number of the line; that after the last one if something is missing.
    pub line: usize,
    /// The reason.
    pub problem: &'static str,
}

/// The reader of a line.
#[derive(Clone, Copy)]
enum For {
    /// `nodes.conf`, of a bus with TLS or without.
    File { is_tls: bool },
    /// A client.
    Client(Connection),
}

impl Topology {
    /// Returns what `nodes.conf` must have.
    pub fn to_file(&self, clock: Clock, is_tls: bool) -> String {
        let mut text = String::new();
        for node in self.nodes().filter(|node| !node.is(Flags::HANDSHAKE)) {
            self.describe(node, clock, For::File { is_tls }, &mut text);
            text.push('\n');
        }
        let (current, vote) = (self.current_epoch, self.last_vote_epoch);
        let _ = writeln!(text, "vars currentEpoch {current} lastVoteEpoch {vote}");
        text
    }

    /// Returns the line of a node, without its end, as CLUSTER NODES replies it to a client.
    pub fn line(&self, node: &Node, clock: Clock, client: Connection) -> String {
        let mut text = String::new();
        self.describe(node, clock, For::Client(client), &mut text);
        text
    }

    fn describe(&self, node: &Node, clock: Clock, reader: For, out: &mut String) {
        let (ip, port) = match reader {
            For::File { is_tls: true } => (node.ip.as_str(), node.ports.tls),
            For::File { is_tls: false } => (node.ip.as_str(), node.ports.tcp),
            For::Client(client) => (node.client_ip(client), node.client_port(client.is_tls)),
        };
        let _ = write!(out, "{} {ip}:{port}@{}", node.id, node.ports.bus);
        let host_name = &node.announced.host_name;
        match reader {
            For::File { is_tls } => {
                let _ = write!(out, ",{host_name}");
                write_auxiliary(node, is_tls, out);
            }
            For::Client(_) if host_name.is_empty() => {}
            For::Client(_) => {
                let _ = write!(out, ",{host_name}");
            }
        }
        let _ = write!(out, " {} ", node.flags);
        match node.primary {
            Some(primary) => out.push_str(primary.as_str()),
            None => out.push('-'),
        }
        let time = |steady: Option<u64>| steady.map_or(0, |steady| clock.wall_of(steady));
        let (ping, pong) = (time(node.contact.ping_sent), time(node.contact.pong_received));
        let state = if node.is_connected() { "connected" } else { "disconnected" };
        let _ = write!(out, " {ping} {pong} {} {state}", self.epoch_of(node));
        let slots = self.slots_of(node.id);
        if !slots.is_empty() {
            let _ = write!(out, " {slots}");
        }
        if node.is(Flags::MYSELF) {
            self.write_open_slots(out);
        }
    }

    fn write_open_slots(&self, out: &mut String) {
        let open: BTreeSet<&u16> = self.migrating.keys().chain(self.importing.keys()).collect();
        for slot in open {
            let _ = match (self.migrating.get(slot), self.importing.get(slot)) {
                (Some(to), _) => write!(out, " [{slot}->-{to}]"),
                (None, Some(from)) => write!(out, " [{slot}-<-{from}]"),
                (None, None) => Ok(()),
            };
        }
    }

    /// Reads `nodes.conf`.
    pub fn from_file(
        text: &str,
        clock: Clock,
        is_tls: bool,
        random: &mut fastrand::Rng,
    ) -> Result<Topology, FileError> {
        Reader { clock, is_tls, random, line: 0, lines: Vec::new(), epochs: (0, 0) }.read(text)
    }
}

/// Writes the fields that only the file has, in the order of Valkey.
fn write_auxiliary(node: &Node, is_tls: bool, out: &mut String) {
    let announced = &node.announced;
    let text = |out: &mut String, name: &str, text: &Text| {
        if !text.is_empty() {
            let _ = write!(out, ",{name}={text}");
        }
    };
    let port = |out: &mut String, name: &str, port: u16| {
        if port != 0 {
            let _ = write!(out, ",{name}={port}");
        }
    };
    text(out, "availability-zone", &announced.zone);
    port(out, "client-tls-port", announced.client_tls_port);
    port(out, "client-tcp-port", announced.client_port);
    text(out, "client-ipv6", &announced.client_ipv6);
    text(out, "client-ipv4", &announced.client_ipv4);
    let _ = match is_tls {
        false => write!(out, ",tls-port={}", node.ports.tls),
        true => write!(out, ",tcp-port={}", node.ports.tcp),
    };
    text(out, "nodename", &announced.node_name);
    let _ = write!(out, ",shard-id={}", node.shard);
}

/// The parts of a line besides the node itself.
struct Line {
    number: usize,
    node: Node,
    slots: Vec<String>,
}

struct Reader<'a> {
    clock: Clock,
    is_tls: bool,
    random: &'a mut fastrand::Rng,
    line: usize,
    lines: Vec<Line>,
    /// The current one, and that of the last vote.
    epochs: (u64, u64),
}

impl Reader<'_> {
    fn read(mut self, text: &str) -> Result<Topology, FileError> {
        for line in text.lines() {
            self.line += 1;
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["vars", vars @ ..] => self.vars(vars)?,
                words => {
                    let line = self.node(words)?;
                    self.lines.push(line);
                }
            }
        }
        self.line += 1;
        self.assemble()
    }

    fn error<T>(&self, problem: &'static str) -> Result<T, FileError> {
        Err(FileError { line: self.line, problem })
    }

    fn some<T>(&self, value: Option<T>, problem: &'static str) -> Result<T, FileError> {
        value.map_or_else(|| self.error(problem), Ok)
    }

    /// Reads the epochs. Variables of newer versions are left out.
    fn vars(&mut self, vars: &[&str]) -> Result<(), FileError> {
        for pair in vars.chunks(2) {
            let value = self.some(pair.get(1), "a variable without a value")?;
            let number = self.some(value.parse().ok(), "an epoch that is no number");
            match pair[0] {
                "currentEpoch" => self.epochs.0 = number?,
                "lastVoteEpoch" => self.epochs.1 = number?,
                _ => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, words: &[&str]) -> Result<Line, FileError> {
        let &[id, address, flags, primary, ping, pong, epoch, _, ref slots @ ..] = words else {
            return self.error("fewer than eight fields");
        };
        let id = self.some(Id::parse(id.as_bytes()), "an invalid node ID")?;
        let mut node = Node::new(id, Flags::NONE, self.clock.steady, self.random);
        self.address(&mut node, address)?;
        for flag in flags.split(',') {
            node.flags.add(self.some(Flags::parse(flag), "an unknown flag")?);
        }
        // A node whose address was lost has failed only if most primaries find so.
        if node.is(Flags::NO_ADDRESS) {
            node.flags.add(Flags::PFAIL);
        }
        if node.has_failed() {
            node.contact.failed_at = self.clock.steady;
        }
        if primary != "-" {
            let id = Id::parse(primary.as_bytes());
            node.primary = Some(self.some(id, "an invalid ID of a primary")?);
        }
        let is_set = |time: &str| !time.trim_start_matches('0').is_empty();
        node.contact.ping_sent = is_set(ping).then_some(self.clock.steady);
        node.contact.pong_received = is_set(pong).then_some(self.clock.steady);
        let epoch = self.some(epoch.parse().ok(), "an epoch that is no number")?;
        node.config_epoch = if node.is_replica() && node.primary.is_some() { 0 } else { epoch };
        let slots = slots.iter().map(|slots| (*slots).to_owned()).collect();
        Ok(Line { number: self.line, node, slots })
    }

    /// Reads `ip:port@busport,hostname,name=value`.
    fn address(&self, node: &mut Node, address: &str) -> Result<(), FileError> {
        let mut fields = address.split(',');
        let endpoint = fields.next().unwrap_or_default();
        let host_name = fields.next().unwrap_or_default();
        node.announced.host_name = self.text(host_name)?;
        let (ip, ports) = self.some(endpoint.rsplit_once(':'), "an address without a port")?;
        node.ip = self.text(ip)?;
        let (port, bus) = ports.split_once('@').unwrap_or((ports, ""));
        let port: u16 = self.some(port.parse().ok(), "a port that is no number")?;
        node.ports.bus = match bus {
            "" => port.wrapping_add(BUS_PORT_OFFSET),
            bus => self.some(bus.parse().ok(), "a bus port that is no number")?,
        };
        let (mut tcp, mut tls) = (None, None);
        for field in fields {
            let (name, value) = self.some(field.split_once('='), "a field without a value")?;
            let number = self.some(value.parse().ok(), "a port that is no number");
            match name {
                "shard-id" => {
                    node.shard = self.some(Id::parse(value.as_bytes()), "an invalid shard ID")?;
                }
                "nodename" => node.announced.node_name = self.text(value)?,
                "tcp-port" => tcp = Some(number?),
                "tls-port" => tls = Some(number?),
                "client-ipv4" => node.announced.client_ipv4 = self.text(value)?,
                "client-ipv6" => node.announced.client_ipv6 = self.text(value)?,
                "client-tcp-port" => node.announced.client_port = number?,
                "client-tls-port" => node.announced.client_tls_port = number?,
                "availability-zone" => node.announced.zone = self.text(value)?,
                _ => return self.error("an unknown field of a node"),
            }
        }
        // The port before the `@` is the one that no field names.
        (node.ports.tcp, node.ports.tls) = match (tcp, tls) {
            (None, None) if self.is_tls => (0, port),
            (None, tls) => (port, tls.unwrap_or(0)),
            (Some(tcp), tls) => (tcp, tls.unwrap_or(port)),
        };
        Ok(())
    }

    fn text(&self, text: &str) -> Result<Text, FileError> {
        self.some(Text::parse(text.as_bytes()), "an invalid address or name")
    }

    /// Puts the lines together, once all nodes are known.
    fn assemble(mut self) -> Result<Topology, FileError> {
        let lines = std::mem::take(&mut self.lines);
        let mut mine = lines.iter().filter(|line| line.node.is(Flags::MYSELF));
        let me = self.some(mine.next(), "no node is this one")?;
        if let Some(second) = mine.next() {
            self.line = second.number;
            return self.error("a second node is this one");
        }
        let mut topology = Topology::of(me.node.clone());
        let mut known = BTreeSet::new();
        for line in &lines {
            if !known.insert(line.node.id) {
                self.line = line.number;
                return self.error("a node that was there before");
            }
            topology.add(line.node.clone());
        }
        for line in &lines {
            self.line = line.number;
            if let Some(primary) = line.node.primary {
                self.follow(&mut topology, line, primary);
            }
            for slots in &line.slots {
                self.slots(&mut topology, line.node.id, slots)?;
            }
        }
        topology.current_epoch = self.epochs.0;
        topology.last_vote_epoch = self.epochs.1;
        topology.current_epoch = topology.highest_epoch();
        Ok(topology)
    }

    /// Makes a node a replica. It is in the shard of its primary.
    fn follow(&mut self, topology: &mut Topology, line: &Line, primary: Id) {
        self.know(topology, primary, line.node.shard);
        let shard = topology.node(primary).map(|primary| primary.shard);
        if let (Some(node), Some(shard)) = (topology.node_mut(line.node.id), shard) {
            node.shard = shard;
        }
        topology.set_replica(line.node.id, Some(primary));
    }

    /// Adds a node of which the file has only the ID.
    fn know(&mut self, topology: &mut Topology, id: Id, shard: Id) {
        if topology.node(id).is_none() {
            let node = Node::new(id, Flags::NO_ADDRESS, self.clock.steady, self.random);
            topology.add(Node { shard, ..node });
        }
    }

    /// Reads `5`, `0-5460`, `[7->-ID]` or `[7-<-ID]`.
    fn slots(&mut self, topology: &mut Topology, node: Id, text: &str) -> Result<(), FileError> {
        let problem = "invalid slots";
        let number = |text: &str| text.parse().ok().filter(|slot| *slot < SLOTS);
        if let Some(open) = text.strip_prefix('[') {
            let open = self.some(open.strip_suffix(']'), problem)?;
            let parts = open.split_once("->-").map(|parts| (parts, true));
            let parts = parts.or_else(|| open.split_once("-<-").map(|parts| (parts, false)));
            let ((slot, other), is_leaving) = self.some(parts, problem)?;
            let slot = self.some(number(slot), problem)?;
            let other = self.some(Id::parse(other.as_bytes()), problem)?;
            let shard = Id::random(self.random);
            self.know(topology, other, shard);
            match is_leaving {
                true => topology.set_migrating(slot, Some(other)),
                false => topology.set_importing(slot, Some(other)),
            }
            return Ok(());
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let first = self.some(number(first), problem)?;
        let last = self.some(number(last), problem)?;
        for slot in first..=last {
            if topology.owner_id(slot).is_none() {
                topology.assign(slot, Some(node));
            }
        }
        Ok(())
    }
}
