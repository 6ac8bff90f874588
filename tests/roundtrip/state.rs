//! All observable data of a server, and how it differs from another server's.
//!
//! Each field is read by a command of its own and compared by itself, and the message contains the
//! path to it: a digest would only say that something differs, and would leave out times and usage.
//! [`Rules`] lists what a way does not keep.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::{Client, Reply};

use crate::values::words;

/// The number of keys that are read at once.
const AT_ONCE: usize = 64;
/// The allowed difference of an idle time from its expected value, in seconds.
const IDLE_TOLERANCE: i64 = 300;
/// The allowed difference of a frequency, in steps: some reads count.
const FREQUENCY_TOLERANCE: i64 = 2;
/// The number of checked keys that may have lost their usage: if a bucket of the table
/// (`keyspace/src/eviction/access.rs`) is full, the keys that were used last have its cells.
const FORGOTTEN: usize = 1;
/// Up to this many keys the table is not full, however quickly they are added.
const FEW_KEYS: usize = 500;
/// The maximum difference, in milliseconds, between the times at which two servers ran the same
/// command, or read a relative time.
const NEAR: i64 = 600_000;

/// The observable fields of a key.
pub(crate) type Fields = BTreeMap<String, Reply>;

/// The data of a server.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) keys: BTreeMap<(usize, Vec<u8>), Fields>,
    pub(crate) libraries: Vec<Reply>,
}

/// What a server is asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// Hashes have field TTLs.
    pub(crate) field_times: bool,
    /// The usage of keys is a frequency.
    pub(crate) is_lfu: bool,
}

/// The properties that a way keeps.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// The usage of keys.
    pub(crate) usage: bool,
    pub(crate) encodings: bool,
    /// That a short string was made by a command that reserves space after it.
    pub(crate) raw: bool,
    /// The time at which a consumer was last seen.
    pub(crate) seen: bool,
    /// The time at which a consumer was last active; otherwise it is when it was seen.
    pub(crate) active: bool,
    /// Pending entries that are deleted.
    pub(crate) dangling: bool,
    /// Times set by the server itself are close, not equal.
    pub(crate) near: bool,
    /// Another server has delivered the pending entries, at about the same time.
    pub(crate) other_clock: bool,
    /// Expiry times of keys are close, not equal.
    pub(crate) near_expiry: bool,
}

impl Rules {
    /// Everything is kept.
    pub(crate) const ALL: Rules = Rules {
        usage: true,
        encodings: true,
        raw: true,
        seen: true,
        active: true,
        dangling: true,
        near: false,
        other_clock: false,
        near_expiry: false,
    };
    /// The properties that a dump of Redis 7.0 keeps.
    pub(crate) const DUMP: Rules = Rules { raw: false, active: false, ..Rules::ALL };
    /// The properties that a pool made by a program keeps: usage is only in memory.
    pub(crate) const POOL: Rules = Rules { usage: false, ..Rules::DUMP };
    /// The properties that commands keep.
    pub(crate) const COMMANDS: Rules =
        Rules { usage: false, seen: false, dangling: false, ..Rules::DUMP };
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// Converts an idle time to the time of the last use.
pub(crate) fn used(idle: i64) -> Reply {
    Reply::Int(seconds() - idle)
}

/// Converts the time of the last use to an idle time.
pub(crate) fn idle(used: &Reply) -> i64 {
    seconds() - used.int().unwrap_or(0)
}

/// Asks a server for everything.
pub(crate) fn read(client: &mut Client, asked: Asked) -> State {
    let mut state = State::default();
    for db in 0..16 {
        client.check(&format!("SELECT {db}"), "OK");
        let keys = client.run("KEYS *");
        let mut names: Vec<Vec<u8>> =
            keys.items().iter().filter_map(|key| key.bytes().map(<[u8]>::to_vec)).collect();
        names.sort();
        for some in names.chunks(AT_ONCE) {
            read_keys(client, asked, db, some, &mut state);
        }
    }
    let mut libraries = client.run("FUNCTION LIST WITHCODE").items().to_vec();
    libraries.iter_mut().for_each(sort_functions);
    libraries.sort_by_key(Reply::to_string);
    state.libraries = libraries;
    client.check("SELECT 0", "OK");
    state
}

/// Sorts the functions of a library, whose order is undefined.
fn sort_functions(library: &mut Reply) {
    let Reply::Array(fields) = library else { return };
    for field in fields {
        if let Reply::Array(functions) = field {
            functions.sort_by_key(Reply::to_string);
        }
    }
}

fn call_all(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    client.pipeline(requests).unwrap_or_else(|error| panic!("the server answers no more: {error}"))
}

fn request(words: &[&str], key: &[u8]) -> Vec<Vec<u8>> {
    words
        .iter()
        .map(|word| if *word == "*" { key.to_vec() } else { word.as_bytes().to_vec() })
        .collect()
}

/// Returns the number of members of a set that are found individually.
fn found_members(client: &mut Client, name: &[u8], members: &[Reply]) -> usize {
    let mut request = words([b"SMISMEMBER", name]);
    request.extend(members.iter().filter_map(|one| one.bytes().map(<[u8]>::to_vec)));
    let found = client.call(&request);
    found.items().iter().filter(|one| one.int() == Some(1)).count()
}

fn read_keys(client: &mut Client, asked: Asked, db: usize, names: &[Vec<u8>], state: &mut State) {
    let usage: &[&str] =
        if asked.is_lfu { &["OBJECT", "FREQ", "*"] } else { &["OBJECT", "IDLETIME", "*"] };
    // Commands that count as a use come last.
    let about = [usage, &["TYPE", "*"], &["OBJECT", "ENCODING", "*"], &["PEXPIRETIME", "*"]];
    let requests: Vec<_> =
        names.iter().flat_map(|name| about.map(|words| request(words, name))).collect();
    let replies = call_all(client, &requests);
    let values: Vec<_> = names
        .iter()
        .zip(replies.chunks(4))
        .map(|(name, replies)| request(value(&replies[1].text()), name))
        .collect();
    let values = call_all(client, &values);
    for ((name, replies), value) in names.iter().zip(replies.chunks(4)).zip(values) {
        let [usage, what, encoding, expires] = replies else { unreachable!("four replies each") };
        let mut fields = Fields::new();
        let usage = if asked.is_lfu { usage.clone() } else { used(usage.int().unwrap_or(-1)) };
        fields.insert("use".into(), usage);
        fields.insert("type".into(), what.clone());
        fields.insert("encoding".into(), encoding.clone());
        fields.insert("expires".into(), expires.clone());
        match what.text().as_str() {
            "stream" => stream(&value, &mut fields),
            "set" => {
                let found = found_members(client, name, value.items());
                fields.insert("found".into(), Reply::Int(found as i64));
                fields.insert("value".into(), sorted(value.items().to_vec()));
            }
            "hash" => {
                let pairs = value.items().chunks(2).map(|pair| Reply::Array(pair.to_vec()));
                let pairs = sorted(pairs.collect());
                if asked.field_times {
                    fields.insert("times".into(), field_times(client, name, &pairs));
                }
                fields.insert("value".into(), pairs);
            }
            _ => drop(fields.insert("value".into(), value)),
        }
        state.keys.insert((db, name.clone()), fields);
    }
}

/// Returns the command that shows a value of this type.
fn value(what: &str) -> &'static [&'static str] {
    match what {
        "string" => &["GET", "*"],
        "list" => &["LRANGE", "*", "0", "-1"],
        "set" => &["SMEMBERS", "*"],
        "hash" => &["HGETALL", "*"],
        "zset" => &["ZRANGE", "*", "0", "-1", "WITHSCORES"],
        "stream" => &["XINFO", "STREAM", "*", "FULL", "COUNT", "0"],
        _ => &["TYPE", "*"],
    }
}

fn sorted(mut items: Vec<Reply>) -> Reply {
    // By the first item of each: a field, or the member itself.
    let name = |one: &Reply| one.items().first().unwrap_or(one).bytes().map(<[u8]>::to_vec);
    items.sort_by_cached_key(name);
    Reply::Array(items)
}

/// Returns the TTL of each field.
fn field_times(client: &mut Client, key: &[u8], pairs: &Reply) -> Reply {
    let names: Vec<Vec<u8>> =
        pairs.items().iter().filter_map(|pair| Some(pair.items()[0].bytes()?.to_vec())).collect();
    let mut words = vec![b"HPEXPIRETIME".to_vec(), key.to_vec(), b"FIELDS".to_vec()];
    words.push(names.len().to_string().into_bytes());
    words.extend(names);
    client.call(&words)
}

/// Returns a field of a reply with names and values.
fn named<'r>(reply: &'r Reply, name: &str) -> Option<&'r Reply> {
    let pairs = reply.items().chunks_exact(2);
    pairs.into_iter().find(|pair| pair[0].bytes() == Some(name.as_bytes())).map(|pair| &pair[1])
}

fn take(fields: &mut Fields, path: &str, reply: &Reply, names: &[&str]) {
    for name in names {
        if let Some(value) = named(reply, name) {
            fields.insert(format!("{path}{name}"), value.clone());
        }
    }
}

/// Reads every field of XINFO STREAM FULL.
fn stream(reply: &Reply, fields: &mut Fields) {
    const HEAD: &[&str] = &[
        "length",
        "last-generated-id",
        "max-deleted-entry-id",
        "entries-added",
        "recorded-first-entry-id",
        "entries",
    ];
    take(fields, "", reply, HEAD);
    let groups = named(reply, "groups").map(Reply::items).unwrap_or_default();
    fields.insert("groups".into(), Reply::Int(groups.len() as i64));
    for group in groups {
        let name = named(group, "name").map(Reply::to_string).unwrap_or_default();
        let path = format!("group {name}: ");
        take(
            fields,
            &path,
            group,
            &["last-delivered-id", "entries-read", "lag", "pel-count", "pending"],
        );
        // In RESP2 the pending entries have one name, and so have the consumers.
        take(fields, &path, group, &["pel"]);
        let consumers = named(group, "consumers").map(Reply::items).unwrap_or_default();
        fields.insert(format!("{path}consumers"), Reply::Int(consumers.len() as i64));
        for consumer in consumers {
            let name = named(consumer, "name").map(Reply::to_string).unwrap_or_default();
            let path = format!("{path}consumer {name}: ");
            take(
                fields,
                &path,
                consumer,
                &["seen-time", "active-time", "pel-count", "pending", "pel"],
            );
        }
    }
}

impl State {
    /// Returns how the state after a way differs from this one.
    pub(crate) fn difference(&self, found: &State, rules: Rules) -> Option<String> {
        for (key, fields) in &self.keys {
            let name = shown(key);
            let Some(other) = found.keys.get(key) else {
                return Some(format!("{name} is not there"));
            };
            if let Some(what) = field_difference(fields, other, rules) {
                return Some(format!("{name}: {what}"));
            }
        }
        if let Some(key) = found.keys.keys().find(|key| !self.keys.contains_key(*key)) {
            return Some(format!("{} was not there", shown(key)));
        }
        let mut uses = self.keys.iter().filter_map(|(key, fields)| {
            let what = use_difference(fields, found.keys.get(key)?)?;
            Some(format!("{}: {what}", shown(key)))
        });
        if let Some(what) =
            uses.nth(FORGOTTEN).filter(|_| rules.usage && self.keys.len() <= FEW_KEYS)
        {
            return Some(what);
        }
        (self.libraries != found.libraries).then(|| {
            let text = |state: &State| short(&Reply::Array(state.libraries.clone()));
            format!("functions: {} came as {}", text(self), text(found))
        })
    }
}

fn shown((db, name): &(usize, Vec<u8>)) -> String {
    format!("database {db}, key {}", short(&Reply::Bulk(name.clone())))
}

fn field_difference(fields: &Fields, found: &Fields, rules: Rules) -> Option<String> {
    for (path, value) in fields {
        let last = path.rsplit(' ').next().unwrap_or(path);
        let (is_kept, expected) = match last {
            // Compared by [`use_difference`].
            "use" => (false, value),
            "encoding" => (rules.encodings && (rules.raw || value.text() != "raw"), value),
            "seen-time" => (rules.seen, value),
            "times" => (found.contains_key(path), value),
            // The entries show which of them are deleted.
            "pel" | "pel-count" | "pending" => (rules.dangling || !has_dangling(fields), value),
            "active-time" if rules.active => (found.contains_key(path), value),
            "active-time" => {
                let seen = &path.replace("active-time", "seen-time");
                (found.contains_key(path) && rules.seen, &fields[seen])
            }
            _ => (true, value),
        };
        if !is_kept {
            continue;
        }
        let Some(other) = found.get(path) else { return Some(format!("{path} is missing")) };
        let tolerance = match last {
            "seen-time" | "active-time" if rules.near => NEAR,
            "pel" | "pending" if rules.other_clock => NEAR,
            "expires" if rules.near_expiry => NEAR,
            _ => 0,
        };
        if let Some(what) = value_difference(expected, other, tolerance) {
            return Some(format!("{path}{what}"));
        }
    }
    let is_new = |path: &&String| {
        let is_optional = ["use", "active-time", "times"].iter().any(|end| path.ends_with(end));
        !fields.contains_key(*path) && !is_optional
    };
    found.keys().find(is_new).map(|path| format!("{path} is new"))
}

/// Returns the difference of a key's usage.
fn use_difference(fields: &Fields, found: &Fields) -> Option<String> {
    let value = fields.get("use")?;
    let Some(other) = found.get("use") else { return Some("use is missing".into()) };
    // A frequency is a small number, the time of a use a large one.
    let is_frequency = value.int().is_some_and(|used| used < 256);
    let tolerance = if is_frequency { FREQUENCY_TOLERANCE } else { IDLE_TOLERANCE };
    value_difference(value, other, tolerance).map(|what| format!("use{what}"))
}

/// Returns true if deleted entries are pending.
fn has_dangling(fields: &Fields) -> bool {
    let ids = |reply: &Reply| -> Vec<String> {
        reply.items().iter().filter_map(|one| one.items().first()).map(Reply::to_string).collect()
    };
    let Some(entries) = fields.get("entries").map(ids) else { return false };
    let pending =
        fields.iter().filter(|(path, _)| path.ends_with("pel") || path.ends_with("pending"));
    let entries: std::collections::HashSet<String> = entries.into_iter().collect();
    pending.flat_map(|(_, pel)| ids(pel)).any(|id| !entries.contains(&id))
}

/// Returns the first difference of a value.
fn value_difference(expected: &Reply, found: &Reply, tolerance: i64) -> Option<String> {
    match (expected, found) {
        (Reply::Int(a), Reply::Int(b)) if tolerance > 0 && *a > 0 => {
            (a.abs_diff(*b) > tolerance as u64).then(|| format!(": {a} came as {b}"))
        }
        (Reply::Array(a), Reply::Array(b)) if a.len() == b.len() => (0..a.len()).find_map(|at| {
            let what = value_difference(&a[at], &b[at], tolerance)?;
            Some(format!(", item {at}{what}"))
        }),
        (a, b) if a == b => None,
        (Reply::Array(a), Reply::Array(b)) => Some(format!(
            ": {} items came as {}: {} came as {}",
            a.len(),
            b.len(),
            short(expected),
            short(found)
        )),
        _ => Some(format!(": {} came as {}", short(expected), short(found))),
    }
}

fn short(reply: &Reply) -> String {
    let text = reply.to_string();
    match text.char_indices().nth(120) {
        Some((at, _)) => format!("{}... ({} characters)", &text[..at], text.len()),
        None => text,
    }
}
