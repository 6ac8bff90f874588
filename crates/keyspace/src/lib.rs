//! Redis's keyspace on a persistent heap: sixteen databases of keys with values and expiry times.
//!
//! A key belongs to the shard that its hash slot maps to. A transaction ([`Txn`]) locks the shards
//! of its keys, finds them, and commits with one fence. The operations on values are grouped by
//! type: a value that was found is read in place by its type's reader ([`Txn::list`] returns a
//! [`ListRef`]), and values are changed through their type's handle ([`Txn::lists`]).
//! `docs/format/keyspace.md` describes the persistent format: an entry block per key, two indexes
//! per database and shard (all keys; keys with an expiry time), counters, and a queue of the blocks
//! that are still to be freed.
//!
//! Access times, watches and statistics are in DRAM: a restart loses them, as it does in Redis.
//!
//! This crate must not know commands, reply texts, sockets, threads or clocks: callers pass time
//! and randomness as arguments. It writes persistent words only through `heap` and `structures`.
#![forbid(unsafe_code)]

mod background;
mod bitmap;
mod changes;
mod check;
pub mod chunks;
mod collection;
mod damage;
mod databases;
mod elements;
mod entry;
mod error;
mod evict;
mod eviction;
mod expected_keys;
mod expiry;
mod fault_points;
mod find;
mod functions;
pub mod geo;
mod head;
mod held;
pub mod hyperloglog;
mod integer;
mod key;
mod keys;
mod keyspace;
mod known_damage;
mod layout;
mod lists;
mod losses;
mod mean_ttl;
mod members;
mod position;
mod prefetch;
mod prepared;
mod problem;
mod progress;
mod queued;
mod rebuild;
mod restore;
mod salvage;
mod shared;
mod short;
mod snapshot;
mod snapshot_view;
mod sorted_sets;
mod stats;
mod streams;
mod strings;
mod syncing;
mod txn;
mod types;
mod value;
mod verify;
mod volatile;
mod walk;
mod watch;

pub use background::{Compacted, Compaction, Defragmentation, LockHold, Scrub};
pub use bitmap::{BitChange, BitField, BitInteger, BitOperation, BitOverflow, Bitmaps, Bits};
pub use changes::{Change, Event};
pub use check::Repaired;
pub use collection::{Text, TimedField};
pub use damage::KeyDamage;
pub use databases::{Database, Databases};
pub use elements::Elements;
pub use error::{CommitError, Error};
pub use eviction::{Eviction, Policy};
pub use fault_points::FaultPoint;
pub use functions::Libraries;
pub use heap::{ShardWait, SnapshotError, SnapshotLost};
pub use key::{DATABASES, Db, Key, slot};
pub use keys::Keys;
pub use keyspace::Keyspace;
pub use lists::{ListRef, Lists, NodeLimits, Side};
pub use losses::Losses;
pub use members::{FieldChange, FieldTime, Hashes, Limits, Members, MembersEdit, Sets};
pub use position::{LeftPosition, OwnPlace, Position, StreamPosition};
pub use prefetch::PrefetchedBucket;
pub use prepared::Prepared;
pub use problem::{CheckError, Checked, DamagedKey, DatabaseName, Refusal};
pub use progress::Progress;
pub use restore::RestoreError;
pub use salvage::{SalvageFinding, SalvageOptions, SalvageStopped, Salvaged};
pub use snapshot::{Content, Item, Snapshot, SnapshotWalk};
pub use snapshot_view::SnapshotView;
pub use sorted_sets::{SortedSetEdit, SortedSetRef, SortedSets, sort_scored};
pub use stats::Stats;
pub use streams::{
    GroupRead, StreamBound, StreamConsumer, StreamDelivery, StreamEdit, StreamEntry, StreamGroup,
    StreamHead, StreamId, StreamLimits, StreamPart, StreamPending, StreamProgress, StreamRef,
    StreamTrim, Streams,
};
pub use strings::{Pinned, Strings};
pub use syncing::DropError;
pub use txn::{AbsentKey, Entry, Expire, Properties, Savepoint, Txn};
pub use types::{Encoding, Type};
pub use value::Str;
pub use watch::Watch;
