//! Tests of the heap through its public interface, in one program, so that they are linked once.

#![forbid(unsafe_code)]

mod at_once;
mod features;
mod fences;
mod journal;
mod linked_records;
mod long_records;
mod many_blocks;
mod media;
mod newest_record;
mod regressions;
mod rest;
mod shard_wait;
mod small_pool;
mod snapshots;
mod space;
mod transactions;
