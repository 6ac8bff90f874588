//! One adapter for each store: how it is opened, durable or not, and how it is called.
//!
//! Every store runs with its own defaults but for what durability asks and what it cannot work
//! without (LMDB's map size, Perdura's limit). Nothing is compressed: the values are random.

pub mod fjall;
#[allow(unsafe_code, reason = "opening an LMDB environment is an unsafe function of heed")]
pub mod heed;
pub mod perdura;
pub mod redb;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
pub mod sled;

/// Bytes that a store which must know beforehand may grow to.
const MAP_SIZE: u64 = 8 << 30;
