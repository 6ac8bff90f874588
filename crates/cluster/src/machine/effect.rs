//! What a node must do: the answers of the machine to everything that happens.

use crate::clock::Clock;
use crate::id::Id;
use crate::message::{Published, Text};
use crate::slot::SlotSet;
use crate::topology::LinkId;

/// The moment of an event, and what only the node's server knows at it.
#[derive(Debug)]
pub struct Moment<'a> {
    /// The time.
    pub clock: Clock,
    /// The end of the replication stream that this node has.
    pub offset: u64,
    /// For how long this node, as a replica, has heard nothing of its primary; in milliseconds.
    pub data_age: u64,
    /// Whether this node, as a replica, has its primary's data and receives its stream.
    pub is_synced: bool,
    /// Whether this node, as a replica, has all data of some moment of its primary's, if an old
    /// one. It has not while it receives a copy.
    pub has_data: bool,
    /// Random numbers.
    pub random: &'a mut fastrand::Rng,
}

impl Moment<'_> {
    pub(super) fn now(&self) -> u64 {
        self.clock.steady
    }
}

/// Something to do, in the order in which it is returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Save the nodes, before anything that follows: the text is that of [`super::Machine::file`].
    /// If it must be durable and cannot be saved, the node must stop.
    Save {
        /// Whether it must be durable.
        is_durable: bool,
    },
    /// Connect to a node. [`super::Machine::connected`] or [`super::Machine::closed`] follows.
    Connect {
        /// The link that this makes.
        link: LinkId,
        /// The address.
        ip: Text,
        /// The port.
        port: u16,
    },
    /// Close a link. It is not known any more.
    Close(LinkId),
    /// Send a message.
    Send {
        /// The link.
        link: LinkId,
        /// The bytes.
        message: Vec<u8>,
    },
    /// Replicate a primary.
    Follow {
        /// The primary.
        primary: Id,
        /// Its address.
        ip: Text,
        /// Its port for clients.
        port: u16,
        /// Whether its data has nothing in common with this node's.
        is_new_history: bool,
    },
    /// Take nothing more from the primary that has failed, so that the offset stays what others
    /// were told.
    Detach,
    /// Stop replicating: this node is a primary.
    Lead,
    /// Refuse writes until this steady time, or until [`Effect::Resume`].
    Pause {
        /// The time.
        until: u64,
    },
    /// Accept writes again.
    Resume,
    /// Delete the keys of slots that others own.
    DropSlots(SlotSet),
    /// Delete all keys.
    Flush,
    /// Give a message to the clients that subscribed here.
    Deliver(Published),
}
