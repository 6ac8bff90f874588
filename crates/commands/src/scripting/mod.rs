//! Lua scripts: EVAL and its kin, and SCRIPT.
//!
//! - [`eval`]: the commands, which find the script and what it may do.
//! - [`run`]: a script as one unit of work. It locks the shards of the keys that the command
//!   declares, and what the script changes is committed once, at its end.
//! - [`host`]: what a script calls: commands, in the script's transaction.
//! - [`interpreter`]: the thread's Lua interpreter. The texts that all threads share are in
//!   `engine::scripts`.
//! - [`reply`]: replies of commands as scripts see them, and back.
//! - [`script`]: SCRIPT, for the cache of scripts.
//! - [`times`]: how long the commands of a script take.

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

/// Nanoseconds that a script may take on its connection's thread, which meanwhile serves nobody
/// else. One that takes longer is rolled back and run again by another thread.
const MOVED_AFTER: u64 = 2_000_000;

/// Returns after how many nanoseconds a script is moved to another thread.
fn script_moved_after(engine: &Engine) -> u64 {
    MOVED_AFTER.min(engine.config().busy_reply_threshold_ns())
}
