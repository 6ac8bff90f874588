//! Writes the data, as of one moment, to a dump file.
//!
//! The snapshot shows a large value in parts, and reveals their number and the key's expiry time
//! only with the last one. A dump, however, begins with these. A value is therefore collected in
//! memory up to a limit, and beyond it in a file of its own (the spool), from which it is copied.
//! So memory is bounded except by the longest string of each thread and the consumer groups of one
//! stream.
//!
//! It runs while the server works, with locks held for a bounded number of keys, and may take long:
//! run it on a thread of its own. Each thread reads and encodes the keys of some shards ([`keys`]),
//! and all write one file ([`file`]).

pub(crate) mod file;
mod keys;
mod stream;
mod value;

use std::io::{self, BufRead, Write};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use keyspace::{Db, Item, Policy, Snapshot, Txn};
use rdb::{Reader, Record, Usage};

use self::file::Dump;
use self::keys::KeyWriter;
pub use self::value::{COLLECTED_BYTES, COLLECTED_ELEMENTS};
use ::replication::Id;
use engine::Engine;
use engine::save_options::{SaveError, SaveOptions, StreamPoint};

/// Writes all data as a dump to `to`, and returns that; `at_cut` runs while nothing can change.
pub fn save<W: Write + Send>(
    engine: &Engine,
    to: W,
    options: &SaveOptions<'_>,
    at_cut: impl FnOnce(),
) -> Result<W, SaveError> {
    if !may_cut(engine) {
        return Err(SaveError::Busy);
    }
    let log = engine.log().filter(|log| log.is_synchronous());
    // Nothing is saved while a replica loads its primary's data: it would be half of it.
    let cut = || {
        let is_whole = !engine.config().loading();
        if is_whole {
            at_cut();
        }
        is_whole.then(|| log.map_or(0, |log| log.end()))
    };
    let (snapshot, end) = engine.keyspace().snapshot(cut).map_err(|_| SaveError::Busy)?;
    let Some(end) = end else { return Err(SaveError::Busy) };
    // The dump must not contain what a power loss takes here.
    if let Some(log) = log.filter(|log| !log.is_synced(end))
        && !log.sync_to(end)
    {
        let why = log.failure().unwrap_or_default();
        return Err(io::Error::other(format!("the {} failed: {why}", log.name())).into());
    }
    save_snapshot(engine, snapshot, to, options)
}

/// Returns false while a script runs long. It may keep a shard locked, while the cut holds other
/// locks and waits; then clients that need these would wait too, and the threads that serve SCRIPT
/// KILL.
pub(crate) fn may_cut(engine: &Engine) -> bool {
    engine.running_scripts().is_empty()
}

/// Writes a snapshot as a dump.
pub(crate) fn save_snapshot<W: Write + Send>(
    engine: &Engine,
    snapshot: Snapshot,
    to: W,
    options: &SaveOptions<'_>,
) -> Result<W, SaveError> {
    let dump = Dump::begin(engine, to, options)?;
    snapshot.for_each_library(|code| Ok::<_, SaveError>(dump.function(code)?))?;
    let threads = if options.is_background { engine.threads() / 4 } else { engine.threads() };
    let next = AtomicUsize::new(0);
    let work = || {
        let done = save_shards(engine, &snapshot, &dump, &next);
        done.inspect_err(|_| dump.give_up())
    };
    thread::scope(|scope| {
        let spawn = |n| {
            let thread = thread::Builder::new().name(format!("save-{n}"));
            thread.spawn_scoped(scope, work).ok()
        };
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let mut done = work();
        for other in others {
            let also = other.join().unwrap_or_else(|panic| resume_unwind(panic));
            // Errors of threads that were stopped by another one's say less.
            if matches!(done, Ok(()) | Err(SaveError::GivenUp)) && also.is_err() {
                done = also;
            }
        }
        done
    })?;
    drop(snapshot);
    dump.end()
}

/// Writes the keys of shards that no other thread has taken.
fn save_shards<W: Write>(
    engine: &Engine,
    snapshot: &Snapshot,
    dump: &Dump<'_, W>,
    next: &AtomicUsize,
) -> Result<(), SaveError> {
    let (mut keys, mut items) = (KeyWriter::new(dump), Vec::new());
    loop {
        let shard = next.fetch_add(1, Ordering::Relaxed);
        if shard >= snapshot.shards() {
            return keys.end();
        }
        let mut walk = snapshot.walk_shard(shard);
        while walk.next(&mut items)? {
            for item in items.drain(..) {
                keys.add(item, |db, key| usage(engine, db, key))?;
            }
        }
    }
}

/// Writes the data that a transaction over all shards sees as a dump. Each value is in memory as a
/// whole.
pub(crate) fn save_locked<W: Write>(
    engine: &Engine,
    txn: &Txn<'_>,
    to: W,
    options: &SaveOptions<'_>,
) -> Result<W, SaveError> {
    let dump = Dump::begin(engine, to, options)?;
    let mut done = Ok(());
    txn.for_each_library(|_, code| {
        if let (Ok(()), Ok(code)) = (&done, code) {
            done = dump.function(&code);
        }
    });
    done?;
    let (mut keys, mut done) = (KeyWriter::new(&dump), Ok(()));
    for db in Db::all() {
        txn.database(db).for_each(&mut |key, entry| {
            if done.is_ok() {
                done = add_entry(&mut keys, txn, db, key, entry);
            }
        });
    }
    done?;
    keys.end()?;
    dump.end()
}

/// Returns a key's usage, if the eviction policy needs it.
fn usage(engine: &Engine, db: Db, key: &[u8]) -> Option<Usage> {
    let policy = engine.keyspace().eviction().policy;
    let key = engine.keyspace().key(key);
    let txn = engine.keyspace().begin_one(key.shard(), engine.clock().unix_ms());
    txn.peek(db, &key).map(|entry| usage_of(policy, &txn, &entry))
}

fn usage_of(policy: Policy, txn: &Txn<'_>, entry: &keyspace::Entry) -> Usage {
    match policy.is_lfu() {
        true => Usage::Frequency(txn.properties(entry).frequency()),
        false => Usage::Idle(txn.properties(entry).idle_ms() / 1000),
    }
}

fn add_entry<W: Write>(
    keys: &mut KeyWriter<'_, '_, W>,
    txn: &Txn<'_>,
    db: Db,
    key: &[u8],
    entry: &keyspace::Entry,
) -> Result<(), SaveError> {
    let value = txn.content(entry).map_err(|error| io::Error::other(error.to_string()))?;
    let item = Item { db, key: key.to_vec(), value, expiry: txn.properties(entry).expiry() };
    let policy = keys.policy();
    keys.add(item, |_, _| Some(usage_of(policy, txn, entry)))
}

/// The maximum length of a text in a dump's header.
const LONGEST_TEXT: u64 = 4096;

/// Returns the backend whose data a dump contains, if this server saved it.
pub fn saved_of(dump: impl BufRead) -> Option<Vec<u8>> {
    let mut reader = Reader::new(dump, LONGEST_TEXT).ok()?;
    while let Ok(Record::Aux(name, text)) = reader.next() {
        if name == file::DUMP_BACKEND {
            return Some(text);
        }
    }
    None
}

/// Returns the place of a dump's data in a stream for replicas, if the dump says it. One of Redis
/// may, too.
pub fn place_of(dump: impl BufRead) -> Option<StreamPoint> {
    let mut reader = Reader::new(dump, LONGEST_TEXT).ok()?;
    let (mut db, mut ids, mut offsets) = (None, [None; 2], [None; 2]);
    while let Ok(Record::Aux(name, text)) = reader.next() {
        let number = || str::from_utf8(&text).ok();
        let offset = || number().and_then(|text| text.parse().ok());
        match name.as_slice() {
            file::STREAM_DB => db = number().and_then(|text| text.parse().ok()),
            file::STREAM_ID => ids[0] = Id::parse(&text),
            file::STREAM_OFFSET => offsets[0] = offset(),
            file::STREAM_ID2 => ids[1] = Id::parse(&text),
            file::STREAM_OFFSET2 => offsets[1] = offset(),
            _ => {}
        }
    }
    let history = Some((ids[0]?, offsets[0]?));
    Some(StreamPoint { db: db?, history, second: ids[1].zip(offsets[1]) })
}
