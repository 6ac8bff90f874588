//! Loads a dump file: stores every key of it, as RESTORE would.
//!
//! The caller has the keyspace to itself. One thread reads the dump and computes its checksum,
//! without decoding values; as many threads as the engine has decode and store them, in batches. A
//! large value is read, stored and committed in steps, so that memory is bounded except by the
//! longest string. An error in the file ends the loading and says where it is; the data stored
//! until then is incomplete.

pub(crate) mod batch;
mod error;
mod queue;

use std::io::{BufRead, Read};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use keyspace::{Db, Key, Keyspace, Txn};
use rdb::{Part, Reader, Record};
use resp::{Protocol, Writer};

use self::batch::LoadBatch;
pub use self::error::LoadDumpError;
pub(crate) use self::error::refused;
use self::queue::BatchQueue;
use crate::keys::dump::store::{Parts, Stopped, Store};
use crate::save::file::STREAM_DB;
use engine::Engine;
use engine::failure::Failure;

/// The number of empty collections that are logged by name.
const LOGGED: u64 = 10;
/// The maximum number of bytes of a value in a batch.
pub const LARGEST_IN_BATCH: usize = 8 << 20;
/// The maximum number of bytes in all batches; one may exceed it by a value.
pub const BYTES_IN_BATCHES: usize = 32 << 20;

/// How a dump is loaded.
pub struct LoadOptions<'o> {
    /// Verifies the checksum (`rdbchecksum`).
    pub verifies: bool,
    /// Loads expired keys too: the commands that follow were executed before they expired.
    pub keeps_expired: bool,
    /// Called periodically with the progress.
    pub report: &'o mut dyn FnMut(LoadedDump),
}

/// Counts of what was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadedDump {
    /// The number of bytes of the file.
    pub bytes: u64,
    /// The number of keys.
    pub keys: u64,
    /// The number of expired keys, which were left out.
    pub expired: u64,
    /// The number of empty collections, which were left out.
    pub empty: u64,
    /// The database that the stream after the dump has selected, if the dump says so.
    pub stream_db: Option<u32>,
}

/// The destination of loaded data.
pub(crate) trait Target {
    /// Runs a step in a transaction that has locked all shards.
    fn with(
        &mut self,
        step: &mut dyn FnMut(&mut Txn<'_>) -> Result<(), LoadDumpError>,
    ) -> Result<(), LoadDumpError>;

    /// Loads a function library.
    fn function(&mut self, code: &[u8]) -> Result<(), LoadDumpError>;
}

/// Loads a dump into databases without keys.
pub fn load_dump<R: BufRead>(
    engine: &Engine,
    from: R,
    options: &mut LoadOptions<'_>,
) -> Result<LoadedDump, LoadDumpError> {
    let load = DumpLoad::new(engine, options);
    let mut reader = dump_reader(engine, from, options)?;
    let _expected = Expected(engine.keyspace());
    let loaded = match engine.threads() {
        ..2 => load.batches(&mut reader, options, &mut |batch| {
            batch.store(&load)?;
            Ok(Some(batch))
        }),
        threads => load.by_threads(threads, &mut reader, options),
    }?;
    (options.report)(loaded);
    Ok(loaded)
}

/// Verifies a dump, after which nothing follows, as far as that is possible without loading it: its
/// head, its end and its checksum.
pub fn verify_dump(engine: &Engine, from: impl Read) -> Result<(), LoadDumpError> {
    Ok(rdb::verify(from, !engine.config().skips_checksums())?)
}

/// Loads a dump into a target, key by key.
pub(crate) fn load_dump_into<R: BufRead, T: Target>(
    engine: &Engine,
    from: R,
    options: &mut LoadOptions<'_>,
    target: &mut T,
) -> Result<LoadedDump, LoadDumpError> {
    let load = DumpLoad::new(engine, options);
    let mut reader = dump_reader(engine, from, options)?;
    let (mut db, mut loaded) = (Db::default(), LoadedDump::default());
    let mut parts = Parts::default();
    loop {
        match reader.next()? {
            Record::End => {
                loaded.bytes = reader.at();
                return Ok(loaded);
            }
            Record::Database(number) => db = load.database(number)?,
            Record::Function(code) => target.function(&code)?,
            Record::Key { key, expires, idle, frequency, .. } => {
                let about = About { expires, idle, frequency };
                let hashed = engine.keyspace().key(&key);
                target.with(&mut |txn| {
                    let read = |show: Show<'_>| reader.value(show);
                    let entry = Entry { db, key: hashed, about: &about };
                    loaded.count(load.key(txn, &mut parts, entry, false, read)?);
                    Ok(())
                })?;
            }
            _ => {}
        }
    }
}

fn dump_reader<R: BufRead>(
    engine: &Engine,
    from: R,
    options: &LoadOptions<'_>,
) -> Result<Reader<R>, LoadDumpError> {
    let reader = Reader::new(from, Keyspace::MAX_STRING as u64)?;
    let verifies = options.verifies && !engine.config().skips_checksums();
    Ok(if verifies { reader } else { reader.without_checksum() })
}

fn load_library(engine: &Engine, code: &[u8]) -> Result<(), LoadDumpError> {
    let mut session = engine.connect_replay();
    let mut out = Writer::new(Protocol::Resp2);
    let _ = engine.execute(&mut session, &[b"FUNCTION", b"LOAD", code], &mut out);
    engine.disconnect(&mut session);
    match out.as_bytes().strip_prefix(b"-") {
        Some(text) => Err(refused(b"a library", &Failure::text(text.trim_ascii_end()))),
        None => Ok(()),
    }
}

/// The metadata of a key in the dump.
struct About {
    expires: Option<u64>,
    idle: Option<u64>,
    frequency: Option<u8>,
}

/// A key to be stored.
struct Entry<'a> {
    db: Db,
    key: Key<'a>,
    about: &'a About,
}

/// Receives the parts of a value.
type Show<'s> = &'s mut dyn FnMut(Part<'_>) -> Result<(), Stopped>;

/// Receives a full batch; returns one that was stored, to be filled again.
type Put<'p> = &'p mut dyn FnMut(LoadBatch) -> Result<Option<LoadBatch>, LoadDumpError>;

/// The outcome of loading a key.
#[derive(Clone, Copy)]
enum Fate {
    Stored,
    Expired,
    Empty,
}

impl LoadedDump {
    fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Stored => self.keys += 1,
            Fate::Expired => self.expired += 1,
            Fate::Empty => self.empty += 1,
        }
    }
}

/// The loading of a dump, by any number of threads.
struct DumpLoad<'e> {
    engine: &'e Engine,
    keeps_expired: bool,
    /// The time of all transactions, unix ms,
    now: u64,
    /// ... and of the uses of keys.
    used_at: u64,
    keys: AtomicU64,
    expired: AtomicU64,
    empty: AtomicU64,
    /// Empty collections, committed or not.
    skipped: AtomicU64,
    /// See [`LoadedDump::stream_db`]; `u64::MAX` for none.
    stream_db: AtomicU64,
}

impl<'e> DumpLoad<'e> {
    fn new(engine: &'e Engine, options: &LoadOptions<'_>) -> DumpLoad<'e> {
        let keeps_expired = options.keeps_expired;
        // The commands that follow must find the keys that they found before.
        let used_at = engine.clock().unix_ms();
        let now = if keeps_expired { 0 } else { used_at };
        let (keys, expired, empty, skipped) = Default::default();
        let stream_db = AtomicU64::new(u64::MAX);
        DumpLoad { engine, keeps_expired, now, used_at, keys, expired, empty, skipped, stream_db }
    }

    fn loaded(&self, bytes: u64) -> LoadedDump {
        let (keys, expired) = (self.keys.load(Relaxed), self.expired.load(Relaxed));
        let stream_db = u32::try_from(self.stream_db.load(Relaxed)).ok();
        LoadedDump { bytes, keys, expired, empty: self.empty.load(Relaxed), stream_db }
    }

    /// Logs that an empty collection is left out, for the first few.
    fn skip(&self, key: &[u8]) {
        if self.skipped.fetch_add(1, Relaxed) < LOGGED
            && let Some(host) = self.engine.host()
        {
            host.log(&format!("rdbLoadObject skipping empty key: {}", key.escape_ascii()));
        }
    }

    /// Adds the counts of committed keys.
    fn add(&self, loaded: &LoadedDump) {
        self.keys.fetch_add(loaded.keys, Relaxed);
        self.expired.fetch_add(loaded.expired, Relaxed);
        self.empty.fetch_add(loaded.empty, Relaxed);
    }

    fn database(&self, number: u64) -> Result<Db, LoadDumpError> {
        let config = self.engine.config();
        let db = usize::try_from(number).ok().and_then(|number| config.database(number));
        db.ok_or(LoadDumpError::Database(config.databases()))
    }

    /// Reads the dump in batches, and passes each to `put`.
    fn batches<R: BufRead>(
        &self,
        reader: &mut Reader<R>,
        options: &mut LoadOptions<'_>,
        put: Put<'_>,
    ) -> Result<LoadedDump, LoadDumpError> {
        let (mut db, mut number) = (Db::default(), 0);
        let mut batch = LoadBatch::new(number, reader.framing());
        loop {
            match reader.next()? {
                Record::End => break,
                Record::Database(number) => db = self.database(number)?,
                Record::Sizes(keys, _) => self.engine.keyspace().expect_keys(db, keys),
                Record::Function(code) => load_library(self.engine, &code)?,
                Record::Aux(name, value) if name == STREAM_DB => {
                    let number = str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
                    if let Some(number) = number {
                        self.stream_db.store(self.database(number)?.number() as u64, Relaxed);
                    }
                }
                Record::Key { key, expires, idle, frequency, .. } => {
                    let about = About { expires, idle, frequency };
                    match reader.frame(batch.bytes(), LARGEST_IN_BATCH)? {
                        Some(frame) => batch.push(db, &key, frame, about),
                        None => self.large(reader, db, &key, &about)?,
                    }
                    reader.reuse(key);
                }
                _ => {}
            }
            if batch.is_full() {
                number += 1;
                batch = match put(batch)? {
                    Some(spare) => spare.reused(number),
                    None => LoadBatch::new(number, reader.framing()),
                };
                (options.report)(self.loaded(reader.at()));
            }
        }
        put(batch)?;
        Ok(self.loaded(reader.at()))
    }

    /// Reads a value that is too large for a batch, and stores it meanwhile.
    fn large<R: BufRead>(
        &self,
        reader: &mut Reader<R>,
        db: Db,
        key: &[u8],
        about: &About,
    ) -> Result<(), LoadDumpError> {
        let keyspace = self.engine.keyspace();
        let hashed = keyspace.key(key);
        let mut txn = keyspace.begin_one(hashed.shard(), self.now);
        txn.set_used_at(self.used_at);
        let (mut parts, entry) = (Parts::default(), Entry { db, key: hashed, about });
        let fate = self.key(&mut txn, &mut parts, entry, true, |show| reader.value(show))?;
        txn.commit().map_err(|error| refused(key, &error.into()))?;
        let mut loaded = LoadedDump::default();
        loaded.count(fate);
        self.add(&loaded);
        Ok(())
    }

    /// Reads the dump on this thread, and has it stored by others.
    fn by_threads<R: BufRead>(
        &self,
        threads: usize,
        reader: &mut Reader<R>,
        options: &mut LoadOptions<'_>,
    ) -> Result<LoadedDump, LoadDumpError> {
        let queue = BatchQueue::new(BYTES_IN_BATCHES);
        let read = thread::scope(|scope| {
            let spawn = |n: usize| {
                let builder = thread::Builder::new().name(format!("load-{n}"));
                builder.spawn_scoped(scope, || self.store_from(&queue)).is_ok()
            };
            let spawned = (0..threads).filter(|n| spawn(*n)).count();
            let _close = Closing(&queue);
            self.batches(reader, options, &mut |batch| match spawned {
                0 => batch.store(self).map(|()| Some(batch)),
                _ if queue.push(batch) => Ok(queue.spare()),
                // The error of the failed batch replaces this one.
                _ => Err(LoadDumpError::Stopped),
            })
        });
        match queue.failure() {
            // An error in a batch precedes the position of the reader.
            Some(error) => Err(error),
            None => read.map(|read| self.loaded(read.bytes)),
        }
    }

    /// Stores batches until there are no more.
    fn store_from(&self, queue: &BatchQueue) {
        while let Some(batch) = queue.pop() {
            let abandon = Abandoning(queue);
            let is_dropped = queue.is_dropped(batch.number());
            let done = if is_dropped { Ok(()) } else { batch.store(self) };
            std::mem::forget(abandon);
            queue.give_back(batch, done);
        }
    }

    /// Stores a key, unless it has expired or is a collection without elements. `commits` says that
    /// a large value may be committed in steps.
    fn key(
        &self,
        txn: &mut Txn<'_>,
        parts: &mut Parts,
        entry: Entry<'_>,
        commits: bool,
        read: impl FnOnce(Show<'_>) -> Result<(), Stopped>,
    ) -> Result<Fate, LoadDumpError> {
        let Entry { db, key, about } = entry;
        let has_expired = |at| at < self.engine.clock().unix_ms();
        if !self.keeps_expired && about.expires.is_some_and(has_expired) {
            return match read(&mut |_| Ok(())) {
                Err(Stopped::Read(error)) => if_empty(error).map(|()| Fate::Expired),
                _ => Ok(Fate::Expired),
            };
        }
        let duplicate = || {
            let key = key.bytes().escape_ascii().to_string();
            Err(LoadDumpError::Duplicate { key, db: db.number() })
        };
        let mut store =
            Store::new(self.engine.config(), txn, db, key, parts).expiring(about.expires());
        if commits {
            store = store.in_steps();
        }
        let read = read(&mut |part| store.take(part).map_err(Stopped::Store));
        let stored = read.and_then(|()| store.finish().map_err(Stopped::Store));
        if store.is_duplicate() {
            return duplicate();
        }
        let is_there = match stored {
            Ok(is_there) => is_there,
            Err(Stopped::Read(error)) => if_empty(error).map(|()| false)?,
            Err(Stopped::Store(failure)) => return Err(refused(key.bytes(), &failure)),
        };
        if !is_there {
            self.skip(key.bytes());
            return Ok(Fate::Empty);
        }
        about.put(txn, db, &key, self.engine.clock().unix_ms())?;
        Ok(Fate::Stored)
    }
}

/// Resets the number of expected keys when the loading ends, in any way.
struct Expected<'k>(&'k Keyspace);

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.0.expect_no_keys();
    }
}

/// Closes the queue when the reader ends, in any way.
struct Closing<'q>(&'q BatchQueue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Marks the queue as abandoned when a thread panics; must be forgotten otherwise.
struct Abandoning<'q>(&'q BatchQueue);

impl Drop for Abandoning<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl About {
    /// Returns the expiry time. One of 0 is from before 1970, and has passed.
    fn expires(&self) -> Option<u64> {
        self.expires.map(|at| at.max(1))
    }

    /// Sets the expiry time and usage of a stored key. Usage counts from the time of day, whatever
    /// the transaction's time is.
    fn put(
        &self,
        txn: &mut Txn<'_>,
        db: Db,
        key: &Key<'_>,
        time_of_day: u64,
    ) -> Result<(), LoadDumpError> {
        if let Some(at) = self.expires() {
            let set = txn.keys().set_expiry(db, key, Some(at));
            set.map_err(|error| refused(key.bytes(), &error.into()))?;
        }
        if self.idle.is_none() && self.frequency.is_none() {
            return Ok(());
        }
        let now = txn.now();
        txn.set_now(time_of_day);
        if let Some(idle) = self.idle {
            txn.keys().set_idle(db, key, idle.saturating_mul(1000));
        }
        if let Some(frequency) = self.frequency {
            txn.keys().set_frequency(db, key, frequency);
        }
        txn.set_now(now);
        Ok(())
    }
}

/// Accepts the error of an empty collection, which is left out, as in Redis.
fn if_empty(error: rdb::Error) -> Result<(), LoadDumpError> {
    match error {
        rdb::Error::Empty { .. } => Ok(()),
        error => Err(error.into()),
    }
}
