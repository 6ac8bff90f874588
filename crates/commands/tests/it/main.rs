//! Tests of the engine: what commands reply, change, log and cost, in one program, so that they are
//! linked once. Another program counts allocations, since the allocator is the process's.

#![forbid(unsafe_code)]

mod access;
mod acl;
mod acl_rules;
mod bad_scripts;
mod bitmaps;
mod blocking;
mod budgets;
mod collections;
mod command_rows;
mod compatibility;
mod connection;
mod differential;
mod dump;
mod fields;
mod fragmentation;
mod functions;
#[path = "../generate/mod.rs"]
mod generate;
mod geo;
mod golden_pools;
mod joined;
mod keys;
mod large_values;
mod load;
mod load_threads;
mod log;
mod log_failure;
mod media;
#[path = "../../../aof/tests/it/medium/mod.rs"]
mod medium;
mod memory;
mod obligations;
mod pipeline;
mod random_effects;
mod read_cache;
mod redis_7_2;
mod redis_8;
mod replica;
mod rewrites;
mod rights;
mod saves;
mod script_calls;
mod scripts;
mod snapshots;
mod sort;
mod sorted_sets;
mod stream_groups;
mod stream_metadata;
mod stream_references;
mod strings;
#[path = "../support/mod.rs"]
mod support;
mod transactions;
mod valkey;
mod waits;
mod write_effects;
mod writes;
