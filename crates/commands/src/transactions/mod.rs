//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: several commands as one.
//!
//! Between MULTI and EXEC commands are only checked and queued. EXEC locks the shards of all queued
//! and watched keys at once, then checks the watches, and runs everything in one keyspace
//! transaction: durable and visible as a whole or not at all. A queued command that fails undoes
//! its own changes only, as in Redis.

mod exec;
mod multi;
mod watch;

use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&multi::MULTI, &multi::DISCARD, &exec::EXEC, &watch::WATCH, &watch::UNWATCH];
