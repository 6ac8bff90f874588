//! Tests of the structures, over stores that refuse every breach of the heap's rules and over the
//! heap itself, in one program, so that they are linked once.

#![forbid(unsafe_code)]

mod blob;
mod crash;
mod crash_groups;
mod crash_stream;
mod dict;
mod heap;
mod index;
mod list;
mod memory;
mod pool;
mod reclaim;
mod sorted_set;
mod store;
mod stream;
mod stream_groups;
mod times;
mod tree;
mod weights;
