//! What replicas may have of a primary's stream, and whether a recovery is true for them.
//!
//! A replica has a prefix of what was sent. If it may continue from there with what a recovery
//! says, it must get exactly the data that the recovery has found. So it is enough to know the data
//! at one offset, and all bytes from there on.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use replication::Id;
use replication::commands::StreamReader;

/// The keys of all databases.
pub(crate) type Data = BTreeSet<(u32, usize)>;

/// A history from the moment on at which the pool got its place in it.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) id: Id,
    /// The offset at that moment, the data, and the database that is selected.
    pub(crate) begun: u64,
    pub(crate) data: Data,
    pub(crate) db: Option<u32>,
    /// Bytes before that.
    pub(crate) before: Arc<Vec<u8>>,
    /// All bytes after it that were shown, now or later,
    pub(crate) log: Arc<Mutex<Vec<u8>>>,
    /// ... and how many of them replicas may have.
    pub(crate) sent: usize,
    /// The ends of commits that have ended.
    pub(crate) ended: BTreeSet<u64>,
    /// The ends of commits whose bytes are too many for a ring.
    pub(crate) bare: BTreeSet<u64>,
    /// Whether a ring has what comes after it.
    pub(crate) has_ring: bool,
}

impl fmt::Debug for History {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let History { id, begun, sent, ended, bare, has_ring, .. } = self;
        write!(out, "History {{ {id}, begun: {begun}, sent: {sent}, ended: {ended:?}, ")?;
        write!(out, "bare: {bare:?}, has_ring: {has_ring} }}")
    }
}

/// A place that an opening has found, and what the ring says of it.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) id: Id,
    /// The offset at which the place began.
    pub(crate) begun: u64,
    /// The end of the stream, the bytes before that, and how far replicas may be that continue.
    pub(crate) end: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) until: u64,
    /// Whether a ring says so: else nobody continues.
    pub(crate) is_whole: bool,
    /// Which of the rings that is.
    pub(crate) ring: Option<usize>,
    /// The ends of commits of which the pool says so.
    pub(crate) words: Vec<u64>,
}

impl Default for Found {
    fn default() -> Found {
        let (begun, end, until) = (0, 0, 0);
        let (bytes, words) = (Vec::new(), Vec::new());
        Found { id: Id::NONE, begun, end, bytes, until, is_whole: false, ring: None, words }
    }
}

/// What a recovery is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Nothing that was sent is missing; bytes may be, if a commit had not ended.
    Everything,
    /// Nor are bytes.
    Whole,
    /// It may refuse replicas.
    Safety,
}

impl History {
    /// Returns an error if a replica could continue and would get other data, or if a replica
    /// cannot continue that must. Returns whether the bytes that replicas lack are missing.
    pub(crate) fn check(&self, found: &Found, data: &Data, rule: Rule) -> Result<bool, String> {
        if !self.has_ring {
            return self.check_restored(found, data).map(|()| !found.is_whole);
        }
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = self.begun + self.sent as u64;
        let Found { end, bytes, words, until, is_whole, .. } = found;
        let (start, until) = (end - bytes.len() as u64, sent.min(*until));
        if *is_whole && start > until && self.bare.contains(&start) {
            return Ok(true);
        }
        if start > until || !is_whole {
            let has_ended = words.iter().all(|word| *word == 0 || self.ended.contains(word));
            return match rule == Rule::Whole || rule == Rule::Everything && has_ended {
                true => Err(format!("what replicas lack after {until} is missing")),
                false => Ok(true),
            };
        }
        if rule != Rule::Safety && until < sent {
            return Err(format!("replicas have {sent}, and continue up to {until}"));
        }
        self.compare(found, until, &log[..self.sent])?;
        let sent = &log[..(until - self.begun) as usize];
        let all = [sent, &bytes[(until - start) as usize..]].concat();
        let replayed = replay(self.data.clone(), self.db, &all)?;
        match replayed == *data {
            true => Ok(false),
            false => Err(format!("a replica gets {replayed:?}, and there is {data:?}")),
        }
    }

    /// The same for one that an opening has found, and that has not gone on since.
    fn check_restored(&self, found: &Found, data: &Data) -> Result<(), String> {
        if !found.is_whole {
            return Ok(());
        }
        if found.end > self.begun || *data != self.data {
            return Err(format!("{} and {data:?} after {}", found.end, self.begun));
        }
        self.compare(found, found.end, &[])?;
        let lost = &self.before[self.before.len() - (self.begun - found.end) as usize..];
        match names(lost)?.iter().all(|name| name == "PING" || name == "PUBLISH") {
            true => Ok(()),
            false => Err(format!("the data at {} is not that at {}", found.end, self.begun)),
        }
    }

    /// Returns an error if what was found has other bytes before `until` than there were.
    fn compare(&self, found: &Found, until: u64, log: &[u8]) -> Result<(), String> {
        let known = [&self.before, log].concat();
        let (first, start) =
            (self.begun - self.before.len() as u64, found.end - found.bytes.len() as u64);
        let from = start.max(first).min(until);
        let part = |bytes: &[u8], first: u64| {
            bytes[(from - first) as usize..(until - first) as usize].to_vec()
        };
        match part(&known, first) == part(&found.bytes, start) {
            true => Ok(()),
            false => Err(format!("between {from} and {until} there are other bytes")),
        }
    }
}

/// Returns the names of these commands.
fn names(bytes: &[u8]) -> Result<Vec<String>, String> {
    let mut reader = StreamReader::new(0, 1 << 20);
    reader.push(bytes);
    while reader.parse().map_err(|error| error.to_string())? {}
    let first = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    Ok(reader.items().filter_map(|item| item.words().next().map(first)).collect())
}

/// Returns the data after these commands. A message names a command before it.
pub(crate) fn replay(mut data: Data, mut db: Option<u32>, bytes: &[u8]) -> Result<Data, String> {
    let mut reader = StreamReader::new(0, 1 << 20);
    reader.push(bytes);
    while reader.parse().map_err(|error| error.to_string())? {}
    let mut tokens = BTreeSet::new();
    for item in reader.items() {
        let words: Vec<String> =
            item.words().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let entry = |db: Option<u32>| -> Result<(u32, usize), String> {
            let number = words[1].strip_prefix("key:").and_then(|number| number.parse().ok());
            Ok((db.ok_or("no database is selected")?, number.ok_or("a key")?))
        };
        match words[0].as_str() {
            "PING" => {}
            "SELECT" => db = words[1].parse().ok(),
            "SET" => drop(data.insert(entry(db)?)),
            "DEL" => drop(data.remove(&entry(db)?)),
            "FLUSHDB" => {
                let flushed = db.ok_or("no database is selected")?;
                data.retain(|(db, _)| *db != flushed);
            }
            "PUBLISH" if tokens.contains(&words[2]) => {}
            other => return Err(format!("{other} {}", words[1..].join(" "))),
        }
        if let Some(last) = words.last() {
            tokens.insert(last.trim_end_matches('.').to_owned());
        }
    }
    let end = reader.items().last().map_or(0, |item| item.offset());
    match end == bytes.len() as u64 {
        true => Ok(data),
        false => Err("the last command is cut".into()),
    }
}
