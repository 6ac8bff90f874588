//! COMMAND, which shows the command table to clients, and TIME.

mod command;
mod docs;
mod getkeys;
mod info;
mod list;
mod time;

use engine::spec::CommandSpec;

/// The group's commands.
pub(crate) const COMMANDS: &[&CommandSpec] = &[&command::COMMAND, &time::TIME];
