//! A crash-consistent key-value store in a program's own address space.
//!
//! [`Perdura`] is Perdura's keyspace without the server: the same pool file, the same sixteen
//! databases, strings, lists, hashes, sets, sorted sets and streams with expiry times, bitmaps,
//! HyperLogLogs and geospatial items, and transactions over several keys. A call that returned
//! is durable, on persistent memory as well as on an ordinary disk, unless another
//! [`Domain`] or another [`Durability`] is chosen; opening takes milliseconds, however many keys
//! there are.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use perdura::prelude::*;
//! use perdura::{Options, Perdura};
//!
//! let options = Options::new(dir.path().join("orders.pool"));
//! let store = Perdura::open(options.clone())?;
//! store.set("greeting", "hello")?;
//! store.increment("visits", 1)?;
//!
//! // Several keys, all or nothing.
//! store.transaction(&["from", "to"], |tx| {
//!     tx.increment("from", -30)?;
//!     tx.increment("to", 30)
//! })?;
//! drop(store); // or a crash, or a power loss
//!
//! let store = Perdura::open(options)?;
//! assert_eq!(store.get("greeting")?.as_deref(), Some(&b"hello"[..]));
//! assert_eq!(store.increment("to", 0)?, 30);
//! # Ok(())
//! # }
//! ```
//!
//! The operations are in traits by type: [`Keys`], [`Strings`], [`Lists`], [`Hashes`], [`Sets`],
//! [`SortedSets`], [`Streams`], [`ConsumerGroups`], [`Bitmaps`], [`HyperLogLogs`], [`Geo`] and
//! [`Sorting`]; [`Tables`] opens ordered tables of typed rows. A store, a [`Database`] and a
//! transaction have all of them ([`Operations`]): called on the store, each is a transaction of its
//! own. A [`Snapshot`] has those that only read. `use perdura::prelude::*;` brings them into scope.
//!
//! A `Perdura` is `Send` and `Sync`: share it by reference or in an `Arc`. No runtime is needed. A
//! background thread deletes expired keys and frees the garbage of large deletes, unless
//! [`Options::background`] turns it off.
//!
//! This crate must not know commands, the protocol or sockets; of the crate `resp` it uses the glob
//! patterns alone.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod background;
mod backup;
mod bitmaps;
mod collections;
mod database;
mod durability;
mod error;
mod geo;
mod groups;
mod hyperloglog;
mod iter;
mod keys;
mod lists;
mod machine;
#[cfg(feature = "metrics")]
mod metrics;
mod open_error;
mod operations;
mod options;
mod reentry;
#[cfg(feature = "sim")]
mod simulated;
mod snapshot;
mod sort;
mod sorted_sets;
mod space;
mod stats;
mod store;
mod streams;
mod strings;
mod table;
mod trace;
mod transact;
mod transaction;
mod wait;
mod wait_future;
mod write_batch;

pub use backup::{Backup, BackupError, Unsound};
pub use bitmaps::{BitRange, Bitmaps};
pub use collections::{Entry, Hashes, Sets};
pub use database::Database;
pub use durability::Durability;
pub use error::{CloseError, Error};
pub use geo::{Geo, GeoSearch, Nearby};
pub use groups::{ConsumerGroups, PendingEntry};
pub use hyperloglog::HyperLogLogs;
pub use iter::{Iter, KeyCursor, KeyIter, RangeIter};
pub use keys::Keys;
pub use lists::Lists;
pub use open_error::{Cause, OpenError};
pub use operations::{Operations, Writable};
pub use options::Options;
pub use snapshot::Snapshot;
pub use sort::{Order, Sorting};
pub use sorted_sets::{Scored, SortedSets};
pub use stats::{JournalStatistics, MediumStatistics, Statistics, SyncTimes};
pub use store::{Perdura, Usage};
pub use streams::{StreamEntry, Streams};
pub use strings::Strings;
#[cfg(feature = "serde")]
pub use table::Json;
pub use table::{Key, KeyPrefix, Table, Tables, Value};
pub use transaction::Transaction;
pub use wait_future::Wait;
pub use write_batch::WriteBatch;

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/library.md")]
mod guide {}

/// The traits of all operations, to be imported together: `use perdura::prelude::*;`.
pub mod prelude {
    pub use crate::{
        Bitmaps as _, ConsumerGroups as _, Geo as _, Hashes as _, HyperLogLogs as _, Keys as _,
        Lists as _, Operations, Sets as _, SortedSets as _, Sorting as _, Streams as _,
        Strings as _, Tables as _,
    };
}

// Types of the layers below, each with an example of its use here.

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{BitInteger, BitOverflow, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// let byte = BitInteger::unsigned(8).expect("1 to 63 bits");
/// store.bit_field_set("pixels", byte, 16, 200, BitOverflow::Fail)?;
/// assert_eq!(store.bit_field_get("pixels", byte, 16)?, 200);
/// assert_eq!(BitInteger::unsigned(64), None);
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use keyspace::BitInteger;

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{BitOperation, BitRange, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set_bit("monday", 7, true)?;
/// store.set_bit("tuesday", 7, true)?;
/// store.set_bit("tuesday", 8, true)?;
/// store.bit_op("both", BitOperation::And, &["monday", "tuesday"])?;
/// assert_eq!(store.bit_count("both", BitRange::All)?, 1);
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use keyspace::BitOperation;

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{BitInteger, BitOverflow, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// let byte = BitInteger::signed(8).expect("1 to 64 bits");
/// let add = |by, overflow| store.bit_field_increment("n", byte, 0, by, overflow);
/// assert_eq!(add(100, BitOverflow::Fail)?, Some(100));
/// assert_eq!(add(100, BitOverflow::Fail)?, None);
/// assert_eq!(add(100, BitOverflow::Saturate)?, Some(127));
/// assert_eq!(add(1, BitOverflow::Wrap)?, Some(-128));
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use keyspace::BitOverflow;

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, ValueType};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.push_back("jobs", "first")?;
/// assert_eq!(store.value_type("jobs")?, Some(ValueType::List));
/// assert_eq!(store.value_type("absent")?, None);
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use keyspace::Type as ValueType;

/// ```
/// use perdura::StreamId;
///
/// let first = StreamId { ms: 1_700_000_000_000, seq: 0 };
/// assert_eq!(first.next(), Some(StreamId { seq: 1, ..first }));
/// assert!(StreamId::MIN < first && first < StreamId::MAX);
/// assert_eq!(StreamId::MAX.next(), None);
/// ```
#[doc(inline)]
pub use keyspace::StreamId;

/// ```
/// use perdura::GeoPoint;
///
/// let berlin = GeoPoint { longitude: 13.405, latitude: 52.52 };
/// let paris = GeoPoint { longitude: 2.3522, latitude: 48.8566 };
/// assert!((berlin.distance(paris) / 1000.0 - 878.0).abs() < 2.0);
/// assert!(!GeoPoint { latitude: 89.0, ..paris }.is_valid());
/// ```
#[doc(inline)]
pub use keyspace::geo::Point as GeoPoint;

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{GeoPoint, GeoSearch, GeoShape, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// let centre = GeoPoint { longitude: 9.0, latitude: 48.0 };
/// store.geo_add("stations", "corner", GeoPoint { longitude: 9.1, latitude: 48.08 })?;
/// let found = |shape| store.geo_search("stations", &GeoSearch::around(centre, shape));
/// assert_eq!(found(GeoShape::Box { width: 20_000.0, height: 20_000.0 })?.len(), 1);
/// assert_eq!(found(GeoShape::Circle { radius: 10_000.0 })?.len(), 0);
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use keyspace::geo::Shape as GeoShape;

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::{Domain, Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// use Domain::{Clwb, Eadr, Journal, Msync};
/// let outlives_power = matches!(store.domain(), Clwb | Eadr | Journal | Msync);
/// assert!(!outlives_power, "{} is in DRAM", store.domain());
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use pmem::Domain;

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use perdura::{Domain, DomainRequest, Options, Perdura};
///
/// // On a disk, as `Auto` chooses; and what survives the end of the program alone.
/// let options = Options::new(dir.path().join("pool")).domain(DomainRequest::Journal);
/// let store = Perdura::open(options.clone())?;
/// assert_eq!(store.domain(), Domain::Journal);
/// store.close()?;
/// let store = Perdura::open(options.domain(DomainRequest::Process))?;
/// assert_eq!(store.domain(), Domain::Process);
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use pmem::DomainRequest;

/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Checked, Options, Perdura};
/// use std::time::Duration;
///
/// let store = Perdura::open(Options::volatile())?;
/// store.set("name", "Ada")?;
/// store.set_for("session", "token", Duration::from_secs(60))?;
/// let Checked { keys, expiring, .. } = store.check()??;
/// assert_eq!((keys, expiring), (2, 1));
/// # Ok(())
/// # }
/// ```
#[doc(inline)]
pub use keyspace::Checked;
