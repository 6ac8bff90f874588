//! Compiles scripts, keeps them by SHA-1, and runs them.

use crate::bytecode::Globals;
use crate::cache::Cache;
use crate::convert::{before_zero, from_lua};
use crate::host::Started;
use crate::invocation::{self, Kept, Passing};
use crate::natives::{CompileError, compile};
use crate::state::State;
use crate::{Continue, Flags, Host, Reply, ScriptError, errors, host, natives, redis, shebang};
use mlua::{HookTriggers, Lua, LuaOptions, RegistryKey, StdLib, Table, Value, VmState};
use std::rc::Rc;

/// Instructions between two polls of the host.
const INSTRUCTIONS_PER_POLL: u32 = 20_000;

/// The error of a library that takes too long to load.
const LOAD_TIMEOUT: &str = "ERR FUNCTION LOAD timeout";

/// A Lua state with Redis's sandbox, and the scripts compiled in it. It stays on the thread that
/// made it.
pub struct Interpreter {
    pub(crate) lua: Lua,
    pub(crate) state: Rc<State>,
    scripts: Cache,
    /// The parts that `lua/sandbox.lua` returns.
    pub(crate) sandbox: Table,
    /// The content that the globals of scripts show.
    content: Table,
    kept: Kept,
}

/// A compiled script.
#[derive(Clone)]
pub struct Script {
    sha: Rc<str>,
    flags: Option<Flags>,
    lines: usize,
    globals: Globals,
    /// Lua has some 8000 slots for values that Rust holds; its registry has no limit.
    function: Rc<RegistryKey>,
}

impl Script {
    /// Returns the SHA-1 of its text, 40 hexadecimal digits.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// Returns the flags of its first line, or `None` if it has no such line: Redis then applies
    /// the rules of older scripts.
    pub fn flags(&self) -> Option<Flags> {
        self.flags
    }
}

/// The keys and arguments of a call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Invocation<'a> {
    /// The keys.
    pub keys: &'a [&'a [u8]],
    /// The other arguments.
    pub arguments: &'a [&'a [u8]],
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The reply for the client.
    pub reply: Reply,
    /// Whether the run ended with an error that the script raised or did not catch. A returned
    /// [`Reply::Error`] is not such an error.
    pub has_failed: bool,
    /// Whether the host killed it.
    pub was_killed: bool,
}

impl Interpreter {
    /// Creates an interpreter that may use `memory_limit` bytes.
    pub fn new(memory_limit: usize) -> Result<Interpreter, ScriptError> {
        Interpreter::of_version(memory_limit, redis::VERSION)
    }

    /// Creates an interpreter whose scripts find this version of Redis.
    pub fn of_version(memory_limit: usize, version: &str) -> Result<Interpreter, ScriptError> {
        Interpreter::build(memory_limit, version).map_err(|error| {
            ScriptError::new(format!("cannot create the Lua interpreter: {error}"))
        })
    }

    fn build(memory_limit: usize, version: &str) -> mlua::Result<Interpreter> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        // Lua's pcall stays Lua's own and does not catch panics of Rust.
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        let state = Rc::new(State::new(memory_limit, version));
        let handler = natives::handler(&lua, &state)?;
        let natives = natives::table(&lua, &state, &handler)?;
        let code = lua.load(include_str!("lua/sandbox.lua")).set_name("=[C]");
        let sandbox: Table = code.call(natives)?;
        lua.set_globals(sandbox.raw_get("globals")?)?;
        set_hook(&lua, &state)?;
        lua.set_memory_limit(memory_limit)?;
        let content: Table = sandbox.raw_get("content")?;
        Ok(Interpreter {
            kept: Kept::new(&lua, handler, &content)?,
            content,
            sandbox,
            scripts: Cache::default(),
            state,
            lua,
        })
    }

    /// Returns the SHA-1 of a text, 40 hexadecimal digits.
    pub fn sha(source: &[u8]) -> String {
        sha1_smol::Sha1::from(source).digest().to_string()
    }

    /// Returns the flags that the first line of a script declares, if there is such a line and it
    /// is well-formed.
    pub fn flags_of(source: &[u8]) -> Option<Flags> {
        shebang::of_script(source).ok().and_then(|(flags, _)| flags)
    }

    /// Returns the script with this SHA-1 if it was compiled here. Upper case is accepted.
    pub fn cached(&self, sha: &str) -> Option<Script> {
        match self.scripts.get(sha) {
            Some(script) => Some(script.clone()),
            None if sha.bytes().any(|byte| byte.is_ascii_uppercase()) => {
                self.scripts.get(&sha.to_ascii_lowercase()).cloned()
            }
            None => None,
        }
    }

    /// Compiles a script, or returns it if that was done before. As in Redis 7.4, it may be evicted
    /// after many others were loaded like this, as EVAL does.
    pub fn load(&mut self, source: &[u8]) -> Result<Script, ScriptError> {
        let sha = Interpreter::sha(source);
        if let Some(script) = self.scripts.get(&sha) {
            return Ok(script.clone());
        }
        let (flags, code) = shebang::of_script(source)?;
        let failed = |text: String| {
            ScriptError::new(format!("Error compiling script (new function): {text}"))
        };
        let mut compiled = compile(&self.lua, code, "@user_script");
        if matches!(compiled, Err(CompileError::Lua(_))) && self.scripts.evict() {
            self.collect_garbage();
            compiled = compile(&self.lua, code, "@user_script");
        }
        let function = compiled.map_err(|error| match error {
            CompileError::Text(text) => failed(text),
            CompileError::Lua(error) => failed(errors::text_of(&error)),
        })?;
        let lines = code.trim_ascii_end().iter().filter(|byte| **byte == b'\n').count() + 1;
        let globals = Globals::of(&function.dump(true));
        if globals.only_read {
            let content = self.content.clone();
            function.set_environment(content).map_err(|error| failed(errors::text_of(&error)))?;
        }
        let function = self.lua.create_registry_value(function).map(Rc::new);
        let function = function.map_err(|error| failed(errors::text_of(&error)))?;
        let script = Script { sha: sha.as_str().into(), flags, lines, globals, function };
        self.scripts.add(sha, script.clone());
        Ok(script)
    }

    /// Compiles a script like [`Interpreter::load`], and keeps it until [`Interpreter::flush`], as
    /// SCRIPT LOAD does.
    pub fn load_kept(&mut self, source: &[u8]) -> Result<Script, ScriptError> {
        let script = self.load(source)?;
        self.scripts.retain(&script.sha);
        Ok(script)
    }

    /// Forgets all scripts and frees their memory.
    pub fn flush(&mut self) {
        self.scripts.clear();
        self.collect_garbage();
    }

    /// Returns how many bytes the Lua state uses.
    pub fn used_memory(&self) -> usize {
        self.lua.used_memory()
    }

    /// Runs a script.
    pub fn run(
        &mut self,
        script: &Script,
        invocation: Invocation<'_>,
        host: &mut dyn Host,
    ) -> Outcome {
        self.state.start(Some(script.lines));
        let passing = Passing::Globals(script.globals);
        self.execute(&script.sha, &script.function, passing, invocation, host)
    }

    /// Calls a function from the registry, and returns its result as a reply.
    pub(crate) fn execute(
        &self,
        name: &str,
        function: &RegistryKey,
        passing: Passing,
        invocation: Invocation<'_>,
        host: &mut dyn Host,
    ) -> Outcome {
        let Interpreter { lua, state, kept, .. } = self;
        state.is_running.set(true);
        let started = Started { interpreter: self, invocation };
        let ended = host::lend(host, &started, || match invocation::fits(&invocation) {
            true => invocation::call(lua, state, kept, function, &invocation, passing),
            false => self.call_with_any(function, passing),
        });
        self.state.is_running.set(false);
        let was_killed = self.state.is_killed.get();
        match ended {
            Ok(Ok(reply)) => Outcome { reply, has_failed: false, was_killed },
            Ok(Err(value)) => {
                let failure = self.failure(name, &value);
                Outcome { reply: failure, has_failed: true, was_killed }
            }
            Err(error) => {
                let value = Value::Error(Box::new(error));
                let reply = self.failure(name, &value);
                Outcome { reply, has_failed: true, was_killed }
            }
        }
    }

    /// Notes that the sandbox has put other lists into the globals than [`invocation::call`].
    pub(crate) fn set_other_lists(&self) {
        self.kept.set_other_lists();
    }

    /// Calls a function with lists of any length, in the sandbox.
    #[cold]
    fn call_with_any(
        &self,
        function: &RegistryKey,
        passing: Passing,
    ) -> mlua::Result<Result<Reply, Value>> {
        let name = match passing {
            Passing::Globals(_) => "run",
            Passing::Arguments => "run_function",
        };
        self.set_other_lists();
        let run: mlua::Function = self.sandbox.raw_get(name)?;
        let (has_succeeded, value): (bool, Value) = run.call(function)?;
        if !has_succeeded {
            return Ok(Err(value));
        }
        let is_resp3 = self.state.is_resp3.get();
        self.state.without_limit(&self.lua, |_| from_lua(&value, is_resp3)).map(Ok)
    }

    /// Returns the error for the client. `value` is used if Lua could not call the handler because
    /// it had no memory or no stack left.
    fn failure(&self, name: &str, value: &Value) -> Reply {
        let Some(failure) = self.state.failure.borrow_mut().take() else {
            if errors::is_kill(value) {
                return Reply::error(errors::KILLED);
            }
            let text = match value {
                Value::String(text) => text.to_string_lossy(),
                Value::Error(error) => errors::text_of(error),
                _ => "execution failure".to_owned(),
            };
            self.collect_garbage();
            return Reply::error(format!("ERR Error running script {name}, {text}"));
        };
        if failure.message.ends_with(b"not enough memory") {
            self.collect_garbage();
        }
        if failure.message == b"ERR not enough memory" {
            // Redis's text: Lua calls no handler when it has no memory.
            return Reply::error(format!("ERR Error running script {name}, not enough memory"));
        }
        let mut message = before_zero(&failure.message).to_vec();
        if let Some(position) = failure.position {
            message.extend_from_slice(format!(" script: {name}, on {position}.").as_bytes());
        }
        Reply::Error { message, is_counted: failure.is_counted }
    }

    fn collect_garbage(&self) {
        self.lua.expire_registry_values();
        // Without finalizers a collection cannot fail; if it did, the memory would be freed later.
        let _ = self.lua.gc_collect();
    }
}

/// Polls the host regularly, in every coroutine. A killed script does not get past the next poll
/// either.
fn set_hook(lua: &Lua, state: &Rc<State>) -> mlua::Result<()> {
    let state = Rc::clone(state);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_POLL);
    lua.set_global_hook(triggers, move |_, _| {
        let decision = host::with(|host| host.poll()).unwrap_or(Continue::Yes);
        if decision == Continue::Kill {
            state.is_killed.set(true);
        }
        if state.is_killed.get() {
            let is_loading = state.loading.borrow().is_some();
            let text = if is_loading { LOAD_TIMEOUT } else { errors::KILLED };
            return Err(mlua::Error::runtime(text));
        }
        Ok(VmState::Continue)
    })
}
