//! Calls a script or function with its keys and arguments, on Lua's own stack.
//!
//! With handles of mlua, the call, the two lists `KEYS` and `ARGV` and the result would take most
//! of the time of an empty script.

use crate::bytecode::{Globals, ListUse};
use crate::convert::{before_zero, from_lua, one_line};
use crate::host::{self, Started};
use crate::number::truncate;
use crate::stack::{self, Argument, Called, Frame, LONGEST_LIST, LONGEST_STRING, Unlimited};
use crate::state::State;
use crate::{Invocation, Reply};
use mlua::{Function, Lua, LuaString, RegistryKey, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// Maximum number of items, and of their bytes, in a list that is kept for the next run.
const MOST_SHARED: usize = 32;
const MOST_SHARED_BYTES: usize = 4096;

/// The registry's entries that all calls use.
pub(crate) struct Kept {
    handler: RegistryKey,
    /// The globals of scripts, and two of them.
    globals: RegistryKey,
    keys: List,
    argv: List,
    /// The names of the fields of an error and of a status.
    err: RegistryKey,
    ok: RegistryKey,
}

impl Kept {
    /// Creates the entries; `handler` is called with errors.
    pub(crate) fn new(lua: &Lua, handler: Function, globals: &Table) -> mlua::Result<Kept> {
        let name = |text: &str| lua.create_registry_value(lua.create_string(text)?);
        let list = |text: &str| {
            Ok::<_, mlua::Error>(List {
                name: name(text)?,
                shared: lua.create_registry_value(lua.create_table()?)?,
                length: Cell::new(0),
                is_shared: Cell::new(false),
            })
        };
        Ok(Kept {
            handler: lua.create_registry_value(stack::message_handler(lua, handler)?)?,
            globals: lua.create_registry_value(globals)?,
            keys: list("KEYS")?,
            argv: list("ARGV")?,
            err: name("err")?,
            ok: name("ok")?,
        })
    }
}

impl Kept {
    /// Notes that other lists were put into the globals.
    pub(crate) fn set_other_lists(&self) {
        self.keys.is_shared.set(false);
        self.argv.is_shared.set(false);
    }
}

/// A list in the globals: `KEYS` or `ARGV`.
struct List {
    name: RegistryKey,
    /// A list shared by all scripts that only read it. None of them can keep it.
    shared: RegistryKey,
    /// How many items the shared list has.
    length: Cell<usize>,
    /// Whether the shared list is the one in the globals.
    is_shared: Cell<bool>,
}

impl List {
    /// Puts a list of these items into the globals.
    fn set(
        &self,
        lua: &Lua,
        globals: &RegistryKey,
        list_use: ListUse,
        items: &[&[u8]],
        frame: &mut Frame<'_>,
        unlimited: &Unlimited,
    ) {
        let bytes = |items: &[&[u8]]| items.iter().map(|item| item.len()).sum::<usize>();
        match list_use {
            ListUse::Nothing => return,
            ListUse::Reads if items.len() <= MOST_SHARED && bytes(items) <= MOST_SHARED_BYTES => {
                frame.push_kept(lua, &self.shared);
                frame.refill_list(items, self.length.replace(items.len()), unlimited);
                frame.pop();
                if self.is_shared.replace(true) {
                    return;
                }
            }
            ListUse::Reads | ListUse::Anything => self.is_shared.set(false),
        }
        frame.push_kept(lua, globals);
        frame.push_kept(lua, &self.name);
        match self.is_shared.get() {
            true => frame.push_kept(lua, &self.shared),
            false => push_list(frame, items, unlimited),
        }
        frame.set_field(unlimited);
        frame.pop();
    }
}

/// How a script or function gets its keys and arguments.
#[derive(Clone, Copy)]
pub(crate) enum Passing {
    /// By the globals `KEYS` and `ARGV`, if it can reach them: a script. Scripts that cannot reach
    /// them see no list of an earlier run either. A script that only reads a short list gets the
    /// same table as others of its kind, with new items: it cannot tell the difference.
    Globals(Globals),
    /// By two arguments: a function of a library.
    Arguments,
}

/// Returns true if [`call`] takes these lists.
pub(crate) fn fits(invocation: &Invocation<'_>) -> bool {
    let fits = |items: &[&[u8]]| {
        items.len() <= LONGEST_LIST && items.iter().all(|item| item.len() <= LONGEST_STRING)
    };
    fits(invocation.keys) && fits(invocation.arguments)
}

/// Calls a function from the registry, with lists that fit. Returns the reply, or the error if the
/// handler has not taken it.
pub(crate) fn call(
    lua: &Lua,
    state: &State,
    kept: &Kept,
    function: &RegistryKey,
    invocation: &Invocation<'_>,
    passing: Passing,
) -> mlua::Result<Result<Reply, Value>> {
    let Invocation { keys, arguments } = *invocation;
    let push = |frame: &mut Frame<'_>, unlimited: &Unlimited| match passing {
        Passing::Globals(globals) => {
            kept.keys.set(lua, &kept.globals, globals.keys, keys, frame, unlimited);
            kept.argv.set(lua, &kept.globals, globals.argv, arguments, frame, unlimited);
        }
        Passing::Arguments => {
            push_list(frame, keys, unlimited);
            push_list(frame, arguments, unlimited);
        }
    };
    let take = |frame: &mut Frame<'_>| simple_reply(lua, state, kept, frame);
    let called = stack::call(lua, state.memory_limit, [&kept.handler, function], push, take)?;
    match called {
        Called::Taken(reply) => Ok(Ok(reply)),
        Called::Failed(error) => Ok(Err(error)),
        Called::Returned(value) => {
            let is_resp3 = state.is_resp3.get();
            state.without_limit(lua, |_| from_lua(&value, is_resp3)).map(Ok)
        }
    }
}

fn push_list(frame: &mut Frame<'_>, items: &[&[u8]], unlimited: &Unlimited) {
    let mut items = items.iter();
    frame.push_list(items.len(), unlimited, |frame, unlimited| {
        frame.push_string(items.next()?, unlimited);
        Some(())
    });
}

/// Returns the reply for a result that needs no handle: the same as [`from_lua`] makes.
fn simple_reply(lua: &Lua, state: &State, kept: &Kept, frame: &mut Frame<'_>) -> Option<Reply> {
    match frame.last() {
        Argument::Nil => Some(Reply::Nil),
        Argument::Boolean(flag) if state.is_resp3.get() => Some(Reply::Bool(flag)),
        Argument::Boolean(flag) => Some(if flag { Reply::Integer(1) } else { Reply::Nil }),
        Argument::Number(number) => Some(Reply::Integer(truncate(number))),
        Argument::Text(text) => (text.len() <= LONGEST_STRING).then(|| Reply::bulk(text)),
        Argument::Table => status(lua, kept, frame),
        Argument::Other => None,
    }
}

/// Returns the status that is the last value, if it is one.
fn status(lua: &Lua, kept: &Kept, frame: &mut Frame<'_>) -> Option<Reply> {
    frame.push_kept(lua, &kept.err);
    frame.get_field();
    let Argument::Nil = frame.last() else { return None };
    frame.pop();
    frame.push_kept(lua, &kept.ok);
    frame.get_field();
    match frame.last() {
        Argument::Text(text) => {
            let text = (text.len() <= LONGEST_STRING).then(|| before_zero(text))?;
            Some(Reply::Status(one_line(text)))
        }
        _ => None,
    }
}

/// Makes the sandbox's function that returns both lists of the run, of any length, using handles.
pub(crate) fn lists(lua: &Lua, state: &Rc<State>) -> mlua::Result<Function> {
    let state = Rc::clone(state);
    lua.create_function(move |lua, ()| {
        let list = |items: &[&[u8]]| lua.create_sequence_from(items.iter().map(LuaString::wrap));
        let lists = host::with_started(|Started { invocation, .. }| {
            state.without_limit(lua, |_| Ok((list(invocation.keys)?, list(invocation.arguments)?)))
        });
        lists.unwrap_or_else(|| Err(mlua::Error::runtime("there is no run")))
    })
}
