//! A crash-consistent persistent heap.
//!
//! A pool is a file of shards. A shard has a lock, a redo log, roots and blocks of its own. A
//! transaction on a locked shard reserves blocks, fills them, stages changes of words, and commits
//! with one fence. `docs/format/pool.md` has the layout, the invariants and the recovery argument.
//!
//! ```text
//! checksum      CRC-32C
//! fault_points  the names of flushes, fences and checks, so that tests can disable one
//! ptr           offsets in the pool, and reading from it
//! layout        the pool's format: header, geometry, size classes, spans
//! error         what can go wrong, by operation
//! media_errors  which losses are recorded in the pool, and which thread resolves them
//! log           redo log: records, and the ring they are written in
//! recovery      reading, validating and replaying the logs
//! salvage       reading a pool that cannot be opened
//! alloc         free blocks and spans, growth, giving space back
//! transaction   locked shards, staging, commit, snapshots, pins, the read cache
//! check         which blocks are allocated, and whether metadata agrees with itself
//! repair        making lost metadata again
//! pool          creating, opening, closing and shrinking a pool
//! ```
//!
//! A module uses only those above it; `tests/tree/modules.rs` fails otherwise.
//!
//! This crate is the only writer of persistent words. It knows nothing of keys, types or time.

mod alloc;
mod check;
mod checksum;
mod error;
mod fault_points;
mod layout;
mod log;
mod media_errors;
mod pool;
mod ptr;
mod recovery;
mod repair;
mod salvage;
mod transaction;

pub use alloc::evacuation::EvacuationCursor;
pub use check::{Block, CheckError, Ledger, Reached, check_headers};
pub use checksum::{crc32c, crc32c_append, crc32c_combine, crc32c_six_bytes, crc32c_words};
pub use error::{CommitError, CreateError, Full, OpenError, PoolError};
pub use fault_points::FaultPoint;
#[cfg(feature = "sim")]
pub use fault_points::disable_fault_point;
pub use layout::header::{VERSION as FORMAT, begins_pool};
pub use layout::{Geometry, MAX_BLOCK, ROOTS};
pub use media_errors::losses::Stop;
pub use pmem::Lost;
pub use pmem::{allocated, trim_allocator};
#[doc(hidden)]
pub use pmem::{fault_points, lock, prefetch_value, waited_ns};
pub use pool::create::CreateOptions;
pub use pool::shrink::SpanCounts;
pub use ptr::{Ptr, View};
pub use recovery::replay::Recovery;
pub use repair::restore::{Irreplaceable, LostPart, Restored};
pub use salvage::{Marks, Salvage, SalvageError, SalvageNote};
pub use transaction::detached::Detached;
pub use transaction::heap::Heap;
pub use transaction::pins::Pin;
pub use transaction::read_cache::ReadCacheStats;
pub use transaction::rest::RestingLogs;
pub use transaction::shard::{Fresh, Savepoint, Shard};
pub use transaction::shard_wait::ShardWait;
pub use transaction::shard_waits::ANY_TURN;
pub use transaction::snapshot::{Snapshot, SnapshotError, SnapshotShard};
pub use transaction::snapshot_memory::{MOST_SNAPSHOTS, SnapshotLost, SnapshotStats};
