//! `redis.call` and `redis.pcall`.
//!
//! A call has two parts. The first works on Lua's stack: it passes the words of the command to the
//! host and pushes a reply of a usual kind. It leaves errors and all other replies to the second
//! part, a function of mlua.

use crate::arguments::Raised;
use crate::convert::error_to_lua;
use crate::host::Started;
use crate::stack::{self, Argument, Body, Ended, Frame};
use crate::state::State;
use crate::wire::{self, Replied};
use crate::{Interpreter, host, words};
use mlua::{Function, Lua, Value};
use smallvec::SmallVec;
use std::any::Any;
use std::rc::Rc;

/// Bytes of the largest buffer for replies that is kept for the next command.
const LARGEST_KEPT_REPLY: usize = 64 << 10;

pub(crate) const NO_ARGUMENT: &str = "Please specify at least one argument for this redis lib call";
pub(crate) const NOT_A_STRING: &str = "Lua redis lib command arguments must be strings or integers";
const NOT_IN_A_RUN: &str = "redis.call/pcall can only be called inside a script invocation";
const NESTED: &str = "a command cannot run inside of another one";

/// The work that the first part of a call leaves to the second.
pub(crate) enum Unfinished {
    /// The call was refused.
    Refused(&'static str),
    /// The reply is in the interpreter's buffer; `is_counted` says whether the host has counted its
    /// error.
    Replied { is_counted: bool },
    /// The reply does not fit into Lua's memory.
    Memory(mlua::Error),
    /// The host has panicked.
    Panicked(Box<dyn Any + Send>),
}

/// Makes `redis.call`, which raises errors, or `redis.pcall`, which returns them.
pub(crate) fn function(lua: &Lua, state: &Rc<State>, raises: bool) -> mlua::Result<Function> {
    let state = Rc::clone(state);
    let second = lua.create_function(move |lua, ()| finish(lua, &state, raises))?;
    let texts = [lua.create_string("ok")?, lua.create_string("OK")?];
    stack::function::<Call>(lua, second, [&texts[0], &texts[1]])
}

/// The first part of a call.
struct Call;

impl Body for Call {
    const RESULTS: u32 = 1;

    fn call(frame: &mut Frame<'_>) -> Ended {
        let ended = host::with_started(|Started { interpreter, .. }| {
            let done = execute(frame, interpreter);
            done.map_err(|unfinished| interpreter.state.unfinished.set(Some(unfinished)))
        });
        if let Some(Ok(())) = ended { Ended::Returned } else { Ended::Otherwise }
    }

    fn has_panicked(payload: Box<dyn Any + Send>) {
        host::with_started(|Started { interpreter, .. }| {
            interpreter.state.unfinished.set(Some(Unfinished::Panicked(payload)));
        });
    }
}

/// An argument as bytes.
enum Word<'f> {
    Text(&'f [u8]),
    Digits(SmallVec<[u8; 24]>),
}

fn execute(frame: &mut Frame<'_>, interpreter: &Interpreter) -> Result<(), Unfinished> {
    let state = &*interpreter.state;
    if !state.is_running.get() {
        return Err(Unfinished::Refused(NOT_IN_A_RUN));
    }
    let is_resp3 = state.is_resp3.get();
    let mut reply = state.reply.take();
    reply.clear();
    let is_counted = ask(frame, is_resp3, &mut reply).map_err(Unfinished::Refused)?;
    if !is_resp3 && push(frame, &reply, interpreter).map_err(Unfinished::Memory)?.is_some() {
        keep(state, reply);
        return Ok(());
    }
    state.reply.set(reply);
    Err(Unfinished::Replied { is_counted })
}

/// Passes the words of a command to the host, or returns why it did not.
fn ask(frame: &Frame<'_>, is_resp3: bool, reply: &mut Vec<u8>) -> Result<bool, &'static str> {
    let mut words: SmallVec<[&[u8]; 8]> = SmallVec::new();
    for argument in frame.arguments() {
        match argument {
            Argument::Text(text) => words.push(text),
            Argument::Number(_) => return ask_with_numbers(frame, is_resp3, reply),
            _ => return Err(NOT_A_STRING),
        }
    }
    if words.is_empty() {
        return Err(NO_ARGUMENT);
    }
    host::with(|host| host.call(&words, is_resp3, reply)).ok_or(NESTED)
}

/// As [`ask`], if some words are digits of numbers.
fn ask_with_numbers(
    frame: &Frame<'_>,
    is_resp3: bool,
    reply: &mut Vec<u8>,
) -> Result<bool, &'static str> {
    let mut words: SmallVec<[Word<'_>; 8]> = SmallVec::new();
    for argument in frame.arguments() {
        words.push(match argument {
            Argument::Text(text) => Word::Text(text),
            Argument::Number(number) => Word::Digits(words::digits(number)),
            _ => return Err(NOT_A_STRING),
        });
    }
    let slices: SmallVec<[&[u8]; 8]> = words.iter().map(Word::bytes).collect();
    host::with(|host| host.call(&slices, is_resp3, reply)).ok_or(NESTED)
}

fn push(
    frame: &mut Frame<'_>,
    reply: &[u8],
    interpreter: &Interpreter,
) -> mlua::Result<Option<()>> {
    if reply == wire::OK && frame.is_statement() {
        // Making a table that nobody gets would take as long as a short command.
        frame.push_nil();
        return Ok(Some(()));
    }
    let Interpreter { lua, state, .. } = interpreter;
    state.without_limit(lua, |unlimited| Ok(wire::push(frame, reply, unlimited)))
}

/// Keeps the buffer of a reply for the next command, unless it is large.
fn keep(state: &State, reply: Vec<u8>) {
    if reply.capacity() <= LARGEST_KEPT_REPLY {
        state.reply.set(reply);
    }
}

impl Word<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Word::Text(text) => text,
            Word::Digits(digits) => digits,
        }
    }
}

/// The second part of a call.
fn finish(lua: &Lua, state: &State, raises: bool) -> mlua::Result<Value> {
    match state.unfinished.take() {
        None | Some(Unfinished::Refused(NOT_IN_A_RUN)) => refused(lua, NOT_IN_A_RUN, true),
        Some(Unfinished::Refused(text)) => refused(lua, text, raises),
        Some(Unfinished::Memory(error)) => Err(error),
        Some(Unfinished::Panicked(payload)) => std::panic::resume_unwind(payload),
        Some(Unfinished::Replied { is_counted }) => {
            let reply = state.reply.take();
            let result = state.without_limit(lua, |_| {
                match wire::to_lua(lua, &reply, state.is_resp3.get())? {
                    Replied::Value(value) => Ok(value),
                    Replied::Error(message) => failed(lua, message, is_counted, raises),
                }
            });
            keep(state, reply);
            result
        }
    }
}

fn refused(lua: &Lua, text: &str, raises: bool) -> mlua::Result<Value> {
    failed(lua, format!("ERR {text}").into(), false, raises)
}

#[cold]
fn failed(lua: &Lua, message: Vec<u8>, is_counted: bool, raises: bool) -> mlua::Result<Value> {
    if raises {
        return Err(mlua::Error::external(Raised::Reply { message, is_counted }));
    }
    error_to_lua(lua, &message, is_counted)
}
