//! The server: sockets, configuration and the life of the process around the command engine.
//!
//! `serve` is the whole of it. The main thread accepts connections (`net`) and hands each to a
//! worker (`threads`), where one task reads, executes and writes (`net::connection`). If there is a
//! log, replies wait at their worker's `durability::commit_barrier` until it is settled.
//! Administrative commands reach the server through `host`. `cluster` runs the
//! node of a Redis Cluster.
//!
//! The data is in a `pool`; `dump` saves and loads it, and `replication` sends it to other servers
//! or receives it. `config` has the directives, `apply` puts them into effect. `process` is what
//! the operating system gives and is told.
//!
//! This crate must not know persistent words, the format of the pool, or what a command does: it
//! calls [`commands::Engine::execute_batch`] and sends what comes back.
#![forbid(unsafe_code)]

mod apply;
pub mod chunks;
pub mod cli;
mod cluster;
pub mod config;
mod dump;
mod durability;
mod host;
mod limits;
mod metrics;
mod net;
mod pool;
mod process;
mod replication;
mod serve;
mod shared;
mod threads;
#[cfg(test)]
mod thresholds;
mod users;
#[cfg(test)]
mod waits;

pub use crate::cluster::ClusterError;
pub use net::listen::ListenError;
pub use net::tls::TlsError;
pub use pool::other_stores::OtherStores;
pub use pool::store::StoreError;
pub use serve::{ServeError, serve};

/// The release of Redis whose semantics are served, as reported to clients.
pub const REDIS_VERSION: &str = commands::REDIS_VERSION;
