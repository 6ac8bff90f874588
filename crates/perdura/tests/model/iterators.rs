//! Iterators that are kept open across writes: items that exist from start to end are shown exactly
//! once, and every shown item existed at some moment.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;

use perdura::prelude::*;
use perdura::{Error, Perdura};

use super::session::Session;
use super::state::{Bytes, Checked, Db, Value, in_order};
use super::tables;

/// The items that existed all the time, and at any time.
struct Seen<T> {
    always: BTreeSet<T>,
    ever: BTreeSet<T>,
    /// Whether the key held another type at some moment.
    was_other: bool,
}

impl<T: Ord + Clone + Debug> Seen<T> {
    fn new(now: Option<BTreeSet<T>>) -> Seen<T> {
        let was_other = now.is_none();
        let now = now.unwrap_or_default();
        Seen { always: now.clone(), ever: now, was_other }
    }

    fn see(&mut self, now: Option<BTreeSet<T>>) {
        self.was_other |= now.is_none();
        let now = now.unwrap_or_default();
        self.always.retain(|item| now.contains(item));
        self.ever.extend(now);
    }
}

/// An item of a sorted set, with its score as ordered bits.
type Ordered = (i64, Bytes);

fn ordered(member: Bytes, score: f64) -> Ordered {
    // The two zeros are one score.
    let bits = (score + 0.0).to_bits() as i64;
    (if bits < 0 { i64::MIN.wrapping_sub(bits) } else { bits }, member)
}

/// Iterates by `next`, with calls in between, and compares.
fn walk<T: Ord + Clone + Debug>(
    session: &mut Session,
    what: &str,
    items: impl Fn(&Db) -> Option<BTreeSet<T>>,
    mut iter: impl Iterator<Item = Result<(T, bool), Error>>,
    has_two_ends: bool,
) -> Checked {
    let mut seen = Seen::new(items(&session.dbs[0]));
    let mut shown: Vec<(T, bool)> = Vec::new();
    let mut calls = 0;
    loop {
        match iter.next() {
            None => break,
            Some(Ok(item)) => shown.push(item),
            Some(Err(Error::WrongType)) if seen.was_other => {
                let more = iter.next().is_some();
                return if more { Err(format!("{what} goes on after an error")) } else { Ok(()) };
            }
            Some(Err(error)) => return Err(format!("{what}: {error}")),
        }
        if calls < 25 && session.draw.one_in(8) {
            calls += 1;
            session.call()?;
            seen.see(items(&session.dbs[0]));
        }
        // Drop it here.
        if session.draw.one_in(300) {
            return Ok(());
        }
    }
    let count: BTreeSet<&T> = shown.iter().map(|(item, _)| item).collect();
    if let Some((item, _)) = shown.iter().find(|(item, _)| !seen.ever.contains(item)) {
        return Err(format!("{what} showed {item:.200?}, which was never there"));
    }
    if let Some(item) = seen.always.iter().find(|item| !count.contains(item)) {
        return Err(format!("{what} left out {item:.200?}, which was there all the time"));
    }
    let twice =
        shown.iter().map(|(item, _)| item).filter(|item| seen.always.contains(item)).count();
    if twice != seen.always.len() {
        return Err(format!("{what} showed something twice that was there all the time"));
    }
    if has_two_ends {
        let front: Vec<&T> = shown.iter().filter(|item| !item.1).map(|item| &item.0).collect();
        let back: Vec<&T> = shown.iter().filter(|item| item.1).map(|item| &item.0).collect();
        let is_in_order = front.windows(2).all(|pair| pair[0] <= pair[1])
            && back.windows(2).all(|pair| pair[0] >= pair[1]);
        if !is_in_order {
            return Err(format!("{what} left the order"));
        }
    }
    Ok(())
}

/// Takes from both ends in random order. Returns whether each item is from the back.
fn ends<T>(
    mut iter: impl DoubleEndedIterator<Item = Result<T, Error>>,
    seed: u64,
) -> impl Iterator<Item = Result<(T, bool), Error>> {
    let (mut rng, way) = (fastrand::Rng::with_seed(seed), seed % 3);
    std::iter::from_fn(move || {
        let from_back = way == 1 || way == 2 && rng.bool();
        let item = if from_back { iter.next_back() } else { iter.next() };
        item.map(|item| item.map(|item| (item, from_back)))
    })
}

fn one_way<T>(
    iter: impl Iterator<Item = Result<T, Error>>,
) -> impl Iterator<Item = Result<(T, bool), Error>> {
    iter.map(|item| item.map(|item| (item, false)))
}

fn of_key<T>(
    db: &Db,
    key: &[u8],
    read: impl Fn(&Value) -> Option<BTreeSet<T>>,
) -> Option<BTreeSet<T>> {
    db.keys.get(key).map_or(Some(BTreeSet::new()), |held| read(&held.value))
}

fn keys_of<T: Ord + Clone, V>(map: &BTreeMap<T, V>) -> BTreeSet<T> {
    map.keys().cloned().collect()
}

/// Returns the key of a type that holds the most.
fn greatest(db: &Db, size: impl Fn(&Value) -> usize) -> Option<Bytes> {
    let held = db.keys.iter().filter(|(_, held)| size(&held.value) > 0);
    held.max_by_key(|(_, held)| size(&held.value)).map(|(key, _)| key.clone())
}

/// Ranks are those of the first step, whatever is added and removed before them.
fn by_rank(session: &mut Session, store: &Perdura, key: &[u8], seed: u64) -> Checked {
    let (what, mut rng) = ("an iterator by rank kept over writes", fastrand::Rng::with_seed(seed));
    let Ok(Some(set)) = session.dbs[0].sorted(key) else { return Ok(()) };
    let all: Vec<Ordered> = in_order(set).into_iter().map(|(m, s)| ordered(m, s)).collect();
    let from = rng.usize(..all.len());
    let to = rng.usize(from..=all.len());
    let within: BTreeSet<Ordered> = all[from..to].iter().cloned().collect();
    let ends_at = all.get(to.wrapping_sub(1)).cloned();
    let mut shown = BTreeSet::new();
    let mut stayed = within.clone();
    for item in ends(store.sorted_set_by_rank(key, from as u64..to as u64), seed) {
        let (member, score) = match item {
            Ok((item, _)) => item,
            Err(Error::WrongType) => return Ok(()),
            Err(error) => return Err(format!("{what}: {error}")),
        };
        shown.insert(ordered(member, score));
        if rng.usize(..8) == 0 {
            session.call()?;
            // Add more at both ends of the set than batches are long.
            let Ok(Some(_)) = session.dbs[0].sorted(key) else { return Ok(()) };
            let name = format!("!{}", rng.u8(..)).into_bytes();
            let low = f64::NEG_INFINITY;
            store.sorted_set_add(key, &name, low).map_err(|error| format!("{what}: {error}"))?;
            let set = session.dbs[0].sorted_mut(key).map_err(|error| error.to_string())?;
            set.insert(name, low);
            let now: BTreeSet<Ordered> = set.iter().map(|(m, s)| ordered(m.clone(), *s)).collect();
            stayed.retain(|item| now.contains(item));
        }
    }
    if let Some(item) = stayed.iter().find(|item| !shown.contains(item)) {
        return Err(format!("{what} ({from}..{to}) left out {item:?}, which stayed"));
    }
    match shown.iter().find(|item| ends_at.as_ref().is_some_and(|end| *item > end)) {
        Some(item) => Err(format!("{what} ({from}..{to}) showed {item:?}, which is after its end")),
        None => Ok(()),
    }
}

/// Runs an iterator over one of the types, from start to end, with calls in between.
pub(crate) fn step(session: &mut Session) -> Checked {
    let store: Arc<Perdura> = Arc::clone(&session.store);
    let (seed, db) = (session.draw.rng.u64(..), &session.dbs[0]);
    let size = |kind: usize| {
        move |value: &Value| match (kind, value) {
            (0, Value::Sorted(of)) => of.len(),
            (1, Value::Rows(of)) => of.len(),
            (2, Value::Hash(of)) => of.len(),
            (3, Value::Set(of)) => of.len(),
            (4, Value::Stream(of)) => of.entries.len(),
            _ => 0,
        }
    };
    let kind = session.draw.below(6);
    if kind == 5 {
        session.draw.call("an iterator of keys".into());
        return walk(
            session,
            "an iterator of keys",
            |db| Some(keys_of(&db.keys)),
            one_way(store.keys()),
            false,
        );
    }
    let Some(key) = greatest(db, size(kind)) else { return Ok(()) };
    let what = format!("an iterator kept over writes ({kind})");
    session.draw.call(what.clone());
    match kind {
        0 => {
            let items = |db: &Db| {
                of_key(db, &key, |value| match value {
                    Value::Sorted(of) => {
                        Some(of.iter().map(|(m, s)| ordered(m.clone(), *s)).collect())
                    }
                    _ => None,
                })
            };
            if session.draw.rng.bool() {
                return by_rank(session, &store, &key, seed);
            }
            let whole = store.sorted_set_iter(&key).map(|item| item.map(|(m, s)| ordered(m, s)));
            walk(session, &what, items, ends(whole, seed), true)
        }
        1 => {
            let items = |db: &Db| {
                of_key(db, &key, |value| match value {
                    Value::Rows(of) => {
                        Some(of.iter().map(|(k, v)| (k.clone(), v.clone())).collect())
                    }
                    _ => None,
                })
            };
            walk(session, &what, items, ends(tables::rows(&*store, &key).iter(), seed), true)
        }
        2 => {
            let items = |db: &Db| {
                of_key(db, &key, |value| match value {
                    Value::Hash(of) => {
                        Some(of.iter().map(|(f, (v, _))| (f.clone(), v.clone())).collect())
                    }
                    _ => None,
                })
            };
            walk(session, &what, items, one_way(store.hash_iter(&key)), false)
        }
        3 => {
            let items = |db: &Db| {
                of_key(db, &key, |value| match value {
                    Value::Set(of) => Some(of.clone()),
                    _ => None,
                })
            };
            walk(session, &what, items, one_way(store.set_iter(&key)), false)
        }
        _ => {
            let items = |db: &Db| {
                of_key(db, &key, |value| match value {
                    Value::Stream(of) => Some(keys_of(&of.entries)),
                    _ => None,
                })
            };
            let ids = store.stream_iter(&key, ..).map(|item| item.map(|entry| entry.id));
            walk(session, &what, items, ends(ids, seed), true)
        }
    }
}
