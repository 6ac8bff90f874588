//! Keys and strings.

use std::time::Duration;

use perdura::{Error, Operations};

use super::draw::Draw;
use super::state::{Bytes, Checked, Db, Value, same};

fn escaped(key: &[u8]) -> String {
    let end = key.len().min(24);
    format!("{}{}", key[..end].escape_ascii(), if end < key.len() { ".." } else { "" })
}

/// Records a call on a key, and returns its text.
pub(crate) fn call(draw: &mut Draw, name: &str, key: &[u8], rest: &str) -> String {
    let len = key.len();
    draw.call(format!(
        "{name}(\"{}\"[{len}]{}{rest})",
        escaped(key),
        if rest.is_empty() { "" } else { ", " }
    ))
}

fn later(db: &Db, ttl: Duration) -> Option<u64> {
    Some(db.now + ttl.as_millis() as u64)
}

/// Runs one of the operations on keys of any type.
pub(crate) fn keys<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = match draw.existing(db) {
        Some(key) if draw.below(4) > 0 => key,
        _ => draw.key(b's'),
    };
    let is_there = db.keys.contains_key(&key);
    match draw.below(9) {
        0 => {
            let text = call(draw, "exists", &key, "");
            same(&text, on.exists(&key), Ok(is_there))
        }
        1 => {
            let text = call(draw, "value_type", &key, "");
            same(&text, on.value_type(&key), Ok(db.keys.get(&key).map(|held| held.value.kind())))
        }
        2 => {
            let text = call(draw, "delete", &key, "");
            let was = db.keys.remove(&key).is_some();
            same(&text, on.delete(&key), Ok(was))
        }
        3 | 4 => {
            let ttl = draw.ttl();
            let text = call(draw, "expire", &key, &format!("{ttl:?}"));
            let until = later(db, ttl);
            if let Some(held) = db.keys.get_mut(&key) {
                held.until = until;
            }
            let now = db.now;
            same(&text, on.expire(&key, ttl), Ok(is_there))?;
            db.at(now);
            Ok(())
        }
        5 => {
            let text = call(draw, "persist", &key, "");
            if let Some(held) = db.keys.get_mut(&key) {
                held.until = None;
            }
            same(&text, on.persist(&key), Ok(is_there))
        }
        6 | 7 => {
            let text = call(draw, "ttl", &key, "");
            let until = db.keys.get(&key).and_then(|held| held.until);
            let left = until.map(|until| Duration::from_millis(until - db.now));
            same(&text, on.ttl(&key), Ok(left))
        }
        _ => {
            let to = draw.key(key.first().copied().unwrap_or(b's'));
            let text = call(draw, "rename", &key, &escaped(&to));
            if let Some(held) = db.keys.remove(&key) {
                db.keys.insert(to.clone(), held);
            }
            same(&text, on.rename(&key, &to), Ok(is_there))
        }
    }
}

/// Returns what `fetch_update` makes of a value.
fn updated(old: Option<&[u8]>, piece: &[u8]) -> Option<Bytes> {
    let old = old.unwrap_or_default();
    (old.len() % 3 != 2).then(|| [old, piece].concat())
}

fn put(db: &mut Db, key: &[u8], value: Option<Bytes>) {
    let until = db.keys.get(key).and_then(|held| held.until);
    match value {
        Some(value) => db.put(key, Value::String(value), until),
        None => drop(db.keys.remove(key)),
    }
}

/// Runs one of the operations on strings that set a value whatever the old one is.
fn set<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (value, ttl) = (draw.bytes(), draw.ttl());
    let (until, now, len) = (later(db, ttl), db.now, value.len());
    let is_there = db.keys.contains_key(key);
    match draw.below(4) {
        0 => {
            let text = call(draw, "set", key, &format!("[{len}]"));
            db.put(key, Value::String(value.clone()), None);
            same(&text, on.set(key, &value), Ok(()))
        }
        1 => {
            let text = call(draw, "set_for", key, &format!("[{len}], {ttl:?}"));
            db.put(key, Value::String(value.clone()), until);
            db.at(now);
            same(&text, on.set_for(key, &value, ttl), Ok(()))
        }
        2 => {
            let text = call(draw, "set_if_absent", key, &format!("[{len}]"));
            if !is_there {
                db.put(key, Value::String(value.clone()), None);
            }
            same(&text, on.set_if_absent(key, &value), Ok(!is_there))
        }
        _ => {
            let text = call(draw, "set_if_absent_for", key, &format!("[{len}], {ttl:?}"));
            if !is_there {
                db.put(key, Value::String(value.clone()), until);
                db.at(now);
            }
            same(&text, on.set_if_absent_for(key, &value, ttl), Ok(!is_there))
        }
    }
}

fn number(old: Option<&Bytes>) -> Result<i64, Error> {
    let Some(old) = old else { return Ok(0) };
    let text = std::str::from_utf8(old).map_err(|_| Error::NotAnInteger)?;
    text.parse().map_err(|_| Error::NotAnInteger)
}

fn increment<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let by = draw.of(&[0, 1, -1, 7, 7, 9, -1000, i64::MAX, i64::MIN, i64::MAX - 2]);
    let text = call(draw, "increment", key, &by.to_string());
    let old = db.string(key).and_then(number);
    let new = old.and_then(|old| old.checked_add(by).ok_or(Error::Overflow));
    if let Ok(new) = new {
        put(db, key, Some(new.to_string().into_bytes()));
    }
    same(&text, on.increment(key, by), new)
}

/// Runs one of the operations on strings.
pub(crate) fn step<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b's');
    if matches!(db.keys.get(&key).map(|held| &held.value), Some(Value::Sketch(_))) {
        return set(on, db, draw, &key);
    }
    match draw.below(12) {
        0..3 => set(on, db, draw, &key),
        3..5 => {
            let text = call(draw, "get", &key, "");
            same(&text, on.get(&key), db.string(&key).map(Option::<&Bytes>::cloned))
        }
        5..7 => increment(on, db, draw, &key),
        7 => {
            let value = draw.of(&[i64::MAX, i64::MIN, 41, -3]).to_string();
            let text = call(draw, "set_for, and increment", &key, &value);
            let until = Some(db.now + 60_000);
            db.put(&key, Value::String(value.clone().into_bytes()), until);
            same(&text, on.set_for(&key, &value, Duration::from_secs(60)), Ok(()))?;
            increment(on, db, draw, &key)
        }
        8 => {
            let piece = draw.bytes();
            let text = call(draw, "append", &key, &format!("[{}]", piece.len()));
            let want = match db.string(&key) {
                Err(error) => Err(error),
                Ok(old) => {
                    let new = [old.map_or(&[][..], |old| old), &piece].concat();
                    let len = new.len();
                    put(db, &key, Some(new));
                    Ok(len)
                }
            };
            same(&text, on.append(&key, &piece), want)
        }
        9 => {
            let piece = draw.bytes();
            let text = call(draw, "fetch_update", &key, &format!("[{}]", piece.len()));
            let old = db.string(&key).map(Option::<&Bytes>::cloned);
            if let Ok(old) = &old {
                put(db, &key, updated(old.as_deref(), &piece));
            }
            same(&text, on.fetch_update(&key, |old| updated(old, &piece)), old)
        }
        _ => {
            let held = db.string(&key).map(Option::<&Bytes>::cloned);
            let mut expected = held.clone().ok().flatten();
            if draw.one_in(3) {
                let other = draw.bytes();
                expected = draw.of(&[None, Some(other), Some(Vec::new())]);
            }
            let new = if draw.below(3) > 0 { Some(draw.bytes()) } else { None };
            let text = call(draw, "compare_and_set", &key, &format!("{:?}", expected.is_some()));
            let want = held.map(|held| held == expected);
            if want == Ok(true) && (expected.is_some() || new.is_some()) {
                put(db, &key, new.clone());
            }
            let done = on.compare_and_set(&key, expected.as_deref(), new.as_deref());
            same(&text, done, want)
        }
    }
}
