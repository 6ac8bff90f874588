//! Lua scripts: EVAL and its kin, and SCRIPT.
//!
//! - [`eval`]: the commands, which find the script and what it may do.
//! - [`run`]: a script as one unit of work. It locks the shards of the keys that the command
//!   declares, and what the script changes is committed once, at its end.
//! - [`long`]: a script that takes long, on a thread of its own.
//! - [`host`]: what a script calls: commands, in the script's transaction.
//! - [`interpreter`]: the thread's Lua interpreter. The texts that all threads share are in
//!   `script_cache.rs`.
//! - [`reply`]: replies of commands as scripts see them, and back.
//! - [`script`]: SCRIPT, for the cache of scripts.
//! - [`times`]: how long the commands of a script take.

mod eval;
mod host;
mod interpreter;
mod long;
mod reply;
mod run;
mod script;
mod times;

pub(crate) use run::{Program, alone, within};

use crate::spec::CommandSpec;

/// Its commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&eval::EVAL, &eval::EVAL_RO, &eval::EVALSHA, &eval::EVALSHA_RO, &script::CONTAINER];
