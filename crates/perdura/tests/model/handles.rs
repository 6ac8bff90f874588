//! Methods of the handles in addition to the operations: transactions in every way, batches,
//! listings of keys, deletion of many keys, upkeep, statistics, copies.

use std::collections::BTreeSet;
use std::sync::Arc;

use perdura::prelude::*;
use perdura::{
    BackupError, Error, KeyIter, Options, Perdura, Snapshot, Transaction, Value as _, ValueType,
    WriteBatch,
};

use super::content;
use super::session::{DATABASES, Dbs, Session, step as operation};
use super::state::{Bytes, Checked, Db, Value, same};

/// Why a transaction ended.
#[derive(Debug, PartialEq)]
enum Fail {
    Store(Error),
    /// An answer was wrong.
    Wrong(String),
    /// The transaction was to be undone.
    Undone,
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Store(error)
    }
}

/// Calls the store inside a transaction: each call is refused.
fn refused(store: &Arc<Perdura>, draw: &mut super::draw::Draw) -> Checked {
    let n = draw.below(14);
    draw.call(format!("nested call {n}"));
    let answer = match n {
        0 => store.get("a").map(drop),
        1 => store.set("a", "b"),
        2 => store.get_with("a", |_| ()).map(drop),
        3 => store.transact(|_| Ok(())),
        4 => store.transaction(&["a"], |_| Ok(())),
        5 => store.flush(),
        6 => store.snapshot().map(drop),
        7 => store.keys().next().map_or(Ok(()), |key| key.map(drop)),
        8 => store.clear().map(drop),
        9 => store.remove_prefix("a").map(drop),
        10 => store.check().map(drop),
        11 => store.database(3).and_then(|database| database.exists("a")).map(drop),
        12 => return same("maintain() inside", (store.maintain(), store.purge()), (false, 0)),
        _ => match store.backup("/nowhere/copy.pool") {
            Err(BackupError::Store(error)) => Err(error),
            other => return Err(format!("a backup inside of a transaction: {other:?}")),
        },
    };
    same(&format!("a call inside of a transaction ({n})"), answer, Err(Error::Reentrant))
}

/// Executes random calls in a transaction, on its database and on others that it selects.
fn work(
    tx: &mut Transaction<'_>,
    store: &Arc<Perdura>,
    dbs: &mut Dbs,
    first: usize,
    draw: &mut super::draw::Draw,
) -> Result<(), Fail> {
    let mut n = first;
    for _ in 0..1 + draw.below(6) {
        if draw.one_in(4) {
            let refused = tx.select(16 + draw.below(3));
            same("select(16)", refused, Err(Error::NoSuchDatabase)).map_err(Fail::Wrong)?;
            // Otherwise the database is the one before.
            if draw.rng.bool() {
                n = draw.below(DATABASES.len());
                tx.select(DATABASES[n])?;
            }
        }
        if draw.one_in(12) {
            refused(store, draw).map_err(Fail::Wrong)?;
        }
        operation(tx, &mut dbs[n], draw).map_err(Fail::Wrong)?;
    }
    Ok(())
}

/// Runs a transaction without declared keys, of the store or of a database, which ends in each way.
pub(crate) fn transaction(session: &mut Session) -> Checked {
    if session.draw.one_in(4) {
        return declared(session);
    }
    let n = if session.draw.rng.bool() { 0 } else { session.draw.below(DATABASES.len()) };
    let is_undone = session.draw.one_in(4);
    session.draw.call(format!("transact in {}, undone: {is_undone}", DATABASES[n]));
    let (store, mut dbs) = (Arc::clone(&session.store), session.dbs.clone());
    let draw = &mut session.draw;
    let is_cheap = std::mem::replace(&mut draw.is_cheap, true);
    let run = |tx: &mut Transaction<'_>| {
        work(tx, &store, &mut dbs, n, draw)?;
        if is_undone { Err(Fail::Undone) } else { Ok(7) }
    };
    let done = match n {
        0 => store.try_transact(run),
        n => store.database(DATABASES[n]).map_err(Fail::Store).and_then(|db| db.try_transact(run)),
    };
    session.draw.is_cheap = is_cheap;
    session.draw.call("end of transact".into());
    match done {
        Ok(7) if !is_undone => session.dbs = dbs,
        Err(Fail::Undone) if is_undone => {}
        Err(Fail::Wrong(what)) => return Err(what),
        other => return Err(format!("a transaction ended as {other:?}")),
    }
    // `transact` and `try_transact` give the closure's error.
    let error = store.transact(|_| Err::<(), _>(Error::Overflow));
    same("transact", error, Err(Error::Overflow))
}

/// Runs a transaction with declared keys, few or many; an undeclared one is refused.
fn declared(session: &mut Session) -> Checked {
    let n = session.draw.below(DATABASES.len());
    let count = session.draw.of(&[1, 2, 7, 8, 9, 20]);
    let key = |n: usize| format!("d{n}").into_bytes();
    let mut keys: Vec<Bytes> = (0..count).map(key).collect();
    session.draw.rng.shuffle(&mut keys);
    let is_undone = session.draw.one_in(4);
    session.draw.call(format!("transaction of {count} keys in {}", DATABASES[n]));
    let (store, mut dbs, draw) =
        (Arc::clone(&session.store), session.dbs.clone(), &mut session.draw);
    let run = |tx: &mut Transaction<'_>| {
        for _ in 0..4 {
            let key = key(draw.below(count));
            let element = draw.element();
            match draw.below(4) {
                0 => tx
                    .set(&key, &element)
                    .map(|()| dbs[n].put(&key, Value::String(element), None))?,
                1 => {
                    let was = tx.delete(&key)?;
                    same("delete", was, dbs[n].keys.remove(&key).is_some()).map_err(Fail::Wrong)?;
                }
                2 => {
                    let got = tx.get(&key);
                    let want = dbs[n].string(&key).map(|value| value.cloned());
                    same("get", got, want).map_err(Fail::Wrong)?;
                }
                _ => {
                    let other = super::strings::call(draw, "undeclared", &key, "");
                    let refused = [
                        tx.get("d").map(drop),
                        tx.set("d99", "x"),
                        tx.rename(&key, "d100").map(drop),
                    ];
                    same(&other, refused, [Err(Error::Undeclared); 3]).map_err(Fail::Wrong)?;
                }
            }
        }
        if draw.one_in(4) {
            refused(&store, draw).map_err(Fail::Wrong)?;
        }
        if is_undone { Err(Fail::Undone) } else { Ok(()) }
    };
    let done = match n {
        0 => store.try_transaction(&keys, run),
        n => store
            .database(DATABASES[n])
            .map_err(Fail::Store)
            .and_then(|db| db.try_transaction(&keys, run)),
    };
    match done {
        Ok(()) if !is_undone => session.dbs = dbs,
        Err(Fail::Undone) if is_undone => {}
        Err(Fail::Wrong(what)) => return Err(what),
        other => return Err(format!("a declared transaction ended as {other:?}")),
    }
    same("no key", store.transaction::<&str, _>(&[], |_| Ok(())), Err(Error::Undeclared))
}

fn batch(session: &mut Session) -> Checked {
    let n = session.draw.below(DATABASES.len());
    let (db, draw) = (&mut session.dbs[n], &mut session.draw);
    let mut batch = WriteBatch::new();
    let count = draw.of(&[0, 1, 2, 5, 8, 9, 59, 61, 63, 64, 65, 129, 300]);
    for _ in 0..count {
        // More keys than a batch of a listing has, sometimes.
        let key = match count {
            0..10 => draw.key(b's'),
            _ => format!("k{}", draw.below(1000)).into_bytes(),
        };
        match draw.below(3) {
            0 => {
                batch.delete(key.clone());
                db.keys.remove(&key);
            }
            1 => {
                let (value, ttl) = (draw.bytes(), draw.ttl());
                batch.set_for(key.clone(), value.clone(), ttl);
                db.put(&key, Value::String(value), Some(db.now + ttl.as_millis() as u64));
            }
            _ => {
                let value = draw.bytes();
                batch.set(key.clone(), value.clone());
                db.put(&key, Value::String(value), None);
            }
        }
    }
    let now = db.now;
    db.at(now);
    let text = draw.call(format!("write of {count} in {}", DATABASES[n]));
    same(&text, (batch.len(), batch.is_empty()), (count, count == 0))?;
    let done = match n {
        0 => session.store.write(&batch),
        n => session.store.database(DATABASES[n]).and_then(|db| db.write(&batch)),
    };
    batch.clear();
    same(&text, (done, batch.is_empty()), (Ok(()), true))
}

struct Wanted {
    prefix: Option<Bytes>,
    pattern: Option<&'static str>,
    of_type: Option<ValueType>,
}

impl Wanted {
    fn narrow<'s>(&self, mut keys: KeyIter<'s>) -> KeyIter<'s> {
        if let Some(prefix) = &self.prefix {
            keys = keys.prefix(prefix);
        }
        if let Some(pattern) = self.pattern {
            keys = keys.matching(pattern);
        }
        match self.of_type {
            Some(of_type) => keys.of_type(of_type),
            None => keys,
        }
    }
}

/// Lists keys by prefix, pattern and type, of the store, a database or a snapshot.
fn listing(session: &mut Session) -> Checked {
    let n = session.draw.below(DATABASES.len());
    let draw = &mut session.draw;
    let key = session.dbs[n].keys.keys().nth(draw.below(session.dbs[n].keys.len() + 1)).cloned();
    let key = key.unwrap_or_default();
    let prefix = draw.rng.bool().then(|| key[..draw.below(key.len() + 1).min(4)].to_vec());
    let pattern = draw.rng.bool().then(|| draw.of(&["*1", "s?", "*", "[a-l]*", "?"]));
    let types = [
        ValueType::String,
        ValueType::List,
        ValueType::Hash,
        ValueType::Set,
        ValueType::SortedSet,
        ValueType::Stream,
    ];
    let of_type = draw.rng.bool().then(|| draw.of(&types));
    let text = draw.call(format!("keys {prefix:?} {pattern:?} {of_type:?} in {}", DATABASES[n]));
    let wanted = Wanted { prefix: prefix.clone(), pattern, of_type };
    let matches = |key: &[u8]| match pattern {
        None | Some("*") => true,
        Some("*1") => key.ends_with(b"1"),
        Some("s?") => key.len() == 2 && key[0] == b's',
        Some("?") => key.len() == 1,
        Some(_) => key.first().is_some_and(|first| (b'a'..=b'l').contains(first)),
    };
    let want = |db: &Db| -> BTreeSet<Bytes> {
        let held = db.keys.iter().filter(|(key, held)| {
            prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
                && matches(key)
                && of_type.is_none_or(|of_type| held.value.kind() == of_type)
        });
        held.map(|(key, _)| key.clone()).collect()
    };
    let database = session.store.database(DATABASES[n]).map_err(|error| error.to_string())?;
    let found: Result<BTreeSet<Bytes>, Error> = if draw.rng.bool() {
        wanted.narrow(database.keys()).collect()
    } else {
        let mut keys = wanted.narrow(if n == 0 { session.store.keys() } else { database.keys() });
        let first: Vec<_> = keys.by_ref().take(draw.below(70)).collect();
        let mut cursor = keys.into_cursor();
        first.into_iter().chain(std::iter::from_fn(|| cursor.next(&session.store))).collect()
    };
    same(&text, found, Ok(want(&session.dbs[n])))?;
    let Some((snapshot, dbs)) = session.snapshots.first() else { return Ok(()) };
    let view: Snapshot<Arc<Perdura>> =
        snapshot.database(DATABASES[n]).map_err(|error| error.to_string())?;
    let found: Result<BTreeSet<Bytes>, Error> = wanted.narrow(view.keys()).collect();
    same(&format!("a snapshot's {text}"), found, Ok(want(&dbs[n])))
}

/// Deletes many keys at once. Whether expired keys count is unknown.
fn delete_many(session: &mut Session) -> Checked {
    let n = session.draw.below(DATABASES.len());
    let database = session.store.database(DATABASES[n]).map_err(|error| error.to_string())?;
    let (what, got, want) = match session.draw.below(12) {
        0 => {
            let text = session.draw.call("clear_all".into());
            let live: usize = session.dbs.iter().map(|db| db.keys.len()).sum();
            let gone: usize = session.dbs.iter().map(|db| db.gone.len()).sum();
            session.dbs.iter_mut().for_each(|db| {
                db.keys.clear();
                db.gone.clear();
            });
            (text, session.store.clear_all(), (live, gone))
        }
        1 => {
            let text = session.draw.call(format!("clear {}", DATABASES[n]));
            let db = &mut session.dbs[n];
            let want = (db.keys.len(), db.gone.len());
            db.keys.clear();
            db.gone.clear();
            (text, if n == 0 { session.store.clear() } else { database.clear() }, want)
        }
        _ => {
            let key = session.draw.existing(&session.dbs[n]).unwrap_or_default();
            let prefix = key[..key.len().min(1 + session.draw.below(3))].to_vec();
            let text = session.draw.call(format!("remove_prefix {prefix:?} in {}", DATABASES[n]));
            let db = &mut session.dbs[n];
            let before = db.keys.len();
            db.keys.retain(|key, _| !key.starts_with(&prefix));
            let gone = db.gone.iter().filter(|key| key.starts_with(&prefix)).count();
            let removed = match n {
                0 => session.store.remove_prefix(&prefix),
                _ => database.remove_prefix(&prefix),
            };
            (text, removed, (before - db.keys.len(), gone))
        }
    };
    match got {
        Ok(count) if (want.0..=want.0 + want.1).contains(&(count as usize)) => Ok(()),
        got => Err(format!(
            "{what} answered {got:?}, and not {} (and up to {} expired)",
            want.0, want.1
        )),
    }
}

/// Runs upkeep until there is nothing more to do: then every count is exact.
fn maintain(session: &mut Session) -> Checked {
    session.draw.call("maintain".into());
    let mut steps = 0;
    while session.store.maintain() {
        steps += 1;
        if steps > 10_000 {
            return Err("maintain() always has more to do".into());
        }
    }
    if session.draw.one_in(4) {
        session.store.purge();
    }
    // Keys that it deleted come back if the process ends before that is written.
    session.store.flush().map_err(|error| format!("flush: {error}"))?;
    session.dbs.iter_mut().for_each(|db| db.gone.clear());
    let (mut keys, mut with_ttl) = (0, 0);
    for (number, db) in DATABASES.into_iter().zip(&session.dbs) {
        let database = session.store.database(number).map_err(|error| error.to_string())?;
        let len = db.keys.len() as u64;
        same("len() of a database", (database.len(), database.is_empty()), (len, len == 0))?;
        same("its number()", database.number(), number)?;
        keys += len;
        // Hashes with fields that have a TTL count as well.
        let has_times = |held: &super::state::Held| match &held.value {
            Value::Hash(hash) => hash.values().any(|(_, until)| until.is_some()),
            _ => false,
        };
        with_ttl += db.keys.values().filter(|h| h.until.is_some() && !has_times(h)).count() as u64;
        if db.keys.values().any(has_times) {
            with_ttl = u64::MAX / 2;
        }
    }
    let len = session.dbs[0].keys.len() as u64;
    same("len()", (session.store.len(), session.store.is_empty()), (len, len == 0))?;
    let statistics = session.store.statistics();
    same("statistics().keys", statistics.keys, keys)?;
    if with_ttl < u64::MAX / 2 {
        same("statistics().keys_with_ttl", statistics.keys_with_ttl, with_ttl)?;
    }
    let usage = session.store.usage();
    same("statistics().usage", statistics.usage, usage)?;
    if usage.used > usage.size || usage.size > usage.limit || (usage.used == 0 && keys > 0) {
        return Err(format!("usage() makes no sense: {usage:?}"));
    }
    same(
        "a store that took no harm",
        (statistics.is_read_only, statistics.damaged_keys),
        (false, 0),
    )?;
    same("journal_failure()", session.store.journal_failure(), None)
}

/// Compares what statistics count, call by call.
fn statistics(session: &mut Session) -> Checked {
    let Some(key) = session.draw.existing(&session.dbs[0]) else { return Ok(()) };
    session.draw.call("statistics".into());
    let before = session.store.statistics();
    let found = [session.store.exists(&key), session.store.exists(b"no such key")];
    same("exists", found, [Ok(true), Ok(false)])?;
    let after = session.store.statistics();
    let counted =
        (after.hits - before.hits, after.misses - before.misses, after.commits - before.commits);
    same("hits, misses and commits of a read that finds and one that does not", counted, (1, 1, 0))
}

fn get_with(session: &mut Session) -> Checked {
    let mut key = session.draw.key(b's');
    if session.draw.one_in(3) {
        // A value of several pieces, or one that is copied.
        let len = session.draw.of(&[20_000, 32_000, (32 << 10) - 1, 32 << 10, 70_000]);
        let value = session.draw.bytes_of(len);
        key = b"s1".to_vec();
        session.store.set(&key, &value).map_err(|error| error.to_string())?;
        session.dbs[0].put(&key, Value::String(value), None);
    }
    let text = super::strings::call(&mut session.draw, "get_with", &key, "");
    let (store, mut shown, mut inside) = (Arc::clone(&session.store), Vec::new(), Ok(()));
    if matches!(session.dbs[0].sketch(&key), Ok(Some(_))) {
        return Ok(());
    }
    let found = store.get_with(&key, |piece| {
        shown.extend_from_slice(piece);
        if shown.len() == piece.len() {
            inside = refused(&store, &mut session.draw);
        }
    });
    inside?;
    let want = session.dbs[0].string(&key).map(|value| value.cloned());
    same(&text, found.map(|found| found.then_some(shown)), want)
}

/// Makes a copy, opens and compares it; a second one of the same name is refused.
fn backup(session: &mut Session) -> Checked {
    session.draw.call("backup".into());
    let path = session.folder.path().join("copy.pool");
    let copied = session.store.backup(&path).map_err(|error| format!("backup: {error}"))?;
    match session.store.backup(&path) {
        Err(BackupError::Exists(_)) => {}
        other => return Err(format!("a second backup of the same name: {other:?}")),
    }
    let bytes = std::fs::metadata(&path).map_err(|error| error.to_string())?.len();
    same("the bytes of a backup", copied.bytes, bytes)?;
    if session.draw.one_in(3) {
        let mut stream = Vec::new();
        session.store.backup_to(&mut stream).map_err(|error| format!("backup_to: {error}"))?;
        std::fs::write(&path, &stream).map_err(|error| error.to_string())?;
    }
    let clock = session.dbs[0].now;
    let options = Options::new(&path).domain(perdura::DomainRequest::Process).create(false);
    let copy =
        Perdura::open(options.limit(400 << 20).background(false).clock(super::session::clock))
            .map_err(|error| format!("opening a backup: {error}"))?;
    for (number, db) in DATABASES.into_iter().zip(&session.dbs) {
        let database = copy.database(number).map_err(|error| error.to_string())?;
        content::check(
            &format!("a backup ({clock}): database {number}"),
            &database,
            database.keys(),
            db,
        )?;
    }
    let live: usize = session.dbs.iter().map(|db| db.keys.len()).sum();
    if copied.keys < live as u64 {
        return Err(format!("a backup says that it has {} keys of {live}", copied.keys));
    }
    drop(copy);
    std::fs::remove_file(&path).map_err(|error| error.to_string())
}

/// Runs one of the calls of this file.
pub(crate) fn step(session: &mut Session) -> Checked {
    match session.draw.below(40) {
        0..8 => batch(session),
        8..18 => listing(session),
        18 | 19 => delete_many(session),
        20..24 => maintain(session),
        24..28 => statistics(session),
        28..34 => get_with(session),
        34 if session.draw.one_in(3) => backup(session),
        35 => {
            let refused = session.store.database(16).map(|database| database.number());
            same("database(16)", refused, Err(Error::NoSuchDatabase))?;
            let encoded = {
                let mut out = Vec::new();
                <(bool, u8, u16)>::encode(&(true, 1, 2), &mut out).map(|()| out)
            };
            same("a value of three parts", encoded, Ok(vec![1, 1, 0, 2]))
        }
        _ => session.store.flush().map_err(|error| format!("flush: {error}")),
    }
}
