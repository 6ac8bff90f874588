//! Replies as Lua values, and Lua values as replies.

use crate::Reply;
use crate::number::truncate;
use crate::state::{check_length, spend};
use mlua::{IntoLua, Lua, LuaString, Table, Value};

/// Maximum nesting of a script's result; redis-server's limit follows from its Lua stack.
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

/// Returns a table with one field: the form of types that Lua lacks.
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

/// Returns the reply for a script's result.
pub(crate) fn from_lua(value: &Value, resp3: bool) -> mlua::Result<Reply> {
    Converter { resp3, bytes: 0 }.value(value, 0)
}

/// Makes a reply, which may be as large as Lua's memory.
struct Converter {
    resp3: bool,
    /// The size of the reply so far.
    bytes: usize,
}

impl Converter {
    fn value(&mut self, value: &Value, depth: usize) -> mlua::Result<Reply> {
        self.count(size_of::<Reply>())?;
        if depth > DEEPEST {
            return Ok(Reply::error("ERR reached lua stack limit"));
        }
        Ok(match value {
            Value::String(text) => {
                self.count(text.as_bytes().len())?;
                Reply::Bulk(text.as_bytes().to_vec())
            }
            Value::Integer(number) => Reply::Integer(*number),
            Value::Number(number) => Reply::Integer(truncate(*number)),
            Value::Boolean(flag) if self.resp3 => Reply::Bool(*flag),
            Value::Boolean(true) => Reply::Integer(1),
            Value::Table(table) => self.table(table, depth)?,
            _ => Reply::Nil,
        })
    }

    fn table(&mut self, table: &Table, depth: usize) -> mlua::Result<Reply> {
        if let Value::String(text) = table.raw_get("err")? {
            let counted: Value = table.raw_get("ignore_error_stats_update")?;
            self.count(text.as_bytes().len())?;
            let message = before_zero(&text.as_bytes()).to_vec();
            return Ok(Reply::Error { message, is_counted: counted == Value::Boolean(true) });
        }
        if let Value::String(text) = table.raw_get("ok")? {
            self.count(text.as_bytes().len())?;
            return Ok(Reply::Status(one_line(before_zero(&text.as_bytes()))));
        }
        match table.raw_get("double")? {
            Value::Integer(number) => return Ok(Reply::Double(number as f64)),
            Value::Number(number) => return Ok(Reply::Double(number)),
            _ => (),
        }
        if let Value::String(digits) = table.raw_get("big_number")? {
            self.count(digits.as_bytes().len())?;
            return Ok(Reply::BigNumber(one_line(&digits.as_bytes())));
        }
        if let Value::Table(inner) = table.raw_get("verbatim_string")?
            && let (Value::String(format), Value::String(text)) =
                (inner.raw_get("format")?, inner.raw_get("string")?)
        {
            self.count(format.as_bytes().len() + text.as_bytes().len())?;
            let mut format = format.as_bytes().to_vec();
            format.resize(3, b' ');
            return Ok(Reply::Verbatim { format, text: text.as_bytes().to_vec() });
        }
        if let Value::Table(map) = table.raw_get("map")? {
            let mut entries = Vec::new();
            for entry in map.pairs::<Value, Value>() {
                let (key, value) = entry?;
                let key = self.value(&key, depth + 1)?;
                entries.push((key, self.value(&value, depth + 1)?));
            }
            return Ok(Reply::Map(entries));
        }
        if let Value::Table(set) = table.raw_get("set")? {
            let mut items = Vec::new();
            for entry in set.pairs::<Value, Value>() {
                items.push(self.value(&entry?.0, depth + 1)?);
            }
            return Ok(Reply::Set(items));
        }
        let mut items = Vec::new();
        loop {
            match table.raw_get(items.len() + 1)? {
                Value::Nil => return Ok(Reply::Array(items)),
                item => items.push(self.value(&item, depth + 1)?),
            }
        }
    }

    fn count(&mut self, bytes: usize) -> mlua::Result<()> {
        self.bytes += bytes;
        spend(bytes)?;
        // A string that fits into Lua's memory can be returned.
        check_length(self.bytes / 2)
    }
}

/// Returns the text up to a zero byte, which ends it in Redis.
pub(crate) fn before_zero(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Returns the text with line ends replaced, since it is sent as one line.
pub(crate) fn one_line(text: &[u8]) -> Vec<u8> {
    let blank = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
    text.iter().map(blank).collect()
}
