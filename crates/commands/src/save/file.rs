//! The file of a dump, which several threads write.
//!
//! A thread appends what it has encoded under a lock: whole keys, all of one database, which is
//! selected first if necessary.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::Engine;
use engine::config::REDIS_VERSION;
use engine::save_options::{SaveError, SaveOptions, StreamPoint};
use keyspace::{DATABASES, Db, Policy};
use rdb::FileWriter;

/// The auxiliary field that names the backend whose data was dumped.
pub(super) const DUMP_BACKEND: &[u8] = b"perdura-backend";

/// The auxiliary field that says which database a stream of commands has selected at the cut.
pub(crate) const STREAM_DB: &[u8] = b"repl-stream-db";

/// The auxiliary fields that name the history of that stream, and the offset of the cut in it.
pub(super) const STREAM_ID: &[u8] = b"repl-id";
pub(super) const STREAM_OFFSET: &[u8] = b"repl-offset";

/// The same of the history that it continues, of which Redis's dumps say nothing.
pub(super) const STREAM_ID2: &[u8] = b"perdura-repl-id2";
pub(super) const STREAM_OFFSET2: &[u8] = b"perdura-repl-offset2";

/// A dump that is being written.
pub(super) struct Dump<'d, W> {
    pub(super) engine: &'d Engine,
    pub(super) options: &'d SaveOptions<'d>,
    pub(super) policy: Policy,
    /// Held while a spool is made.
    pub(super) spools: Mutex<()>,
    keys: AtomicU64,
    is_given_up: AtomicBool,
    file: Mutex<DumpFile<W>>,
}

struct DumpFile<W> {
    to: FileWriter<W>,
    /// The database that is selected.
    db: Option<Db>,
    /// Databases whose sizes were written.
    sized: [bool; DATABASES],
}

impl<'d, W: Write> Dump<'d, W> {
    pub(super) fn begin(
        engine: &'d Engine,
        to: W,
        options: &'d SaveOptions<'d>,
    ) -> Result<Dump<'d, W>, SaveError> {
        let mut to = FileWriter::new(to, options.compresses, options.has_checksum);
        match options.is_for_valkey {
            true => to.begin_valkey()?,
            false => to.begin()?,
        }
        to.aux(b"redis-ver", REDIS_VERSION.as_bytes())?;
        to.aux(b"redis-bits", b"64")?;
        to.aux(b"ctime", (engine.clock().unix_ms() / 1000).to_string().as_bytes())?;
        to.aux(b"used-mem", engine.keyspace().heap().used().to_string().as_bytes())?;
        to.aux(b"aof-base", if options.is_base { b"1" } else { b"0" })?;
        if let Some(StreamPoint { db, history, second }) = (options.stream)() {
            to.aux(STREAM_DB, db.to_string().as_bytes())?;
            let names = [(STREAM_ID, STREAM_OFFSET), (STREAM_ID2, STREAM_OFFSET2)];
            for ((id_name, offset_name), place) in names.into_iter().zip([history, second]) {
                if let Some((id, offset)) = place {
                    to.aux(id_name, id.as_bytes())?;
                    to.aux(offset_name, offset.to_string().as_bytes())?;
                }
            }
        }
        to.aux(DUMP_BACKEND, options.backend.as_bytes())?;
        // The receiver of a dump that is sent learns at once that the data is fixed.
        to.flush()?;
        Ok(Dump {
            engine,
            options,
            policy: engine.keyspace().eviction().policy,
            spools: Mutex::default(),
            keys: AtomicU64::new(0),
            is_given_up: AtomicBool::new(false),
            file: Mutex::new(DumpFile { to, db: None, sized: [false; DATABASES] }),
        })
    }

    /// Writes a library of functions.
    pub(super) fn function(&self, code: &[u8]) -> io::Result<()> {
        self.file().to.function(code)
    }

    /// Counts a key; returns an error if the dump must not continue.
    pub(super) fn count(&self) -> Result<(), SaveError> {
        let keys = self.keys.fetch_add(1, Relaxed) + 1;
        let goes_on = (self.options.go_on)(keys) && !self.is_given_up.load(Relaxed);
        if goes_on { Ok(()) } else { Err(SaveError::GivenUp) }
    }

    /// Makes the other threads stop.
    pub(super) fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
    }

    /// Writes the end, and returns the writer.
    pub(super) fn end(self) -> Result<W, SaveError> {
        Ok(self.file.into_inner().unwrap_or_else(PoisonError::into_inner).to.end()?)
    }

    /// Locks the file. If a thread panicked the file stays incomplete, and the dump is not used.
    fn file(&self) -> MutexGuard<'_, DumpFile<W>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn select(&self, file: &mut DumpFile<W>, db: Db) -> io::Result<()> {
        if file.db == Some(db) {
            return Ok(());
        }
        file.db = Some(db);
        file.to.database(db.number() as u64)?;
        if std::mem::replace(&mut file.sized[db.number()], true) {
            return Ok(());
        }
        let (keys, expiring) = self.engine.keyspace().count(db);
        file.to.sizes(keys, expiring)
    }
}

/// Appends whole keys for one thread. From the first byte of a piece until `release` no other
/// thread appends.
pub(super) struct Pieces<'w, 'd, W> {
    pub(super) dump: &'w Dump<'d, W>,
    /// The database of all keys that are appended.
    pub(super) db: Db,
    file: Option<MutexGuard<'w, DumpFile<W>>>,
}

impl<'w, 'd, W> Pieces<'w, 'd, W> {
    pub(super) fn new(dump: &'w Dump<'d, W>) -> Pieces<'w, 'd, W> {
        Pieces { dump, db: Db::default(), file: None }
    }

    /// Returns true if this thread has appended bytes since the last release.
    pub(super) fn has_begun(&self) -> bool {
        self.file.is_some()
    }

    /// Lets other threads append.
    pub(super) fn release(&mut self) {
        self.file = None;
    }
}

impl<W: Write> Write for Pieces<'_, '_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let mut file = self.dump.file();
                self.dump.select(&mut file, self.db)?;
                none.insert(file)
            }
        };
        file.to.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
