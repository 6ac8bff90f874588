//! Redis Cluster: a keyspace that is larger than one machine.
//!
//! Keys are in 16384 slots, and each slot has an owner: a primary with its replicas. The nodes tell
//! each other on a bus who is there, who owns what, and who does not answer; if most primaries
//! agree that one has failed, a replica of it takes its place. There is no other authority.
//!
//! - [`slot`], [`id`], [`flags`]: the words of the bus.
//! - [`message`]: the bytes of the bus.
//! - [`topology`]: the nodes and slots as one node sees them, their text, and where a request
//!   belongs.
//! - [`machine`]: the rules by which nodes agree.
//! - [`view`]: what clients of a node get to see.
//!
//! This crate must not know sockets, clocks, threads, files, keys, or what a command means. Time
//! and randomness are arguments; a node is a value that takes what happened and returns what to do.
#![forbid(unsafe_code)]

pub mod clock;
pub mod flags;
pub mod id;
pub mod machine;
pub mod message;
pub mod slot;
pub mod topology;
pub mod view;

pub use clock::Clock;
pub use flags::Flags;
pub use id::Id;
pub use machine::{Effect, Machine, Moment, Settings};
pub use slot::{SLOTS, SlotSet};
pub use topology::{LinkId, Topology};
pub use view::{Policy, View};
