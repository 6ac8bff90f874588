//! All that can be asked about the data of a server, and where that of two servers differs.
//!
//! Each field is asked for by a command of its own and compared by itself, with the path to it in
//! the message: a digest would say that something differs, and would leave out times and how keys
//! were used. What a way out and in does not keep is named by its [`Rules`].

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use testkit::{Client, Reply};

use crate::values::words;

/// Keys of which is asked at once.
const AT_ONCE: usize = 64;
/// Seconds by which an idle time may differ from what it would be by now.
const IDLE_TOLERANCE: i64 = 300;
/// Steps by which a frequency may differ: some reads count.
const FREQUENCY_TOLERANCE: i64 = 2;
/// How many of the keys that are looked at may have lost their use: where a bucket of the table
/// (`keyspace/src/eviction/access.rs`) is full, the keys that were used last have its cells.
const FORGOTTEN: usize = 1;
/// Up to this many keys the table is not full, however fast they come.
const FEW_KEYS: usize = 500;
/// Milliseconds by which two servers may have run the same command, or read a relative time,
/// at different times.
const NEAR: i64 = 600_000;

/// What a key is asked for.
pub(crate) type Fields = BTreeMap<String, Reply>;

/// The data of a server.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) keys: BTreeMap<(usize, Vec<u8>), Fields>,
    pub(crate) libraries: Vec<Reply>,
}

/// What a server can be asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// Fields of hashes have times.
    pub(crate) field_times: bool,
    /// The use of keys is asked as a frequency.
    pub(crate) is_lfu: bool,
}

/// What a way keeps.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// How keys were used.
    pub(crate) usage: bool,
    pub(crate) encodings: bool,
    /// That a short string was made by a command that leaves space after it.
    pub(crate) raw: bool,
    /// When a consumer was seen.
    pub(crate) seen: bool,
    /// When a consumer was active; where not, it is when it was seen.
    pub(crate) active: bool,
    /// Pending entries that are gone.
    pub(crate) dangling: bool,
    /// Times that the server gave itself are near, not the same.
    pub(crate) near: bool,
    /// Another server has delivered the entries that are pending, at about the same time.
    pub(crate) other_clock: bool,
    /// Expiry times of keys are near.
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
    /// What a dump of Redis 7.0 keeps.
    pub(crate) const DUMP: Rules = Rules { raw: false, active: false, ..Rules::ALL };
    /// What a pool keeps that a program made: how keys are used is in memory only.
    pub(crate) const POOL: Rules = Rules { usage: false, ..Rules::DUMP };
    /// What commands keep.
    pub(crate) const COMMANDS: Rules =
        Rules { usage: false, seen: false, dangling: false, ..Rules::DUMP };
}

fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// Returns when a key was used last, of how long it is idle now.
pub(crate) fn used(idle: i64) -> Reply {
    Reply::Int(seconds() - idle)
}

/// Returns for how long a key is idle now.
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

/// Puts the functions of a library, which come in any order, in one.
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

/// Returns how many members of a set are found by themselves.
fn found_members(client: &mut Client, name: &[u8], members: &[Reply]) -> usize {
    let mut request = words([b"SMISMEMBER", name]);
    request.extend(members.iter().filter_map(|one| one.bytes().map(<[u8]>::to_vec)));
    let found = client.call(&request);
    found.items().iter().filter(|one| one.int() == Some(1)).count()
}

fn read_keys(client: &mut Client, asked: Asked, db: usize, names: &[Vec<u8>], state: &mut State) {
    let usage: &[&str] =
        if asked.is_lfu { &["OBJECT", "FREQ", "*"] } else { &["OBJECT", "IDLETIME", "*"] };
    // What counts as a use comes last.
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

/// Returns what shows the value of a type.
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
    // By the first of each: a field, or the member itself.
    let name = |one: &Reply| one.items().first().unwrap_or(one).bytes().map(<[u8]>::to_vec);
    items.sort_by_cached_key(name);
    Reply::Array(items)
}

/// Returns each field's time.
fn field_times(client: &mut Client, key: &[u8], pairs: &Reply) -> Reply {
    let names: Vec<Vec<u8>> =
        pairs.items().iter().filter_map(|pair| Some(pair.items()[0].bytes()?.to_vec())).collect();
    let mut words = vec![b"HPEXPIRETIME".to_vec(), key.to_vec(), b"FIELDS".to_vec()];
    words.push(names.len().to_string().into_bytes());
    words.extend(names);
    client.call(&words)
}

/// Returns a field of a reply that has names and values.
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

/// Takes every word of what XINFO STREAM FULL says.
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
        // In RESP2 the pending entries are under one name, and so are the consumers.
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
    /// Returns where another state, which a way led to, is not what this one is.
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
            // By [`use_difference`].
            "use" => (false, value),
            "encoding" => (rules.encodings && (rules.raw || value.text() != "raw"), value),
            "seen-time" => (rules.seen, value),
            "times" => (found.contains_key(path), value),
            // Which of them are gone is seen by the entries.
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

/// Returns how the use of a key differs.
fn use_difference(fields: &Fields, found: &Fields) -> Option<String> {
    let value = fields.get("use")?;
    let Some(other) = found.get("use") else { return Some("use is missing".into()) };
    // A frequency is a small number, the time of a use a large one.
    let is_frequency = value.int().is_some_and(|used| used < 256);
    let tolerance = if is_frequency { FREQUENCY_TOLERANCE } else { IDLE_TOLERANCE };
    value_difference(value, other, tolerance).map(|what| format!("use{what}"))
}

/// Returns true if entries are pending that are gone.
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

/// Returns how a value differs: the first place in it.
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
