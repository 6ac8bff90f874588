//! Replies of commands as RESP bytes, converted directly into Lua values.

use crate::Reply;
use crate::convert::{error_to_lua, named, set_entry, string};
use crate::number::append_general;
use crate::stack::{Frame, LONGEST_LIST, LONGEST_STRING, Unlimited};
use crate::state::{PER_VALUE, spend};
use mlua::{Lua, LuaString, Value};

/// Maximum nesting of a reply; no command comes near it.
const DEEPEST: usize = 128;

/// The reply of most commands that write.
pub(crate) const OK: &[u8] = b"+OK\r\n";

/// The value that `redis.call` returns or raises.
pub(crate) enum Replied {
    Value(Value),
    /// The text of an error, which begins with its code.
    Error(Vec<u8>),
}

/// Pushes a reply of a usual kind: without errors, types of RESP3, and arrays nested deeper than
/// one level. Returns `None` for any other, with nothing left on the stack.
pub(crate) fn push(frame: &mut Frame<'_>, reply: &[u8], unlimited: &Unlimited) -> Option<()> {
    if reply == OK {
        frame.push_status(None, unlimited);
        return Some(());
    }
    let mut rest = reply;
    if reply.first() != Some(&b'*') {
        return push_scalar(frame, &mut rest, unlimited);
    }
    let length = length(&take_line(&mut rest)?[1..]).ok().filter(|items| *items <= LONGEST_LIST)?;
    frame.push_list(length, unlimited, |frame, unlimited| push_scalar(frame, &mut rest, unlimited))
}

fn push_scalar(frame: &mut Frame<'_>, rest: &mut &[u8], unlimited: &Unlimited) -> Option<()> {
    let (&kind, line) = take_line(rest)?.split_first()?;
    match kind {
        b'$' if line == b"-1" => frame.push_boolean(false),
        b'$' => {
            let length = length(line).ok().filter(|length| *length <= LONGEST_STRING)?;
            let (text, after) = rest.split_at_checked(length)?;
            frame.push_string(text, unlimited);
            *rest = after.get(2..)?;
        }
        b':' => frame.push_number(integer(line).ok()? as f64),
        b'+' => frame.push_status(Some(line), unlimited),
        _ => return None,
    }
    Some(())
}

/// Returns the bytes up to the next end of line, and skips it.
fn take_line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = memchr::memchr(b'\r', rest)?;
    let line = &rest[..end];
    *rest = rest.get(end + 2..)?;
    Some(line)
}

/// Reads a reply of RESP2 or RESP3. With `resp3`, the script sees the types of RESP3.
pub(crate) fn to_lua(lua: &Lua, bytes: &[u8], resp3: bool) -> mlua::Result<Replied> {
    if let Some(line) = bytes.strip_prefix(b"-") {
        let end = memchr::memchr(b'\r', line).unwrap_or(line.len());
        return Ok(Replied::Error(line[..end].to_vec()));
    }
    Reader { lua, rest: bytes, resp3 }.value(0).map(Replied::Value)
}

fn status(lua: &Lua, text: &[u8]) -> mlua::Result<Value> {
    let Ok(text) = str::from_utf8(text) else {
        return named(lua, "ok", LuaString::wrap(text));
    };
    // mlua puts a `str` into the table without making a handle first.
    lua.create_table_from([("ok", text)]).map(Value::Table)
}

struct Reader<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
    resp3: bool,
}

fn incomplete() -> mlua::Error {
    mlua::Error::runtime("ERR the reply is incomplete")
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> mlua::Result<Value> {
        spend(PER_VALUE)?;
        let (&kind, line) = self.line()?.split_first().ok_or_else(incomplete)?;
        match kind {
            b'$' | b'*' if line == b"-1" => Ok(self.nil()),
            b'_' => Ok(self.nil()),
            b'$' => string(self.lua, self.piece(line)?),
            b':' => Ok(Value::Number(integer(line)? as f64)),
            b'+' => status(self.lua, line),
            b'-' => error_to_lua(self.lua, line, true),
            _ if depth > DEEPEST => Err(incomplete()),
            b'*' | b'>' => self.array(length(line)?, depth),
            b'~' if self.resp3 => self.set(length(line)?, depth),
            b'~' => self.array(length(line)?, depth),
            b'%' if self.resp3 => self.map(length(line)?, depth),
            b'%' => self.array(length(line)? * 2, depth),
            b'|' => self.after_attributes(length(line)?, depth),
            _ => self.scalar_of_resp3(kind, line),
        }
    }

    fn nil(&self) -> Value {
        if self.resp3 { Value::Nil } else { Value::Boolean(false) }
    }

    /// Reads a scalar value of a type that only RESP3 has.
    fn scalar_of_resp3(&mut self, kind: u8, line: &[u8]) -> mlua::Result<Value> {
        let lua = self.lua;
        match kind {
            b',' => {
                let number = str::from_utf8(line).ok().and_then(|text| text.parse::<f64>().ok());
                let number = number.ok_or_else(incomplete)?;
                if self.resp3 {
                    return named(lua, "double", number);
                }
                let mut text = Vec::new();
                append_general(&mut text, number, 17);
                string(lua, &text)
            }
            b'#' if self.resp3 => Ok(Value::Boolean(line == b"t")),
            b'#' => Ok(Value::Number(f64::from(u8::from(line == b"t")))),
            b'(' if self.resp3 => named(lua, "big_number", LuaString::wrap(line)),
            b'(' => string(lua, line),
            b'=' => {
                let piece = self.piece(line)?;
                let (format, text) = piece.split_at_checked(4).ok_or_else(incomplete)?;
                if !self.resp3 {
                    return string(lua, text);
                }
                let inner = lua.create_table_with_capacity(0, 2)?;
                inner.raw_set("string", LuaString::wrap(text))?;
                inner.raw_set("format", LuaString::wrap(&format[..3]))?;
                named(lua, "verbatim_string", inner)
            }
            _ => Err(incomplete()),
        }
    }

    fn array(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        // Each element has at least three bytes.
        let capacity = length.min(self.rest.len() / 3);
        let table = self.lua.create_table_with_capacity(capacity, 0)?;
        for at in 1..=length {
            spend(PER_VALUE)?;
            if self.rest.first() == Some(&b'$') && !self.rest.starts_with(b"$-") {
                let line = self.line()?;
                let piece = self.piece(&line[1..])?;
                match str::from_utf8(piece) {
                    Ok(text) => table.raw_set(at, text)?,
                    Err(_) => table.raw_set(at, LuaString::wrap(piece))?,
                }
            } else {
                table.raw_set(at, self.value(depth + 1)?)?;
            }
        }
        Ok(Value::Table(table))
    }

    fn set(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        let set = self.lua.create_table_with_capacity(0, length.min(self.rest.len() / 3))?;
        for _ in 0..length {
            set_entry(&set, self.value(depth + 1)?, Value::Boolean(true))?;
        }
        named(self.lua, "set", set)
    }

    fn map(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        let map = self.lua.create_table_with_capacity(0, length.min(self.rest.len() / 6))?;
        for _ in 0..length {
            let key = self.value(depth + 1)?;
            set_entry(&map, key, self.value(depth + 1)?)?;
        }
        named(self.lua, "map", map)
    }

    /// Reads the value after attributes, which scripts do not see.
    fn after_attributes(&mut self, length: usize, depth: usize) -> mlua::Result<Value> {
        for _ in 0..length {
            self.value(depth + 1)?;
            self.value(depth + 1)?;
        }
        self.value(depth + 1)
    }

    /// Returns the bytes up to the next end of line, and skips it.
    fn line(&mut self) -> mlua::Result<&'a [u8]> {
        take_line(&mut self.rest).ok_or_else(incomplete)
    }

    /// Returns this many bytes, and skips the end of line after them.
    fn piece(&mut self, line: &[u8]) -> mlua::Result<&'a [u8]> {
        let (piece, rest) = self.rest.split_at_checked(length(line)?).ok_or_else(incomplete)?;
        self.rest = rest.get(2..).ok_or_else(incomplete)?;
        Ok(piece)
    }
}

fn integer(line: &[u8]) -> mlua::Result<i64> {
    resp::number::parse_i64(line).ok_or_else(incomplete)
}

fn length(line: &[u8]) -> mlua::Result<usize> {
    usize::try_from(integer(line)?).ok().filter(|length| *length < 1 << 40).ok_or_else(incomplete)
}

/// Appends a reply as RESP3.
pub(crate) fn append(reply: &Reply, out: &mut Vec<u8>) {
    let line = |out: &mut Vec<u8>, kind: u8, text: &[u8]| {
        out.push(kind);
        out.extend(
            text.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }),
        );
        out.extend_from_slice(b"\r\n");
    };
    let head = |out: &mut Vec<u8>, kind: u8, number: i64| {
        line(out, kind, itoa::Buffer::new().format(number).as_bytes());
    };
    match reply {
        Reply::Nil => line(out, b'_', b""),
        Reply::Status(text) => line(out, b'+', text),
        Reply::Error { message, .. } => line(out, b'-', message),
        Reply::Integer(number) => head(out, b':', *number),
        Reply::Bulk(bytes) => {
            head(out, b'$', bytes.len() as i64);
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Array(items) => {
            head(out, b'*', items.len() as i64);
            items.iter().for_each(|item| append(item, out));
        }
        Reply::Set(items) => {
            head(out, b'~', items.len() as i64);
            items.iter().for_each(|item| append(item, out));
        }
        Reply::Map(entries) => {
            head(out, b'%', entries.len() as i64);
            for (key, value) in entries {
                append(key, out);
                append(value, out);
            }
        }
        Reply::Double(number) => line(out, b',', number.to_string().as_bytes()),
        Reply::Bool(flag) => line(out, b'#', if *flag { b"t" } else { b"f" }),
        Reply::BigNumber(digits) => line(out, b'(', digits),
        Reply::Verbatim { format, text } => {
            head(out, b'=', text.len() as i64 + 4);
            let mut letters = *b"txt:";
            letters[..3].iter_mut().zip(format).for_each(|(letter, given)| *letter = *given);
            out.extend_from_slice(&letters);
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
    }
}
