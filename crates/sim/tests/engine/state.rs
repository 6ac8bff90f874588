//! The content of a keyspace as the oracle compares it: every byte and every expiry time.

use keyspace::{Content, Db, Keyspace, TimedField, Type};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The number used here for the function libraries, by name, as if they were in a database.
pub(crate) const LIBRARIES: usize = usize::MAX;

/// Database and key.
pub(crate) type Name = (usize, Vec<u8>);
/// The value in canonical order, and the expiry time, 0 for none.
pub(crate) type Value = (Content, u64);
/// All keys.
pub(crate) type Keys = BTreeMap<Name, Value>;

/// A keyspace at a time: keys, and fields, that have expired by then count as deleted.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) now: u64,
    pub(crate) keys: Arc<Keys>,
}

impl State {
    pub(crate) fn live(&self, now: u64) -> impl Iterator<Item = (&Name, &Value)> {
        self.keys.iter().filter(move |(_, (value, expiry))| {
            let all_fields_expired = matches!(value, Content::Fields(fields) if !fields.iter().any(|field| lives(field, now)));
            (*expiry == 0 || *expiry > now) && !all_fields_expired
        })
    }

    /// Returns this without the keys that have expired.
    pub(crate) fn without_expired(&self) -> State {
        let live = self.live(self.now).map(|(name, value)| (name.clone(), value.clone()));
        State { now: self.now, keys: Arc::new(live.collect()) }
    }

    /// Returns true if both have the same content at `now`.
    pub(crate) fn agrees(&self, other: &State, now: u64) -> bool {
        let both = |state: &State| {
            let keys = state.live(now).map(|(name, value)| (name.clone(), left_of(value, now)));
            keys.collect::<Keys>()
        };
        // Only if fields expire do the values need a closer look.
        self.live(now).eq(other.live(now)) || both(self) == both(other)
    }

    /// Returns this with the changes between two other states applied.
    pub(crate) fn changed_by(&self, before: &State, after: &State) -> State {
        let mut keys = Keys::clone(&self.keys);
        keys.extend(
            after
                .keys
                .iter()
                .filter(|(key, value)| before.keys.get(*key) != Some(value))
                .map(|(key, value)| (key.clone(), value.clone())),
        );
        for key in before.keys.keys().filter(|key| !after.keys.contains_key(*key)) {
            keys.remove(key);
        }
        State { now: self.now, keys: Arc::new(keys) }
    }
}

fn lives(field: &TimedField, now: u64) -> bool {
    field.time.is_none_or(|time| time > now)
}

/// Returns a value without the fields that have expired; if no other field can expire, the hash is
/// an ordinary one.
fn left_of((value, expiry): &Value, now: u64) -> Value {
    let Content::Fields(fields) = value else { return (value.clone(), *expiry) };
    let left: Vec<TimedField> = fields.iter().filter(|field| lives(field, now)).cloned().collect();
    if left.iter().any(|field| field.time.is_some()) {
        return (Content::Fields(left), *expiry);
    }
    let pairs = left.into_iter().flat_map(|one| [one.field, one.value]).collect();
    (Content::Elements(Type::Hash, pairs).sorted(), *expiry)
}

/// Reads everything in a keyspace, expired or not: at a time when nothing has expired.
pub(crate) fn read(keyspace: &Keyspace, now: u64) -> State {
    let mut keys = Keys::new();
    let txn = keyspace.begin_all(0);
    for db in Db::all().filter(|db| txn.database(*db).count() > 0) {
        txn.database(db).for_each(&mut |key, entry| {
            let unread = || Content::String(b"unread".to_vec());
            let value = txn.content(entry).map_or_else(|_| unread(), Content::sorted);
            keys.insert(
                (db.number(), key.to_vec()),
                (value, txn.properties(entry).expiry().unwrap_or(0)),
            );
        });
    }
    txn.for_each_library(|name, code| {
        let code = code.unwrap_or_else(|_| b"unread".to_vec());
        keys.insert((LIBRARIES, name.to_vec()), (Content::String(code), 0));
    });
    State { now, keys: Arc::new(keys) }
}

/// Reads every key through the read cache, if there is one: that must return what is in the pool.
pub(crate) fn read_through_cache(keyspace: &Keyspace) -> Result<(), String> {
    if keyspace.heap().read_cache_stats().size == 0 {
        return Ok(());
    }
    let mut txn = keyspace.begin_all(0);
    for db in Db::all().filter(|db| txn.database(*db).count() > 0).collect::<Vec<_>>() {
        let mut entries = Vec::new();
        txn.database(db).for_each(&mut |key, entry| entries.push((key.to_vec(), *entry)));
        for (key, entry) in entries {
            let in_pool = txn.string(&entry).and_then(|value| value.to_vec());
            let read = txn.strings().read(&entry).and_then(|value| value.to_vec());
            if read != in_pool {
                let key = brief(&key);
                return Err(format!("{db:?} {key}: the read cache gives what is there no more"));
            }
        }
    }
    Ok(())
}

/// Abbreviates a byte string.
pub(crate) fn brief(bytes: &[u8]) -> String {
    const MOST: usize = 12;
    let start = bytes[..bytes.len().min(MOST)].escape_ascii();
    if bytes.len() > MOST { format!("{start}...[{}]", bytes.len()) } else { start.to_string() }
}

/// Abbreviates any value.
fn brief_value(value: &Content) -> String {
    match value {
        Content::String(bytes) => brief(bytes),
        Content::Elements(what, elements) => {
            let some: Vec<String> = elements.iter().take(12).map(|one| brief(one)).collect();
            format!("{what:?} of {}: {}", elements.len(), some.join(" "))
        }
        Content::Fields(fields) => {
            let some = fields.iter().take(12);
            let some: Vec<String> = some
                .map(|one| format!("{} {} {:?}", brief(&one.field), brief(&one.value), one.time))
                .collect();
            format!("hash of {}: {}", fields.len(), some.join(", "))
        }
        Content::Stream(parts) => format!("stream of {}: {:?}", parts.len(), parts.last()),
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} ", self.now)?;
        f.debug_list()
            .entries(self.live(self.now).map(|((db, key), (value, expiry))| {
                format!("{db}:{} = {} until {expiry}", brief(key), brief_value(value))
            }))
            .finish()
    }
}

/// Describes how two states differ, key by key.
pub(crate) fn difference(found: &State, expected: &State) -> String {
    let now = expected.now;
    let left = |state: &State| {
        let keys = state.live(now).map(|(name, value)| (name.clone(), left_of(value, now)));
        keys.collect::<Keys>()
    };
    let (found, expected) = (left(found), left(expected));
    let described = |value: Option<&Value>| {
        value.map_or("nothing".into(), |(bytes, expiry)| {
            format!("{} until {expiry}", brief_value(bytes))
        })
    };
    let mut keys: Vec<_> = found.keys().chain(expected.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let differ = keys.into_iter().filter(|key| found.get(*key) != expected.get(*key));
    differ
        .map(|key| {
            let (is, was) = (described(found.get(key)), described(expected.get(key)));
            format!("\n    {}:{}: found {is}, not {was}", key.0, brief(&key.1))
        })
        .collect()
}
