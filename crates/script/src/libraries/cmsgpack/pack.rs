//! Lua values as MessagePack.

use super::MAX_NESTING;
use crate::arguments::{Arguments, Results};
use crate::number::truncate;
use crate::state::{PER_VALUE, check_length, spend};
use mlua::{Table, Value};

/// Implements `cmsgpack.pack(...)`: all arguments, one after the other.
pub(super) fn pack(call: &Arguments<'_>) -> Results {
    if call.len() == 0 {
        return Err(call.bad(0, "MessagePack pack needs input."));
    }
    let mut out = Vec::new();
    for value in call.iter() {
        append(&mut out, value, 0)?;
    }
    Ok(vec![Value::String(call.lua.create_string(out)?)])
}

fn append(out: &mut Vec<u8>, value: &Value, level: usize) -> mlua::Result<()> {
    check_length(out.len())?;
    match value {
        Value::String(text) => {
            spend(text.as_bytes().len())?;
            append_bytes(out, &text.as_bytes());
        }
        Value::Boolean(flag) => out.push(if *flag { 0xc3 } else { 0xc2 }),
        Value::Integer(number) => append_integer(out, *number),
        Value::Number(number) if truncate(*number) as f64 == *number => {
            append_integer(out, truncate(*number));
        }
        Value::Number(number) => append_double(out, *number),
        Value::Table(table) if level < MAX_NESTING => append_table(out, table, level)?,
        _ => out.push(0xc0),
    }
    Ok(())
}

fn append_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.len() {
        length @ ..32 => out.push(0xa0 | length as u8),
        length @ ..=0xff => out.extend_from_slice(&[0xd9, length as u8]),
        length @ ..=0xffff => append_length(out, 0xda, length),
        length => append_long_length(out, 0xdb, length),
    }
    out.extend_from_slice(bytes);
}

fn append_length(out: &mut Vec<u8>, mark: u8, length: usize) {
    out.push(mark);
    out.extend_from_slice(&(length as u16).to_be_bytes());
}

fn append_long_length(out: &mut Vec<u8>, mark: u8, length: usize) {
    out.push(mark);
    out.extend_from_slice(&(length as u32).to_be_bytes());
}

fn append_double(out: &mut Vec<u8>, number: f64) {
    let single = number as f32;
    if f64::from(single) == number {
        out.push(0xca);
        out.extend_from_slice(&single.to_be_bytes());
    } else {
        out.push(0xcb);
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Appends the shortest form; positive numbers as unsigned ones.
fn append_integer(out: &mut Vec<u8>, number: i64) {
    match number {
        0..=127 => out.push(number as u8),
        128..=0xff => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..=0xffff => {
            out.push(0xcd);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(0xce);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        0x1_0000_0000.. => {
            out.push(0xcf);
            out.extend_from_slice(&number.to_be_bytes());
        }
        -32..=-1 => out.push(number as u8),
        -128..=-33 => out.extend_from_slice(&[0xd0, number as u8]),
        -32768..=-129 => {
            out.push(0xd1);
            out.extend_from_slice(&(number as i16).to_be_bytes());
        }
        -2_147_483_648..=-32769 => {
            out.push(0xd2);
            out.extend_from_slice(&(number as i32).to_be_bytes());
        }
        _ => {
            out.push(0xd3);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

fn append_table(out: &mut Vec<u8>, table: &Table, level: usize) -> mlua::Result<()> {
    let mut entries = 0;
    let mut largest = 0;
    let mut is_array = true;
    for entry in table.pairs::<Value, Value>() {
        spend(PER_VALUE)?;
        entries += 1;
        match entry?.0 {
            Value::Integer(key) if key > 0 => largest = largest.max(key),
            _ => is_array = false,
        }
    }
    if is_array && largest == entries as i64 {
        match entries {
            0..=15 => out.push(0x90 | entries as u8),
            16..=0xffff => append_length(out, 0xdc, entries),
            _ => append_long_length(out, 0xdd, entries),
        }
        for at in 1..=entries {
            append(out, &table.raw_get(at)?, level + 1)?;
        }
        return Ok(());
    }
    match entries {
        0..=15 => out.push(0x80 | entries as u8),
        16..=0xffff => append_length(out, 0xde, entries),
        _ => append_long_length(out, 0xdf, entries),
    }
    for entry in table.pairs::<Value, Value>() {
        let (key, value) = entry?;
        append(out, &key, level + 1)?;
        append(out, &value, level + 1)?;
    }
    Ok(())
}
