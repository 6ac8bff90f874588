//! Which blocks and spans are free, in DRAM.
//!
//! A pool is cut into spans of 64 KiB. A free span is taken by a shard, and either is one large
//! block or is cut into blocks of one size class. So there are two allocators: [`spans`] has the
//! spans that belong to no shard, grows the pool, and gives space back (`punch`); each shard has an
//! [`allocator`] of blocks, which takes spans from it, finds them by number (`span_map`), and keeps
//! a few blocks that were just freed at hand (`free_block_cache`). Spans that are sparsely used are
//! emptied for others (`evacuation`, `evacuate`).
//!
//! The persistent truth is the span table and the bitmaps of the spans, which transactions change
//! by their records: nothing here is written to the pool but the headers and bitmaps of spans that
//! nobody can reach yet, and the number of zones.

pub(crate) mod allocator;
mod evacuate;
pub(crate) mod evacuation;
mod free_block_cache;
pub(crate) mod place;
pub(crate) mod punch;
mod runs;
mod span_map;
pub(crate) mod spans;
