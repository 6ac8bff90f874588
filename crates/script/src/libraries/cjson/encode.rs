//! Lua values as JSON.

use super::Settings;
use super::settings::DEEPEST;
use crate::arguments::{Arguments, Raise, Results, type_name};
use crate::number::{append_general, truncate};
use crate::state::{PER_VALUE, check_length, spend};
use mlua::{Table, Value};

/// Bytes of a string between two checks of the length.
const PIECE: usize = 64 << 10;

/// Implements `cjson.encode(value)`
pub(super) fn encode(call: &Arguments<'_>, settings: Settings) -> Results {
    if call.len() != 1 {
        return Err(call.bad(1, "expected 1 argument"));
    }
    let mut encoder = Encoder { settings, out: Vec::new() };
    encoder.value(call.get(1), 0)?;
    Ok(vec![Value::String(call.lua.create_string(encoder.out)?)])
}

struct Encoder {
    settings: Settings,
    out: Vec<u8>,
}

impl Encoder {
    fn value(&mut self, value: &Value, depth: i64) -> Result<(), Raise> {
        check_length(self.out.len())?;
        match value {
            Value::String(text) => self.string(&text.as_bytes())?,
            Value::Integer(number) => self.number(*number as f64)?,
            Value::Number(number) => self.number(*number)?,
            Value::Boolean(flag) => {
                self.out.extend_from_slice(if *flag { b"true" } else { b"false" });
            }
            Value::Nil => self.out.extend_from_slice(b"null"),
            Value::LightUserData(pointer) if pointer.0.is_null() => {
                self.out.extend_from_slice(b"null");
            }
            Value::Table(table) => self.table(table, depth + 1)?,
            other => {
                let name = type_name(other);
                return Err(Raise::Text(format!("Cannot serialise {name}: type not supported")));
            }
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> Result<(), Raise> {
        self.out.push(b'"');
        for piece in text.chunks(PIECE) {
            self.escape(piece);
            spend(4 * piece.len())?;
            check_length(self.out.len())?;
        }
        self.out.push(b'"');
        Ok(())
    }

    fn escape(&mut self, text: &[u8]) {
        for &byte in text {
            match byte {
                b'"' | b'\\' | b'/' => self.out.extend_from_slice(&[b'\\', byte]),
                0x08 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                0x0c => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                0..0x20 | 0x7f => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
    }

    fn number(&mut self, number: f64) -> Result<(), Raise> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                0 => {
                    return Err("Cannot serialise number: must not be NaN or Inf".into());
                }
                1 if number.is_nan() => self.out.extend_from_slice(b"nan"),
                1 => append_general(&mut self.out, number, 14),
                _ => self.out.extend_from_slice(b"null"),
            }
            return Ok(());
        }
        append_general(&mut self.out, number, self.settings.precision as usize);
        Ok(())
    }

    fn table(&mut self, table: &Table, depth: i64) -> Result<(), Raise> {
        if depth > self.settings.encode_depth.min(DEEPEST) {
            let text = format!("Cannot serialise, excessive nesting ({depth})");
            return Err(Raise::Text(text));
        }
        match self.array_length(table)? {
            Some(length @ 1..) => {
                self.out.push(b'[');
                for at in 1..=length {
                    if at > 1 {
                        self.out.push(b',');
                    }
                    self.value(&table.raw_get(at)?, depth)?;
                }
                self.out.push(b']');
            }
            _ => self.object(table, depth)?,
        }
        Ok(())
    }

    /// Returns the largest index if all keys are indices and the array is not too sparse. As in the
    /// original on x86-64, where an index is a C `int`, keys that do not fit make an object.
    fn array_length(&self, table: &Table) -> Result<Option<i64>, Raise> {
        let (mut items, mut largest) = (0, 0);
        for entry in table.pairs::<Value, Value>() {
            spend(PER_VALUE)?;
            let key = match entry?.0 {
                Value::Integer(key) if key > 0 => key,
                Value::Number(key) if key >= 1.0 && key.floor() == key => truncate(key),
                _ => return Ok(None),
            };
            if key > largest || key == i64::MIN {
                largest = i32::try_from(key).unwrap_or(i32::MIN).into();
            }
            items += 1;
        }
        let own = &self.settings;
        let is_sparse =
            own.sparse_ratio > 0 && largest > items * own.sparse_ratio && largest > own.sparse_safe;
        if !is_sparse {
            return Ok(Some(largest));
        }
        if own.sparse_convert {
            return Ok(None);
        }
        Err("Cannot serialise table: excessively sparse array".into())
    }

    fn object(&mut self, table: &Table, depth: i64) -> Result<(), Raise> {
        self.out.push(b'{');
        let mut is_first = true;
        for entry in table.pairs::<Value, Value>() {
            let (key, value) = entry?;
            if !is_first {
                self.out.push(b',');
            }
            is_first = false;
            match &key {
                Value::String(text) => self.string(&text.as_bytes())?,
                Value::Integer(_) | Value::Number(_) => {
                    self.out.push(b'"');
                    self.value(&key, depth)?;
                    self.out.push(b'"');
                }
                other => {
                    let name = type_name(other);
                    return Err(Raise::Text(format!(
                        "Cannot serialise {name}: table key must be a number or string"
                    )));
                }
            }
            self.out.push(b':');
            self.value(&value, depth)?;
        }
        self.out.push(b'}');
        Ok(())
    }
}
