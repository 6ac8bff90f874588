//! A node, as this one knows it.

use std::collections::BTreeMap;

use crate::flags::Flags;
use crate::id::Id;
use crate::message::{Ports, Text};

/// The number of a link: a connection that this node made to another one, or accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its ID; a random one during the handshake.
    pub id: Id,
    /// Its address; empty if not known.
    pub ip: Text,
    /// Its ports.
    pub ports: NodePorts,
    /// Its kind and state.
    pub flags: Flags,
    /// Its primary, if it is a replica. That one may be unknown.
    pub primary: Option<Id>,
    /// The epoch of its slots, if it is a primary.
    pub config_epoch: u64,
    /// The shard that it belongs to.
    pub shard: Id,
    /// Its own description.
    pub announced: Announced,
    /// Its health, as far as this node knows.
    pub contact: Contact,
}

/// The ports of a node, whatever the bus uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodePorts {
    /// For clients without TLS; 0 for none.
    pub tcp: u16,
    /// For clients with TLS; 0 for none.
    pub tls: u16,
    /// Of the bus.
    pub bus: u16,
}

impl NodePorts {
    /// Returns the ports that a message names; its first one is that of the bus's kind.
    pub(crate) fn from_message(ports: Ports, is_tls: bool) -> NodePorts {
        let (tcp, tls) =
            if is_tls { (ports.other, ports.client) } else { (ports.client, ports.other) };
        NodePorts { tcp, tls, bus: ports.bus }
    }

    /// Returns them as a message names them.
    pub(crate) fn to_message(self, is_tls: bool) -> Ports {
        let (client, other) = if is_tls { (self.tls, self.tcp) } else { (self.tcp, self.tls) };
        Ports { client, other, bus: self.bus }
    }
}

/// A node's own description, for people and for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announced {
    /// Its host name.
    pub host_name: Text,
    /// Its name for people.
    pub node_name: Text,
    /// The IPv4 address that clients are to use.
    pub client_ipv4: Text,
    /// The IPv6 address that clients are to use.
    pub client_ipv6: Text,
    /// The port that clients are to use; 0 for that of the node.
    pub client_port: u16,
    /// The port that clients with TLS are to use; 0 for that of the node.
    pub client_tls_port: u16,
    /// Its availability zone.
    pub zone: Text,
}

/// The signs of life of another node that this one saw. Times are steady ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// When it became known.
    pub(crate) known_since: u64,
    /// The link to it.
    pub(crate) link: Option<LinkId>,
    /// The link from it.
    pub(crate) inbound: Option<LinkId>,
    /// When there was no link from it any more.
    pub(crate) inbound_lost: u64,
    /// When the last attempt to connect to it began.
    pub(crate) connect_tried: Option<u64>,
    /// When a PING was sent that has no answer yet.
    pub(crate) ping_sent: Option<u64>,
    /// When its last PONG came, here or by what others say.
    pub(crate) pong_received: Option<u64>,
    /// When anything of it came.
    pub(crate) data_received: Option<u64>,
    /// When it was last told to meet this node.
    pub(crate) meet_sent: Option<u64>,
    /// When it failed.
    pub(crate) failed_at: u64,
    /// Since when it is a primary without working replicas.
    pub(crate) orphaned_since: Option<u64>,
    /// Its offset in the replication stream.
    pub(crate) offset: u64,
    /// When it told that offset.
    pub(crate) offset_at: u64,
    /// The primaries that do not reach it, and when they said so.
    pub(crate) reports: BTreeMap<Id, u64>,
}

impl Node {
    /// Makes a node of which no more is known.
    pub(crate) fn new(id: Id, flags: Flags, now: u64, random: &mut fastrand::Rng) -> Node {
        let contact = Contact { known_since: now, inbound_lost: now, ..Contact::default() };
        Node {
            id,
            ip: Text::default(),
            ports: NodePorts::default(),
            flags,
            primary: None,
            config_epoch: 0,
            shard: Id::random(random),
            announced: Announced::default(),
            contact,
        }
    }

    /// Returns true if it has any of these flags.
    pub fn is(&self, flags: Flags) -> bool {
        self.flags.has(flags)
    }

    /// Returns true if it is a primary.
    pub fn is_primary(&self) -> bool {
        self.is(Flags::PRIMARY)
    }

    /// Returns true if it is a replica.
    pub fn is_replica(&self) -> bool {
        self.is(Flags::REPLICA)
    }

    /// Returns true if most primaries do not reach it.
    pub fn has_failed(&self) -> bool {
        self.is(Flags::FAIL)
    }

    /// Returns true if there is a link to it, or it is this node.
    pub fn is_connected(&self) -> bool {
        self.contact.link.is_some() || self.is(Flags::MYSELF)
    }

    /// Returns the offset in the replication stream that it last told.
    pub fn offset(&self) -> u64 {
        self.contact.offset
    }
}
