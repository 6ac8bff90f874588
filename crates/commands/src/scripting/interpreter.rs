//! The Lua interpreter of the thread, with the scripts that it has compiled.

use std::cell::Cell;

use engine::Engine;
use engine::failure::Failure;
use engine::scripts::cache::Origin;
use engine::scripts::interpreter_memory::InterpreterSize;
use script::{Host, Interpreter, Invocation, Outcome, Script, ScriptError};

/// The maximum memory of a thread's interpreter, in bytes: a script that needs more fails.
const MEMORY_LIMIT: usize = 512 << 20;

thread_local! {
    static IDLE: Cell<Option<Box<ThreadInterpreter>>> = const { Cell::new(None) };
}

/// An interpreter, and the origin of its scripts.
pub(super) struct ThreadInterpreter {
    interpreter: Interpreter,
    /// The ID of the engine that it serves, and the generation of that engine's scripts.
    serves: (u64, u64),
    size: InterpreterSize,
}

/// Passes the interpreter of this thread to `f`; makes one if there is none yet. A panic loses it,
/// since its state is unknown then.
pub(super) fn with<R>(
    engine: &Engine,
    f: impl FnOnce(&mut ThreadInterpreter) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let mut interpreter = take(engine)?;
    let done = f(&mut interpreter);
    interpreter.size.set(interpreter.interpreter.used_memory());
    IDLE.set(Some(interpreter));
    done
}

/// Frees the scripts that this thread's interpreter compiled before a SCRIPT FLUSH on any thread.
/// Each thread that serves connections calls it periodically; running a script has the same effect.
pub fn free_flushed_scripts(engine: &Engine) {
    if let Some(mut idle) = IDLE.take() {
        if idle.serves.0 == engine.id() {
            idle.forget_flushed(engine.scripts().generation());
        }
        IDLE.set(Some(idle));
    }
}

fn take(engine: &Engine) -> Result<Box<ThreadInterpreter>, Failure> {
    let serves = (engine.id(), engine.scripts().generation());
    if let Some(mut idle) = IDLE.take().filter(|idle| idle.serves.0 == serves.0) {
        idle.forget_flushed(serves.1);
        return Ok(idle);
    }
    let interpreter =
        Interpreter::of_version(MEMORY_LIMIT, &engine.config().redis_version()).map_err(refused)?;
    let size = engine.scripts().interpreters().add();
    Ok(Box::new(ThreadInterpreter { interpreter, serves, size }))
}

fn refused(error: ScriptError) -> Failure {
    Failure::text(error.to_string())
}

impl ThreadInterpreter {
    /// Forgets the scripts of another generation, and frees their memory, the compiler's included.
    #[inline]
    fn forget_flushed(&mut self, generation: u64) {
        if self.serves.1 != generation {
            self.interpreter.flush();
            self.size.set(self.interpreter.used_memory());
            self.serves.1 = generation;
        }
    }

    /// Returns the script with this text, compiled if necessary.
    pub(super) fn load(
        &mut self,
        engine: &Engine,
        text: &[u8],
        origin: Origin,
    ) -> Result<Script, Failure> {
        let sha = Interpreter::sha(text);
        if let Some(script) = self.interpreter.cached(&sha)
            && origin == Origin::Evaluated
        {
            return Ok(script);
        }
        let script = match origin {
            Origin::Evaluated => self.interpreter.load(text),
            Origin::Loaded => self.interpreter.load_kept(text),
        };
        let script = script.map_err(refused)?;
        engine.scripts().add(&sha, text, origin);
        Ok(script)
    }

    /// Returns the script with this SHA-1, if there is one.
    pub(super) fn find(&mut self, engine: &Engine, sha: &[u8]) -> Option<Script> {
        let sha = str::from_utf8(sha).ok().filter(|sha| sha.len() == 40)?;
        if let Some(script) = self.interpreter.cached(sha) {
            return Some(script);
        }
        let text = engine.scripts().text(&sha.to_ascii_lowercase())?;
        self.interpreter.load(&text).ok()
    }

    /// Compiles a script for this thread, so that it is found even if the cache drops it.
    pub(super) fn keep(&mut self, text: &[u8]) -> Result<(), Failure> {
        self.interpreter.load(text).map(drop).map_err(refused)
    }

    /// Runs a script.
    pub(super) fn run(
        &mut self,
        script: &Script,
        invocation: Invocation<'_>,
        host: &mut dyn Host,
    ) -> Outcome {
        self.interpreter.run(script, invocation, host)
    }
}
