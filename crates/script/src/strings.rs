//! `string.find`, `match`, `gmatch` and `gsub`, with the matcher that a script cannot keep busy.

use crate::arguments::{Arguments, Raise, Results, native};
use crate::patterns::{Captured, Matcher, has_specials};
use crate::state::{State, spend};
use crate::{Continue, errors, host};
use mlua::{Lua, LuaString, Table, Value};
use std::cell::Cell;
use std::rc::Rc;

/// Makes the functions.
pub(crate) fn table(lua: &Lua, state: &Rc<State>, longest: usize) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let own = Rc::clone(state);
    table.raw_set("find", native(lua, "find", move |call| find(call, &own))?)?;
    let own = Rc::clone(state);
    table.raw_set("match", native(lua, "match", move |call| first_match(call, &own))?)?;
    let own = Rc::clone(state);
    table.raw_set("gmatch", native(lua, "gmatch", move |call| gmatch(call, &own))?)?;
    let own = Rc::clone(state);
    // The sandbox calls the script's function, or looks into its table, between two matches.
    table.raw_set("next_match", native(lua, "gsub", move |call| next_match(call, &own))?)?;
    let own = Rc::clone(state);
    table.raw_set("gsub", native(lua, "gsub", move |call| gsub(call, &own, longest))?)?;
    Ok(table)
}

/// Polls the host, like the hook.
fn ask(state: &State) -> Result<(), Raise> {
    match host::with(|host| host.poll()) {
        Some(Continue::Kill) => state.is_killed.set(true),
        Some(Continue::Yes) | None => (),
    }
    if state.is_killed.get() {
        return Err(Raise::Lua(mlua::Error::runtime(errors::KILLED)));
    }
    Ok(())
}

/// Calls `f` with a matcher, whose steps are counted over the whole run.
fn matching<'a, R>(
    state: &State,
    subject: &'a [u8],
    pattern: &'a [u8],
    f: impl FnOnce(&mut Matcher<'a, '_>) -> R,
) -> R {
    let ask = || ask(state);
    let mut matcher = Matcher::new(subject, pattern, state.steps.get(), &ask);
    let result = f(&mut matcher);
    state.steps.set(matcher.steps());
    result
}

fn shown(lua: &Lua, captured: Captured<'_>) -> mlua::Result<Value> {
    match captured {
        Captured::Text(text) => lua.create_string(text).map(Value::String),
        Captured::Position(position) => Ok(Value::Number(position as f64)),
    }
}

/// Appends the captures of a match; the whole match if there are none and `or_whole`.
fn captures(
    lua: &Lua,
    matcher: &Matcher<'_, '_>,
    start: usize,
    end: usize,
    or_whole: bool,
    results: &mut Vec<Value>,
) -> Result<(), Raise> {
    let count = if or_whole { matcher.count() } else { matcher.captures() };
    for at in 0..count {
        results.push(shown(lua, matcher.capture(at, start, end)?)?);
    }
    Ok(())
}

/// Returns the position where a search begins; the argument counts from 1, or from the end if
/// negative.
fn start(call: &Arguments<'_>, at: usize, length: usize) -> Result<usize, Raise> {
    let first = if call.is_absent(at) { 1 } else { call.integer(at)? };
    let first = if first < 0 { first.saturating_add_unsigned(length as u64 + 1) } else { first };
    Ok(usize::try_from(first.max(1) - 1).unwrap_or(usize::MAX).min(length))
}

/// Returns whether a pattern is anchored, and the pattern without the anchor.
fn anchored(pattern: &[u8]) -> (bool, &[u8]) {
    pattern.strip_prefix(b"^").map_or((false, pattern), |rest| (true, rest))
}

/// Implements `string.find(s, pattern [, init [, plain]])`
fn find(call: &Arguments<'_>, state: &State) -> Results {
    let (subject, pattern) = (call.bytes(1)?, call.bytes(2)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let from = start(call, 3, subject.len())?;
    let is_plain = !matches!(call.get(4), Value::Nil | Value::Boolean(false));
    // Many bytes are compared at a time.
    spend((subject.len() - from + pattern.len()) / 4)?;
    if is_plain || !has_specials(&pattern) {
        return Ok(match memchr::memmem::find(&subject[from..], &pattern) {
            Some(found) => {
                let end = from + found + pattern.len();
                vec![Value::Number((from + found + 1) as f64), Value::Number(end as f64)]
            }
            None => vec![Value::Nil],
        });
    }
    search(call.lua, state, &subject, &pattern, from, true)
}

/// Implements `string.match(s, pattern [, init])`
fn first_match(call: &Arguments<'_>, state: &State) -> Results {
    let (subject, pattern) = (call.bytes(1)?, call.bytes(2)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let from = start(call, 3, subject.len())?;
    search(call.lua, state, &subject, &pattern, from, false)
}

fn search(
    lua: &Lua,
    state: &State,
    subject: &[u8],
    pattern: &[u8],
    from: usize,
    with_place: bool,
) -> Results {
    let (is_anchored, pattern) = anchored(pattern);
    let last = if is_anchored { from } else { subject.len() };
    matching(state, subject, pattern, |matcher| {
        for at in from..=last {
            let Some(end) = matcher.match_at(at)? else { continue };
            let mut results = Vec::with_capacity(matcher.count() + 2);
            if with_place {
                results.push(Value::Number((at + 1) as f64));
                results.push(Value::Number(end as f64));
            }
            captures(lua, matcher, at, end, !with_place, &mut results)?;
            return Ok(results);
        }
        Ok(vec![Value::Nil])
    })
}

/// Implements `string.gmatch(s, pattern)`
fn gmatch(call: &Arguments<'_>, state: &Rc<State>) -> Results {
    let (subject, pattern) = (call.bytes(1)?, call.bytes(2)?);
    let position = Cell::new(0);
    let state = Rc::clone(state);
    let iterator = native(call.lua, "gmatch", move |call| {
        let (subject, pattern): (LuaString, LuaString) = (subject.clone(), pattern.clone());
        let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
        matching(&state, &subject, &pattern, |matcher| {
            for at in position.get()..=subject.len() {
                let Some(end) = matcher.match_at(at)? else { continue };
                position.set(if end == at { end + 1 } else { end });
                let mut results = Vec::new();
                captures(call.lua, matcher, at, end, true, &mut results)?;
                return Ok(results);
            }
            position.set(subject.len() + 1);
            Ok(Vec::new())
        })
    })?;
    Ok(vec![Value::Function(iterator)])
}

/// Implements `next_match(s, pattern, place, only_first)`: the first match of `gsub` from a
/// position, counted from 0. Returns start, end, and captures, or only the first of them; nothing
/// if there is no match.
fn next_match(call: &Arguments<'_>, state: &State) -> Results {
    let (subject, pattern) = (call.bytes(1)?, call.bytes(2)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let from = call.integer(3)? as usize;
    let only_first = *call.get(4) == Value::Boolean(true);
    let (is_anchored, pattern) = anchored(&pattern);
    let last = if is_anchored { from } else { subject.len() };
    matching(state, &subject, pattern, |matcher| {
        for at in from..=last {
            let Some(end) = matcher.match_at(at)? else { continue };
            let mut results = vec![Value::Number(at as f64), Value::Number(end as f64)];
            if only_first {
                results.push(shown(call.lua, matcher.capture(0, at, end)?)?);
            } else {
                captures(call.lua, matcher, at, end, true, &mut results)?;
            }
            return Ok(results);
        }
        Ok(Vec::new())
    })
}

/// Implements `string.gsub(s, pattern, replacement [, n])` with a string as replacement.
fn gsub(call: &Arguments<'_>, state: &State, longest: usize) -> Results {
    let (subject, pattern) = (call.bytes(1)?, call.bytes(2)?);
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    if !matches!(call.get(3), Value::String(_) | Value::Integer(_) | Value::Number(_)) {
        return Err(call.bad(3, "string/function/table expected"));
    }
    let replacement = call.bytes(3)?;
    let replacement = replacement.as_bytes();
    let most = if call.is_absent(4) { i64::MAX } else { i64::from(call.int(4)?) };
    let (is_anchored, pattern) = anchored(&pattern);
    let (mut out, mut at, mut count) = (Vec::new(), 0, 0);
    matching(state, &subject, pattern, |matcher| {
        while count < most {
            let end = matcher.match_at(at)?;
            if let Some(end) = end {
                count += 1;
                replace(matcher, &replacement, at, end, &mut out)?;
                if out.len() > longest {
                    let text = "not enough memory".to_owned();
                    return Err(Raise::Lua(mlua::Error::MemoryError(text)));
                }
            }
            match end {
                Some(end) if end > at => at = end,
                _ if at < subject.len() => {
                    out.push(subject[at]);
                    at += 1;
                }
                _ => break,
            }
            if is_anchored {
                break;
            }
        }
        Ok(())
    })?;
    out.extend_from_slice(&subject[at..]);
    let whole = call.lua.create_string(out)?;
    Ok(vec![Value::String(whole), Value::Number(count as f64)])
}

/// Appends a replacement, in which `%1` represents a capture.
fn replace(
    matcher: &Matcher<'_, '_>,
    replacement: &[u8],
    start: usize,
    end: usize,
    out: &mut Vec<u8>,
) -> Result<(), Raise> {
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let captured = match bytes.next() {
            Some(b'0') => matcher.whole(start, end),
            Some(digit @ b'1'..=b'9') => matcher.capture(usize::from(digit - b'1'), start, end)?,
            other => {
                out.push(other.copied().unwrap_or(0));
                continue;
            }
        };
        match captured {
            Captured::Text(text) => out.extend_from_slice(text),
            Captured::Position(position) => {
                out.extend_from_slice(itoa::Buffer::new().format(position).as_bytes());
            }
        }
    }
    Ok(())
}
