//! Which blocks and spans are free, in DRAM.
//!
//! A pool is cut into spans of 64 KiB. A shard takes a free span and uses it as one large block, or
//! cuts it into blocks of one size class. So there are two allocators: [`spans`] manages the spans
//! that belong to no shard, grows the pool, and gives space back (`punch`); each shard has an
//! [`allocator`] of blocks, which takes spans from it, finds them by number (`span_map`), and
//! caches a few blocks that were just freed (`free_block_cache`). Sparsely used spans are emptied
//! so that other classes can use them (`evacuation`, `evacuate`).
//!
//! The span table and the bitmaps of the spans are the persistent truth, and transactions change
//! them by their records. The code here writes to the pool only the headers and bitmaps of spans
//! that nobody can reach yet, and the number of zones.

pub(crate) mod allocator;
mod evacuate;
pub(crate) mod evacuation;
mod free_block_cache;
mod lead;
mod log_space;
pub(crate) mod place;
pub(crate) mod punch;
mod runs;
mod span_map;
pub(crate) mod spans;
