//! Redis's keyspace on a persistent heap: sixteen databases of keys with values and expiry times.
//!
//! A key lives in the shard that its hash slot names; a transaction locks the shards of its keys,
//! reads and changes them by typed operations, and commits with one fence. What is persistent is
//! described in `docs/format/keyspace.md`: an entry block per key, two indexes per database and
//! shard (all keys; keys with an expiry time), counters, a queue of what is still to be freed.
//!
//! Access times, watches and statistics are in DRAM: they are lost by a restart, as Redis loses
//! them.
//!
//! This crate must not know commands, reply texts, sockets, threads or clocks: time and randomness
//! come in as arguments. It writes persistent words through `heap` and `structures` alone.
#![forbid(unsafe_code)]

mod access;
mod bitmap;
mod cached;
mod changes;
mod check;
mod collection;
mod damage;
mod databases;
mod defragment;
mod entry;
mod error;
mod evict;
mod fault_points;
pub mod geo;
pub mod hyperloglog;
mod key;
mod keys;
mod keyspace;
mod large;
mod layout;
mod lists;
mod losses;
mod mean_ttl;
mod met;
mod queued;
mod salvage;
mod scrub;
mod side;
mod snapshot;
mod stats;
mod steps;
mod stream_groups;
mod stream_progress;
mod streams;
mod strings;
mod txn;
mod uses;
mod value;
mod verify;
mod watch;

pub use bitmap::{BitChange, BitField, BitInteger, BitOperation, BitOverflow, Bits};
pub use changes::{Change, Event};
pub use check::{CheckError, Checked, DamagedKey, Refusal, Repaired};
pub use collection::{
    FieldChange, FieldTime, Limits, Members, Sorted, SortedEdit, Text, TimedField,
};
pub use damage::Harm;
pub use defragment::Defragmentation;
pub use error::{CommitError, Error};
pub use evict::{Eviction, Policy};
pub use fault_points::FaultPoint;
pub use key::{DATABASES, Db, Key, slot};
pub use keyspace::{Ahead, Keyspace};
pub use large::{Pinned, Prepared};
pub use lists::{Elements, NodeLimits, Side};
pub use losses::Losses;
pub use salvage::{SalvageFinding, SalvageOptions, SalvageStopped, Salvaged};
pub use scrub::Scrub;
pub use snapshot::{Content, Item, Snapshot};
pub use stats::Stats;
pub use steps::{Hold, Progress};
pub use stream_groups::GroupRead;
pub use stream_progress::StreamProgress;
pub use streams::{
    StreamBound, StreamConsumer, StreamEdit, StreamEntry, StreamGroup, StreamHead, StreamId,
    StreamLimits, StreamPart, StreamPending, StreamRef, StreamTrim,
};
pub use strings::Expire;
pub use txn::{Entry, Savepoint, Txn};
pub use value::{Encoding, Str, Type};
pub use watch::Watch;
