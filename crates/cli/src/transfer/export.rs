//! `perdura export`: keys as text, for people and for other programs.
//!
//! *RESP*: the requests that make the same keys, as `redis-cli --pipe` sends them. *JSON*: one
//! object on a line for each key. A file gets its name when it is complete and synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::commands::Commands;
use super::{Key, Record, Source, TransferError, WriteError, json_lines, open, shown};
use crate::Verdict;
use crate::arguments::{Export, Format};
use crate::progress::Watched;

/// Bytes that are written at once.
const BUFFER: usize = 1 << 20;

pub(crate) fn run(options: &Export) -> Verdict {
    let began = Instant::now();
    match export(options) {
        Ok(keys) => {
            let seconds = began.elapsed().as_secs_f64();
            eprintln!("exported: keys={keys} seconds={seconds:.1}");
            Verdict::Sound
        }
        // Whoever reads has what he wanted: `perdura export ... | head`.
        Err(TransferError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Verdict::Sound
        }
        Err(error) => {
            eprintln!("{error}");
            Verdict::Unchecked
        }
    }
}

fn export(options: &Export) -> Result<u64, TransferError> {
    let mut source = open(&options.from)?;
    match &options.out {
        None => {
            let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            let keys = write(options, source.as_mut(), &mut out)?;
            out.flush()?;
            Ok(keys)
        }
        Some(path) => {
            let mut part = Part::create(path)?;
            let keys = write(options, source.as_mut(), &mut part.out)?;
            part.finish()?;
            Ok(keys)
        }
    }
}

fn write(
    options: &Export,
    source: &mut dyn Source,
    out: &mut dyn Write,
) -> Result<u64, TransferError> {
    let mut watched = Watched::new(source.progress().total, source.counts_bytes(), options.quiet);
    let (mut commands, mut keys) = (Commands::default(), 0);
    while let Some(record) = source.next()? {
        match record {
            Record::Library(code) if options.format == Format::Resp => {
                commands.library(out, &code)?;
            }
            Record::Library(code) => json_lines::library(out, &code)?,
            Record::Key(key) => {
                keys += 1;
                let written = match options.format {
                    Format::Resp => commands.key(out, &key),
                    Format::Json => json_lines::key(out, &key),
                };
                written.map_err(|error| failure(&key, error))?;
            }
        }
        watched.set(source.progress().done);
    }
    watched.finish();
    Ok(keys)
}

fn failure(key: &Key, error: WriteError) -> TransferError {
    let (database, key) = (key.database, shown(&key.name));
    match error {
        WriteError::Value(error) => TransferError::Value { database, key, error },
        WriteError::Output(error) => TransferError::Output(error),
    }
}

/// A file that has its name only when it is complete.
struct Part {
    out: BufWriter<File>,
    part: PathBuf,
    path: PathBuf,
    is_complete: bool,
}

impl Part {
    fn create(path: &Path) -> Result<Part, TransferError> {
        if path.exists() {
            return Err(TransferError::Exists(path.into()));
        }
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&part);
        let file = file.map_err(|error| TransferError::File { path: part.clone(), error })?;
        let out = BufWriter::with_capacity(BUFFER, file);
        Ok(Part { out, part, path: path.into(), is_complete: false })
    }

    fn finish(mut self) -> Result<(), TransferError> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.part, &self.path)?;
        self.is_complete = true;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_complete {
            // It was ours; that it stays harms nobody.
            let _ = fs::remove_file(&self.part);
        }
    }
}
