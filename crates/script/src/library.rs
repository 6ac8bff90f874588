//! Function libraries: a library is run once, registers its functions, and they are called by name.

use crate::arguments::{Arguments, Raise, Results, native};
use crate::host::Started;
use crate::invocation::Passing;
use crate::natives::{CompileError, compile};
use crate::shebang::{INVALID_NAME, is_valid_name, of_library};
use crate::state::{PER_VALUE, Registered, State, spend};
use crate::{Flags, Host, Interpreter, Invocation, Outcome, ScriptError, errors, host};
use mlua::{Function as LuaFunction, Lua, Table, Value};
use std::rc::Rc;

/// A function of a library, as it was registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name for FCALL.
    pub name: String,
    /// Its own description.
    pub description: Option<Vec<u8>>,
    /// Its declared flags.
    pub flags: Flags,
}

/// A loaded library.
#[derive(Clone)]
pub struct Library {
    name: String,
    functions: Vec<Registered>,
}

impl Library {
    /// Returns the name of the library.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its functions in the order in which they were registered.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().map(|(function, _)| function)
    }
}

impl Interpreter {
    /// Returns the name in the first line of a library's code.
    pub fn library_name(source: &[u8]) -> Result<String, ScriptError> {
        of_library(source).map(|(name, _)| name)
    }

    /// Runs the code of a library, which registers its functions. [`Host::poll`] decides whether
    /// this takes too long.
    pub fn load_library(
        &mut self,
        source: &[u8],
        host: &mut dyn Host,
    ) -> Result<Library, ScriptError> {
        let (name, code) = of_library(source)?;
        let failed = |text: &str| ScriptError::new(format!("Error registering functions: {text}"));
        let chunk = compile(&self.lua, code, "@user_function").map_err(|error| {
            let text = match error {
                CompileError::Text(text) => text,
                CompileError::Lua(error) => errors::text_of(&error),
            };
            ScriptError::new(format!("Error compiling function: {text}"))
        })?;
        self.state.start(None);
        *self.state.loading.borrow_mut() = Some(Vec::new());
        let started = Started { interpreter: self, invocation: Invocation::default() };
        let ended = host::lend(host, &started, || -> mlua::Result<(bool, Value)> {
            let globals: Table = self.sandbox.raw_get("library_globals")?;
            let of_library: Table = self.sandbox.raw_get("of_library")?;
            of_library.raw_set("__index", self.sandbox.raw_get::<Table>("loading_content")?)?;
            chunk.set_environment(globals)?;
            self.set_other_lists();
            let load: LuaFunction = self.sandbox.raw_get("load")?;
            let result = load.call(&chunk);
            of_library.raw_set("__index", self.sandbox.raw_get::<Table>("library_content")?)?;
            result
        });
        let functions = self.state.loading.borrow_mut().take().unwrap_or_default();
        match ended {
            Err(error) => return Err(failed(&errors::text_of(&error))),
            Ok((true, _)) => (),
            Ok((false, value)) => {
                let text = match self.state.failure.borrow_mut().take() {
                    Some(_) if self.state.is_killed.get() => "ERR FUNCTION LOAD timeout".into(),
                    Some(failure) => String::from_utf8_lossy(&failure.message).into_owned(),
                    None => match value {
                        Value::String(text) => format!("ERR {}", text.to_string_lossy()),
                        _ => "ERR execution failure".to_owned(),
                    },
                };
                return Err(failed(&text));
            }
        }
        if functions.is_empty() {
            return Err(ScriptError::new("No functions registered"));
        }
        Ok(Library { name, functions })
    }

    /// Calls a function of a library; returns `None` if the library has no such function.
    pub fn call_function(
        &mut self,
        library: &Library,
        function: &str,
        invocation: Invocation<'_>,
        host: &mut dyn Host,
    ) -> Option<Outcome> {
        let callback = library.functions.iter().find(|(known, _)| known.name == function);
        let (_, callback) = callback?;
        self.state.start(None);
        Some(self.execute(function, callback, Passing::Arguments, invocation, host))
    }
}

/// Makes `redis.register_function`.
pub(crate) fn register_function(lua: &Lua, state: &Rc<State>) -> mlua::Result<LuaFunction> {
    let state = Rc::clone(state);
    native(lua, "register_function", move |arguments| register(arguments, &state))
}

fn refused(text: &str) -> Raise {
    Raise::Reply(text.to_owned())
}

fn register(arguments: &Arguments<'_>, state: &State) -> Results {
    let mut loading = state.loading.borrow_mut();
    let Some(functions) = loading.as_mut() else {
        return Err(refused("redis.register_function can only be called on FUNCTION LOAD command"));
    };
    let (function, callback) = match arguments.len() {
        1 => named(arguments)?,
        2 => positional(arguments)?,
        _ => return Err(refused("wrong number of arguments to redis.register_function")),
    };
    if !is_valid_name(function.name.as_bytes()) {
        return Err(refused(INVALID_NAME));
    }
    if functions.iter().any(|(known, _)| known.name == function.name) {
        return Err(refused("Function already exists in the library"));
    }
    let callback = Rc::new(arguments.lua.create_registry_value(callback)?);
    functions.push((function, callback));
    Ok(Vec::new())
}

/// Implements `redis.register_function('name', callback)`
fn positional(arguments: &Arguments<'_>) -> Result<(Function, LuaFunction), Raise> {
    let name = text(arguments.lua, arguments.get(1))?
        .ok_or_else(|| refused("first argument to redis.register_function must be a string"))?;
    let Value::Function(callback) = arguments.get(2) else {
        return Err(refused("second argument to redis.register_function must be a function"));
    };
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok((Function { name, description: None, flags: Flags::default() }, callback.clone()))
}

/// Implements `redis.register_function{function_name='name', callback=..., description=...,
/// flags={...}}`
fn named(arguments: &Arguments<'_>) -> Result<(Function, LuaFunction), Raise> {
    let Value::Table(table) = arguments.get(1) else {
        return Err(refused(
            "calling redis.register_function with a single argument is only applicable to Lua \
             table (representing named arguments).",
        ));
    };
    let (mut name, mut description, mut callback) = (None, None, None);
    let mut flags = Flags::default();
    for entry in table.pairs::<Value, Value>() {
        let (key, value) = entry?;
        let key = text(arguments.lua, &key)?.ok_or_else(|| {
            refused("named argument key given to redis.register_function is not a string")
        })?;
        let must_be_string = |which: &str| {
            Raise::Reply(format!(
                "{which} argument given to redis.register_function must be a string"
            ))
        };
        match key.to_ascii_lowercase().as_slice() {
            b"function_name" => {
                let given = text(arguments.lua, &value)?;
                name = Some(given.ok_or_else(|| must_be_string("function_name"))?);
            }
            b"description" => {
                let given = text(arguments.lua, &value)?;
                description = Some(given.ok_or_else(|| must_be_string("description"))?);
            }
            b"callback" => match value {
                Value::Function(function) => callback = Some(function),
                _ => {
                    return Err(refused(
                        "callback argument given to redis.register_function must be a function",
                    ));
                }
            },
            b"flags" => flags = read_flags(arguments.lua, &value)?,
            _ => return Err(refused("unknown argument given to redis.register_function")),
        }
    }
    let name =
        name.ok_or_else(|| refused("redis.register_function must get a function name argument"))?;
    let callback =
        callback.ok_or_else(|| refused("redis.register_function must get a callback argument"))?;
    let name = String::from_utf8_lossy(&name).into_owned();
    Ok((Function { name, description, flags }, callback))
}

fn read_flags(lua: &Lua, value: &Value) -> Result<Flags, Raise> {
    let Value::Table(list) = value else {
        return Err(refused(
            "flags argument to redis.register_function must be a table representing function flags",
        ));
    };
    let mut flags = Flags::default();
    for at in 1.. {
        spend(PER_VALUE)?;
        let flag: Value = list.raw_get(at)?;
        if flag.is_nil() {
            break;
        }
        let known = text(lua, &flag)?.and_then(|name| Flags::named(&name.to_ascii_lowercase()));
        flags.add(known.ok_or_else(|| refused("unknown flag given"))?);
    }
    Ok(flags)
}

/// Returns the bytes of a string, or the digits of a number.
fn text(lua: &Lua, value: &Value) -> mlua::Result<Option<Vec<u8>>> {
    match value {
        Value::String(_) | Value::Integer(_) | Value::Number(_) => {
            Ok(lua.coerce_string(value.clone())?.map(|text| text.as_bytes().to_vec()))
        }
        _ => Ok(None),
    }
}
