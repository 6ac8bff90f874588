//! Data without a server: an engine over a pool that no server has open, over a new one, or over
//! memory that an append-only file is replayed into.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use aof::{Loader, Options};
use commands::{Engine, EngineOptions, LoadOptions, LoadedDump, SaveOptions, Spool};
use heap::{CreateOptions, Heap};
use keyspace::{Db, Keyspace};
use pmem::{DomainRequest, MapOptions, Region};

use super::TransferError;
use crate::pool::{self, unix_ms};

/// Minimum of addresses for a new pool: only written data takes space.
const LEAST_LIMIT: u64 = 64 << 30;
/// How much larger a pool may be than the file that it is made from.
const GROWTH: u64 = 32;

/// The data, and an engine for commands on it.
pub(super) struct Local {
    engine: Engine,
    /// The source of the data.
    path: PathBuf,
}

impl Local {
    fn new(heap: Heap, path: &Path) -> Local {
        let keyspace = Arc::new(Keyspace::new(heap, unix_ms()));
        let mut options = EngineOptions::new(keyspace);
        options.threads = thread::available_parallelism().map_or(1, usize::from);
        Local { engine: Engine::new(options), path: path.into() }
    }

    /// Opens a pool in a private copy of its pages.
    pub(super) fn of_pool(path: &Path, journal: Option<&Path>) -> Result<Local, TransferError> {
        let pool = pool::open(path, journal, false)?;
        if let Some(why) = pool.keyspace.stopped() {
            let text = format!("the store was stopped: {why}; try `perdura check`");
            return Err(TransferError::Unsound { path: path.into(), text });
        }
        let options = EngineOptions::new(Arc::new(pool.keyspace));
        Ok(Local { engine: Engine::new(options), path: path.into() })
    }

    /// Makes a pool in a new file. Its commits are not durable before it is closed.
    pub(super) fn create(path: &Path, source_bytes: u64) -> Result<Local, TransferError> {
        let limit = source_bytes.saturating_mul(GROWTH).max(LEAST_LIMIT);
        let failed = |text: String| TransferError::Unsound { path: path.into(), text };
        let mut options = MapOptions::new(limit);
        options.domain = DomainRequest::Process;
        let region = Region::open(path, &options).map_err(|error| failed(error.to_string()))?;
        let options = CreateOptions::fitting(limit).map_err(|error| failed(error.to_string()))?;
        let heap = Heap::create(region, &options).map_err(|error| failed(error.to_string()))?;
        Ok(Local::new(heap, path))
    }

    /// Replays a log into memory.
    pub(super) fn of_log(log: Log) -> Result<Local, TransferError> {
        let limit = LEAST_LIMIT.max(log.bytes().saturating_mul(GROWTH));
        let failed = |text: String| TransferError::Unsound { path: log.path.clone(), text };
        let options = CreateOptions::fitting(limit).map_err(|error| failed(error.to_string()))?;
        let heap = Heap::volatile(limit, &options).map_err(|error| failed(error.to_string()))?;
        let local = Local::new(heap, &log.path);
        local.replay(log, &mut |_| {})?;
        Ok(local)
    }

    /// Returns the number of keys.
    pub(super) fn keys(&self) -> u64 {
        Db::all().map(|db| self.engine.keyspace().count(db).0).sum()
    }

    /// Writes the data as a dump.
    pub(super) fn save(&self, to: impl Write + Send) -> Result<(), TransferError> {
        let options = SaveOptions {
            stream: &|| None,
            compresses: true,
            has_checksum: true,
            is_base: false,
            is_for_valkey: false,
            is_background: false,
            backend: "pmem",
            spool: &spool,
            go_on: &|_| true,
        };
        let saved = commands::save(&self.engine, to, &options, || {});
        saved.map(drop).map_err(|error| self.failed(&error.to_string()))
    }

    /// Loads a dump; the data is empty.
    pub(super) fn load(
        &self,
        from: impl BufRead,
        report: &mut dyn FnMut(LoadedDump),
    ) -> Result<LoadedDump, commands::LoadDumpError> {
        let mut options = LoadOptions { verifies: true, keeps_expired: false, report };
        commands::load_dump(&self.engine, from, &mut options)
    }

    /// Executes the commands of a log; the data is empty. Returns how many bytes at its end were
    /// not a complete command.
    pub(super) fn replay(
        &self,
        mut log: Log,
        report: &mut dyn FnMut(u64),
    ) -> Result<u64, TransferError> {
        let done =
            commands::replay(&self.engine, &mut log.loader, &mut |progress| report(progress.done));
        done.map_err(|error| TransferError::Unsound {
            path: log.path.clone(),
            text: error.to_string(),
        })?;
        Ok(log.loader.loaded().cut_off)
    }

    /// Makes the pool durable and closes it.
    pub(super) fn close(self) -> Result<(), TransferError> {
        self.engine.keyspace().heap().close().map_err(|error| self.failed(&error.to_string()))
    }

    fn failed(&self, text: &str) -> TransferError {
        TransferError::Unsound { path: self.path.clone(), text: text.into() }
    }
}

/// Makes an unnamed file for a part of a large value.
fn spool() -> io::Result<Box<dyn Spool>> {
    Ok(Box::new(pmem::unnamed_file(&std::env::temp_dir())?))
}

/// An append-only file that is only read.
pub(super) struct Log {
    loader: Loader,
    path: PathBuf,
}

impl Log {
    /// Returns its length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.loader.progress().total
    }
}

/// Opens a log: its directory, the directory of a server that has it, or an old single file.
pub(super) fn open_log(path: &Path) -> Result<Log, TransferError> {
    let unsound = |text: String| TransferError::Unsound { path: path.into(), text };
    let found = find_log(path).map_err(|error| unsound(error.to_string()))?;
    let (folder, filename) = found.ok_or_else(|| TransferError::NoLog(path.into()))?;
    let mut options = Options::new(folder);
    options.dirname = String::new();
    options.filename = filename;
    options.is_read_only = true;
    let loader = Loader::open(options).map_err(|error| unsound(error.to_string()))?;
    if loader.is_new() {
        return Err(TransferError::NoLog(path.into()));
    }
    Ok(Log { loader, path: path.into() })
}

/// Returns true if a directory, or one in it, has a log. Returns an error if that is unclear: data
/// older than a log must not be mistaken for the present data.
pub(super) fn has_log(folder: &Path) -> Result<bool, TransferError> {
    let unsound = |text: String| TransferError::Unsound { path: folder.into(), text };
    find_log(folder).map(|found| found.is_some()).map_err(|error| unsound(error.to_string()))
}

/// Returns the directory of a log's files, and the prefix of their names.
fn find_log(path: &Path) -> io::Result<Option<(PathBuf, String)>> {
    if !path.is_dir() {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        return Ok(path.file_name().and_then(OsStr::to_str).map(|name| (folder, name.into())));
    }
    if let Some(name) = manifest_in(path)? {
        return Ok(Some((path.into(), name)));
    }
    let mut unread = None;
    for entry in fs::read_dir(path)? {
        let inner = entry?.path();
        if !inner.is_dir() {
            continue;
        }
        match manifest_in(&inner) {
            Ok(Some(name)) => return Ok(Some((inner, name))),
            Ok(None) => {}
            Err(error) => {
                let text = format!("{}: {error}", inner.display());
                unread = Some(io::Error::new(error.kind(), text));
            }
        }
    }
    let old = "appendonly.aof";
    match unread {
        _ if path.join(old).is_file() => Ok(Some((path.into(), old.into()))),
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// Returns the prefix of the names of a log's files in a directory. Returns an error if there are
/// such files but no manifest.
fn manifest_in(folder: &Path) -> io::Result<Option<String>> {
    let mut has_files = false;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        has_files |= name.to_str().is_some_and(|name| name.ends_with(".incr.aof"));
        let log = name.to_str().and_then(|name| name.strip_suffix(".manifest"));
        if let Some(log) = log.filter(|log| !log.starts_with("temp-")) {
            return Ok(Some(log.into()));
        }
    }
    match has_files {
        true => Err(io::Error::other("files of an append-only file without their manifest")),
        false => Ok(None),
    }
}
