//! Tests of the server as a program that is reached through sockets, in one program, so that they
//! are linked once.

#![forbid(unsafe_code)]

mod acl;
mod administration;
mod append_only;
mod blocking;
mod blocking_kill;
mod client_limits;
mod client_memory;
mod cluster;
mod configuration;
mod connections;
mod deploy;
mod emulated_media;
mod journal;
mod load;
mod metrics;
mod migrate;
mod notifications;
mod pool_file;
mod pubsub;
mod redis_replies;
mod replica;
mod replication;
mod save;
mod space;
mod start;
mod supervision;
mod sync;
mod tls;
mod tracking;
