//! Writes the state of the data as a new base of the command log, while commands are executed.
//!
//! The cut is taken under the locks of all shards: commands logged before it are in the snapshot,
//! those logged after it in the next incremental file. The rest is done while the server works,
//! with locks held for a bounded number of keys. This may take long: run it on a thread of its own.

use std::io::{self, Write};

use aof::{Aof, RewriteError, Rewritten};
use engine::Engine;
use engine::save_options::{SaveError, SaveOptions};
use keyspace::{Content, Item, SnapshotLost, StreamId, StreamPart, TimedField, Type};

use crate::save::{may_cut, save_snapshot};

/// Why a log was not rewritten; the old log stays in use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteLogError {
    /// The log failed.
    #[error(transparent)]
    Log(#[from] RewriteError),
    /// The dump that the log begins with could not be written.
    #[error(transparent)]
    Dump(#[from] SaveError),
    /// The maximum number of snapshots are being read, or a script runs long.
    #[error("too many snapshots of the data are being read, or a script runs long")]
    Busy,
    /// The snapshot held too much memory.
    #[error(transparent)]
    GivenUp(#[from] SnapshotLost),
}

/// Rewrites the log. With `revives`, this switches on a log that was off. `go_on` is asked
/// periodically whether to continue. With `dump` the base is a dump.
pub fn rewrite_log(
    engine: &Engine,
    log: &Aof,
    revives: bool,
    go_on: &dyn Fn() -> bool,
    dump: Option<&SaveOptions<'_>>,
) -> Result<Option<Rewritten>, RewriteLogError> {
    if !may_cut(engine) {
        return Err(RewriteLogError::Busy);
    }
    let mut rewrite = if revives { log.begin_again()? } else { log.begin_rewrite()? };
    // While a replica loads its primary's data, half of it would become the base.
    let cut = || {
        let is_whole = !engine.config().loading();
        if is_whole {
            rewrite.cut();
        }
        is_whole
    };
    let (snapshot, is_whole) =
        engine.keyspace().snapshot(cut).map_err(|_| RewriteLogError::Busy)?;
    if !is_whole {
        return Err(RewriteLogError::Busy);
    }
    if let Some(options) = dump {
        let mut base = Base { rewrite: &mut rewrite, failed: None };
        return match save_snapshot(engine, snapshot, &mut base, options) {
            Ok(_) => Ok(Some(rewrite.finish()?)),
            Err(SaveError::GivenUp) => Ok(None),
            Err(error) => Err(base.failed.map_or(error.into(), RewriteLogError::Log)),
        };
    }
    snapshot.for_each_library(|code| {
        Ok::<_, RewriteLogError>(rewrite.write(0, &[b"FUNCTION", b"LOAD", code])?)
    })?;
    let (mut walk, mut items) = (snapshot.walk(), Vec::new());
    while walk.next(&mut items)? {
        if !go_on() {
            return Ok(None);
        }
        for item in &items {
            write(&mut rewrite, item)?;
        }
    }
    drop(walk);
    Ok(Some(rewrite.finish()?))
}

/// The base of a log, as a file.
struct Base<'b> {
    rewrite: &'b mut aof::Rewrite,
    failed: Option<RewriteError>,
}

impl Write for Base<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.rewrite.write_dump(bytes).map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            io::Error::other(text)
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The number of elements in one command.
pub const ELEMENTS: usize = 64;

/// Returns the command that adds elements to a value of this type.
fn adds(what: Type) -> &'static [u8] {
    match what {
        Type::Hash => b"HSET",
        Type::Set => b"SADD",
        Type::SortedSet => b"ZADD",
        _ => b"RPUSH",
    }
}

/// Passes each command that makes the value, or a part of it, to `each`.
pub fn commands_of<E>(
    key: &[u8],
    value: &Content,
    mut each: impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    match value {
        Content::String(value) => each(&[b"SET", key, value])?,
        Content::Elements(what, elements) => {
            let pairs = matches!(what, Type::Hash | Type::SortedSet);
            let items = if pairs { 2 * ELEMENTS } else { ELEMENTS };
            for some in elements.chunks(items) {
                let words = [adds(*what), key].into_iter();
                let words: Vec<&[u8]> = words.chain(some.iter().map(Vec::as_slice)).collect();
                each(&words)?;
            }
        }
        Content::Fields(fields) => add_fields(key, fields, &mut each)?,
        Content::Stream(parts) => {
            for part in parts {
                add_part(key, part, &mut each)?;
            }
        }
    }
    Ok(())
}

/// Adds fields to a hash, then the TTLs of those that have one.
fn add_fields<E>(
    key: &[u8],
    fields: &[TimedField],
    each: &mut impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    for some in fields.chunks(ELEMENTS) {
        let head: [&[u8]; 2] = [b"HSET", key];
        let pairs = some.iter().flat_map(|one| [one.field.as_slice(), one.value.as_slice()]);
        let words: Vec<&[u8]> = head.into_iter().chain(pairs).collect();
        each(&words)?;
        for one in some {
            let Some(time) = one.time else { continue };
            let time = itoa::Buffer::new().format(time).to_owned();
            each(&[b"HPEXPIREAT", key, time.as_bytes(), b"FIELDS", b"1", &one.field])?;
        }
    }
    Ok(())
}

fn add_part<E>(
    key: &[u8],
    part: &StreamPart,
    each: &mut impl FnMut(&[&[u8]]) -> Result<(), E>,
) -> Result<(), E> {
    let text = |id: StreamId| format!("{}-{}", id.ms, id.seq).into_bytes();
    match part {
        StreamPart::Entry(id, words) => {
            let id = text(*id);
            let head: [&[u8]; 3] = [b"XADD", key, &id];
            let words: Vec<&[u8]> =
                head.into_iter().chain(words.iter().map(Vec::as_slice)).collect();
            each(&words)
        }
        StreamPart::Head { len, last, added, deleted } => {
            if *len == 0 {
                let id = text((*last).max(StreamId { ms: 0, seq: 1 }));
                each(&[b"XADD", key, b"MAXLEN", b"0", &id, b"x", b"y"])?;
            }
            // XSETID refuses a deleted ID that is greater than the last ID which it sets. A second
            // XSETID leaves the deleted ID as it is.
            let most = text(*last.max(deleted));
            let is_lower = last < deleted;
            let (last, deleted, added) = (text(*last), text(*deleted), added.to_string());
            let added = added.as_bytes();
            each(&[b"XSETID", key, &most, b"ENTRIESADDED", added, b"MAXDELETEDID", &deleted])?;
            if is_lower { each(&[b"XSETID", key, &last]) } else { Ok(()) }
        }
        StreamPart::Group { name, last, read } => {
            let (last, read) = (text(*last), read.map_or("-1".into(), |read| read.to_string()));
            each(&[b"XGROUP", b"CREATE", key, name, &last, b"ENTRIESREAD", read.as_bytes()])
        }
        // Consumers with pending entries are created with these.
        StreamPart::Consumer { group, name, pending: 0, .. } => {
            each(&[b"XGROUP", b"CREATECONSUMER", key, group, name])
        }
        StreamPart::Consumer { .. } => Ok(()),
        StreamPart::Pending { group, consumer, id, delivered, count } => {
            let (id, at, count) = (text(*id), delivered.to_string(), count.to_string());
            let head: [&[u8]; 6] = [b"XCLAIM", key, group, consumer, b"0", &id];
            let rest: [&[u8]; 6] =
                [b"TIME", at.as_bytes(), b"RETRYCOUNT", count.as_bytes(), b"JUSTID", b"FORCE"];
            each(&[head, rest].concat())
        }
    }
}

fn write(rewrite: &mut aof::Rewrite, item: &Item) -> Result<(), RewriteError> {
    let db = item.db.number() as u32;
    commands_of(&item.key, &item.value, |words| rewrite.write(db, words))?;
    if let Some(at) = item.expiry {
        let at = itoa::Buffer::new().format(at).to_owned();
        rewrite.write(db, &[b"PEXPIREAT", &item.key, at.as_bytes()])?;
    }
    Ok(())
}
