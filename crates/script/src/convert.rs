//! Replies as Lua values, and Lua values as replies.

use crate::Reply;
use crate::number::truncate;
use mlua::{IntoLua, Lua, LuaString, Table, Value};

/// Nesting of what a script returns; redis-server's limit follows from its Lua stack.
const DEEPEST: usize = 1000;

/// Returns the table of an error that a command replied.
pub(crate) fn error_to_lua(lua: &Lua, message: &[u8], is_counted: bool) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 2)?;
    table.raw_set("err", LuaString::wrap(message))?;
    if is_counted {
        table.raw_set("ignore_error_stats_update", true)?;
    }
    Ok(Value::Table(table))
}

/// Returns a string.
pub(crate) fn string(lua: &Lua, bytes: &[u8]) -> mlua::Result<Value> {
    lua.create_string(bytes).map(Value::String)
}

/// Returns a table with one field, the form of the types that Lua does not have.
pub(crate) fn named(lua: &Lua, name: &str, value: impl IntoLua) -> mlua::Result<Value> {
    let table = lua.create_table_with_capacity(0, 1)?;
    table.raw_set(name, value)?;
    Ok(Value::Table(table))
}

/// Sets an entry; Lua has no table with a nil or NaN key, and such an entry is left out.
pub(crate) fn set_entry(table: &Table, key: Value, value: Value) -> mlua::Result<()> {
    match key {
        Value::Nil => Ok(()),
        Value::Number(number) if number.is_nan() => Ok(()),
        key => table.raw_set(key, value),
    }
}

/// Returns the reply for what a script returned.
pub(crate) fn from_lua(value: &Value, resp3: bool) -> mlua::Result<Reply> {
    from_lua_at(value, resp3, 0)
}

fn from_lua_at(value: &Value, resp3: bool, depth: usize) -> mlua::Result<Reply> {
    if depth > DEEPEST {
        return Ok(Reply::error("ERR reached lua stack limit"));
    }
    Ok(match value {
        Value::String(text) => Reply::Bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(truncate(*number)),
        Value::Boolean(flag) if resp3 => Reply::Bool(*flag),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(table) => table_to_reply(table, resp3, depth)?,
        _ => Reply::Nil,
    })
}

fn table_to_reply(table: &Table, resp3: bool, depth: usize) -> mlua::Result<Reply> {
    if let Value::String(text) = table.raw_get("err")? {
        let counted: Value = table.raw_get("ignore_error_stats_update")?;
        let message = text.as_bytes().to_vec();
        return Ok(Reply::Error { message, is_counted: counted == Value::Boolean(true) });
    }
    if let Value::String(text) = table.raw_get("ok")? {
        return Ok(Reply::Status(one_line(&text.as_bytes())));
    }
    match table.raw_get("double")? {
        Value::Integer(number) => return Ok(Reply::Double(number as f64)),
        Value::Number(number) => return Ok(Reply::Double(number)),
        _ => (),
    }
    if let Value::String(digits) = table.raw_get("big_number")? {
        return Ok(Reply::BigNumber(one_line(&digits.as_bytes())));
    }
    if let Value::Table(inner) = table.raw_get("verbatim_string")?
        && let (Value::String(format), Value::String(text)) =
            (inner.raw_get("format")?, inner.raw_get("string")?)
    {
        let mut format = format.as_bytes().to_vec();
        format.resize(3, b' ');
        return Ok(Reply::Verbatim { format, text: text.as_bytes().to_vec() });
    }
    if let Value::Table(map) = table.raw_get("map")? {
        let mut entries = Vec::new();
        for entry in map.pairs::<Value, Value>() {
            let (key, value) = entry?;
            let key = from_lua_at(&key, resp3, depth + 1)?;
            entries.push((key, from_lua_at(&value, resp3, depth + 1)?));
        }
        return Ok(Reply::Map(entries));
    }
    if let Value::Table(set) = table.raw_get("set")? {
        let mut items = Vec::new();
        for entry in set.pairs::<Value, Value>() {
            items.push(from_lua_at(&entry?.0, resp3, depth + 1)?);
        }
        return Ok(Reply::Set(items));
    }
    let mut items = Vec::new();
    loop {
        match table.raw_get(items.len() + 1)? {
            Value::Nil => return Ok(Reply::Array(items)),
            item => items.push(from_lua_at(&item, resp3, depth + 1)?),
        }
    }
}

/// Returns the text with ends of lines replaced, since it is sent as one line. It ends at a zero
/// byte.
fn one_line(text: &[u8]) -> Vec<u8> {
    let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    text.iter().map(blank).collect()
}
