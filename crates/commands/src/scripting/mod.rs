//! Lua scripts: EVAL and its variants, and SCRIPT.
//!
//! - [`eval`]: the commands, which find the script and determine its rights.
//! - [`run`]: a script as one unit of work. It locks the shards of the keys that the command
//!   declares, and commits the script's changes once, at its end.
//! - [`host`]: executes the commands that a script calls, in the script's transaction.
//! - [`interpreter`]: the thread's Lua interpreter. The texts that all threads share are in
//!   `engine::scripts`.
//! - [`reply`]: converts a script's result to a reply.
//! - [`script`]: SCRIPT, for the cache of scripts.
//! - [`times`]: measures how long the commands of a script take.

mod eval;
mod host;
mod interpreter;
mod reply;
mod run;
mod script;
mod times;

pub use interpreter::free_flushed_scripts;
pub(crate) use run::{Program, alone, within};

use engine::Engine;
use engine::spec::CommandSpec;

/// Its commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&eval::EVAL, &eval::EVAL_RO, &eval::EVALSHA, &eval::EVALSHA_RO, &script::CONTAINER];

/// Nanoseconds that a script may take on its connection's thread, which serves no other client
/// meanwhile. One that takes longer is rolled back and run again by another thread.
const MOVED_AFTER: u64 = 2_000_000;

/// Returns the number of nanoseconds after which a script is moved to another thread.
fn script_moved_after(engine: &Engine) -> u64 {
    MOVED_AFTER.min(engine.config().busy_reply_threshold_ns())
}
