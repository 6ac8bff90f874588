//! The comparison of what two servers sent: counters and names of a server's own, such as client
//! IDs, ports and times, are replaced by common ones, and differences that docs/compatibility.md
//! lists are left out, only here.

use super::history::ADMIN;
use super::talk::poll;
use crate::alike::unordered;
use crate::steps::Words;
use std::cell::Cell;
use std::collections::BTreeMap;
use testkit::Reply;

/// Commands whose replies have their elements in the server's own order.
const UNORDERED: &[&str] = &[
    "SMEMBERS", "SINTER", "SUNION", "SDIFF", "KEYS", "HGETALL", "HKEYS", "HVALS", "SPOP", "PUBSUB",
    "EXEC", "EVAL", "FCALL", "CONFIG",
];
/// Fields of INFO that are determined by the history. Left out are times, sizes, fields that depend
/// on memory, on polls of the event loop, or on the machine, and missing features.
const FIELDS: &[&str] = &[
    "connected_clients",
    "blocked_clients",
    "tracking_clients",
    "total_connections_received",
    "total_commands_processed",
    "expired_keys",
    "evicted_keys",
    "keyspace_hits",
    "keyspace_misses",
    "pubsub_channels",
    "pubsub_patterns",
    "pubsubshard_channels",
    "tracking_total_keys",
    "tracking_total_items",
    "tracking_total_prefixes",
    "unexpected_error_replies",
    "total_error_replies",
    "rejected_connections",
    "evicted_clients",
    "total_active_defrag_time",
];
/// Fields of a line of CLIENT LIST that are determined by the history.
const CLIENT_FIELDS: &[&str] =
    &["name", "flags", "db", "sub", "psub", "ssub", "multi", "cmd", "user", "resp", "redir"];

/// The identities of the connections at one of the servers.
#[derive(Default)]
pub(super) struct Who {
    /// The IDs that the server gave the connections.
    pub(super) ids: Vec<i64>,
    pub(super) ports: Vec<u16>,
    /// The number of polls for blocked clients.
    pub(super) polls: i64,
    /// True if a connection may have been blocked: the number of polls for that is undefined, and
    /// the serving client is logged before or after it.
    pub(super) has_polled: bool,
    /// True if any connection may have stopped tracking.
    pub(super) has_ended_tracking: bool,
    /// The last value of `rdb_changes_since_last_save`.
    pub(super) changes: Cell<i64>,
}

impl Who {
    /// Replaces `<id2>` with client IDs.
    pub(super) fn with_ids(&self, words: &Words) -> Words {
        let word = |word: &Vec<u8>| {
            let name = word.strip_prefix(b"<id").and_then(|rest| rest.strip_suffix(b">"));
            let at = name.and_then(|name| std::str::from_utf8(name).ok()?.parse::<usize>().ok());
            match at.and_then(|at| self.ids.get(at)) {
                Some(id) => id.to_string().into_bytes(),
                None => word.clone(),
            }
        };
        words.iter().map(word).collect()
    }

    /// Records how a command affects later comparisons.
    pub(super) fn see(&mut self, words: &Words) {
        let line = String::from_utf8_lossy(&words.join(&b' ')).to_ascii_uppercase();
        if line == "CONFIG RESETSTAT" {
            self.polls = 0;
        }
        let ends = ["RESET", "QUIT", "CLIENT KILL", "CLIENT TRACKING OFF"];
        self.has_ended_tracking |= ends.iter().any(|start| line.starts_with(start));
    }

    fn named(&self, id: i64) -> String {
        match self.ids.iter().position(|known| *known == id) {
            Some(at) => format!("client {at}"),
            None => id.to_string(),
        }
    }

    fn at_port(&self, address: &str) -> String {
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok());
        match port.and_then(|port: u16| self.ports.iter().position(|known| *known == port)) {
            Some(at) => format!("client {at}"),
            None => address.to_owned(),
        }
    }

    /// Returns a command's text with names instead of client IDs.
    fn without_ids(&self, text: &str) -> String {
        if !text.to_ascii_uppercase().contains("\"CLIENT\"") {
            return text.to_owned();
        }
        let word =
            |word: &str| match word.trim_matches(|c| c == '"' || c == ',' || c == ']').parse() {
                Ok(id) if self.ids.contains(&id) => self.named(id),
                _ => word.to_owned(),
            };
        text.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }

    /// Parses a line of MONITOR: its database, the client, and the command.
    fn monitored(&self, text: &str) -> Option<(String, String)> {
        let (time, rest) = text.split_once(" [")?;
        let (seconds, micros) = time.split_once('.')?;
        let is_time = seconds.len() == 10 && micros.len() == 6;
        let (origin, command) = rest.split_once("] ")?;
        let (db, address) = origin.split_once(' ')?;
        is_time.then(|| (format!("{db} {}", self.at_port(address)), command.to_owned()))
    }

    /// Returns true for lines of MONITOR about polls between the steps.
    pub(super) fn is_poll(&self, reply: &Reply) -> bool {
        let Reply::Simple(text) = reply else { return false };
        self.monitored(text).is_some_and(|(origin, command)| {
            origin.ends_with(&format!("client {ADMIN}"))
                && (command == "\"PING\"" || command == "\"INFO\" \"clients\"")
        })
    }
}

/// The messages that a server sent to a connection.
pub(super) struct Sent<'s> {
    pub(super) who: &'s Who,
    pub(super) messages: &'s [Reply],
}

/// Returns both texts, if the servers' messages to a connection differ. `asked` is the command
/// whose reply is among them.
pub(super) fn differ(
    asked: Option<&Words>,
    ours: Sent<'_>,
    theirs: Sent<'_>,
) -> Option<(String, String)> {
    let ours = texts(asked, ours.who, ours.messages);
    let theirs = texts(asked, theirs.who, theirs.messages);
    let at = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
    let at = at.or_else(|| (ours.len() != theirs.len()).then(|| ours.len().min(theirs.len())))?;
    let of = |texts: &[String]| texts.get(at).cloned().unwrap_or_else(|| "nothing more".into());
    Some((of(&ours), of(&theirs)))
}

/// Converts messages to text; one that consists of lines becomes several texts.
fn texts(asked: Option<&Words>, who: &Who, messages: &[Reply]) -> Vec<String> {
    let name = |at: usize| {
        let word = asked.and_then(|words| words.get(at));
        word.map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).unwrap_or_default()
    };
    let (first, second) = (name(0), name(1));
    let one = |message: &Reply| -> Vec<String> {
        let items = message.items();
        let kind = items.first().map(Reply::text).unwrap_or_default();
        match (message, items) {
            (_, [_, _, count]) if kind == "unsubscribe" && asked.is_some_and(|a| a.len() == 1) => {
                // The order in which all are unsubscribed is undefined.
                return vec![format!("{kind} {count}")];
            }
            (Reply::Push(_), [_, Reply::Int(id)]) => {
                return vec![format!("{kind} {}", who.named(*id))];
            }
            (Reply::Push(_) | Reply::Error(_), _) => return vec![message.to_string()],
            _ => {}
        }
        if let Reply::Simple(text) = message
            && let Some((origin, command)) = who.monitored(text)
        {
            return vec![format!("[{origin}] {}", who.without_ids(&command))];
        }
        match (&*first, &*second) {
            ("INFO", _) => info(who, &message.text()),
            ("CLIENT", "LIST" | "INFO") => clients(who, &message.text()),
            ("CLIENT", "ID" | "GETREDIR" | "TRACKINGINFO") => vec![with_names(who, message)],
            ("SLOWLOG", "GET") => slow_log(who, message),
            ("HELLO", _) => vec![protocol(message)],
            (name, _) if UNORDERED.contains(&name) => vec![unordered(message)],
            _ => vec![message.to_string()],
        }
    };
    let mut texts: Vec<String> = messages.iter().flat_map(one).collect();
    // If one command changes several keys, the order of their invalidations is undefined.
    let is_invalidation = |text: &String| text.contains("invalidate\"");
    let is_run = |one: &String, next: &String| is_invalidation(one) && is_invalidation(next);
    texts.chunk_by_mut(is_run).for_each(<[String]>::sort);
    texts
}

fn with_names(who: &Who, reply: &Reply) -> String {
    match reply {
        Reply::Int(id) => who.named(*id),
        Reply::Array(items) | Reply::Set(items) => {
            format!("{:?}", items.iter().map(|item| with_names(who, item)).collect::<Vec<_>>())
        }
        Reply::Map(pairs) => {
            let pair =
                |(name, value): &(Reply, Reply)| format!("{name}: {}", with_names(who, value));
            format!("{:?}", pairs.iter().map(pair).collect::<Vec<_>>())
        }
        other => other.to_string(),
    }
}

/// Returns only the protocol of HELLO's reply: the rest is the server's own.
fn protocol(reply: &Reply) -> String {
    let fields: Vec<(Reply, Reply)> = match reply {
        Reply::Map(pairs) => pairs.clone(),
        Reply::Array(items) => items.chunks(2).map(|c| (c[0].clone(), c[1].clone())).collect(),
        other => return other.to_string(),
    };
    let proto = fields.iter().find(|(name, _)| name.text() == "proto");
    format!("{proto:?}")
}

/// Returns the lines of CLIENT LIST for the connections of the history.
fn clients(who: &Who, text: &str) -> Vec<String> {
    let line = |line: &str| {
        let fields: BTreeMap<&str, &str> =
            line.split(' ').filter_map(|field| field.split_once('=')).collect();
        let id: i64 = fields.get("id")?.parse().ok()?;
        let of = |name: &&str| {
            let value = fields.get(name).copied().unwrap_or("missing");
            // A changed watched key is noticed only at EXEC.
            let value = if *name == "flags" { value.trim_matches('d') } else { value };
            let value = if value.is_empty() { "N" } else { value };
            // After such a change Redis queues no more commands.
            let value = if *name == "multi" && value != "-1" { "some" } else { value };
            match (*name, value.parse()) {
                ("redir", Ok(id)) => format!("{name}={}", who.named(id)),
                _ => format!("{name}={value}"),
            }
        };
        let fields = CLIENT_FIELDS.iter().map(of).collect::<Vec<_>>();
        Some((id, format!("{}: {}", who.named(id), fields.join(" "))))
    };
    let mut lines: Vec<_> = text.lines().filter_map(line).collect();
    lines.sort();
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns the entries of SLOWLOG GET, without times, and without polls between the steps.
fn slow_log(who: &Who, reply: &Reply) -> Vec<String> {
    let is_in_order = !who.has_polled;
    let newest = reply.items().first().and_then(|entry| entry.items().first()?.int());
    let is_poll = |entry: &&Reply| {
        let arguments = entry.items().get(3).map(Reply::items).unwrap_or_default();
        arguments.iter().map(Reply::text).map(String::into_bytes).eq(poll())
    };
    let entry = |entry: &Reply| {
        let [id, at, took, arguments, address, name] = entry.items() else {
            return entry.to_string();
        };
        let age = newest.zip(id.int()).map(|(newest, id)| newest - id).filter(|_| is_in_order);
        let are_times = at.int().is_some_and(|at| at > 1_500_000_000 && at < 5_000_000_000)
            && took.int().is_some_and(|took| (0..10_000_000).contains(&took));
        let arguments = who.without_ids(&arguments.to_string());
        let address = who.at_port(&address.text());
        format!("{age:?} {are_times} {arguments} {address} {name}")
    };
    let mut lines: Vec<String> =
        reply.items().iter().filter(|entry| !is_poll(entry)).map(entry).collect();
    if !is_in_order {
        lines.sort();
    }
    lines
}

/// Returns the counters of INFO by name, a line each.
fn info(who: &Who, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().filter_map(|line| field(who, line.trim())).collect();
    lines.sort();
    lines
}

fn field(who: &Who, line: &str) -> Option<String> {
    let (name, value) = line.split_once(':')?;
    let is_of_history = FIELDS.contains(&name)
        || ["cmdstat_", "errorstat_", "db"].iter().any(|start| name.starts_with(start));
    match name {
        "total_commands_processed" => {
            let count: i64 = value.parse().ok()?;
            Some(format!("{name}:{}", count - who.polls))
        }
        // Keys read by clients that no longer track are forgotten when no client tracks; in Redis,
        // when they change.
        "tracking_total_keys" | "tracking_total_items" if who.has_ended_tracking => None,
        // Both count the polls between the steps.
        "cmdstat_info" => None,
        // Commands are counted here, keys or elements there.
        "rdb_changes_since_last_save" => {
            let before = who.changes.replace(value.parse().ok()?);
            Some(format!("{name}: more than before: {}", value != before.to_string()))
        }
        _ if is_of_history => {
            let is_time =
                |field: &&str| !field.starts_with("usec") && !field.starts_with("avg_ttl");
            let fields: Vec<&str> = value.split(',').filter(is_time).collect();
            Some(format!("{name}:{}", fields.join(",")))
        }
        _ => None,
    }
}
