//! Settings that scripts can change. Those of the global `cjson` are reset before each script,
//! since the interpreter of the next run is arbitrary.

use crate::arguments::{Arguments, Raise, Results};
use mlua::Value;
use std::cell::Cell;

/// Settings of one `cjson` table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Arrays with too many holes become objects instead of errors.
    pub(super) sparse_convert: bool,
    pub(super) sparse_ratio: i64,
    pub(super) sparse_safe: i64,
    pub(super) encode_depth: i64,
    pub(super) decode_depth: i64,
    /// Index in [`INVALID`]: the treatment of NaN and infinities.
    pub(super) encode_invalid: usize,
    pub(super) decode_invalid: bool,
    pub(super) precision: i64,
    keep_buffer: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: false,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth: 1000,
            decode_depth: 1000,
            encode_invalid: 0,
            decode_invalid: true,
            precision: 14,
            keep_buffer: true,
        }
    }
}

const SWITCH: &[&str] = &["off", "on"];
pub(super) const INVALID: &[&str] = &["off", "on", "null"];
const ANY: i64 = i32::MAX as i64;

/// Maximum nesting of tables, whatever the setting: the stack is finite.
pub(super) const DEEPEST: i64 = 1000;

/// A function that changes settings and returns them.
type Change = fn(&Arguments<'_>, &Cell<Settings>) -> Results;

/// All of them, by name.
pub(super) const FUNCTIONS: &[(&str, Change)] = &[
    ("encode_sparse_array", sparse_array),
    ("encode_max_depth", |call, settings| {
        change(call, settings, 1, |own| integer(call, 1, &mut own.encode_depth, 1, ANY))
    }),
    ("decode_max_depth", |call, settings| {
        change(call, settings, 1, |own| integer(call, 1, &mut own.decode_depth, 1, ANY))
    }),
    ("encode_number_precision", |call, settings| {
        change(call, settings, 1, |own| integer(call, 1, &mut own.precision, 1, 14))
    }),
    ("encode_keep_buffer", |call, settings| {
        change(call, settings, 1, |own| switch(call, 1, &mut own.keep_buffer))
    }),
    ("encode_invalid_numbers", |call, settings| {
        change(call, settings, 1, |own| choice(call, 1, &mut own.encode_invalid, INVALID))
    }),
    ("decode_invalid_numbers", |call, settings| {
        change(call, settings, 1, |own| switch(call, 1, &mut own.decode_invalid))
    }),
];

/// Applies a change, which returns the value for the script.
fn change(
    call: &Arguments<'_>,
    settings: &Cell<Settings>,
    most: usize,
    apply: impl FnOnce(&mut Settings) -> Result<Value, Raise>,
) -> Results {
    if call.len() > most {
        return Err(call.bad(most + 1, "found too many arguments"));
    }
    let mut own = settings.get();
    let shown = apply(&mut own)?;
    settings.set(own);
    Ok(vec![shown])
}

fn sparse_array(call: &Arguments<'_>, settings: &Cell<Settings>) -> Results {
    if call.len() > 3 {
        return Err(call.bad(4, "found too many arguments"));
    }
    let mut own = settings.get();
    let results = vec![
        switch(call, 1, &mut own.sparse_convert)?,
        integer(call, 2, &mut own.sparse_ratio, 0, ANY)?,
        integer(call, 3, &mut own.sparse_safe, 0, ANY)?,
    ];
    settings.set(own);
    Ok(results)
}

fn integer(
    call: &Arguments<'_>,
    at: usize,
    setting: &mut i64,
    least: i64,
    most: i64,
) -> Result<Value, Raise> {
    if !call.is_absent(at) {
        let number = call.integer(at)?;
        if !(least..=most).contains(&number) {
            let problem = format!("expected integer between {least} and {most}");
            return Err(call.bad(at, &problem));
        }
        *setting = number;
    }
    Ok(Value::Number(*setting as f64))
}

fn switch(call: &Arguments<'_>, at: usize, setting: &mut bool) -> Result<Value, Raise> {
    let mut chosen = usize::from(*setting);
    let shown = choice(call, at, &mut chosen, SWITCH)?;
    *setting = chosen == 1;
    Ok(shown)
}

/// Reads one of several words; the first two are shown as booleans, and may be given as such.
fn choice(
    call: &Arguments<'_>,
    at: usize,
    setting: &mut usize,
    words: &[&str],
) -> Result<Value, Raise> {
    match call.get(at) {
        Value::Nil => (),
        Value::Boolean(flag) => *setting = usize::from(*flag),
        _ => {
            let word = call.bytes(at)?.to_string_lossy();
            let found = words.iter().position(|known| *known == word);
            let invalid = || call.bad(at, &format!("invalid option '{word}'"));
            *setting = found.ok_or_else(invalid)?;
        }
    }
    Ok(match *setting {
        chosen @ (0 | 1) => Value::Boolean(chosen == 1),
        chosen => Value::String(call.lua.create_string(words[chosen])?),
    })
}
