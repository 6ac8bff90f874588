//! Operations on a few keys, which tests apply to a keyspace and to a map.

use std::collections::BTreeMap;

use keyspace::{Error, Expire, Txn};

use super::db;

/// The last two are as long as the longest key that is compared by words, and longer.
pub(crate) const KEYS: [&str; 10] = [
    "a",
    "b",
    "c",
    "{a}1",
    "{a}2",
    "{b}1",
    "longer key",
    "",
    text(&[b'k'; 256]),
    text(&[b'k'; 257]),
];

const fn text(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}

pub(crate) const DBS: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Clear,
    Keep,
    In(u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Set(usize, usize, Text, When),
    Append(usize, usize, Text),
    SetRange(usize, usize, usize, Text),
    Delete(usize, usize),
    SetExpiry(usize, usize, Option<u64>),
    Rename((usize, usize), (usize, usize)),
    Copy((usize, usize), (usize, usize)),
    Flush(usize),
    Swap(usize, usize),
}

/// A value: an integer, or `len` bytes.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    Int(i64),
    Bytes(u8, usize),
}

impl Text {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match self {
            Text::Int(int) => int.to_string().into_bytes(),
            Text::Bytes(byte, len) => (0..*len).map(|i| byte.wrapping_add(i as u8)).collect(),
        }
    }
}

pub(crate) type Value = (Vec<u8>, u64);

/// The value and the expiry time of each key; [`Model::live`] removes expired keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) keys: BTreeMap<(usize, &'static str), Value>,
    pub(crate) now: u64,
}

impl Model {
    pub(crate) fn live(&mut self) -> &mut BTreeMap<(usize, &'static str), Value> {
        let now = self.now;
        self.keys.retain(|_, (_, expiry)| *expiry == 0 || *expiry > now);
        &mut self.keys
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        let now = self.now;
        let keys = self.live();
        match op {
            Op::Set(d, k, text, when) => {
                let at = (*d, KEYS[*k]);
                let old = keys.get(&at).map_or(0, |value| value.1);
                let expiry = match when {
                    When::Clear => 0,
                    When::Keep => old,
                    When::In(ms) => now + ms,
                };
                keys.insert(at, (text.bytes(), expiry));
            }
            Op::Append(d, k, text) => {
                keys.entry((*d, KEYS[*k])).or_default().0.extend(text.bytes());
            }
            Op::SetRange(_, _, _, text) if text.bytes().is_empty() => {}
            Op::SetRange(d, k, at, text) => {
                let value = &mut keys.entry((*d, KEYS[*k])).or_default().0;
                let bytes = text.bytes();
                value.resize(value.len().max(at + bytes.len()), 0);
                value[*at..at + bytes.len()].copy_from_slice(&bytes);
            }
            Op::Delete(d, k) => {
                keys.remove(&(*d, KEYS[*k]));
            }
            Op::SetExpiry(d, k, at) => {
                if let Some(value) = keys.get_mut(&(*d, KEYS[*k])) {
                    value.1 = at.map_or(0, |ms| now + ms);
                }
            }
            Op::Rename(a, b) => {
                if let Some(value) = keys.remove(&(a.0, KEYS[a.1])) {
                    keys.insert((b.0, KEYS[b.1]), value);
                }
            }
            Op::Copy(a, b) => {
                if let Some(value) = keys.get(&(a.0, KEYS[a.1])).cloned() {
                    keys.insert((b.0, KEYS[b.1]), value);
                }
            }
            Op::Flush(d) => keys.retain(|(of, _), _| of != d),
            Op::Swap(a, b) => {
                let swapped = std::mem::take(keys).into_iter().map(|((d, key), value)| {
                    let d = if d == *a {
                        *b
                    } else if d == *b {
                        *a
                    } else {
                        d
                    };
                    ((d, key), value)
                });
                *keys = swapped.collect();
            }
        }
    }
}

/// Applies an operation, and ignores what it returns unless it fails.
pub(crate) fn apply(txn: &mut Txn<'_>, op: &Op) -> Result<(), Error> {
    let key = |k: &usize| txn.key(KEYS[*k].as_bytes());
    match op {
        Op::Set(d, k, text, when) => {
            let expire = match when {
                When::Clear => Expire::Clear,
                When::Keep => Expire::Keep,
                When::In(ms) => Expire::At(txn.now() + ms),
            };
            let key = key(k);
            txn.strings().set(db(*d), &key, &text.bytes(), expire)?;
        }
        Op::Append(d, k, text) => {
            let key = key(k);
            txn.strings().append(db(*d), &key, &text.bytes())?;
        }
        Op::SetRange(d, k, at, text) => {
            let key = key(k);
            txn.strings().set_range(db(*d), &key, *at, &text.bytes())?;
        }
        Op::Delete(d, k) => {
            let key = key(k);
            txn.keys().delete(db(*d), &key)?;
        }
        Op::SetExpiry(d, k, at) => {
            let (key, at) = (key(k), at.map(|ms| txn.now() + ms));
            txn.keys().set_expiry(db(*d), &key, at)?;
        }
        Op::Rename(a, b) => {
            let (from, to) = (key(&a.1), key(&b.1));
            txn.keys().rename((db(a.0), &from), (db(b.0), &to))?;
        }
        Op::Copy(a, b) => {
            let (from, to) = (key(&a.1), key(&b.1));
            txn.keys().copy((db(a.0), &from), (db(b.0), &to))?;
        }
        Op::Flush(d) => {
            txn.databases().flush(db(*d))?;
        }
        Op::Swap(a, b) => txn.databases().swap(db(*a), db(*b))?,
    }
    Ok(())
}
