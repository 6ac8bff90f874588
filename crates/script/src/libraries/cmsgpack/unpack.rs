//! MessagePack as Lua values. The input is not trusted: lengths are checked against the remaining
//! input, and depth is limited.

use crate::arguments::{Arguments, Raise, Results};
use crate::state::{PER_VALUE, check_length, spend};
use mlua::{Lua, Table, Value};

/// Maximum nesting of arrays and maps.
const DEEPEST: usize = 1000;

const MISSING: &str = "Missing bytes in input.";
const BAD_FORMAT: &str = "Bad data format in input.";

/// The part of the input that is still to be read.
struct Input<'a> {
    lua: &'a Lua,
    rest: &'a [u8],
}

/// Implements `cmsgpack.unpack(text)`: all values in it.
pub(super) fn unpack(call: &Arguments<'_>) -> Results {
    unpack_some(call, None, 0)
}

/// Implements `cmsgpack.unpack_one(text, offset)`: the next offset, and one value.
pub(super) fn unpack_one(call: &Arguments<'_>) -> Results {
    let offset = if call.is_absent(2) { 0 } else { call.integer(2)? };
    unpack_some(call, Some(1), offset)
}

/// Implements `cmsgpack.unpack_limit(text, limit, offset)`: the next offset, and up to `limit`
/// values.
pub(super) fn unpack_limit(call: &Arguments<'_>) -> Results {
    let limit = call.integer(2)?;
    let offset = if call.is_absent(3) { 0 } else { call.integer(3)? };
    unpack_some(call, Some(limit).filter(|limit| *limit != 0 || offset != 0), offset)
}

fn unpack_some(call: &Arguments<'_>, limit: Option<i64>, offset: i64) -> Results {
    let text = call.bytes(1)?;
    let text = text.as_bytes();
    if offset < 0 || limit.is_some_and(i64::is_negative) {
        return Err(Raise::Text(format!(
            "Invalid request to unpack with offset of {offset} and limit of {}.",
            text.len()
        )));
    }
    if offset as usize > text.len() {
        let text = format!("Start offset {offset} greater than input length {}.", text.len());
        return Err(Raise::Text(text));
    }
    let mut input = Input { lua: call.lua, rest: &text[offset as usize..] };
    let mut values = Vec::new();
    while !input.rest.is_empty() && limit.is_none_or(|limit| (values.len() as i64) < limit) {
        values.push(input.value(0)?);
        check_length(size_of_val(values.as_slice()))?;
    }
    if limit.is_some() {
        let next = if input.rest.is_empty() { -1 } else { (text.len() - input.rest.len()) as i64 };
        values.insert(0, Value::Number(next as f64));
    }
    Ok(values)
}

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], Raise> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(MISSING)?;
        self.rest = rest;
        Ok(taken)
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], Raise> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    fn string(&mut self, length: usize) -> Result<Value, Raise> {
        let text = self.take(length)?;
        Ok(Value::String(self.lua.create_string(text)?))
    }

    fn length16(&mut self) -> Result<usize, Raise> {
        Ok(usize::from(u16::from_be_bytes(self.bytes()?)))
    }

    fn length32(&mut self) -> Result<usize, Raise> {
        Ok(u32::from_be_bytes(self.bytes()?) as usize)
    }

    fn value(&mut self, depth: usize) -> Result<Value, Raise> {
        spend(PER_VALUE)?;
        let [mark] = self.bytes()?;
        let number = match mark {
            0x00..=0x7f => f64::from(mark),
            0xe0..=0xff => f64::from(mark.cast_signed()),
            0xcc => f64::from(self.bytes::<1>()?[0]),
            0xcd => f64::from(u16::from_be_bytes(self.bytes()?)),
            0xce => f64::from(u32::from_be_bytes(self.bytes()?)),
            // As in the original, a value that needs the last bit is negative.
            0xcf => i64::from_be_bytes(self.bytes()?) as f64,
            0xd0 => f64::from(self.bytes::<1>()?[0].cast_signed()),
            0xd1 => f64::from(i16::from_be_bytes(self.bytes()?)),
            0xd2 => f64::from(i32::from_be_bytes(self.bytes()?)),
            0xd3 => i64::from_be_bytes(self.bytes()?) as f64,
            0xca => f64::from(f32::from_be_bytes(self.bytes()?)),
            0xcb => f64::from_be_bytes(self.bytes()?),
            _ => return self.other(mark, depth),
        };
        Ok(Value::Number(number))
    }

    /// Returns a value that is not a number.
    fn other(&mut self, mark: u8, depth: usize) -> Result<Value, Raise> {
        match mark {
            0xc0 => Ok(Value::Nil),
            0xc2 => Ok(Value::Boolean(false)),
            0xc3 => Ok(Value::Boolean(true)),
            0xa0..=0xbf => self.string(usize::from(mark & 0x1f)),
            0xd9 => {
                let [length] = self.bytes()?;
                self.string(usize::from(length))
            }
            0xda => {
                let length = self.length16()?;
                self.string(length)
            }
            0xdb => {
                let length = self.length32()?;
                self.string(length)
            }
            0x90..=0x9f => self.array(usize::from(mark & 0xf), depth),
            0xdc => {
                let length = self.length16()?;
                self.array(length, depth)
            }
            0xdd => {
                let length = self.length32()?;
                self.array(length, depth)
            }
            0x80..=0x8f => self.map(usize::from(mark & 0xf), depth),
            0xde => {
                let length = self.length16()?;
                self.map(length, depth)
            }
            0xdf => {
                let length = self.length32()?;
                self.map(length, depth)
            }
            _ => Err(BAD_FORMAT.into()),
        }
    }

    fn table(&self, depth: usize) -> Result<Table, Raise> {
        if depth >= DEEPEST {
            return Err(BAD_FORMAT.into());
        }
        Ok(self.lua.create_table()?)
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value, Raise> {
        let table = self.table(depth)?;
        for at in 1..=length {
            table.raw_set(at, self.value(depth + 1)?)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, Raise> {
        let table = self.table(depth)?;
        for _ in 0..length {
            let key = self.value(depth + 1)?;
            let value = self.value(depth + 1)?;
            match key {
                Value::Nil => return Err("table index is nil".into()),
                Value::Number(number) if number.is_nan() => {
                    return Err("table index is NaN".into());
                }
                key => table.raw_set(key, value)?,
            }
        }
        Ok(Value::Table(table))
    }
}
