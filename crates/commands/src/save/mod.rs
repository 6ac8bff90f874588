//! Writes the data, as it was at one moment, as a dump file.
//!
//! The snapshot shows a large value in parts, and neither how many there are nor when the key
//! expires before the last one. What a dump says first must therefore wait: a value is collected in
//! memory up to a bound, and beyond it in a file of its own (the spool), from where it is copied.
//! So memory is bounded but for the longest string and the consumer groups of one stream.
//!
//! It runs next to the server's work, with locks held for a bounded number of keys, and may take
//! long: run it on a thread of its own. Another one reads the snapshot meanwhile.

mod stream;
mod value;
mod walk;

use std::io::{self, BufRead, Write};

use keyspace::{DATABASES, Db, Item, Policy, Snapshot, Txn};
use rdb::{FileWriter, Reader, Record, Usage};

use self::value::{Encoder, Value};
use crate::config::REDIS_VERSION;
use crate::engine::Engine;
use crate::save_options::{SaveError, SaveOptions};

impl Engine {
    /// Writes all data as a dump to `to`, which is returned; `at_cut` runs while nothing changes.
    pub fn save<W: Write>(
        &self,
        to: W,
        options: &SaveOptions<'_>,
        at_cut: impl FnOnce(),
    ) -> Result<W, SaveError> {
        if !self.may_cut() {
            return Err(SaveError::Busy);
        }
        let log = self.log().filter(|log| log.is_synchronous());
        let cut = || {
            at_cut();
            log.map_or(0, |log| log.end())
        };
        let (snapshot, end) = self.keyspace().snapshot(cut).map_err(|_| SaveError::Busy)?;
        // Nobody is to have what a power loss takes here.
        if let Some(log) = log.filter(|log| !log.is_durable(end))
            && !log.sync_to(end)
        {
            let why = log.failure().unwrap_or_default();
            return Err(io::Error::other(format!("the {} failed: {why}", log.name())).into());
        }
        self.save_snapshot(snapshot, to, options)
    }

    /// Returns false while a script runs long, which may keep a shard locked: the cut would have
    /// locked others, and whoever needs those would wait, also the threads that serve SCRIPT KILL.
    pub(crate) fn may_cut(&self) -> bool {
        self.running_scripts().is_empty()
    }

    /// Writes a snapshot as a dump.
    pub(crate) fn save_snapshot<W: Write>(
        &self,
        snapshot: Snapshot,
        to: W,
        options: &SaveOptions<'_>,
    ) -> Result<W, SaveError> {
        let mut dump = Dump::begin(self, to, options)?;
        snapshot.for_each_library(|code| Ok::<_, SaveError>(dump.file.function(code)?))?;
        walk::for_each(snapshot, self.threads(), |item| {
            dump.add(item, |db, key| self.usage(db, key))
        })?;
        dump.end()
    }

    /// Writes what a transaction over all shards sees as a dump. Each value is in memory as a
    /// whole.
    pub(crate) fn save_locked<W: Write>(
        &self,
        txn: &Txn<'_>,
        to: W,
        options: &SaveOptions<'_>,
    ) -> Result<W, SaveError> {
        let mut dump = Dump::begin(self, to, options)?;
        let mut done = Ok(());
        txn.for_each_library(|_, code| {
            if let (Ok(()), Ok(code)) = (&done, code) {
                done = dump.file.function(&code);
            }
        });
        done?;
        let mut done = Ok(());
        for db in Db::all() {
            txn.for_each(db, &mut |key, entry| {
                if done.is_ok() {
                    done = dump.add_entry(txn, db, key, entry);
                }
            });
        }
        done?;
        dump.end()
    }

    /// Returns how a key was used, where the policy of eviction asks for it.
    fn usage(&self, db: Db, key: &[u8]) -> Option<Usage> {
        let policy = self.keyspace().eviction().policy;
        let key = self.keyspace().key(key);
        let txn = self.keyspace().begin_one(key.shard(), self.clock().unix_ms());
        txn.peek(db, &key).map(|entry| usage_of(policy, &txn, &entry))
    }
}

fn usage_of(policy: Policy, txn: &Txn<'_>, entry: &keyspace::Entry) -> Usage {
    match policy.is_lfu() {
        true => Usage::Frequency(txn.frequency(entry)),
        false => Usage::Idle(txn.idle_ms(entry) / 1000),
    }
}

/// A key whose value is not complete yet.
struct Open {
    db: Db,
    key: Vec<u8>,
    expiry: Option<u64>,
    usage: Option<Usage>,
    value: Value,
}

/// A dump that is being written.
struct Dump<'d, W> {
    engine: &'d Engine,
    options: &'d SaveOptions<'d>,
    encoder: Encoder<'d>,
    file: FileWriter<W>,
    /// The database that is selected.
    db: Option<Db>,
    /// Databases whose sizes were written.
    sized: [bool; DATABASES],
    open: Option<Open>,
    keys: u64,
    policy: Policy,
}

impl<'d, W: Write> Dump<'d, W> {
    fn begin(
        engine: &'d Engine,
        to: W,
        options: &'d SaveOptions<'d>,
    ) -> Result<Dump<'d, W>, SaveError> {
        let mut file = FileWriter::new(to, options.compresses, options.has_checksum);
        file.begin()?;
        file.aux(b"redis-ver", REDIS_VERSION.as_bytes())?;
        file.aux(b"redis-bits", b"64")?;
        file.aux(b"ctime", (engine.clock().unix_ms() / 1000).to_string().as_bytes())?;
        file.aux(b"used-mem", engine.keyspace().heap().used().to_string().as_bytes())?;
        file.aux(b"aof-base", if options.is_base { b"1" } else { b"0" })?;
        file.aux(DUMP_BACKEND, options.backend.as_bytes())?;
        Ok(Dump {
            engine,
            options,
            encoder: Encoder::new(engine.config(), options),
            file,
            db: None,
            sized: [false; DATABASES],
            open: None,
            keys: 0,
            policy: engine.keyspace().eviction().policy,
        })
    }

    /// Adds a key, or a part of the one before.
    fn add(
        &mut self,
        item: Item,
        usage: impl FnOnce(Db, &[u8]) -> Option<Usage>,
    ) -> Result<(), SaveError> {
        let Item { db, key, value, expiry } = item;
        if let Some(open) = &mut self.open
            && open.db == db
            && open.key == key
        {
            open.expiry = open.expiry.or(expiry);
            return Ok(self.encoder.add(&mut open.value, value)?);
        }
        self.close()?;
        let usage = if self.policy.is_by_access() { usage(db, &key) } else { None };
        let value = self.encoder.begin(value)?;
        self.open = Some(Open { db, key, expiry, usage, value });
        Ok(())
    }

    fn add_entry(
        &mut self,
        txn: &Txn<'_>,
        db: Db,
        key: &[u8],
        entry: &keyspace::Entry,
    ) -> Result<(), SaveError> {
        let value = txn.content(entry).map_err(|error| io::Error::other(error.to_string()))?;
        let item = Item { db, key: key.to_vec(), value, expiry: txn.expiry(entry) };
        let policy = self.policy;
        self.add(item, |_, _| Some(usage_of(policy, txn, entry)))
    }

    /// Writes the key whose value is complete now.
    fn close(&mut self) -> Result<(), SaveError> {
        let Some(Open { db, key, expiry, usage, value }) = self.open.take() else { return Ok(()) };
        // Damage can leave a collection without elements, which is nothing that exists.
        if value.is_empty() {
            return Ok(());
        }
        if self.db != Some(db) {
            self.select(db)?;
        }
        self.encoder
            .write(&mut self.file, value, |file, kind| file.key(&key, expiry, usage, kind))?;
        self.file.flush_full()?;
        self.keys += 1;
        if (self.options.go_on)(self.keys) { Ok(()) } else { Err(SaveError::GivenUp) }
    }

    fn select(&mut self, db: Db) -> io::Result<()> {
        self.db = Some(db);
        self.file.database(db.number() as u64)?;
        if std::mem::replace(&mut self.sized[db.number()], true) {
            return Ok(());
        }
        let (keys, expiring) = self.engine.keyspace().count(db);
        self.file.sizes(keys, expiring)
    }

    fn end(mut self) -> Result<W, SaveError> {
        self.close()?;
        Ok(self.file.end()?)
    }
}

/// The name under which a dump says where its data was served from.
const DUMP_BACKEND: &[u8] = b"perdura-backend";
/// Longest text that a dump says of itself.
const LONGEST_TEXT: u64 = 4096;

/// Returns which backend had the data that a dump was saved of, if this server saved it.
pub fn saved_of(dump: impl BufRead) -> Option<Vec<u8>> {
    let mut reader = Reader::new(dump, LONGEST_TEXT).ok()?;
    while let Ok(Record::Aux(name, text)) = reader.next() {
        if name == DUMP_BACKEND {
            return Some(text);
        }
    }
    None
}
