//! What the functions of one interpreter share.

use crate::Function;
use crate::libraries::CjsonSettings;
use crate::random::Lrand48;
use mlua::{Lua, RegistryKey};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// State of one interpreter; the part that belongs to a run is reset when it starts.
pub(crate) struct State {
    /// A script or function runs: commands may be called.
    pub(crate) is_running: Cell<bool>,
    /// The script asked for RESP3's types.
    pub(crate) is_resp3: Cell<bool>,
    /// The host has ended the script; nothing may catch this.
    pub(crate) is_killed: Cell<bool>,
    /// The generator of `math.random`, from its first use in a run on.
    pub(crate) random: Cell<Option<Lrand48>>,
    /// The settings of the global `cjson`.
    pub(crate) cjson: Rc<Cell<CjsonSettings>>,
    /// The last line of the script. A tail call of Lua code leaves no trace of the line it is in,
    /// and most are in the last.
    pub(crate) last_line: Cell<Option<usize>>,
    /// Why the run failed, recorded while its stack still was.
    pub(crate) failure: RefCell<Option<Failure>>,
    /// The functions of the library that is being loaded, while one is.
    pub(crate) loading: RefCell<Option<Vec<Registered>>>,
    /// The buffer of commands' replies, empty while a command runs.
    pub(crate) reply: Cell<Vec<u8>>,
    /// Steps of matching patterns since the host was last asked.
    pub(crate) steps: Cell<u32>,
    memory_limit: usize,
}

/// A function of a library, and what it calls. Lua has some 8000 places for values that Rust holds;
/// its registry has no limit.
pub(crate) type Registered = (Function, Rc<RegistryKey>);

/// An error that ended a run.
pub(crate) struct Failure {
    pub(crate) message: Vec<u8>,
    /// Source and line of the script, as in `@user_script:3`.
    pub(crate) position: Option<String>,
    pub(crate) is_counted: bool,
}

impl State {
    pub(crate) fn new(memory_limit: usize) -> State {
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
            steps: Cell::new(0),
            memory_limit,
        }
    }

    /// Calls `f` with the limit of memory lifted, and then says whether the limit was passed. As
    /// long as memory cannot run out, mlua calls Lua directly; else it makes a protected call, two
    /// closures included, for each string and each field of a table.
    pub(crate) fn without_limit<R>(
        &self,
        lua: &Lua,
        f: impl FnOnce() -> mlua::Result<R>,
    ) -> mlua::Result<R> {
        lua.set_memory_limit(0)?;
        let result = f();
        lua.set_memory_limit(self.memory_limit)?;
        if lua.used_memory() > self.memory_limit {
            return Err(mlua::Error::MemoryError("not enough memory".to_owned()));
        }
        result
    }

    /// Forgets the run before.
    pub(crate) fn start(&self) {
        self.is_resp3.set(false);
        self.is_killed.set(false);
        self.random.set(None);
        self.cjson.set(CjsonSettings::default());
        self.failure.borrow_mut().take();
        self.last_line.set(None);
    }
}
