//! `bit`: operations on 32-bit numbers, as defined by Mike Pall's BitOp.

use crate::arguments::{Arguments, Raise, Results, native};
use mlua::{Lua, Table, Value};

/// Makes the table.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let add = |name: &'static str, f: fn(&Arguments<'_>) -> Results| {
        table.raw_set(name, native(lua, name, f)?)
    };
    add("tobit", |call| number(bits(call, 1)?))?;
    add("bnot", |call| number(!bits(call, 1)?))?;
    add("bswap", |call| number(bits(call, 1)?.swap_bytes()))?;
    add("band", |call| fold(call, |left, right| left & right))?;
    add("bor", |call| fold(call, |left, right| left | right))?;
    add("bxor", |call| fold(call, |left, right| left ^ right))?;
    add("lshift", |call| shift(call, |value, by| value << by))?;
    add("rshift", |call| shift(call, |value, by| value >> by))?;
    add("arshift", |call| shift(call, |value, by| (value.cast_signed() >> by).cast_unsigned()))?;
    add("rol", |call| shift(call, u32::rotate_left))?;
    add("ror", |call| shift(call, u32::rotate_right))?;
    add("tohex", to_hex)?;
    Ok(table)
}

/// Returns the lower 32 bits of a number, rounded to the nearest integer, ties to even.
fn bits(call: &Arguments<'_>, at: usize) -> Result<u32, Raise> {
    // The low half of the mantissa after this addition is the number modulo 2^32.
    let shifted = call.number(at)? + 6_755_399_441_055_744.0;
    Ok(shifted.to_bits() as u32)
}

fn number(value: u32) -> Results {
    Ok(vec![Value::Number(f64::from(value.cast_signed()))])
}

fn fold(call: &Arguments<'_>, operation: fn(u32, u32) -> u32) -> Results {
    let mut value = bits(call, 1)?;
    for at in 2..=call.len() {
        value = operation(value, bits(call, at)?);
    }
    number(value)
}

fn shift(call: &Arguments<'_>, operation: fn(u32, u32) -> u32) -> Results {
    let value = bits(call, 1)?;
    number(operation(value, bits(call, 2)? & 31))
}

/// Returns up to eight digits; capital letters if their number is negative. Negating the number
/// cannot overflow (CVE-2024-31449).
fn to_hex(call: &Arguments<'_>) -> Results {
    let value = bits(call, 1)?;
    let digits = if call.len() < 2 { 8 } else { bits(call, 2)?.cast_signed() };
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    Ok(vec![Value::String(call.lua.create_string(&text[8 - count..])?)])
}
