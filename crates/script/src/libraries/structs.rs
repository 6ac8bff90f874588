//! `struct`: values packed into strings by a format, as in Roberto Ierusalimschy's library.

use crate::arguments::{Arguments, Raise, Results, native};
use crate::number::truncate;
use crate::state::{check_length, spend};
use mlua::{Lua, Table, Value};

/// The alignment of `!` without a number.
const LARGEST_ALIGNMENT: usize = 8;

/// Makes the table.
pub(crate) fn table(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", native(lua, "pack", pack)?)?;
    table.raw_set("unpack", native(lua, "unpack", unpack)?)?;
    table.raw_set("size", native(lua, "size", size)?)?;
    Ok(table)
}

/// A format that is being read.
struct Format<'a> {
    rest: &'a [u8],
    is_little: bool,
    alignment: usize,
}

/// One letter of a format, with its derived properties.
struct Item {
    letter: u8,
    size: usize,
    /// Bytes before it for its alignment.
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        Format { rest: &text[..end], is_little: true, alignment: 1 }
    }

    /// Reads a number, `default` if there is none.
    fn number(&mut self, default: usize) -> Result<usize, Raise> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, rest) = self.rest.split_at(digits);
        self.rest = rest;
        if digits == 0 {
            return Ok(default);
        }
        let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i32>().ok());
        let number = number.ok_or_else(|| Raise::from("integral size overflow"))?;
        Ok(number as usize)
    }

    /// Reads the next letter, whose value follows `position` bytes.
    fn next(&mut self, call: &Arguments<'_>, position: usize) -> Result<Option<Item>, Raise> {
        let Some((&letter, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let size = match letter {
            b'B' | b'b' | b'x' => 1,
            b'H' | b'h' => 2,
            b'L' | b'l' | b'd' => 8,
            b'f' => 4,
            b'T' => 8,
            b'c' => self.number(1)?,
            b's' | b' ' | b'<' | b'>' | b'!' => 0,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > 32 {
                    let text = format!("integral size {size} is larger than limit of 32");
                    return Err(Raise::Text(text));
                }
                size
            }
            other => {
                let problem = format!("invalid format option '{}'", other as char);
                return Err(call.bad(1, &problem));
            }
        };
        let padding = if size == 0 || letter == b'c' {
            0
        } else {
            // Meant for powers of two; the original does the same with all sizes.
            let unit = size.min(self.alignment).max(1);
            (unit - (position & (unit - 1))) & (unit - 1)
        };
        Ok(Some(Item { letter, size, padding }))
    }

    /// Handles a letter that represents no value.
    fn control(&mut self, letter: u8) -> Result<(), Raise> {
        match letter {
            b'>' => self.is_little = false,
            b'<' => self.is_little = true,
            b'!' => {
                let alignment = self.number(LARGEST_ALIGNMENT)?;
                if !alignment.is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(Raise::Text(text));
                }
                self.alignment = alignment;
            }
            _ => (),
        }
        Ok(())
    }

    /// Returns the bytes of a value in the chosen order.
    fn ordered<const N: usize>(&self, mut little: [u8; N]) -> [u8; N] {
        if !self.is_little {
            little.reverse();
        }
        little
    }
}

fn pack(call: &Arguments<'_>) -> Results {
    let format = call.bytes(1)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let number = |at| call.number(at).map_err(|error| wrong_value(call, at, "number", error));
    let string = |at| call.bytes(at).map_err(|error| wrong_value(call, at, "string", error));
    let mut out: Vec<u8> = Vec::new();
    let mut at = 2;
    while let Some(item) = format.next(call, out.len())? {
        check_length(out.len())?;
        spend(item.size)?;
        out.resize(out.len() + item.padding, 0);
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'i' | b'I' | b'T' => {
                let number = number(at)?;
                at += 1;
                let mut bytes = unsigned(number).to_le_bytes().to_vec();
                bytes.resize(item.size, 0);
                if !format.is_little {
                    bytes.reverse();
                }
                out.extend_from_slice(&bytes);
            }
            b'x' => out.push(0),
            b'f' => {
                out.extend_from_slice(&format.ordered((number(at)? as f32).to_le_bytes()));
                at += 1;
            }
            b'd' => {
                out.extend_from_slice(&format.ordered(number(at)?.to_le_bytes()));
                at += 1;
            }
            b'c' | b's' => {
                let text = string(at)?;
                let text = text.as_bytes();
                at += 1;
                let size = if item.size == 0 { text.len() } else { item.size };
                if text.len() < size {
                    return Err(call.bad(at, "string too short"));
                }
                spend(size)?;
                out.extend_from_slice(&text[..size]);
                if item.letter == b's' {
                    out.push(0);
                }
            }
            letter => format.control(letter)?,
        }
    }
    Ok(vec![Value::String(call.lua.create_string(out)?)])
}

/// Returns `number` converted to 64 bits like in a C program on x86-64: to a signed integer if it
/// may fit, or else to an unsigned one.
fn unsigned(number: f64) -> u64 {
    if number < 9_223_372_036_854_775_808.0 || number.is_nan() {
        truncate(number).cast_unsigned()
    } else if number < 18_446_744_073_709_551_616.0 {
        number as u64
    } else {
        0
    }
}

fn unpack(call: &Arguments<'_>) -> Results {
    let format = call.bytes(1)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let data = call.bytes(2)?;
    let data = data.as_bytes();
    let first = if call.is_absent(3) { 1 } else { call.integer(3)? };
    if first == 0 {
        return Err(call.bad(3, "offset must be 1 or greater"));
    }
    // As in the original, the position before the first is beyond any end.
    let mut position = (first as usize).wrapping_sub(1);
    let mut results: Vec<Value> = Vec::new();
    let short = || call.bad(2, "data string too short");
    while let Some(item) = format.next(call, position)? {
        check_length(size_of_val(results.as_slice()))?;
        position = position.checked_add(item.padding).ok_or_else(short)?;
        let end = position.checked_add(item.size).filter(|end| *end <= data.len());
        let mut end = end.ok_or_else(short)?;
        let bytes = &data[position..end];
        match item.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'i' | b'I' | b'T' => {
                let is_signed = item.letter.is_ascii_lowercase();
                results.push(Value::Number(integer(bytes, format.is_little, is_signed)));
            }
            b'f' => {
                let bytes = format.ordered(bytes.try_into().expect("four bytes"));
                results.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            b'd' => {
                let bytes = format.ordered(bytes.try_into().expect("eight bytes"));
                results.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            b'c' => {
                if item.size == 0 {
                    let size = match results.pop() {
                        Some(Value::Number(size)) => size,
                        _ => return Err("format 'c0' needs a previous size".into()),
                    };
                    // As C converts it on x86-64: towards zero, and to zero if it is too large.
                    let size = if size >= 18_446_744_073_709_551_616.0 { 0.0 } else { size };
                    let fits = size > -1.0 && size <= (data.len() - position) as f64;
                    end = if fits { position + size as usize } else { return Err(short()) };
                }
                let text = call.lua.create_string(&data[position..end])?;
                results.push(Value::String(text));
            }
            b's' => {
                let length = data[position..].iter().position(|byte| *byte == 0);
                let length = length.ok_or_else(|| Raise::from("unfinished string in data"))?;
                let text = call.lua.create_string(&data[position..position + length])?;
                results.push(Value::String(text));
                end = position + length + 1;
            }
            letter => format.control(letter)?,
        }
        position = end;
    }
    results.push(Value::Number((position + 1) as f64));
    Ok(results)
}

/// Returns the error for a value that is missing or of another type. The original puts a nil after
/// its arguments, so that a missing one is nil.
fn wrong_value(call: &Arguments<'_>, at: usize, expected: &str, error: Raise) -> Raise {
    if at <= call.len() {
        return error;
    }
    call.bad(at, &format!("{expected} expected, got nil"))
}

/// Returns the value of an integer; bytes beyond 64 bits are ignored.
fn integer(bytes: &[u8], is_little: bool, is_signed: bool) -> f64 {
    let mut value = [0; 8];
    let size = bytes.len().min(8);
    for (at, byte) in value.iter_mut().enumerate().take(size) {
        *byte = if is_little { bytes[at] } else { bytes[bytes.len() - 1 - at] };
    }
    let value = u64::from_le_bytes(value);
    if !is_signed {
        return value as f64;
    }
    // Zero if there are no bytes.
    let unused = 64 - 8 * size as u32;
    value.checked_shl(unused).map_or(0.0, |high| (high.cast_signed() >> unused) as f64)
}

fn size(call: &Arguments<'_>) -> Results {
    let format = call.bytes(1)?;
    let format = format.as_bytes();
    let mut format = Format::new(&format);
    let mut position: usize = 0;
    while let Some(item) = format.next(call, position)? {
        spend(16)?;
        position = position.saturating_add(item.padding);
        match item.letter {
            b's' => return Err(call.bad(1, "option 's' has no fixed size")),
            b'c' if item.size == 0 => {
                return Err(call.bad(1, "option 'c0' has no fixed size"));
            }
            letter => format.control(letter)?,
        }
        position = position.saturating_add(item.size);
    }
    Ok(vec![Value::Number(position as f64)])
}
