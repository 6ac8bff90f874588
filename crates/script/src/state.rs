//! The state that the functions of one interpreter share.

use crate::calls::Unfinished;
use crate::libraries::CjsonSettings;
use crate::random::Lrand48;
use crate::stack::{self, Unlimited};
use crate::{Continue, Function, errors, host};
use mlua::{Lua, RegistryKey};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Maximum size of a value that a function of Rust makes for a script, in bytes.
const LONGEST_RESULT: usize = 256 << 20;

/// Work of functions of Rust between two polls of the host. A unit is about the time to copy a
/// byte, as in `lua/work.h`.
const WORK_PER_POLL: usize = 4 << 20;

/// The work of making or inspecting a value of Lua.
pub(crate) const PER_VALUE: usize = 512;

thread_local! {
    static WORK: Cell<usize> = const { Cell::new(0) };
}

/// Counts work, and polls the host at intervals.
#[inline]
pub(crate) fn spend(work: usize) -> mlua::Result<()> {
    let sum = WORK.get().saturating_add(work);
    if sum < WORK_PER_POLL {
        WORK.set(sum);
        return Ok(());
    }
    WORK.set(0);
    ask()
}

#[cold]
fn ask() -> mlua::Result<()> {
    if host::with(|host| host.poll()) != Some(Continue::Kill) {
        return Ok(());
    }
    host::with_started(|started| started.interpreter.state.is_killed.set(true));
    Err(mlua::Error::runtime(errors::KILLED))
}

/// Fails like Lua if the result of a function of Rust is too large: a table that another one
/// contains many times fits into Lua's memory, but its conversion may not. Also counts the work for
/// a value.
pub(crate) fn check_length(length: usize) -> mlua::Result<()> {
    if length > LONGEST_RESULT {
        return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
    }
    spend(PER_VALUE)
}

/// State of one interpreter; the part that belongs to a run is reset when it starts.
pub(crate) struct State {
    /// Whether a script or function is running: commands may then be called.
    pub(crate) is_running: Cell<bool>,
    /// Whether the script has chosen RESP3's types.
    pub(crate) is_resp3: Cell<bool>,
    /// Whether the host has ended the script; no pcall may catch this.
    pub(crate) is_killed: Cell<bool>,
    /// The generator of `math.random`, from its first use in a run on.
    pub(crate) random: Cell<Option<Lrand48>>,
    /// The settings of the global `cjson`.
    pub(crate) cjson: Rc<Cell<CjsonSettings>>,
    /// The last line of the script. A tail call of Lua code leaves no trace of its line, and most
    /// are in the last one.
    pub(crate) last_line: Cell<Option<usize>>,
    /// Why the run failed, recorded while its stack still existed.
    pub(crate) failure: RefCell<Option<Failure>>,
    /// The functions of the library that is being loaded, while one is.
    pub(crate) loading: RefCell<Option<Vec<Registered>>>,
    /// The buffer of commands' replies, empty while a command runs.
    pub(crate) reply: Cell<Vec<u8>>,
    /// The work that is left for mlua's part of a call.
    pub(crate) unfinished: Cell<Option<Unfinished>>,
    /// Steps of pattern matching since the last poll.
    pub(crate) steps: Cell<u32>,
    pub(crate) memory_limit: usize,
    /// The version of Redis that scripts find.
    pub(crate) version: Box<str>,
}

/// A function of a library, and its implementation. Lua has some 8000 slots for values that Rust
/// holds; its registry has no limit.
pub(crate) type Registered = (Function, Rc<RegistryKey>);

/// An error that ended a run.
pub(crate) struct Failure {
    pub(crate) message: Vec<u8>,
    /// Source and line of the script, as in `@user_script:3`.
    pub(crate) position: Option<String>,
    pub(crate) is_counted: bool,
}

impl State {
    pub(crate) fn new(memory_limit: usize, version: &str) -> State {
        State {
            is_running: Cell::new(false),
            is_resp3: Cell::new(false),
            is_killed: Cell::new(false),
            random: Cell::new(None),
            cjson: Rc::new(Cell::new(CjsonSettings::default())),
            last_line: Cell::new(None),
            failure: RefCell::new(None),
            loading: RefCell::new(None),
            reply: Cell::new(Vec::new()),
            unfinished: Cell::new(None),
            steps: Cell::new(0),
            memory_limit,
            version: version.into(),
        }
    }

    /// Calls `f` with the limit of memory lifted; see [`stack::without_limit`].
    pub(crate) fn without_limit<R>(
        &self,
        lua: &Lua,
        f: impl FnOnce(&Unlimited) -> mlua::Result<R>,
    ) -> mlua::Result<R> {
        stack::without_limit(lua, self.memory_limit, f)
    }

    /// Resets the state of the previous run. `last_line` is that of the next one, if it is a
    /// script.
    pub(crate) fn start(&self, last_line: Option<usize>) {
        self.is_resp3.set(false);
        self.is_killed.set(false);
        self.random.set(None);
        self.cjson.set(CjsonSettings::default());
        self.failure.borrow_mut().take();
        self.last_line.set(last_line);
    }
}
