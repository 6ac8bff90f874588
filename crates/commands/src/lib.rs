//! Redis's commands: one table, one module for each group.
//!
//! Each command is a [`CommandSpec`] const next to the function that executes it. The `engine`
//! executes commands by their specs, and COMMAND and the documentation are generated from them, so
//! that a command is added in one place. [`EngineOptions`] makes an [`Engine`] with all commands.
//!
//! This crate also saves, loads, rewrites and replays whole data sets: [`save()`], [`load_dump`],
//! [`rewrite_log`] and [`replay()`].
//!
//! This crate must not know sockets, files, flushes or fences, and no threads but those that save
//! or load a dump. It is given time and randomness. Redis's texts are made here, in the engine and
//! in the server, nowhere below.
#![forbid(unsafe_code)]

mod acl;
pub mod admin;
mod apply;
mod bitmaps;
mod blocking;
pub mod chunks;
mod cluster;
mod collections;
mod connection;
mod create;
mod debug;
mod functions;
mod geo;
mod hashes;
mod help;
mod hyperloglog;
mod introspection;
mod keys;
mod lists;
mod load;
mod names;
mod pubsub;
mod replay;
mod replication;
mod rewrite;
mod save;
mod scripting;
mod sets;
mod sort;
mod sorted_sets;
mod streams;
mod strings;
mod transactions;

pub use acl::{UserSet, set_users, user_lines, user_lines_with};
pub use aof::encode;
pub use apply::{Applier, ApplyError, ReceivedCommand};
pub use create::{EngineOptions, read_user_lines, read_users_file, renamed_table};
pub use engine::clock::{Clock, SystemClock};
pub use engine::cluster::{Node as ClusterNode, NodeStep, Stepped};
pub use engine::config::{Config, REDIS_VERSION, Settings};
pub use engine::execute::request::{Batch, Request};
pub use engine::execute::{Evicted, Executed, OneByOne};
pub use engine::failure::{Done, Failure, LOADING_DATA};
pub use engine::fault_points::FaultPoint;
pub use engine::line_text::{in_field, in_line};
pub use engine::log::{CommandLog, Effects, ReplyLog};
pub use engine::notify::events::EventClasses;
pub use engine::observe::state::Hold;
pub use engine::observe::stats::{CommandStats, Stats};
pub use engine::replication::{
    Confirmation, FailoverPlan, FailoverStage, FailoverStep, LinkState, Primary, Quorum,
};
pub use engine::save_options::{SaveError, SaveOptions, Spool, StreamPoint};
pub use engine::session::client::{Client, Clients, Peer, Waker};
pub use engine::session::kept_words::LARGE;
pub use engine::session::users::DeniedLog;
pub use engine::session::{ReplyMode, Session};
pub use engine::spec::{self, CommandSpec};
pub use engine::table::{Command, Lookup, RenameError, Table};
pub use engine::{Call, Engine, EngineParts, Job, Next, Outcome, Run, Thread};
pub use load::{LoadDumpError, LoadOptions, LoadedDump, load_dump, verify_dump};
pub use replay::{ReplayError, replay};
pub use rewrite::{RewriteLogError, commands_of, rewrite_log};
pub use save::{place_of, save, saved_of};
pub use scripting::free_flushed_scripts;
