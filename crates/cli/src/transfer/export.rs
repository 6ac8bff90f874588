//! `perdura export`: keys as text, for people and for other programs, or as a dump.
//!
//! *RESP*: the requests that create the keys, for `redis-cli --pipe`. *JSON*: one object on a line
//! for each key. A dump is the same as a backup, unless it is for Valkey 9, whose format differs
//! ([`super::valkey`]). A file gets its name when it is complete and synced.

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use super::commands::Commands;
use super::origin::Origin;
use super::{
    Key, Record, Source, TransferError, WriteError, backup, json_lines, open, shown, valkey,
};
use crate::Verdict;
use crate::arguments::{Export, Form, Format, Reader};
use crate::new_file::new_file;
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
        // The reader has seen enough: `perdura export ... | head`.
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
    if options.format == Format::Rdb && options.reader == Reader::Redis7 {
        return dump(options);
    }
    let mut source = open(&options.from, options.journal.as_deref(), &options.tls)?;
    match &options.out {
        None => {
            let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            let keys = write(options, source.as_mut(), &mut out)?;
            out.flush()?;
            Ok(keys)
        }
        Some(path) => {
            let file = new_file(path)?;
            let mut out = BufWriter::with_capacity(BUFFER, file.create()?);
            let keys = write(options, source.as_mut(), &mut out)?;
            out.flush()?;
            file.publish()?;
            Ok(keys)
        }
    }
}

/// Writes a dump; one that goes to a file is verified before it gets its name.
fn dump(options: &Export) -> Result<u64, TransferError> {
    let origin = Origin::with_journal(&options.from, options.journal.as_deref(), &options.tls)?;
    let saved = match &options.out {
        Some(path) => backup::make(&origin, path, Form::Rdb, options.quiet)?,
        None => {
            let mut out = BufWriter::with_capacity(BUFFER, io::stdout().lock());
            backup::write_dump(&origin, &mut out, options.quiet)?
        }
    };
    Ok(saved.keys)
}

fn write(
    options: &Export,
    source: &mut dyn Source,
    out: &mut dyn Write,
) -> Result<u64, TransferError> {
    if options.format == Format::Rdb {
        return valkey::write_dump(source, out, options.quiet);
    }
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
                    _ => json_lines::key(out, &key),
                };
                written.map_err(|error| failure(&key, error))?;
            }
        }
        watched.set(source.progress().done);
    }
    watched.finish();
    Ok(keys)
}

pub(super) fn failure(key: &Key, error: WriteError) -> TransferError {
    let (database, key) = (key.database, shown(&key.name));
    match error {
        WriteError::Value(error) => TransferError::Value { database, key, error },
        WriteError::Output(error) => TransferError::Output(error),
    }
}
