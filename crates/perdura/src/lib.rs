//! A crash-consistent key-value store in a program's own address space.
//!
//! [`Perdura`] is Perdura's keyspace without the server: the same pool file, the same sixteen databases, strings,
//! lists, hashes, sets, sorted sets and streams with expiry times, bitmaps, HyperLogLogs and places on the Earth, and
//! transactions over several keys. A call that returned is durable as far as the pool's [`Domain`] reaches; opening takes
//! milliseconds, however many keys there are.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use perdura::{DomainRequest, Options, Perdura};
//!
//! // On persistent memory leave `domain` out; `Process` survives a crash of the process, not a power loss.
//! let options = Options::new(dir.path().join("orders.pool")).domain(DomainRequest::Process);
//! let store = Perdura::open(options.clone())?;
//! store.set("greeting", "hello")?;
//! store.increment("visits", 1)?;
//!
//! // Several keys, all or nothing.
//! store.transaction(&["from", "to"], |tx| {
//!     tx.increment("from", -30)?;
//!     tx.increment("to", 30)
//! })?;
//! drop(store);
//!
//! let store = Perdura::open(options)?;
//! assert_eq!(store.get("greeting")?.as_deref(), Some(&b"hello"[..]));
//! assert_eq!(store.increment("to", 0)?, 30);
//! # Ok(())
//! # }
//! ```
//!
//! A `Perdura` is `Send` and `Sync`: share it by reference or in an `Arc`. No runtime is needed. A thread of its own
//! deletes expired keys and frees what large deletes left, unless [`Options::background`] says no.
//!
//! This crate must not know commands, RESP or sockets.
#![forbid(unsafe_code)]

mod background;
mod bitmaps;
mod collections;
mod error;
mod geo;
mod groups;
mod hyperloglog;
mod lists;
mod machine;
mod options;
mod reentry;
mod sort;
mod sorted;
mod store;
mod streams;
mod transaction;

pub use bitmaps::BitRange;
pub use collections::Entry;
pub use error::{CloseError, Error, OpenError};
pub use geo::{GeoSearch, Nearby};
pub use groups::PendingEntry;
pub use keyspace::geo::{Point as GeoPoint, Shape as GeoShape};
pub use keyspace::{BitInteger, BitOperation, BitOverflow, StreamId};
pub use options::Options;
pub use pmem::{Domain, DomainRequest};
pub use sort::Order;
pub use sorted::Scored;
pub use store::{Perdura, Usage};
pub use streams::StreamEntry;
pub use transaction::Transaction;
