//! Compares the whole content of a store, a database or a snapshot with the model, by calls that
//! read.

use std::collections::BTreeSet;
use std::time::Duration;

use perdura::{
    BitRange, Bitmaps, ConsumerGroups, Error, Geo, Hashes, HyperLogLogs, Keys, Lists, PendingEntry,
    Sets, SortedSets, Sorting, StreamEntry, Streams, Strings, Tables,
};

use super::state::{Bytes, Checked, Db, Stream, Value, in_order, same};
use super::tables;

/// All operations that read, which a store, a transaction and a snapshot have.
/// `perdura::Operations` also has operations that write, which a snapshot lacks.
pub(crate) trait Reads:
    Keys
    + Strings
    + Bitmaps
    + HyperLogLogs
    + Lists
    + Hashes
    + Sets
    + SortedSets
    + Geo
    + Streams
    + ConsumerGroups
    + Sorting
    + Tables
{
}

impl<T> Reads for T where
    T: Keys
        + Strings
        + Bitmaps
        + HyperLogLogs
        + Lists
        + Hashes
        + Sets
        + SortedSets
        + Geo
        + Streams
        + ConsumerGroups
        + Sorting
        + Tables
{
}

fn all<T>(items: impl Iterator<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    items.collect()
}

fn sorted<T: Ord>(items: impl Iterator<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    let mut items = all(items)?;
    items.sort();
    Ok(items)
}

fn reversed<T>(items: impl DoubleEndedIterator<Item = Result<T, Error>>) -> Result<Vec<T>, Error> {
    let mut items = all(items.rev())?;
    items.reverse();
    Ok(items)
}

fn stream(on: &impl Reads, key: &[u8], what: &str, stream: &Stream) -> Checked {
    let entry = |(id, fields): (&_, &Vec<_>)| StreamEntry { id: *id, fields: fields.clone() };
    let entries: Vec<_> = stream.entries.iter().map(entry).collect();
    same(what, on.stream_len(key), Ok(entries.len() as u64))?;
    same(what, all(on.stream_iter(key, ..)), Ok(entries.clone()))?;
    same(what, reversed(on.stream_iter(key, ..)), Ok(entries))?;
    for name in ["", "g", "other"] {
        let held = stream.groups.get(name.as_bytes());
        let pending = held.map_or(Vec::new(), |group| {
            let pending = group.pending.iter().map(|(id, pending)| PendingEntry {
                id: *id,
                consumer: pending.consumer.clone(),
                delivered: pending.delivered,
                count: pending.count,
            });
            pending.collect()
        });
        same(&format!("{what}, group {name:?}"), all(on.pending_iter(key, name)), Ok(pending))?;
    }
    Ok(())
}

fn value(on: &impl Reads, key: &[u8], what: &str, value: &Value) -> Checked {
    match value {
        Value::String(bytes) => {
            let ones = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
            same(what, on.bit_count(key, BitRange::All), Ok(ones))?;
            same(what, on.get(key), Ok(Some(bytes.clone())))
        }
        Value::Sketch(_) => {
            let begins =
                on.get(key).map(|bytes| bytes.is_some_and(|bytes| bytes.starts_with(b"HYLL")));
            same(what, begins, Ok(true))
        }
        Value::List(list) => {
            let list: Vec<Bytes> = list.iter().cloned().collect();
            same(what, on.list_len(key), Ok(list.len() as u64))?;
            same(what, all(on.list_iter(key)), Ok(list.clone()))?;
            same(what, reversed(on.list_iter(key)), Ok(list))
        }
        Value::Hash(hash) => {
            let pairs = hash.iter().map(|(field, (value, _))| (field.clone(), value.clone()));
            same(what, on.hash_len(key), Ok(hash.len() as u64))?;
            same(what, sorted(on.hash_iter(key)), Ok(pairs.collect()))
        }
        Value::Set(set) => {
            same(what, on.set_len(key), Ok(set.len() as u64))?;
            same(what, sorted(on.set_iter(key)), Ok(set.iter().cloned().collect()))
        }
        Value::Sorted(set) => {
            same(what, on.sorted_set_len(key), Ok(set.len() as u64))?;
            same(what, all(on.sorted_set_iter(key)), Ok(in_order(set)))?;
            same(what, reversed(on.sorted_set_iter(key)), Ok(in_order(set)))
        }
        Value::Places(places) => {
            let members = on.sorted_set_iter(key).map(|item| item.map(|(member, _)| member));
            same(what, sorted(members), Ok(places.keys().cloned().collect()))
        }
        Value::Rows(rows) => {
            let rows: Vec<_> =
                rows.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            same(what, tables::rows(on, key).len(), Ok(rows.len() as u64))?;
            same(what, all(tables::rows(on, key).iter()), Ok(rows.clone()))?;
            same(what, reversed(tables::rows(on, key).iter()), Ok(rows))
        }
        Value::Names(names) => {
            let names: Vec<_> = names.iter().map(|(key, value)| (key.clone(), *value)).collect();
            same(what, all(tables::names(on, key).iter()), Ok(names))
        }
        Value::Stream(of) => stream(on, key, what, of),
    }
}

/// Compares every key, its type, its TTL and its content, and the TTLs of a hash's fields.
pub(crate) fn check(
    what: &str,
    on: &impl Reads,
    keys: impl Iterator<Item = Result<Bytes, Error>>,
    db: &Db,
) -> Checked {
    let keys: Vec<Bytes> = all(keys).map_err(|error| format!("{what}: keys: {error}"))?;
    let shown: BTreeSet<Bytes> = keys.iter().cloned().collect();
    same(&format!("{what}: the number of keys"), keys.len(), shown.len())?;
    let held: BTreeSet<Bytes> = db.keys.keys().cloned().collect();
    same(&format!("{what}: the keys"), shown, held)?;
    for (key, held) in &db.keys {
        let what = format!("{what}: {}[{}]", key[..key.len().min(20)].escape_ascii(), key.len());
        same(&what, on.value_type(key), Ok(Some(held.value.kind())))?;
        let left = held.until.map(|until| Duration::from_millis(until - db.now));
        same(&format!("{what}: ttl"), on.ttl(key), Ok(left))?;
        value(on, key, &what, &held.value)?;
        if let Value::Hash(hash) = &held.value {
            for (field, (_, until)) in hash {
                let left = until.map(|until| Duration::from_millis(until - db.now));
                same(&format!("{what}: ttl of {field:?}"), on.hash_ttl(key, field), Ok(left))?;
            }
        }
    }
    Ok(())
}
