//! Lua scripts: EVAL and its kin, and SCRIPT.
//!
//! - [`eval`]: the commands, which find the script and what it may do.
//! - [`run`]: a script as one unit of work. It locks the shards of the keys that the command
//!   declares, and what the script changes is committed once, at its end.
//! - [`host`]: what a script calls: commands, in the script's transaction.
//! - [`interpreter`]: the thread's Lua interpreter. The texts that all threads share are in
//!   `script_cache.rs`.
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

use std::sync::Arc;

pub(crate) use run::{Program, alone, within};

use crate::engine::Engine;
use crate::spec::CommandSpec;

/// Its commands.
pub(crate) const COMMANDS: &[&CommandSpec] =
    &[&eval::EVAL, &eval::EVAL_RO, &eval::EVALSHA, &eval::EVALSHA_RO, &script::CONTAINER];

/// Nanoseconds that a script may take on its connection's thread, which meanwhile serves nobody
/// else. One that takes longer is rolled back and run again by another thread.
const MOVED_AFTER: u64 = 2_000_000;

impl Engine {
    /// Returns after how many nanoseconds a script is moved to another thread.
    fn script_moved_after(&self) -> u64 {
        MOVED_AFTER.min(self.config().busy_reply_threshold_ns())
    }

    /// Returns the text of the script that a call names by its SHA-1.
    pub(crate) fn script_text(&self, args: &[&[u8]]) -> Option<Arc<[u8]>> {
        let sha = str::from_utf8(args.get(1)?).ok()?;
        self.scripts().text(&sha.to_ascii_lowercase())
    }

    /// Compiles a script for this thread, so that it is found whatever becomes of the cache.
    pub(crate) fn keep_script(&self, text: &[u8]) {
        // Where that fails, the command that runs it says so.
        let _ = interpreter::with(self, |interpreter| interpreter.keep(text));
    }
}
