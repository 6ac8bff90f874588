//! Ordered tables.

use std::collections::BTreeMap;
use std::ops::Bound;

use perdura::{Error, Operations, Table, Tables};

use super::collections::many;
use super::draw::{Draw, is_in, take_all};
use super::state::{Bytes, Checked, Db, RowKey, Value, same};
use super::strings::call;

type Rows<'s, S> = Table<'s, RowKey, Bytes, S>;
type Names<'s, S> = Table<'s, String, i64, S>;

pub(crate) fn rows<'s, S: Tables>(on: &'s S, name: &[u8]) -> Rows<'s, S> {
    on.table(name)
}

pub(crate) fn names<'s, S: Tables>(on: &'s S, name: &[u8]) -> Names<'s, S> {
    on.table(name)
}

/// Draws bytes at the ends of the order, and prefixes of each other.
fn part(draw: &mut Draw) -> Bytes {
    let alphabet = [0, 1, b'a', b'b', 0xfe, 0xff];
    match draw.below(12) {
        0 => vec![0xff; 70],
        n if n < 7 => draw.below(300).to_string().into_bytes(),
        _ => (0..draw.below(4)).map(|_| draw.of(&alphabet)).collect(),
    }
}

fn row_key(draw: &mut Draw) -> RowKey {
    (draw.of(&[i16::MIN, -1, 0, 0, 0, 1, 255, i16::MAX]), part(draw))
}

fn borrowed(key: &RowKey) -> (i16, &[u8]) {
    (key.0, &key.1)
}

fn a_key(draw: &mut Draw, held: &BTreeMap<RowKey, Bytes>) -> RowKey {
    if held.is_empty() || draw.one_in(3) {
        return row_key(draw);
    }
    held.keys().nth(draw.below(held.len())).expect("a row").clone()
}

fn value(draw: &mut Draw) -> Bytes {
    if draw.one_in(4) { draw.of(&[b"same".to_vec(), Vec::new()]) } else { draw.bytes() }
}

fn held(db: &Db, name: &[u8]) -> Result<BTreeMap<RowKey, Bytes>, Error> {
    db.rows(name).map(|rows| rows.cloned().unwrap_or_default())
}

fn put(db: &mut Db, name: &[u8], key: RowKey, value: Option<Bytes>) {
    let rows = db.rows_mut(name).expect("a table");
    match value {
        Some(value) => drop(rows.insert(key, value)),
        None => drop(rows.remove(&key)),
    }
    db.pruned(name);
}

fn insert<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, name: &[u8]) -> Checked {
    for _ in 0..many(draw) {
        let held = held(db, name);
        let (key, value) = (a_key(draw, &held.clone().unwrap_or_default()), value(draw));
        let text = call(draw, "insert", name, &format!("{key:?}, [{}]", value.len()));
        let want = held.map(|rows| rows.get(&key).cloned());
        let done = rows(on, name).insert(borrowed(&key), &value);
        if want.is_ok() {
            put(db, name, key, Some(value));
        }
        same(&text, done, want)?;
    }
    Ok(())
}

fn updated(old: Option<&Bytes>, piece: &[u8]) -> Option<Bytes> {
    match old {
        Some(old) if old.len() % 4 == 1 => None,
        Some(old) if old.len() % 4 == 2 => Some(old.clone()),
        Some(_) => Some(piece.to_vec()),
        None => piece.len().is_multiple_of(2).then(|| piece.to_vec()),
    }
}

fn update<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, name: &[u8]) -> Checked {
    let held = held(db, name);
    let (key, new) = (a_key(draw, &held.clone().unwrap_or_default()), value(draw));
    let old = held.map(|rows| rows.get(&key).cloned());
    let table = rows(on, name);
    match draw.below(3) {
        0 => {
            let text = call(draw, "insert_if_absent", name, &format!("{key:?}"));
            let want = old.map(|old| old.is_none());
            if want == Ok(true) {
                put(db, name, key.clone(), Some(new.clone()));
            }
            same(&text, table.insert_if_absent(borrowed(&key), &new), want)
        }
        1 => {
            let is_other = draw.one_in(4);
            let expected =
                if is_other { Some(value(draw)) } else { old.clone().unwrap_or_default() };
            let new = draw.rng.bool().then_some(new);
            let text =
                call(draw, "compare_and_set", name, &format!("{key:?}, {}", expected.is_some()));
            let want = old.map(|old| old == expected);
            if want == Ok(true) && (expected.is_some() || new.is_some()) {
                put(db, name, key.clone(), new.clone());
            }
            let done = table.compare_and_set(borrowed(&key), expected.as_deref(), new.as_deref());
            same(&text, done, want)
        }
        _ => {
            let text = call(draw, "fetch_update", name, &format!("{key:?}"));
            if let Ok(old) = &old {
                let to = updated(old.as_ref(), &new);
                if old.is_some() || to.is_some() {
                    put(db, name, key.clone(), to);
                }
            }
            same(&text, table.fetch_update(borrowed(&key), |old| updated(old, &new)), old)
        }
    }
}

/// The form in which calls take a key.
type RowRef<'k> = (i16, &'k [u8]);
type Keys = (Bound<RowKey>, Bound<RowKey>);

fn refs(keys: &Keys) -> (Bound<RowRef<'_>>, Bound<RowRef<'_>>) {
    (keys.0.as_ref().map(borrowed), keys.1.as_ref().map(borrowed))
}

fn remove<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, name: &[u8]) -> Checked {
    let (held, table) = (held(db, name), rows(on, name));
    let of = held.clone().unwrap_or_default();
    let goes = |db: &mut Db, is_gone: &dyn Fn(&RowKey) -> bool| {
        let before = of.len();
        if before > 0 {
            db.rows_mut(name).expect("a table").retain(|key, _| !is_gone(key));
            db.pruned(name);
        }
        (before - db.rows(name).ok().flatten().map_or(0, BTreeMap::len)) as u64
    };
    match draw.below(8) {
        0..3 => {
            let key = a_key(draw, &of);
            let text = call(draw, "remove", name, &format!("{key:?}"));
            goes(db, &|own| *own == key);
            same(&text, table.remove(borrowed(&key)), held.map(|rows| rows.get(&key).cloned()))
        }
        3 => {
            let text = call(draw, "pop_first", name, "");
            let first = held.map(|rows| rows.into_iter().next());
            goes(db, &|own| {
                first.as_ref().is_ok_and(|first| first.as_ref().is_some_and(|f| f.0 == *own))
            });
            same(&text, table.pop_first(), first)
        }
        4 => {
            let text = call(draw, "pop_last", name, "");
            let last = held.map(|rows| rows.into_iter().next_back());
            goes(db, &|own| {
                last.as_ref().is_ok_and(|last| last.as_ref().is_some_and(|l| l.0 == *own))
            });
            same(&text, table.pop_last(), last)
        }
        5 | 6 => {
            let keys = (draw.bound(|draw| a_key(draw, &of)), draw.bound(|draw| a_key(draw, &of)));
            let text = call(draw, "remove_range", name, &format!("{keys:?}"));
            let want = held.map(|_| goes(db, &|own| is_in(own, &keys)));
            same(&text, table.remove_range(refs(&keys)), want)
        }
        _ => {
            let (first, second) = a_key(draw, &of);
            let begin = second[..draw.below(second.len() + 1)].to_vec();
            let text = call(draw, "remove_prefix", name, &format!("{first}, {begin:?}"));
            let want = held.map(|_| goes(db, &|own| own.0 == first && own.1.starts_with(&begin)));
            same(&text, table.remove_prefix((first, &begin)), want)
        }
    }
}

fn iterate<S: Operations>(on: &S, db: &Db, draw: &mut Draw, name: &[u8]) -> Checked {
    let (held, table) = (held(db, name), rows(on, name));
    let of = held.clone().unwrap_or_default();
    let want = |keep: &dyn Fn(&RowKey) -> bool| -> Vec<(RowKey, Bytes)> {
        of.clone().into_iter().filter(|(key, _)| keep(key)).collect()
    };
    let (text, taken, count, want) = match draw.below(5) {
        0 => {
            let text = call(draw, "iter", name, "");
            (text, take_all(draw, table.iter()), table.len(), want(&|_| true))
        }
        1 | 2 => {
            let keys = (draw.bound(|draw| a_key(draw, &of)), draw.bound(|draw| a_key(draw, &of)));
            let text = call(draw, "range", name, &format!("{keys:?}"));
            let taken = take_all(draw, table.range(refs(&keys)));
            (text, taken, table.count(refs(&keys)), want(&|key| is_in(key, &keys)))
        }
        3 => {
            let first = row_key(draw).0;
            let text = call(draw, "prefix", name, &first.to_string());
            let taken = take_all(draw, table.prefix((first,)));
            (text, taken, table.count_prefix((first,)), want(&|key| key.0 == first))
        }
        _ => {
            let (first, second) = a_key(draw, &of);
            let begin = second[..draw.below(second.len() + 1)].to_vec();
            let text = call(draw, "prefix", name, &format!("{first}, {begin:?}"));
            let taken = take_all(draw, table.prefix((first, &begin)));
            let count = table.count_prefix((first, &begin));
            (text, taken, count, want(&|key| key.0 == first && key.1.starts_with(&begin)))
        }
    };
    match (taken, held) {
        (Ok(taken), Ok(_)) => {
            same(&format!("the count of {text}"), count, Ok(want.len() as u64))?;
            taken.check(&text, &want)
        }
        (taken, held) => same(&text, taken.map(drop), held.map(drop)),
    }
}

fn read<S: Operations>(on: &S, db: &Db, draw: &mut Draw, name: &[u8]) -> Checked {
    let (held, table) = (held(db, name), rows(on, name));
    let of = held.clone().unwrap_or_default();
    let key = a_key(draw, &of);
    let text = call(draw, "a row of", name, &format!("{key:?}"));
    let of = |what: &str| format!("{what} of {text}");
    let row =
        |item: Option<(&RowKey, &Bytes)>| item.map(|(key, value)| (key.clone(), value.clone()));
    match draw.below(7) {
        0 => same(&of("get"), table.get(borrowed(&key)), held.map(|rows| rows.get(&key).cloned())),
        1 => same(
            &of("contains"),
            table.contains(borrowed(&key)),
            held.map(|rows| rows.contains_key(&key)),
        ),
        2 => {
            same(
                &of("is_empty"),
                table.is_empty(),
                held.as_ref().map(BTreeMap::is_empty).map_err(|e| *e),
            )?;
            same(&of("len"), table.len(), held.map(|rows| rows.len() as u64))
        }
        3 => {
            let rank = held.map(|rows| rows.keys().filter(|own| **own < key).count() as u64);
            same(&of("rank"), table.rank(borrowed(&key)), rank)
        }
        4 => {
            let n = draw.below(held.as_ref().map_or(0, BTreeMap::len) + 2);
            let want = held.map(|rows| row(rows.iter().nth(n)));
            same(&of(&format!("nth({n})")), table.nth(n as u64), want)
        }
        5 => same(&of("first"), table.first(), held.map(|rows| row(rows.first_key_value()))),
        _ => same(&of("last"), table.last(), held.map(|rows| row(rows.last_key_value()))),
    }
}

/// Runs operations on a table of strings.
fn of_names<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let name = draw.of(&[&b"n0"[..], b"n1"]);
    let text = |draw: &mut Draw| {
        draw.of(&["", "\0", "a", "a\0", "a\0b", "ab", "b", "\u{10ffff}", "\u{1}"]).to_owned()
    };
    let (key, value) = (text(draw), draw.rng.i64(-3..3));
    let table = names(on, name);
    let held = db.names(name).map(|held| held.cloned().unwrap_or_default());
    if let Err(error) = held {
        return same("a table of another type", table.get(&key), Err(error));
    }
    match draw.below(5) {
        0..2 => {
            let shown = call(draw, "names.insert", name, &format!("{key:?}, {value}"));
            let old = db.names_mut(name).expect("a table").insert(key.clone(), value);
            same(&shown, table.insert(&key, value), Ok(old))
        }
        2 => {
            let shown = call(draw, "names.remove", name, &format!("{key:?}"));
            let old = db.names_mut(name).expect("a table").remove(&key);
            db.pruned(name);
            same(&shown, table.remove(&key), Ok(old))
        }
        3 => {
            let shown = call(draw, "names.prefix", name, &format!("{key:?}"));
            let all = held.unwrap_or_default().into_iter();
            let want: Vec<_> = all.filter(|(own, _)| own.starts_with(&key)).collect();
            match take_all(draw, table.prefix(&key)) {
                Ok(taken) => taken.check(&shown, &want),
                Err(error) => Err(format!("{shown}: {error}")),
            }
        }
        _ => {
            // Its rows are not rows of other types.
            let shown = call(draw, "a table of other types", name, "");
            let wrong: Table<'_, (u128, u128), (), S> = on.table(name);
            let want =
                if held.unwrap_or_default().is_empty() { Ok(None) } else { Err(Error::NotARow) };
            same(&shown, wrong.first(), want)?;
            same(&shown, wrong.last(), want)?;
            same(&shown, wrong.pop_last(), want)
        }
    }
}

/// Runs one of the operations on tables.
pub(crate) fn step<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    if draw.one_in(5) {
        return of_names(on, db, draw);
    }
    let name =
        if draw.one_in(20) { draw.key(b'l') } else { draw.of(&[b"t0".to_vec(), b"t1".to_vec()]) };
    if let Some(Value::Sorted(_) | Value::Places(_) | Value::Names(_)) =
        db.keys.get(&name).map(|h| &h.value)
    {
        return Ok(());
    }
    same("name()", rows(on, &name).name(), &name)?;
    match draw.below(12) {
        0..4 => insert(on, db, draw, &name),
        4..6 => update(on, db, draw, &name),
        6 => remove(on, db, draw, &name),
        7..10 => iterate(on, db, draw, &name),
        _ => read(on, db, draw, &name),
    }
}
