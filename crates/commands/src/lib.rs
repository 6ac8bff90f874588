//! Redis's commands over the keyspace: one table, one module per group, one entry point.
//!
//! [`Engine::execute_batch`] takes a session and the requests that arrived together and writes the
//! replies, [`Engine::execute`] does so for one request, as the replay of the command log does.
//! Each command is a [`CommandSpec`] const next to the function that executes it; dispatch, key
//! locking, COMMAND and the documentation follow from the spec, so that a command is added in one
//! place.
//!
//! The path of a command: lookup, arity, authentication, queueing for MULTI, memory limit, health
//! of the log; then the shards of its keys are locked, it runs, the transaction commits with one
//! fence, its effects go into the command log, and the shards are unlocked. A command that fails
//! leaves nothing but its error reply.
//!
//! This crate must not know sockets, threads, files, flushes or fences. Time and randomness are
//! given to it. Redis's texts are made here and in the server, nowhere below.
#![forbid(unsafe_code)]

mod acl;
pub mod admin;
mod admin_state;
mod bitmaps;
mod blocking;
mod call;
pub mod chunks;
mod client;
mod clock;
mod cluster;
mod collections;
mod config;
mod connection;
mod create;
mod cross_protocol;
mod debug;
mod delivery;
mod describe;
mod engine;
mod execute;
mod failure;
mod fault_points;
mod functions;
mod geo;
mod hashes;
mod help;
mod host;
mod hub;
mod hyperloglog;
mod interpreter_memory;
mod introspection;
mod kept_words;
mod keys;
mod libraries;
mod line_text;
mod lists;
mod load;
mod log;
mod long_script;
mod memory_limits;
mod moved_call;
mod names;
mod notifications;
mod observe;
mod outcome;
mod packed_requests;
mod permissions;
mod pubsub;
mod queue;
mod receivers;
mod replay;
mod request;
mod rewrite;
mod running_scripts;
mod save;
mod save_options;
mod script_cache;
mod scripting;
mod session;
mod sets;
mod sort;
mod sorted_sets;
pub mod spec;
mod stats;
mod streams;
mod strings;
mod table;
mod tracker;
mod tracking;
mod transactions;
mod unwritten;
mod users;
mod waiting;
mod walk;

pub use acl::{UserSet, set_users, user_lines, user_lines_with};
pub use call::{Call, FindText, Next, Outcome, Run, ScriptCommand};
pub use client::{Client, Clients, Peer, Waker};
pub use clock::{Clock, SystemClock};
pub use config::{Config, REDIS_VERSION};
pub use create::{EngineOptions, read_user_lines, read_users_file, renamed_table};
pub use engine::{Engine, EngineParts, Job, Thread};
pub use execute::{Evicted, Executed};
pub use failure::{Done, Failure};
pub use fault_points::FaultPoint;
pub use kept_words::LARGE;
pub use line_text::{in_field, in_line};
pub use load::{LoadDumpError, LoadOptions, LoadedDump, load_dump};
pub use log::{CommandLog, Effects};
pub use long_script::ScriptKind;
pub use notifications::EventClasses;
pub use replay::{ReplayError, replay};
pub use request::{Batch, Request};
pub use rewrite::{RewriteLogError, commands_of, rewrite_log};
pub use save::{save, saved_of};
pub use save_options::{SaveError, SaveOptions, Spool};
pub use scripting::free_flushed_scripts;
pub use session::{ReplyMode, Session};
pub use spec::CommandSpec;
pub use stats::{CommandStats, Stats};
pub use table::{Command, Lookup, RenameError, Table};
