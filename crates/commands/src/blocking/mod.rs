//! Commands that wait for a log to be durable, and the timeouts of all commands that wait. How a
//! command blocks is described in [`engine::wait`].

mod timeout;
mod wait;
mod wait_aof;

pub(crate) use engine::session::client::{BlockedOperation, Serving};
pub(crate) use engine::wait::serve_or_block;
pub(crate) use timeout::{milliseconds, seconds};

use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[&wait::WAIT, &wait_aof::WAITAOF];
