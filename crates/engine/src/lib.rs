//! The engine: executes commands over the keyspace, whatever commands there are.
//!
//! [`Engine::execute_batch`] takes a session and the requests that arrived together and writes the
//! replies, [`Engine::execute`] does so for one request, as the replay of the command log does. An
//! engine is made with a [`Table`] of commands, each of which is a [`CommandSpec`]: its name,
//! arity, flags and key positions, and the function that executes it. Dispatch, key locking and
//! permissions follow from the spec.
//!
//! The path of a command: lookup, arity, authentication, permissions, memory limit, health of the
//! log, queueing for MULTI; then the shards of its keys are locked, it runs, the transaction
//! commits with one fence, its effects go into the command log, and the shards are unlocked. A
//! command that fails leaves only its error reply.
//!
//! - [`table`]: commands by name, and their specs.
//! - [`session`]: a connection's state, its client as others see it, users and permissions.
//! - [`execute`]: from a request to its reply.
//! - [`memory`]: limits of memory, eviction.
//! - [`wait`]: clients that wait for keys.
//! - [`notify`]: messages to clients in addition to replies.
//! - [`log`]: the command log.
//! - [`replication`]: the stream for replicas.
//! - [`cluster`]: the node of a cluster that this server is.
//! - [`scripts`]: the part of scripts and function libraries that all threads share.
//! - [`observe`]: statistics, slow log, latencies, clients in MONITOR mode.
//!
//! This crate must not know any command by name, nor sockets, threads, files, flushes or fences.
//! Time and randomness are given to it, and it asks a [`host::Host`] for what only a process knows.
#![forbid(unsafe_code)]

pub mod clock;
pub mod cluster;
pub mod config;
mod engine;
pub mod execute;
pub mod failure;
pub mod fault_points;
pub mod host;
pub mod line_text;
pub mod log;
pub mod memory;
pub mod notify;
pub mod observe;
pub mod replication;
pub mod save_options;
pub mod scripts;
pub mod session;
pub mod table;
pub mod wait;

pub use engine::{Engine, EngineParts, Job, Thread};
pub use execute::call;
pub use execute::call::{Call, FindText, Run, RunJoined, ScriptCommand, TakeStep};
pub use execute::outcome::{Next, Outcome};
pub use failure::{Done, Failure};
pub use session::Session;
pub use table::spec;
pub use table::spec::CommandSpec;
pub use table::{Command, Lookup, Table};
