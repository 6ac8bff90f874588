//! The functions of the table `redis`.

use crate::arguments::{Arguments, Raise, Results, error_table, native};
use crate::calls::{self, NO_ARGUMENT, NOT_A_STRING};
use crate::convert::before_zero;
use crate::state::{State, check_length, spend};
use crate::{LogLevel, host, words};
use mlua::{Lua, Table, Value};
use std::rc::Rc;

/// The version of Redis whose behaviour scripts see.
pub(crate) const VERSION: &str = "7.0.15";

/// Bytes that are hashed between two counts of work.
const HASHED_AT_ONCE: usize = 64 << 10;

/// Returns a version as Redis's number: a byte for each of its parts.
fn number(version: &str) -> u32 {
    version.split('.').fold(0, |all, part| all << 8 | u32::from(part.parse::<u8>().unwrap_or(0)))
}

/// Makes the table.
pub(crate) fn table(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add = |name: &'static str, f: Box<dyn Fn(&Arguments<'_>) -> Results>| {
        table.raw_set(name, native(lua, name, f)?)
    };
    add("sha1hex", Box::new(sha1hex))?;
    add("error_reply", Box::new(error_reply))?;
    add("status_reply", Box::new(status_reply))?;
    add("log", Box::new(log))?;
    add("breakpoint", Box::new(|_| Ok(vec![Value::Boolean(false)])))?;
    add("debug", Box::new(|_| Ok(Vec::new())))?;
    add("replicate_commands", Box::new(|_| Ok(vec![Value::Boolean(true)])))?;
    table.raw_set("call", calls::function(lua, state, true)?)?;
    table.raw_set("pcall", calls::function(lua, state, false)?)?;
    let of_run = Rc::clone(state);
    add("setresp", Box::new(move |arguments| set_resp(arguments, &of_run)))?;
    add("set_repl", Box::new(set_replication))?;
    add("acl_check_cmd", Box::new(acl_check))?;
    let constants = [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
        ("REDIS_VERSION_NUM", number(&state.version)),
    ];
    for (name, value) in constants {
        table.raw_set(name, value)?;
    }
    table.raw_set("REDIS_VERSION", &*state.version)?;
    Ok(table)
}

fn sha1hex(arguments: &Arguments<'_>) -> Results {
    if arguments.len() != 1 {
        return Err(Raise::Reply("wrong number of arguments".to_owned()));
    }
    let text = arguments.lua.coerce_string(arguments.get(1).clone())?;
    let mut digest = sha1_smol::Sha1::new();
    if let Some(text) = text {
        for piece in text.as_bytes().chunks(HASHED_AT_ONCE) {
            digest.update(piece);
            spend(16 * piece.len())?;
        }
    }
    let hex = digest.digest().to_string();
    Ok(vec![Value::String(arguments.lua.create_string(hex)?)])
}

/// Returns the one string of `error_reply` and `status_reply`; with anything else they return an
/// error.
fn only_string(arguments: &Arguments<'_>) -> Result<Vec<u8>, Results> {
    match arguments.get(1) {
        Value::String(text) if arguments.len() == 1 => Ok(text.as_bytes().to_vec()),
        _ => {
            let table = error_table(arguments.lua, b"ERR wrong number or type of arguments");
            Err(table.map(|table| vec![Value::Table(table)]).map_err(Raise::from))
        }
    }
}

fn error_reply(arguments: &Arguments<'_>) -> Results {
    let text = match only_string(arguments) {
        Ok(text) => text,
        Err(results) => return results,
    };
    let text = before_zero(&text);
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (code, message) = match text.iter().position(|byte| *byte == b' ') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (&b"ERR"[..], text),
    };
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let from = message.iter().position(|byte| !is_end(byte)).unwrap_or(message.len());
    let to = message.iter().rposition(|byte| !is_end(byte)).map_or(from, |at| at + 1);
    let whole = [code, b" ", &message[from..to]].concat();
    Ok(vec![Value::Table(error_table(arguments.lua, &whole)?)])
}

fn status_reply(arguments: &Arguments<'_>) -> Results {
    let text = match only_string(arguments) {
        Ok(text) => text,
        Err(results) => return results,
    };
    let table = arguments.lua.create_table_with_capacity(0, 1)?;
    table.raw_set("ok", arguments.lua.create_string(text)?)?;
    Ok(vec![Value::Table(table)])
}

fn log(arguments: &Arguments<'_>) -> Results {
    if arguments.len() < 2 {
        return Err(Raise::Reply("redis.log() requires two arguments or more.".to_owned()));
    }
    let level = arguments
        .number(1)
        .map_err(|_| Raise::Reply("First argument must be a number (log level).".to_owned()))?;
    let level = match level as i32 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return Err(Raise::Reply("Invalid debug level.".to_owned())),
    };
    let mut line = Vec::new();
    for (at, value) in arguments.iter().enumerate().skip(1) {
        if let Some(text) = arguments.lua.coerce_string(value.clone())? {
            if at > 1 {
                line.push(b' ');
            }
            line.extend_from_slice(&text.as_bytes());
            spend(text.as_bytes().len())?;
            check_length(line.len())?;
        }
    }
    host::with(|host| host.log(level, &line));
    Ok(Vec::new())
}

/// Returns the only argument of a function as a number, or 0 if it is not one.
fn only_number(arguments: &Arguments<'_>, problem: &str) -> Result<i64, Raise> {
    if arguments.len() != 1 {
        return Err(Raise::Reply(problem.to_owned()));
    }
    Ok(arguments.integer(1).unwrap_or(0))
}

fn set_resp(arguments: &Arguments<'_>, state: &State) -> Results {
    match only_number(arguments, "redis.setresp() requires one argument.")? {
        version @ (2 | 3) => {
            state.is_resp3.set(version == 3);
            Ok(Vec::new())
        }
        _ => Err(Raise::Reply("RESP version must be 2 or 3.".to_owned())),
    }
}

fn set_replication(arguments: &Arguments<'_>) -> Results {
    let flags = only_number(arguments, "redis.set_repl() requires two arguments.")?;
    let Ok(flags @ 0..=3) = u8::try_from(flags) else {
        let text = "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(Raise::Reply(text.to_owned()));
    };
    host::with(|host| host.set_replication(flags));
    Ok(Vec::new())
}

fn acl_check(arguments: &Arguments<'_>) -> Results {
    if arguments.len() == 0 {
        return Err(Raise::Reply(NO_ARGUMENT.to_owned()));
    }
    let found = words::with_values(arguments.iter(), |command| {
        host::with(|host| host.acl_check(command)).flatten()
    });
    match found {
        None => Err(Raise::Reply(NOT_A_STRING.to_owned())),
        Some(None) => {
            let text = "Invalid command passed to redis.acl_check_cmd()";
            Err(Raise::Reply(text.to_owned()))
        }
        Some(Some(may)) => Ok(vec![Value::Boolean(may)]),
    }
}
