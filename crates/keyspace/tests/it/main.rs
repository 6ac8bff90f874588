//! Tests of the keyspace through its public interface, in one program, so that only one is linked.

#![forbid(unsafe_code)]

mod budget;
mod collections;
mod common;
mod compaction;
mod crash;
mod damage;
mod databases;
mod defragment;
mod fields;
mod flips;
mod functions;
mod headers;
mod keys;
mod large;
mod limits;
mod lists;
mod lost_lines;
mod lost_names;
mod media;
mod memory;
mod model;
mod position;
mod prefetch;
mod read_cache;
mod reopen;
mod salvage;
mod snapshot;
mod sorted_set;
mod steps;
mod stream_groups;
mod streams;
mod strings;
mod syncing;
mod watch;
