//! Transactions: from the lock of a shard to the commit.
//!
//! A [`heap::Heap`] is a pool in use; each of its shards has a lock, which guards the
//! [`state::ShardState`] of the open transaction, the log and the allocator. A locked shard
//! ([`shard::Shard`]) reserves blocks, writes them, and stages changes of words (`staged`). A
//! commit (`commit`, `commit_many`) plans its changes (`plan`), writes one record (`write_record`),
//! fences, and stores the words. `docs/commit-protocol.md` argues for this order.
//!
//! There are also: blocks that are filled without the lock (`detached`), readers without the lock
//! (`pins`, `pinned`), views of the heap at one moment (`snapshot`, with the words that changed
//! since in an `overlay`, and their cost in `snapshot_memory`), the freed blocks that both hold
//! (`held_blocks`, `release`), copies in DRAM of bytes that are read often (`read_cache`,
//! `cached_reads`), free spans that move from one shard to another (`span_transfer`), the last
//! reserves of a full heap (`evacuate`), waiting for shards without a thread (`shard_wait`), and
//! what is done at rest (`rest`).

mod cached_reads;
pub(crate) mod commit;
mod commit_many;
pub(crate) mod detached;
mod evacuate;
pub(crate) mod heap;
mod held_blocks;
mod lock;
mod lock_shards;
mod overlay;
mod pinned;
pub(crate) mod pins;
mod plan;
pub(crate) mod read_cache;
pub(crate) mod release;
mod reserved_table;
pub(crate) mod rest;
pub(crate) mod shard;
pub(crate) mod shard_wait;
pub(crate) mod shard_waits;
pub(crate) mod snapshot;
pub(crate) mod snapshot_memory;
pub(crate) mod span_transfer;
mod staged;
pub(crate) mod state;
mod write_record;
