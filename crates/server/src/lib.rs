//! The server: sockets, configuration and the life of the process around the command engine.
//!
//! `serve` is the whole of it. The main thread accepts connections and hands each to a worker
//! (`workers`), where one task reads, executes and writes (`connection`). If there is a
//! command log, replies wait at their worker's `commit_barrier` until it is settled. Administrative
//! commands reach the server through `host`.
//!
//! This crate must not know persistent words, the format of the pool, or what a command does: it
//! calls [`commands::Engine::execute_batch`] and sends what comes back.
#![forbid(unsafe_code)]

mod append_only;
mod apply;
pub mod chunks;
pub mod cli;
mod client_memory;
mod commit_barrier;
pub mod config;
mod connection;
mod data_dir;
mod discard;
mod disks;
mod host;
mod housekeeping;
mod input;
mod jobs;
mod key_delay;
mod last_replicas;
mod limits;
mod listen;
mod load;
mod loading;
mod log;
mod log_file;
mod machine;
mod media;
mod meter;
mod metrics;
mod oom_score;
mod other_stores;
mod output;
mod pid_file;
mod pool_file;
mod pool_files;
mod pool_journal;
mod pool_lock;
mod pool_rescue;
mod ports;
mod position;
mod primary_link;
mod primary_target;
mod rates;
mod replicas;
mod ring_file;
mod save;
mod scrub;
mod scrub_progress;
mod serve;
mod shared;
mod shutdown;
mod spool;
mod store;
mod stream;
mod supervisor;
mod text;
#[cfg(test)]
mod thresholds;
mod tls;
mod unix_socket;
mod unsynced;
mod users;
#[cfg(test)]
mod waits;
mod worker;
mod workers;

pub use listen::ListenError;
pub use other_stores::OtherStores;
pub use serve::{ServeError, serve};
pub use store::StoreError;
pub use tls::TlsError;

/// The release of Redis whose semantics are served, as reported to clients.
pub const REDIS_VERSION: &str = commands::REDIS_VERSION;
