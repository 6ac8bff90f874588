//! The source that a name on the command line means, with its data as a dump.
//!
//! A running server, a dump, a pool and an append-only file are all read as the bytes of one dump,
//! so that readers need not know the source. A server sends a dump of one moment (SYNC); for a pool
//! and a log it is made here, on a thread that writes into a pipe. A pool is read in a private copy
//! of its pages, and none of these files is changed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, Read};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::TransferError;
use super::local::{self, Local};
use super::socket::ServerAddress;
use super::sync::Sync;
use crate::arguments::TlsOptions;
use crate::dump::BUFFER;

/// The source of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A running server.
    Server(ServerAddress),
    /// A dump.
    Dump(PathBuf),
    /// A pool that no server has open, and its journal if that has a path of its own.
    Pool(PathBuf, Option<PathBuf>),
    /// The directory of an append-only file, or of the server that has it, or such a file.
    Log(PathBuf),
}

/// Returns the address that a name means: `redis://...`, or `host:port` if no file has that name.
pub(super) fn address(name: &str) -> Option<String> {
    if name.contains("://") {
        return Some(name.into());
    }
    let (host, port) = name.rsplit_once(':')?;
    let port = port.split('/').next().unwrap_or_default();
    let is_one = !host.contains('/') && port.parse::<u16>().is_ok() && !Path::new(name).exists();
    is_one.then(|| format!("redis://{name}"))
}

impl Origin {
    /// As [`Origin::of`]; `journal` is the path of a pool's journal.
    pub(super) fn with_journal(
        name: &str,
        journal: Option<&Path>,
        tls: &TlsOptions,
    ) -> Result<Origin, TransferError> {
        match (Origin::of(name, tls)?, journal) {
            (Origin::Pool(path, _), journal) => Ok(Origin::Pool(path, journal.map(Path::to_owned))),
            (origin, None) => Ok(origin),
            (_, Some(_)) => Err(TransferError::NoPool(name.into())),
        }
    }

    pub(super) fn of(name: &str, tls: &TlsOptions) -> Result<Origin, TransferError> {
        if let Some(address) = address(name) {
            return Ok(Origin::Server(ServerAddress::new(address, tls)));
        }
        let path = PathBuf::from(name);
        if path.is_dir() {
            return in_folder(path);
        }
        let mut head = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(8).read_to_end(&mut head));
        read.map_err(|error| TransferError::File { path: path.clone(), error })?;
        Ok(match head.first() {
            _ if heap::begins_pool(&head) => Origin::Pool(path, None),
            Some(b'*' | b'#') => Origin::Log(path),
            _ => Origin::Dump(path),
        })
    }
}

/// Returns the data in a server's directory: the append-only file, as in Redis, since it has the
/// newest writes, or else the dump.
fn in_folder(folder: PathBuf) -> Result<Origin, TransferError> {
    let dump = folder.join("dump.rdb");
    Ok(match (local::has_log(&folder)?, dump.is_file()) {
        (false, true) => Origin::Dump(dump),
        (true, true) => {
            eprintln!(
                "{} has an append-only file and a dump: the append-only file is read, as Redis \
                 does. If Redis ran with appendonly no, its data is in {}: import that",
                folder.display(),
                dump.display()
            );
            Origin::Log(folder)
        }
        (_, false) => Origin::Log(folder),
    })
}

/// The bytes of a dump, buffered. Its reader reads no further than the dump, since the bytes after
/// it say whether it was complete.
pub(super) struct DumpStream {
    from: From,
    name: PathBuf,
    /// The expected total, in bytes or keys.
    pub(super) total: u64,
    pub(super) counts_bytes: bool,
}

enum From {
    File(BufReader<File>),
    Server(Box<Sync>),
    Thread(Option<BufReader<PipeReader>>, Option<JoinHandle<Result<(), TransferError>>>),
}

impl DumpStream {
    pub(super) fn open(origin: &Origin) -> Result<DumpStream, TransferError> {
        match origin {
            Origin::Server(address) => {
                let (sync, keys) = Sync::begin(address)?;
                let from = From::Server(Box::new(sync));
                Ok(DumpStream::new(from, address.shown().into(), keys, false))
            }
            Origin::Dump(path) => {
                let failed = |error| TransferError::File { path: path.clone(), error };
                let file = File::open(path).map_err(failed)?;
                let len = file.metadata().map_err(failed)?.len();
                Ok(DumpStream::new(
                    From::File(BufReader::with_capacity(BUFFER, file)),
                    path.clone(),
                    len,
                    true,
                ))
            }
            Origin::Pool(path, journal) => {
                let pool = Local::of_pool(path, journal.as_deref())?;
                let keys = pool.keys();
                DumpStream::spawn(path, keys, move |to| pool.save(to))
            }
            Origin::Log(path) => {
                let log = local::open_log(path)?;
                DumpStream::spawn(path, 0, |to| Local::of_log(log)?.save(to))
            }
        }
    }

    fn new(from: From, name: PathBuf, total: u64, counts_bytes: bool) -> DumpStream {
        DumpStream { from, name, total, counts_bytes }
    }

    fn spawn(
        path: &Path,
        keys: u64,
        write: impl FnOnce(io::PipeWriter) -> Result<(), TransferError> + Send + 'static,
    ) -> Result<DumpStream, TransferError> {
        let failed = |error| TransferError::File { path: path.into(), error };
        let (reader, writer) = io::pipe().map_err(failed)?;
        let thread = std::thread::Builder::new().name("dump".into());
        let thread = thread.spawn(move || write(writer)).map_err(failed)?;
        Ok(DumpStream::new(
            From::Thread(Some(BufReader::with_capacity(BUFFER, reader)), Some(thread)),
            path.into(),
            keys,
            false,
        ))
    }

    /// Returns the name of its source.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Returns the error that ended it too early, if that is not in the dump itself, or else that
    /// the dump is damaged.
    pub(super) fn why(&mut self, error: rdb::Error) -> TransferError {
        if let From::Thread(pipe, _) = &mut self.from {
            // The thread does not wait for a reader that has gone.
            *pipe = None;
        }
        match self.end() {
            Err(cause) if matches!(error, rdb::Error::Cut { .. }) => cause,
            _ => TransferError::Dump { path: self.name.clone(), error },
        }
    }

    /// Waits for the end after the whole dump was read. Returns an error if it was not complete.
    pub(super) fn finish(&mut self) -> Result<(), TransferError> {
        if let From::Server(sync) = &mut self.from {
            return Ok(sync.finish()?);
        }
        self.end()
    }

    fn end(&mut self) -> Result<(), TransferError> {
        let From::Thread(_, thread) = &mut self.from else { return Ok(()) };
        match thread.take().map(JoinHandle::join) {
            Some(Err(_)) => Err(io::Error::other("the thread that read the data panicked").into()),
            Some(Ok(done)) => done,
            None => Ok(()),
        }
    }
}

impl Read for DumpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let next = self.fill_buf()?;
        let len = next.len().min(into.len());
        into[..len].copy_from_slice(&next[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for DumpStream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &mut self.from {
            From::File(file) => file.fill_buf(),
            From::Server(sync) => sync.fill_buf(),
            From::Thread(pipe, _) => pipe.as_mut().map_or(Ok(&[]), BufRead::fill_buf),
        }
    }

    fn consume(&mut self, len: usize) {
        match &mut self.from {
            From::File(file) => file.consume(len),
            From::Server(sync) => sync.consume(len),
            From::Thread(pipe, _) => drop(pipe.as_mut().map(|pipe| pipe.consume(len))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn an_address_is_no_file() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(address(name).as_deref(), expect);
        check("redis://h", Some("redis://h"));
        check("localhost:6379", Some("redis://localhost:6379"));
        check("h:1/2", Some("redis://h:1/2"));
        check("perdura.pool", None);
        check("dir/a:1", None);
        check("a:b", None);
    }
}
