//! What a script or function is called with, and what it returns, on Lua's stack.
//!
//! The two lists `KEYS` and `ARGV`, made by handles of mlua, would take a third of what an empty
//! script takes; a result that is a string, as much as a command.

use crate::host::{self, Started};
use crate::number::truncate;
use crate::stack::{self, Argument, Body, Ended, Frame, LONGEST_LIST, LONGEST_STRING, Unlimited};
use crate::state::State;
use crate::{Invocation, Reply};
use mlua::{Function, Lua, LuaString, Table};
use std::any::Any;
use std::rc::Rc;

/// Makes the function of the sandbox that returns both lists of the run.
pub(crate) fn lists(lua: &Lua, state: &Rc<State>) -> mlua::Result<Function> {
    let state = Rc::clone(state);
    let otherwise = lua.create_function(move |lua, ()| of_any_length(lua, &state))?;
    stack::function::<Lists>(lua, otherwise, texts(lua)?.each_ref())
}

/// Makes the function of the sandbox that takes the result of the run if it is a string or a
/// number, and returns whether it was.
pub(crate) fn take_result(lua: &Lua) -> mlua::Result<Function> {
    let otherwise = lua.create_function(|_, ()| Ok(false))?;
    stack::function::<Taken>(lua, otherwise, texts(lua)?.each_ref())
}

fn texts(lua: &Lua) -> mlua::Result<[LuaString; 2]> {
    Ok([lua.create_string("ok")?, lua.create_string("OK")?])
}

/// The lists of usual lengths.
struct Lists;

impl Body for Lists {
    const RESULTS: u32 = 2;

    fn call(frame: &mut Frame<'_>) -> Ended {
        let pushed = host::with_started(|Started { interpreter, invocation }| {
            let Invocation { keys, arguments } = *invocation;
            (fits(keys) && fits(arguments)).then_some(())?;
            let pushed = interpreter.state.without_limit(&interpreter.lua, |unlimited| {
                push(frame, keys, unlimited);
                push(frame, arguments, unlimited);
                Ok(())
            });
            // Where they exceed the memory, the other function says so.
            pushed.ok()
        });
        if pushed.flatten().is_some() { Ended::Returned } else { Ended::Otherwise }
    }

    fn has_panicked(_: Box<dyn Any + Send>) {}
}

fn fits(items: &[&[u8]]) -> bool {
    items.len() <= LONGEST_LIST && items.iter().all(|item| item.len() <= LONGEST_STRING)
}

fn push(frame: &mut Frame<'_>, items: &[&[u8]], unlimited: &Unlimited) {
    let mut items = items.iter();
    frame.push_list(items.len(), unlimited, |frame, unlimited| {
        frame.push_string(items.next()?, unlimited);
        Some(())
    });
}

/// Makes the lists by handles, whatever their lengths.
fn of_any_length(lua: &Lua, state: &State) -> mlua::Result<(Table, Table)> {
    let list = |items: &[&[u8]]| lua.create_sequence_from(items.iter().map(LuaString::wrap));
    let lists = host::with_started(|Started { invocation, .. }| {
        state.without_limit(lua, |_| Ok((list(invocation.keys)?, list(invocation.arguments)?)))
    });
    lists.unwrap_or_else(|| Err(mlua::Error::runtime("there is no run")))
}

/// The result, where it is a string of usual length or a number.
struct Taken;

impl Body for Taken {
    const RESULTS: u32 = 1;

    fn call(frame: &mut Frame<'_>) -> Ended {
        let reply = match frame.arguments().next() {
            Some(Argument::Text(text)) if text.len() <= LONGEST_STRING => Some(Reply::bulk(text)),
            Some(Argument::Number(number)) => Some(Reply::Integer(truncate(number))),
            _ => None,
        };
        let taken = reply.and_then(|reply| {
            host::with_started(|started| started.interpreter.state.result.set(Some(reply)))
        });
        frame.push_boolean(taken.is_some());
        Ended::Returned
    }

    fn has_panicked(_: Box<dyn Any + Send>) {}
}
