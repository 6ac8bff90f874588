//! `perdura backup` and `perdura restore`: data into one file, a dump or a pool.
//!
//! The file is made under a temporary name, verified by being read again, synced, and then given
//! its name. A dump is also verified while it is written, so that damage of the source is not
//! mistaken for that of the target's medium.

use std::fs::{DirBuilder, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Instant;

use keyspace::Checked;
use pmem::NewFile;
use rdb::{Reader, Record};
use serde_json::json;

use super::local::{self, Local};
use super::origin::{DumpStream, Origin, address};
use super::{TransferError, import};
use crate::arguments::{Backup, Check, Form, Import, Restore};
use crate::dump::{BUFFER, LONGEST};
use crate::new_file::new_file;
use crate::output::say;
use crate::progress::Watched;
use crate::{Verdict, check};

pub(crate) fn run(options: &Backup) -> Verdict {
    let Backup { from, to, form, journal, json, quiet, tls } = options;
    report("backup", from, to, *json, || {
        let origin = Origin::with_journal(from, journal.as_deref(), tls)?;
        make(&origin, to, *form, *quiet || *json)
    })
}

/// Makes a pool, or sends the keys to a running server.
pub(crate) fn restore(options: &Restore) -> Verdict {
    let Restore { from, to, journal, json, quiet, tls } = options;
    let (from, journal, replace) = (from.clone(), journal.clone(), false);
    let (to, json, quiet) = (address(to).unwrap_or_else(|| to.clone()), *json, *quiet);
    let tls = tls.clone();
    let options = Import { from, to, replace, journal, json, quiet, tls };
    match address(&options.to) {
        Some(_) => import::run(&options),
        None => into_pool("restore", &options),
    }
}

/// Makes a pool.
pub(super) fn into_pool(what: &str, options: &Import) -> Verdict {
    let Import { from, to, journal, json, quiet, tls, .. } = options;
    let to = Path::new(to);
    report(what, from, to, *json, || {
        let origin = Origin::with_journal(from, journal.as_deref(), tls)?;
        make_folder_of(to)?;
        make(&origin, to, Form::Pool, *quiet || *json)
    })
}

/// Makes the directory of a new pool, for its owner only, if only that one is missing.
fn make_folder_of(pool: &Path) -> Result<(), TransferError> {
    match pool.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            let made = DirBuilder::new().mode(0o700).create(folder);
            // Its name is as durable as its content.
            let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
            let above = above.unwrap_or(Path::new("."));
            let made = made.and_then(|()| File::open(above)?.sync_all());
            made.map_err(|error| TransferError::File { path: folder.into(), error })
        }
        _ => Ok(()),
    }
}

/// Makes a file, and reports the result.
fn report(
    what: &str,
    from: &str,
    to: &Path,
    json: bool,
    make: impl FnOnce() -> Result<Saved, TransferError>,
) -> Verdict {
    let began = Instant::now();
    let made = make();
    let seconds = began.elapsed().as_secs_f64();
    let saved = *made.as_ref().unwrap_or(&Saved::default());
    let Saved { keys, libraries, expired, bytes, cut_off } = saved;
    if json {
        let error = made.as_ref().err().map(ToString::to_string);
        say!(
            "{:#}",
            json!({
                "from": from, "to": to.display().to_string(), "keys": keys,
                "libraries": libraries, "expired": expired, "bytes": bytes, "cut_off": cut_off,
                "seconds": seconds, "error": error,
            })
        );
    } else if made.is_ok() {
        say!(
            "{what}: {} is verified: keys={keys} libraries={libraries} expired={expired} \
             bytes={bytes} seconds={seconds:.1}",
            to.display()
        );
        if cut_off > 0 {
            say!("the last {cut_off} bytes of {from} are no whole command: left out");
        }
    }
    match made {
        Ok(_) => Verdict::Sound,
        Err(error) => {
            eprintln!("perdura {what}: {error}");
            Verdict::Unchecked
        }
    }
}

/// The content of a finished file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Saved {
    pub(super) keys: u64,
    pub(super) libraries: u64,
    /// Keys that were left out because they had expired.
    pub(super) expired: u64,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// Bytes at the end of a log that were not a complete command.
    pub(super) cut_off: u64,
}

/// Makes a new file.
pub(super) fn make(
    origin: &Origin,
    to: &Path,
    form: Form,
    quiet: bool,
) -> Result<Saved, TransferError> {
    let file = new_file(to)?;
    let saved = match form {
        Form::Rdb => dump(origin, &file, quiet)?,
        Form::Pool => new_pool(origin, file.part(), quiet)?,
    };
    file.publish()?;
    Ok(saved)
}

/// Writes all data of the origin as a dump to `out`. Returns its counts.
pub(super) fn write_dump(
    origin: &Origin,
    out: &mut dyn Write,
    quiet: bool,
) -> Result<Saved, TransferError> {
    let mut stream = DumpStream::open(origin)?;
    let mut watched = Watched::new(stream.total, stream.counts_bytes, quiet);
    let counts_bytes = stream.counts_bytes;
    let mut tee = Tee { from: &mut stream, to: out, failed: None };
    let read = count(&mut tee, |keys, bytes| watched.set(if counts_bytes { bytes } else { keys }));
    let Tee { failed, .. } = tee;
    watched.finish();
    match (read, failed) {
        (_, Some(error)) => Err(error.into()),
        (Err(error), None) => Err(stream.why(error)),
        (Ok(saved), None) => {
            stream.finish()?;
            out.flush()?;
            Ok(saved)
        }
    }
}

fn dump(origin: &Origin, file: &NewFile, quiet: bool) -> Result<Saved, TransferError> {
    let mut out = BufWriter::with_capacity(BUFFER, file.create()?);
    let saved = write_dump(origin, &mut out, quiet)?;
    let written = out.into_inner().map_err(|error| error.into_error())?;
    written.sync_all()?;
    drop(written);
    let unsound = |text: String| TransferError::Unsound { path: file.part().into(), text };
    let again = File::open(file.part()).map_err(|error| unsound(error.to_string()))?;
    let again = count(BufReader::with_capacity(BUFFER, again), |_, _| ());
    match again {
        Ok(again) if again == saved => Ok(saved),
        Ok(again) => Err(unsound(format!("{} keys were written, {} read", saved.keys, again.keys))),
        Err(error) => Err(unsound(error.to_string())),
    }
}

/// Reads a dump to its end and verifies it; `report` gets the keys and bytes so far.
fn count(from: impl BufRead, mut report: impl FnMut(u64, u64)) -> Result<Saved, rdb::Error> {
    let mut reader = Reader::new(from, LONGEST)?;
    let mut saved = Saved::default();
    loop {
        match reader.next()? {
            Record::Function(_) => saved.libraries += 1,
            Record::Key { .. } => {
                saved.keys += 1;
                report(saved.keys, reader.at());
            }
            Record::End => break,
            _ => {}
        }
    }
    saved.bytes = reader.at();
    Ok(saved)
}

/// A reader that copies everything read through it.
struct Tee<'t> {
    from: &'t mut DumpStream,
    to: &'t mut dyn Write,
    /// Why copying failed.
    failed: Option<io::Error>,
}

impl Read for Tee<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let next = self.fill_buf()?;
        let len = next.len().min(into.len());
        into[..len].copy_from_slice(&next[..len]);
        self.consume(len);
        Ok(len)
    }
}

impl BufRead for Tee<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.failed {
            Some(_) => Err(io::Error::other("writing failed")),
            None => self.from.fill_buf(),
        }
    }

    fn consume(&mut self, len: usize) {
        // The bytes read are still in the buffer.
        let next = self.from.fill_buf().map(|next| &next[..len]);
        if let Err(error) = next.and_then(|next| self.to.write_all(next)) {
            self.failed.get_or_insert(error);
        }
        self.from.consume(len);
    }
}

/// Makes a pool, closes it, and checks all of it.
fn new_pool(origin: &Origin, part: &Path, quiet: bool) -> Result<Saved, TransferError> {
    let (pool, mut saved) = match origin {
        Origin::Log(path) => replay(path, part, quiet)?,
        origin => load(origin, part, quiet)?,
    };
    pool.close()?;
    let unsound = |text: String| TransferError::Unsound { path: part.into(), text };
    let options = Check {
        pool: part.into(),
        journal: None,
        repair: false,
        json: false,
        threads: None,
        quiet,
    };
    let found = check::examine(&options)?;
    let Checked { keys, libraries, .. } = found.outcome.checked;
    if found.verdict != Verdict::Sound || keys != saved.keys {
        let problems = found.outcome.problems.len();
        let text =
            format!("of {} keys {keys} are in the new pool, {problems} problems", saved.keys);
        return Err(unsound(text));
    }
    saved.libraries = libraries;
    saved.bytes = part.metadata().map_err(|error| unsound(error.to_string()))?.len();
    Ok(saved)
}

fn replay(log: &Path, part: &Path, quiet: bool) -> Result<(Local, Saved), TransferError> {
    let log = local::open_log(log)?;
    let mut watched = Watched::new(log.bytes(), true, quiet);
    let pool = Local::create(part, log.bytes())?;
    let cut_off = pool.replay(log, &mut |done| watched.set(done))?;
    watched.finish();
    let keys = pool.keys();
    Ok((pool, Saved { keys, cut_off, ..Saved::default() }))
}

fn load(origin: &Origin, part: &Path, quiet: bool) -> Result<(Local, Saved), TransferError> {
    let mut stream = DumpStream::open(origin)?;
    let counts_bytes = stream.counts_bytes;
    let mut watched = Watched::new(stream.total, counts_bytes, quiet);
    let pool = Local::create(part, if counts_bytes { stream.total } else { 0 })?;
    let loaded = pool.load(&mut stream, &mut |loaded| {
        watched.set(if counts_bytes { loaded.bytes } else { loaded.keys + loaded.expired });
    });
    watched.finish();
    let loaded = loaded.map_err(|error| match error {
        commands::LoadDumpError::Short(error) => stream.why(error),
        error => TransferError::Unsound { path: stream.name().into(), text: error.to_string() },
    })?;
    stream.finish()?;
    let (keys, expired) = (loaded.keys, loaded.expired);
    Ok((pool, Saved { keys, expired, ..Saved::default() }))
}
