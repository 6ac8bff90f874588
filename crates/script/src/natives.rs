//! The functions of Rust that the sandbox is built from.

use crate::arguments::{Arguments, Raise, Raised, Results, native};
use crate::convert::error_to_lua;
use crate::random::Lrand48;
use crate::state::State;
use crate::{errors, host, invocation, libraries, library, redis, strings};
use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaString, Table, Value};
use std::rc::Rc;

/// The longest run of `=` in a long bracket that the compiler accepts here.
const LONGEST_BRACKET: usize = 256;

/// Bytes of the longest text that the compiler accepts here. The size of the compiled code is
/// limited in `lua/work.h`.
const LONGEST_TEXT: usize = 64 << 20;

/// Makes the table that `lua/sandbox.lua` receives.
pub(crate) fn table(lua: &Lua, state: &Rc<State>, handler: &Function) -> mlua::Result<Table> {
    let memory_limit = state.memory_limit;
    let table = lua.create_table()?;
    table.raw_set("redis", redis::table(lua, state)?)?;
    table.raw_set("lists", invocation::lists(lua, state)?)?;
    table.raw_set("handler", handler)?;
    table.raw_set("register_function", library::register_function(lua, state)?)?;
    table.raw_set("libraries", libraries::all(lua, state)?)?;
    let of_run = Rc::clone(state);
    table.raw_set("random", native(lua, "random", move |call| random(call, &of_run))?)?;
    let of_run = Rc::clone(state);
    table.raw_set("randomseed", native(lua, "randomseed", move |call| seed(call, &of_run))?)?;
    let of_run = Rc::clone(state);
    let is_killed = lua.create_function(move |_, ()| Ok(of_run.is_killed.get()))?;
    table.raw_set("is_killed", is_killed)?;
    table.raw_set("plain_error", lua.create_function(plain_error)?)?;
    table.raw_set("longest_string", memory_limit / 2)?;
    table.raw_set("strings", strings::table(lua, state, memory_limit / 2)?)?;
    table.raw_set(
        "compile",
        lua.create_function(|lua, (text, name): (LuaString, LuaString)| {
            match compile(lua, &text.as_bytes(), &name.to_string_lossy()) {
                Ok(function) => Ok((Some(function), None)),
                Err(CompileError::Text(text)) => Ok((None, Some(text))),
                Err(CompileError::Lua(error)) => Err(error),
            }
        })?,
    )?;
    Ok(table)
}

/// Makes the handler of errors that end a run.
pub(crate) fn handler(lua: &Lua, state: &Rc<State>) -> mlua::Result<Function> {
    let state = Rc::clone(state);
    lua.create_function(move |lua, error: Value| errors::record(lua, &state, &error))
}

/// Why a chunk was not compiled.
pub(crate) enum CompileError {
    /// Lua's text, with source and line.
    Text(String),
    /// Lack of memory, for example.
    Lua(mlua::Error),
}

/// Compiles a chunk of text, with the garbage collector stopped, since Lua's parser fails to
/// protect the name of the chunk from it (CVE-2025-49844).
pub(crate) fn compile(lua: &Lua, text: &[u8], name: &str) -> Result<mlua::Function, CompileError> {
    let shown = name.trim_start_matches(['@', '=']).to_owned();
    if text.first() == Some(&0x1b) {
        let text = format!("{shown}:1: unexpected symbol near 'char(27)': bytecode is refused");
        return Err(CompileError::Text(text));
    }
    if text.len() > LONGEST_TEXT {
        return Err(CompileError::Text(format!("{shown}:1: chunk is too long")));
    }
    if has_long_bracket(text) {
        return Err(CompileError::Text(format!("{shown}:1: long bracket is too long")));
    }
    let name = name.split('\0').next().unwrap_or_default();
    lua.gc_stop();
    let compiled = lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function();
    lua.gc_restart();
    compiled.map_err(|error| match error {
        mlua::Error::SyntaxError { message, .. } => CompileError::Text(message),
        // The compiler raised this error without a position; mlua has added the position in Rust.
        mlua::Error::RuntimeError(text) => {
            let message = text.split("\nstack traceback:").next().unwrap_or_default();
            CompileError::Text(message.to_owned())
        }
        other => CompileError::Lua(other),
    })
}

/// Returns true if the text has a bracket and then more `=` than a long bracket may have.
fn has_long_bracket(text: &[u8]) -> bool {
    let mut equals = 0;
    for byte in text {
        equals = match byte {
            b'[' | b']' => 1,
            b'=' if equals > 0 => equals + 1,
            _ => 0,
        };
        if equals > LONGEST_BRACKET {
            return true;
        }
    }
    false
}

/// Returns the value that a script which catches an error gets: text instead of a value of mlua.
fn plain_error(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let text = match &error {
        Value::Error(error) => match Raised::of(error) {
            Some(Raised::Reply { message, is_counted }) => {
                return error_to_lua(lua, message, *is_counted);
            }
            Some(Raised::Text(text)) => at_script(lua, text).unwrap_or_else(|| text.clone()),
            None => errors::text_of(error).into_bytes(),
        },
        Value::String(text) => match at_script(lua, &text.as_bytes()) {
            Some(text) => text,
            None => return Ok(error.clone()),
        },
        _ => return Ok(error),
    };
    lua.create_string(text).map(Value::String)
}

/// Returns a message whose position in the sandbox's own code is replaced by that of the script;
/// `None` if it has no such position.
fn at_script(lua: &Lua, message: &[u8]) -> Option<Vec<u8>> {
    let rest = errors::without_own_position(message)?;
    let position = errors::position(lua).unwrap_or_default();
    let position = position.trim_start_matches(['@', '=']);
    Some([position.as_bytes(), b": ", rest].concat())
}

/// Returns the generator of a run that has set no seed.
fn unseeded() -> Lrand48 {
    let seed = host::with(|host| host.random_seed()).flatten();
    seed.map_or_else(Lrand48::initial, |seed| Lrand48::new(seed.cast_signed()))
}

/// Implements `math.random`, with Lua's three forms.
fn random(arguments: &Arguments<'_>, state: &State) -> Results {
    if !state.is_running.get() {
        return Err("math.random can only be called inside a script invocation".into());
    }
    let mut random = state.random.get().unwrap_or_else(unseeded);
    let fraction = random.fraction();
    state.random.set(Some(random));
    let within = |low: i32, high: i32, at: usize| {
        if low > high {
            return Err(arguments.bad(at, "interval is empty"));
        }
        // As in C, with 32 bits.
        let width = f64::from(high.wrapping_sub(low).wrapping_add(1));
        Ok((fraction * width).floor() + f64::from(low))
    };
    let number = match arguments.len() {
        0 => fraction,
        1 => within(1, arguments.int(1)?, 1)?,
        2 => within(arguments.int(1)?, arguments.int(2)?, 2)?,
        _ => return Err(Raise::from("wrong number of arguments")),
    };
    Ok(vec![Value::Number(number)])
}

/// Implements `math.randomseed`.
fn seed(arguments: &Arguments<'_>, state: &State) -> Results {
    if !state.is_running.get() {
        return Err("math.randomseed can only be called inside a script invocation".into());
    }
    state.random.set(Some(Lrand48::new(arguments.int(1)?)));
    Ok(Vec::new())
}
