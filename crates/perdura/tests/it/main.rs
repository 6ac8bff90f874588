//! Tests of the library, in one program, so that they are linked once.

#![forbid(unsafe_code)]

mod backup;
mod cost;
mod derived;
mod iterate;
mod journal;
mod media;
mod metrics;
mod modes;
mod reentry;
mod snapshot;
mod statistics;
mod store;
mod table;
mod transact;
mod wait_future;
