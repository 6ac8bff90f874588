//! Lists, hashes and sets, and sorting them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use perdura::{Error, Operations, Order};

use super::draw::{COUNTS, Draw, take_all};
use super::state::{Bytes, Checked, Db, Value, same, up_to};
use super::strings::call;

/// Draws how many elements are added at once: mostly one, else around a constant.
pub(crate) fn many(draw: &mut Draw) -> usize {
    if draw.is_cheap && draw.one_in(12) {
        let constant = draw.of(COUNTS);
        return constant - 1 + draw.below(3);
    }
    1
}

fn push<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (count, is_front) = (many(draw), draw.rng.bool());
    for _ in 0..count {
        let element = if draw.one_in(8) { draw.bytes() } else { draw.element() };
        let name = if is_front { "push_front" } else { "push_back" };
        let text = call(draw, name, key, &format!("[{}]", element.len()));
        let want = db.list_mut(key).map(|list| {
            if is_front {
                list.push_front(element.clone())
            } else {
                list.push_back(element.clone())
            }
            list.len() as u64
        });
        let done =
            if is_front { on.push_front(key, &element) } else { on.push_back(key, &element) };
        same(&text, done, want)?;
    }
    Ok(())
}

fn pop<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let (count, is_front) = (many(draw), draw.rng.bool());
    for _ in 0..count {
        let text = call(draw, if is_front { "pop_front" } else { "pop_back" }, key, "");
        let want = db.list_mut(key);
        let want = want.map(|list| if is_front { list.pop_front() } else { list.pop_back() });
        db.pruned(key);
        same(&text, if is_front { on.pop_front(key) } else { on.pop_back(key) }, want)?;
    }
    Ok(())
}

/// Runs one of the operations on lists.
pub(crate) fn lists<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'l');
    let held = db.list(&key).map(|list| list.cloned().unwrap_or_default());
    let len = held.as_ref().map_or(0, VecDeque::len);
    match draw.below(12) {
        0..4 => push(on, db, draw, &key),
        4..6 => pop(on, db, draw, &key),
        6 => {
            let text = call(draw, "list_len", &key, "");
            same(&text, on.list_len(&key), held.map(|list| list.len() as u64))
        }
        7 | 8 => {
            let text = call(draw, "list_iter", &key, "");
            let taken = take_all(draw, on.list_iter(&key));
            match (taken, held) {
                (Ok(taken), Ok(list)) => taken.check(&text, &Vec::from(list)),
                (taken, list) => same(&text, taken.map(drop), list.map(drop)),
            }
        }
        9 | 10 => {
            let (first, count) =
                (draw.below(len + 3), draw.of(&[0, 1, 2, 3, 4, len, len + 1, 1000]));
            let text = call(draw, "elements", &key, &format!("{first}, {count} of {len}"));
            let want = held.map(|list| list.into_iter().skip(first).take(count).collect());
            let want = up_to(count, want);
            same::<Result<Vec<Bytes>, _>>(&text, on.elements(&key, first as u64, count), want)
        }
        _ => {
            let (index, element) = (draw.below(len + 2), draw.bytes());
            let text = call(draw, "set_element", &key, &format!("{index} of {len}"));
            let want = held.map(|_| index < len);
            if want == Ok(true) {
                db.list_mut(&key).expect("a list")[index] = element.clone();
            }
            same(&text, on.set_element(&key, index as u64, &element), want)
        }
    }
}

/// A field that mostly holds a number.
const COUNTER: &[u8] = b"n";

type Fields = BTreeMap<Bytes, (Bytes, Option<u64>)>;

fn hash_set<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    for _ in 0..many(draw) {
        let (field, value) = (draw.element(), draw.bytes());
        let text = call(draw, "hash_set", key, &format!("{field:?}, [{}]", value.len()));
        let want = db.hash_mut(key);
        let want = want.map(|hash| hash.insert(field.clone(), (value.clone(), None)).is_none());
        same(&text, on.hash_set(key, &field, &value), want)?;
        if draw.one_in(3) {
            compare_time(on, db, draw, key, &field)?;
        }
    }
    Ok(())
}

fn field_times<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let field = if draw.one_in(3) { COUNTER.to_vec() } else { a_field(db, draw, key) };
    let ttl = draw.ttl();
    let now = db.now;
    let held = db.hash(key).map(|hash| hash.and_then(|hash| hash.get(&field).cloned()));
    let is_there = held.as_ref().map(Option::is_some).map_err(|error| *error);
    match draw.below(3) {
        0 => {
            let text = call(draw, "hash_expire", key, &format!("{field:?}, {ttl:?}"));
            if is_there == Ok(true) {
                let held = db.hash_mut(key).expect("a hash").get_mut(&field).expect("a field");
                held.1 = Some(now + ttl.as_millis() as u64);
            }
            same(&text, on.hash_expire(key, &field, ttl), is_there)?;
            db.at(now);
            Ok(())
        }
        1 => {
            let text = call(draw, "hash_persist", key, &format!("{field:?}"));
            if is_there == Ok(true) {
                db.hash_mut(key).expect("a hash").get_mut(&field).expect("a field").1 = None;
            }
            same(&text, on.hash_persist(key, &field), is_there)
        }
        _ => {
            let text = call(draw, "hash_ttl", key, &format!("{field:?}"));
            let until = held.map(|held| held.and_then(|(_, until)| until));
            let left = until.map(|until| until.map(|until| Duration::from_millis(until - now)));
            same(&text, on.hash_ttl(key, &field), left)
        }
    }
}

/// Draws a field that exists, if possible.
fn a_field(db: &Db, draw: &mut Draw, key: &[u8]) -> Bytes {
    match db.hash(key) {
        Ok(Some(hash)) if draw.below(4) > 0 => {
            hash.keys().nth(draw.below(hash.len())).expect("a field").clone()
        }
        _ => draw.element(),
    }
}

fn hash_increment<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    let field = if draw.rng.bool() { COUNTER.to_vec() } else { a_field(db, draw, key) };
    if draw.rng.bool() {
        live_for_a_while(on, db, draw, key, &field)?;
    }
    let by = draw.of(&[0, 1, -5, 1000, i64::MAX, i64::MIN + 1]);
    let text = call(draw, "hash_increment", key, &format!("{field:?}, {by}"));
    let held = db.hash(key).map(|hash| hash.and_then(|hash| hash.get(&field).cloned()));
    let want = held.and_then(|held| {
        let until = held.as_ref().and_then(|held| held.1);
        let old = held.map_or(Ok(0), |(value, _)| {
            let text = String::from_utf8(value).map_err(|_| Error::NotAnInteger)?;
            text.parse::<i64>().map_err(|_| Error::NotAnInteger)
        })?;
        let new = old.checked_add(by).ok_or(Error::Overflow)?;
        let value = (new.to_string().into_bytes(), until);
        db.hash_mut(key)?.insert(field.clone(), value);
        Ok(new)
    });
    same(&text, on.hash_increment(key, &field, by), want)?;
    compare_time(on, db, draw, key, &field)
}

/// Gives a field, if it exists, a TTL that does not pass at once.
fn live_for_a_while<S: Operations>(
    on: &S,
    db: &mut Db,
    draw: &mut Draw,
    key: &[u8],
    field: &[u8],
) -> Checked {
    let ttl = Duration::from_millis(draw.of(&[1, 2, 5, 1000, 60_000]));
    let text = call(draw, "hash_expire", key, &format!("{field:?}, {ttl:?}"));
    let until = db.now + ttl.as_millis() as u64;
    let want = match db.hash(key) {
        Err(error) => Err(error),
        Ok(None) => Ok(false),
        Ok(Some(_)) => {
            let held = db.hash_mut(key).expect("a hash").get_mut(field);
            Ok(held.map(|held| held.1 = Some(until)).is_some())
        }
    };
    same(&text, on.hash_expire(key, field, ttl), want)
}

/// Compares the TTL that a write left to a field.
fn compare_time<S: Operations>(
    on: &S,
    db: &Db,
    draw: &mut Draw,
    key: &[u8],
    field: &[u8],
) -> Checked {
    let text = call(draw, "hash_ttl", key, &format!("{field:?}"));
    let until = db.hash(key).map(|hash| hash.and_then(|hash| hash.get(field)?.1));
    let left = until.map(|until| until.map(|until| Duration::from_millis(until - db.now)));
    same(&text, on.hash_ttl(key, field), left)
}

/// Runs one of the operations on hashes.
pub(crate) fn hashes<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'h');
    let held: Result<Fields, Error> = db.hash(&key).map(|hash| hash.cloned().unwrap_or_default());
    match draw.below(13) {
        0..3 => hash_set(on, db, draw, &key),
        3..5 => hash_increment(on, db, draw, &key),
        5..8 => field_times(on, db, draw, &key),
        8 => {
            let field = a_field(db, draw, &key);
            let text = call(draw, "hash_get", &key, &format!("{field:?}"));
            let want = held.map(|hash| hash.get(&field).map(|(value, _)| value.clone()));
            same(&text, on.hash_get(&key, &field), want)
        }
        9 => {
            for _ in 0..many(draw) {
                let field = a_field(db, draw, &key);
                let text = call(draw, "hash_delete", &key, &format!("{field:?}"));
                let want = db.hash_mut(&key).map(|hash| hash.remove(&field).is_some());
                db.pruned(&key);
                same(&text, on.hash_delete(&key, &field), want)?;
            }
            Ok(())
        }
        10 => {
            let text = call(draw, "hash_len", &key, "");
            same(&text, on.hash_len(&key), held.map(|hash| hash.len() as u64))
        }
        n => {
            let text = call(draw, if n == 11 { "hash_iter" } else { "hash_entries" }, &key, "");
            let all: Result<Vec<(Bytes, Bytes)>, Error> =
                if n == 11 { on.hash_iter(&key).collect() } else { on.hash_entries(&key) };
            let all = all.map(|mut all| {
                all.sort();
                all
            });
            let pair = |(field, (value, _))| (field, value);
            same(&text, all, held.map(|hash| hash.into_iter().map(pair).collect()))
        }
    }
}

/// Runs one of the operations on sets.
pub(crate) fn sets<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let key = draw.key(b'c');
    let held: Result<BTreeSet<Bytes>, Error> =
        db.set(&key).map(|set| set.cloned().unwrap_or_default());
    let integers = key.last() == Some(&b'1');
    let element = |draw: &mut Draw| match integers {
        true => {
            let any = draw.below(700) as i64;
            draw.of(&[-40_000, 7, 32_768, 1 << 40, i64::MAX, any, any]).to_string().into_bytes()
        }
        false => draw.element(),
    };
    match draw.below(8) {
        0..3 => {
            for _ in 0..many(draw) {
                let member = element(draw);
                let text = call(draw, "set_add", &key, &format!("{member:?}"));
                let want = db.set_mut(&key).map(|set| set.insert(member.clone()));
                same(&text, on.set_add(&key, &member), want)?;
            }
            Ok(())
        }
        3 => {
            for _ in 0..many(draw) {
                let member = element(draw);
                let text = call(draw, "set_remove", &key, &format!("{member:?}"));
                let want = db.set_mut(&key).map(|set| set.remove(&member));
                db.pruned(&key);
                same(&text, on.set_remove(&key, &member), want)?;
            }
            Ok(())
        }
        4 => {
            let member = element(draw);
            let text = call(draw, "set_contains", &key, &format!("{member:?}"));
            same(&text, on.set_contains(&key, &member), held.map(|set| set.contains(&member)))
        }
        5 => {
            let text = call(draw, "set_len", &key, "");
            same(&text, on.set_len(&key), held.map(|set| set.len() as u64))
        }
        n => {
            let text = call(draw, if n == 6 { "set_iter" } else { "set_members" }, &key, "");
            let all: Result<Vec<Bytes>, Error> =
                if n == 6 { on.set_iter(&key).collect() } else { on.set_members(&key) };
            let all = all.map(|mut all| {
                all.sort();
                all
            });
            same(&text, all, held.map(|set| set.into_iter().collect()))
        }
    }
}

/// Returns the elements of a key that can be sorted; none if only the store knows them.
fn elements(db: &Db, key: &[u8]) -> Option<Result<Vec<Bytes>, Error>> {
    Some(match db.keys.get(key).map(|held| &held.value) {
        None => Ok(Vec::new()),
        Some(Value::List(of)) => Ok(of.iter().cloned().collect()),
        Some(Value::Set(of)) => Ok(of.iter().cloned().collect()),
        Some(Value::Sorted(of)) => Ok(of.keys().cloned().collect()),
        Some(Value::Places(of)) => Ok(of.keys().cloned().collect()),
        Some(Value::Rows(_) | Value::Names(_)) => return None,
        Some(_) => Err(Error::WrongType),
    })
}

fn sorted(mut all: Vec<Bytes>, order: Order) -> Result<Vec<Bytes>, Error> {
    let is_numeric = matches!(order, Order::Numbers | Order::NumbersDescending);
    let number = |element: &Bytes| -> Result<f64, Error> {
        let text = std::str::from_utf8(element).map_err(|_| Error::NotANumber)?;
        let number: f64 = text.parse().map_err(|_| Error::NotANumber)?;
        if number.is_nan() { Err(Error::NotANumber) } else { Ok(number) }
    };
    if is_numeric {
        all.iter().try_for_each(|element| number(element).map(drop))?;
        all.sort_by(|a, b| {
            let (x, y) = (number(a).expect("a number"), number(b).expect("a number"));
            x.partial_cmp(&y).expect("no NaN").then_with(|| a.cmp(b))
        });
    } else {
        all.sort();
    }
    if matches!(order, Order::NumbersDescending | Order::BytesDescending) {
        all.reverse();
    }
    Ok(all)
}

/// Pushes numbers to a list, some of which are equal but spelled differently; mostly few.
fn push_numbers<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw, key: &[u8]) -> Checked {
    const NUMBERS: [&str; 13] =
        ["0", "-0", "+0", "0.0", "10", "1e1", "10.0", "9", "9.0", "-1.5", "-1.50", "1e3", "inf"];
    for _ in 0..many(draw).max(draw.below(6)) {
        let number = draw.of(&NUMBERS);
        let want = db.list_mut(key).map(|list| {
            list.push_back(number.into());
            list.len() as u64
        });
        let text = call(draw, "push_back", key, number);
        same(&text, on.push_back(key, number), want)?;
    }
    Ok(())
}

/// Runs one of the operations that sort.
pub(crate) fn sorting<S: Operations>(on: &S, db: &mut Db, draw: &mut Draw) -> Checked {
    let kind = draw.of(b"lcz");
    if draw.one_in(5) {
        // Only numbers, both zeros among them.
        return push_numbers(on, db, draw, &[kind, b'9']);
    }
    let key = if draw.one_in(3) { vec![kind, b'9'] } else { draw.key(kind) };
    let orders = [Order::Numbers, Order::NumbersDescending, Order::Bytes, Order::BytesDescending];
    let order = draw.of(&orders);
    let Some(elements) = elements(db, &key) else { return Ok(()) };
    let want = elements.and_then(|all| sorted(all, order));
    if draw.rng.bool() {
        let text = call(draw, "sort", &key, &format!("{order:?}"));
        return same(&text, on.sort(&key, order), want);
    }
    let target = draw.key(b'l');
    let text = call(draw, "sort_into", &key, &format!("{order:?}, {target:?}"));
    let want = want.map(|all| {
        let len = all.len() as u64;
        db.put(&target, Value::List(all.into()), None);
        db.pruned(&target);
        len
    });
    same(&text, on.sort_into(&key, order, &target), want)
}
