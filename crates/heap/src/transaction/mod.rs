//! Transactions: from the lock of a shard to the commit.
//!
//! A [`heap::Heap`] is a pool in use; each of its shards has a lock, which guards the
//! [`state::ShardState`] of the open transaction, the log and the allocator. A locked shard
//! ([`shard::Shard`]) reserves blocks, writes them, and stages changes of words (`staged`). A
//! commit (`commit`, `commit_many`) works out what it will do (`plan`), writes one record
//! (`write_record`), fences, and stores the words. `docs/commit-protocol.md` argues for this order.
//!
//! In addition to that: blocks that are filled without the lock (`detached`), readers without the
//! lock (`pins`, `pinned`), a view of the heap as it was (`snapshot`), copies in DRAM of what is
//! read often (`read_cache`, `cached_reads`), and free spans that move from one shard to another
//! (`span_transfer`).

mod cached_reads;
mod commit;
mod commit_many;
pub(crate) mod detached;
pub(crate) mod heap;
mod lock;
mod pinned;
pub(crate) mod pins;
mod plan;
pub(crate) mod read_cache;
pub(crate) mod shard;
pub(crate) mod snapshot;
pub(crate) mod span_transfer;
mod staged;
pub(crate) mod state;
mod write_record;
