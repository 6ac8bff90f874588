//! The messages of the bus: version 1 of the format that Redis has had since 3.0, with the
//! extensions of Redis 7 and the short headers of Valkey 8.1.
//!
//! The bytes are described in `docs/format/cluster-bus.md`. A message that is damaged, cut, or has
//! an impossible field is refused as a whole: nothing of it is believed. What this version does not
//! know (types of messages, extensions, flags) is skipped, so that newer nodes can be talked to.
//!
//! - `layout`: where each field is.
//! - `decode`, `encode`: from bytes and to bytes.
//! - `extension`: what a PING has after its gossip.

mod decode;
mod encode;
mod extension;
mod layout;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use decode::kind_of;
pub use decode::{DecodeError, MAX_LEN, PREFIX_LEN, length};
pub use extension::Extension;
pub use text::Text;

use crate::flags::Flags;
use crate::id::Id;
use crate::slot::SlotSet;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// One with a header, which says everything about its sender.
    Full(Box<Header>, Body),
    /// A published message that has none: the link says who its sender is.
    Light(Published),
    /// One with a short header, for modules: there are none here.
    LightModule,
}

/// The part of a message about its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The ID of the sender.
    pub sender: Id,
    /// The address that it announces; empty if it does not.
    pub ip: Text,
    /// Its ports.
    pub ports: Ports,
    /// Its flags.
    pub flags: Flags,
    /// Its primary, if it is a replica.
    pub primary: Option<Id>,
    /// The highest epoch that it knows.
    pub current_epoch: u64,
    /// The epoch of its slots; a replica's message has that of its primary.
    pub config_epoch: u64,
    /// The slots that it serves; a replica's message has those of its primary.
    pub slots: SlotSet,
    /// The offset in the replication stream.
    pub offset: u64,
    /// Whether the cluster is down for it.
    pub is_down: bool,
    /// Whether it is a primary that refuses writes during a manual failover.
    pub is_paused: bool,
    /// Whether it wants a vote though its primary works.
    pub forces_vote: bool,
    /// Whether it understands extensions.
    pub has_extensions: bool,
}

/// The ports of a node, as messages have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ports {
    /// For clients: with TLS if the bus has TLS.
    pub client: u16,
    /// For clients that do the opposite; 0 for none.
    pub other: u16,
    /// Of the bus.
    pub bus: u16,
}

/// The rest of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Are you alive?
    Ping(Gossip),
    /// I am alive.
    Pong(Gossip),
    /// Add me to your nodes.
    Meet(Gossip),
    /// A node has failed.
    Fail(Id),
    /// Something was published.
    Publish(Published),
    /// May I become the primary?
    AskVote,
    /// You have my vote.
    Vote,
    /// Another node has slots that you believe to be yours.
    Update(Update),
    /// Pause your clients: I am to replace you.
    StartFailover,
    /// Something that this version does not know, or that is for modules.
    Other(u16),
}

/// The gossip of a PING, PONG or MEET about other nodes, and its sender's extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gossip {
    /// Of other nodes.
    pub entries: Vec<Entry>,
    /// Of the sender.
    pub extensions: Vec<Extension>,
}

/// An entry of the gossip: another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its ID.
    pub node: Id,
    /// The time of a PING to it that has no answer yet, in seconds since 1970; 0 for none.
    pub ping_sent: u32,
    /// The time of its last PONG, in seconds since 1970; 0 for none.
    pub pong_received: u32,
    /// Its address.
    pub ip: Text,
    /// Its ports.
    pub ports: Ports,
    /// Its flags.
    pub flags: Flags,
}

/// A message that a client published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Whether by SPUBLISH.
    pub is_sharded: bool,
    /// The channel.
    pub channel: Vec<u8>,
    /// The message.
    pub message: Vec<u8>,
}

/// The slots of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// The node.
    pub node: Id,
    /// The epoch of its slots.
    pub config_epoch: u64,
    /// Its slots.
    pub slots: SlotSet,
}

impl Message {
    /// Returns the number of its type.
    pub fn kind(&self) -> u16 {
        match self {
            Message::Full(_, body) => body.kind(),
            Message::Light(published) => published.kind(),
            Message::LightModule => layout::kind::MODULE,
        }
    }

    /// Makes a message with a header.
    pub fn full(header: Header, body: Body) -> Message {
        Message::Full(Box::new(header), body)
    }
}

impl Published {
    fn kind(&self) -> u16 {
        if self.is_sharded { layout::kind::PUBLISH_SHARD } else { layout::kind::PUBLISH }
    }
}

impl Body {
    /// Returns the number of its type.
    pub fn kind(&self) -> u16 {
        use layout::kind;
        match self {
            Body::Ping(_) => kind::PING,
            Body::Pong(_) => kind::PONG,
            Body::Meet(_) => kind::MEET,
            Body::Fail(_) => kind::FAIL,
            Body::Publish(published) => published.kind(),
            Body::AskVote => kind::ASK_VOTE,
            Body::Vote => kind::VOTE,
            Body::Update(_) => kind::UPDATE,
            Body::StartFailover => kind::START_FAILOVER,
            Body::Other(what) => *what & !layout::LIGHT,
        }
    }

    /// Returns what it says of other nodes, if it is a PING, PONG or MEET.
    pub fn gossip(&self) -> Option<&Gossip> {
        match self {
            Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) => Some(gossip),
            _ => None,
        }
    }
}
