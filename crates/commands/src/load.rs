//! Brings the data back from a dump file: every key of it, as RESTORE would store it.
//!
//! The caller has the keyspace to itself. A large value is stored and committed in steps, so that
//! memory is bounded but for the longest string. Whatever is wrong with the file ends the loading
//! with an error that says where; what was stored until then is not all of the data.

use std::io::Read;

use keyspace::{Db, Key, Keyspace, Txn};
use rdb::{Reader, Record};
use resp::{Protocol, Writer};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::keys::dump::store::{Stopped, Store};

/// Keys between two reports of progress.
const REPORT_EVERY: u64 = 1024;

/// How a dump is loaded.
pub struct LoadOptions<'o> {
    /// Whether its checksum counts (`rdbchecksum`).
    pub verifies: bool,
    /// Whether keys that have expired are loaded: commands follow that were executed before.
    pub keeps_expired: bool,
    /// Called periodically with what was loaded so far.
    pub report: &'o mut dyn FnMut(LoadedDump),
}

/// What was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadedDump {
    /// Bytes of the file.
    pub bytes: u64,
    /// Keys.
    pub keys: u64,
    /// Keys that had expired, and were left out.
    pub expired: u64,
    /// Collections without elements, which were left out.
    pub empty: u64,
}

/// Why a dump is not loaded. The texts are Redis's where it has one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadDumpError {
    /// It ends too early.
    #[error("Short read or OOM loading DB. Unrecoverable error, aborting now. ({0})")]
    Short(rdb::Error),
    /// It is no dump.
    #[error("Wrong signature trying to load DB from file ({0})")]
    Signature(rdb::Error),
    /// A version that is not known.
    #[error("Can't handle RDB format version {0}")]
    Version(u16),
    /// The checksum is that of other bytes.
    #[error(
        "Wrong RDB checksum expected: ({expected:x}) but got ({found:x}). Aborting now. RDB CRC error"
    )]
    Checksum {
        /// What is written.
        expected: u64,
        /// What the bytes have.
        found: u64,
    },
    /// The data of a module.
    #[error("The RDB file contains module data I can't load: no matching module type '{0}'")]
    Module(String),
    /// Something else that cannot be read.
    #[error("Internal error in RDB reading: {0}")]
    Read(rdb::Error),
    /// A key that comes twice.
    #[error("RDB has duplicated key '{key}' in DB {db}")]
    Duplicate {
        /// The key.
        key: String,
        /// Its database.
        db: usize,
    },
    /// A database that does not exist.
    #[error(
        "FATAL: Data file was created with a Redis server configured to handle more than {0} databases. Exiting"
    )]
    Database(usize),
    /// A value or a library that is refused.
    #[error("Internal error in RDB reading, at '{name}': {text}")]
    Refused {
        /// The key.
        name: String,
        /// Why.
        text: String,
    },
}

impl From<rdb::Error> for LoadDumpError {
    fn from(error: rdb::Error) -> LoadDumpError {
        match error {
            rdb::Error::Cut { .. } => LoadDumpError::Short(error),
            rdb::Error::Magic { .. } => LoadDumpError::Signature(error),
            rdb::Error::Version { version } => LoadDumpError::Version(version),
            rdb::Error::Checksum { expected, found } => LoadDumpError::Checksum { expected, found },
            rdb::Error::Module { name, .. } => LoadDumpError::Module(name),
            error => LoadDumpError::Read(error),
        }
    }
}

pub(crate) fn refused(name: &[u8], failure: &Failure) -> LoadDumpError {
    let (name, text) = (name.escape_ascii().to_string(), failure.as_bytes());
    LoadDumpError::Refused { name, text: String::from_utf8_lossy(text).into_owned() }
}

/// Where what is loaded goes.
pub(crate) trait Target {
    /// Whether a value may be committed in steps.
    const COMMITS: bool;

    /// Runs a step in a transaction that has locked the key's shard.
    fn with(
        &mut self,
        key: &Key<'_>,
        step: &mut dyn FnMut(&mut Txn<'_>) -> Result<(), LoadDumpError>,
    ) -> Result<(), LoadDumpError>;

    /// Loads a library of functions.
    fn function(&mut self, code: &[u8]) -> Result<(), LoadDumpError>;
}

/// A transaction for each key.
struct Alone<'e> {
    engine: &'e Engine,
    now: u64,
}

impl Target for Alone<'_> {
    const COMMITS: bool = true;

    fn with(
        &mut self,
        key: &Key<'_>,
        step: &mut dyn FnMut(&mut Txn<'_>) -> Result<(), LoadDumpError>,
    ) -> Result<(), LoadDumpError> {
        let mut txn = self.engine.keyspace().begin_one(key.shard(), self.now);
        step(&mut txn)?;
        txn.commit().map_err(|error| refused(key.bytes(), &error.into()))
    }

    fn function(&mut self, code: &[u8]) -> Result<(), LoadDumpError> {
        let mut session = self.engine.connect_replay();
        let mut out = Writer::new(Protocol::Resp2);
        let _ = self.engine.execute(&mut session, &[b"FUNCTION", b"LOAD", code], &mut out);
        self.engine.disconnect(&mut session);
        match out.as_bytes().strip_prefix(b"-") {
            Some(text) => Err(refused(b"a library", &Failure::text(text.trim_ascii_end()))),
            None => Ok(()),
        }
    }
}

impl Engine {
    /// Loads a dump into databases without keys.
    pub fn load_dump<R: Read>(
        &self,
        from: R,
        options: &mut LoadOptions<'_>,
    ) -> Result<LoadedDump, LoadDumpError> {
        // What the commands after it found is to be found by them.
        let now = if options.keeps_expired { 0 } else { self.clock().unix_ms() };
        self.load_dump_into(from, options, &mut Alone { engine: self, now })
    }

    /// Loads a dump into a target.
    pub(crate) fn load_dump_into<R: Read, T: Target>(
        &self,
        from: R,
        options: &mut LoadOptions<'_>,
        target: &mut T,
    ) -> Result<LoadedDump, LoadDumpError> {
        let mut reader = Reader::new(from, Keyspace::MAX_STRING as u64)?;
        if !options.verifies || self.config().skips_checksums() {
            reader = reader.without_checksum();
        }
        let mut load = Load { engine: self, loaded: LoadedDump::default(), db: Db::default() };
        loop {
            match reader.next()? {
                Record::End => break,
                Record::Database(number) => {
                    let db = usize::try_from(number).ok().and_then(|n| self.config().database(n));
                    let databases = self.config().databases();
                    load.db = db.ok_or(LoadDumpError::Database(databases))?;
                }
                Record::Function(code) => target.function(&code)?,
                Record::Key { key, expires, idle, frequency, .. } => {
                    let about = About { expires, idle, frequency };
                    load.key(&mut reader, &key, &about, options, target)?;
                    load.loaded.bytes = reader.at();
                    let seen = load.loaded.keys + load.loaded.expired;
                    if seen.is_multiple_of(REPORT_EVERY) {
                        (options.report)(load.loaded);
                    }
                }
                _ => {}
            }
        }
        load.loaded.bytes = reader.at();
        (options.report)(load.loaded);
        Ok(load.loaded)
    }
}

/// What a dump says of a key.
struct About {
    expires: Option<u64>,
    idle: Option<u64>,
    frequency: Option<u8>,
}

struct Load<'e> {
    engine: &'e Engine,
    loaded: LoadedDump,
    db: Db,
}

impl Load<'_> {
    fn key<R: Read, T: Target>(
        &mut self,
        reader: &mut Reader<R>,
        key: &[u8],
        about: &About,
        options: &LoadOptions<'_>,
        target: &mut T,
    ) -> Result<(), LoadDumpError> {
        let now = self.engine.clock().unix_ms();
        if !options.keeps_expired && about.expires.is_some_and(|at| at < now) {
            self.loaded.expired += 1;
            let read = reader.value(|_| Ok::<_, rdb::Error>(()));
            return read.or_else(|error| if_empty(error).map(drop));
        }
        let (db, engine) = (self.db, self.engine);
        let hashed = engine.keyspace().key(key);
        let mut is_empty = false;
        target.with(&hashed, &mut |txn| {
            let there = txn.find_mut(db, &hashed).map_err(|error| refused(key, &error.into()))?;
            if there.is_some() {
                let key = key.escape_ascii().to_string();
                return Err(LoadDumpError::Duplicate { key, db: db.number() });
            }
            let mut store = Store::new(engine.config(), txn, db, hashed);
            if T::COMMITS {
                store = store.in_steps();
            }
            match reader.value(|part| store.take(part).map_err(Stopped::Store)) {
                Ok(()) => {}
                Err(Stopped::Read(error)) => {
                    is_empty = if_empty(error)?;
                    return Ok(());
                }
                Err(Stopped::Store(failure)) => return Err(refused(key, &failure)),
            }
            let is_there = store.finish().map_err(|failure| refused(key, &failure))?;
            is_empty = !is_there;
            if is_there { about.put(txn, db, &hashed) } else { Ok(()) }
        })?;
        *if is_empty { &mut self.loaded.empty } else { &mut self.loaded.keys } += 1;
        Ok(())
    }
}

impl About {
    fn put(&self, txn: &mut Txn<'_>, db: Db, key: &Key<'_>) -> Result<(), LoadDumpError> {
        if let Some(at) = self.expires {
            // A time before 1970, which has passed.
            let set = txn.set_expiry(db, key, Some(at.max(1)));
            set.map_err(|error| refused(key.bytes(), &error.into()))?;
        }
        if let Some(idle) = self.idle {
            txn.set_idle(db, key, idle.saturating_mul(1000));
        }
        if let Some(frequency) = self.frequency {
            txn.set_frequency(db, key, frequency);
        }
        Ok(())
    }
}

/// A collection without elements is left out, as in Redis.
fn if_empty(error: rdb::Error) -> Result<bool, LoadDumpError> {
    match error {
        rdb::Error::Empty { .. } => Ok(true),
        error => Err(error.into()),
    }
}
