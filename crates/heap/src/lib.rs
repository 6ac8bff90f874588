//! A crash-consistent persistent heap.
//!
//! A pool is a file of shards. A shard has a lock, a redo log, roots and blocks of its own. A transaction on a
//! locked shard reserves blocks, fills them, stages changes of words, and commits with one fence: see `commit`.
//! `docs/format/pool.md` has the layout, the invariants and the recovery argument.
//!
//! This crate is the only writer of persistent words. It knows nothing of keys, types or time.

mod alloc;
mod by_number;
mod cache;
mod check;
mod class;
mod commit;
mod commit_many;
mod crc;
mod crc_joined;
mod detached;
mod error;
mod handover;
mod header;
mod heap;
mod judge;
mod layout;
mod log;
mod losses;
mod media;
mod open;
mod pinned;
mod pins;
mod plan;
mod ptr;
mod record;
mod recover;
mod recycled;
mod ring;
mod runs;
mod salvage;
mod scan;
mod shard;
mod shrink;
mod snapshot;
mod spans;
mod staged;
mod state;
mod step;

pub use cache::ReadCacheStats;
pub use check::{Block, CheckError, Ledger, Reached, check_headers};
pub use crc::{crc32c, crc32c_append};
pub use detached::Detached;
pub use error::{CommitError, CreateError, Full, OpenError, PoolError};
pub use header::VERSION as FORMAT;
pub use heap::Heap;
pub use layout::{Geometry, MAX_BLOCK, ROOTS};
pub use losses::Stop;
pub use media::{Irreplaceable, LostPart, Restored};
pub use open::CreateOptions;
pub use pins::Pin;
pub use pmem::Lost;
pub use pmem::trim_allocator;
#[doc(hidden)]
pub use pmem::{lock, prefetch_value, steps, waited_ns};
pub use ptr::{Ptr, View};
pub use recover::Recovery;
pub use salvage::{Marks, Salvage, SalvageError, SalvageNote};
pub use shard::{Fresh, Savepoint, Shard};
pub use snapshot::{Snapshot, SnapshotError, SnapshotShard};
pub use step::Step;
#[cfg(feature = "sim")]
pub use step::knock_out;
