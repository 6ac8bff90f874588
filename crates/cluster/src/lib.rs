//! Redis Cluster.
#![forbid(unsafe_code)]

pub mod flags;
pub mod id;
pub mod message;
pub mod slot;

pub use flags::Flags;
pub use id::Id;
