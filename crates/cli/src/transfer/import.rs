//! `perdura import`: keys into a running server, by RESTORE. [`backup`] makes a pool of them.
//!
//! Requests are sent in batches of bounded size. The server takes each key completely or not at
//! all; keys taken before a failure stay, so the same import can be run again. A key that the
//! server refuses is named, and the import goes on: only an error that concerns all keys, such as a
//! full server, ends it ([`super::refused`]).

use std::time::Instant;

use redis::Value;
use serde_json::json;

use super::connection::{Connection, error_of};
use super::origin::address;
use super::refused::{self, NO_DATABASE, RefusedKeys};
use super::socket::ServerAddress;
use super::{Key, Record, TransferError, backup, open, shown};
use crate::Verdict;
use crate::arguments::Import;
use crate::output::say;
use crate::progress::Watched;

/// Bytes of requests that are sent before their replies are read.
pub const BATCH_BYTES: usize = 1 << 20;
/// Requests that are sent before their replies are read.
pub const BATCH: usize = 512;

/// The counts of an import.
#[derive(Debug, Default)]
struct Imported {
    keys: u64,
    libraries: u64,
    /// Keys, and libraries, that the server already had.
    kept: u64,
    /// The keys that the server refused.
    refused: RefusedKeys,
}

pub(crate) fn run(options: &Import) -> Verdict {
    let Some(to) = address(&options.to) else {
        return backup::into_pool("import", options);
    };
    let began = Instant::now();
    let mut done = Imported::default();
    let result = import(options, &to, &mut done);
    let seconds = began.elapsed().as_secs_f64();
    let Imported { keys, libraries, kept, refused } = done;
    if options.json {
        let error = result.as_ref().err().map(ToString::to_string);
        let report = json!({
            "from": options.from, "to": options.to, "keys": keys, "libraries": libraries,
            "kept": kept, "refused": refused.count(), "refused_keys": refused.as_json(),
            "seconds": seconds, "error": error,
        });
        say!("{report:#}");
    } else {
        let rate = keys as f64 / seconds.max(0.001);
        say!(
            "imported: keys={keys} libraries={libraries} kept={kept} refused={} \
             seconds={seconds:.1} keys_per_second={rate:.0}",
            refused.count()
        );
        if kept > 0 {
            say!("kept: the server had them already; --replace overwrites them");
        }
    }
    refused.say_what_helps(&options.from);
    match result {
        Ok(()) if refused.count() > 0 => Verdict::Unchecked,
        Ok(()) if kept > 0 => Verdict::Damaged,
        Ok(()) => Verdict::Sound,
        Err(error) => {
            eprintln!("{error}");
            if keys > 0 {
                eprintln!(
                    "not complete: run it again with --replace when the cause is gone; what was \
                     imported stays"
                );
            }
            Verdict::Unchecked
        }
    }
}

fn import(options: &Import, to: &str, done: &mut Imported) -> Result<(), TransferError> {
    let mut source = open(&options.from, options.journal.as_deref(), &options.tls)?;
    let connection = Connection::open(&ServerAddress::new(to.to_owned(), &options.tls))?;
    let database = connection.database();
    let mut target = Target { connection, database, selected: None, sent: Vec::new(), options };
    let mut watched = Watched::new(source.progress().total, source.counts_bytes(), options.quiet);
    while let Some(record) = source.next()? {
        target.add(&record, done)?;
        watched.set(source.progress().done);
    }
    target.flush(done)?;
    watched.finish();
    Ok(())
}

/// The purpose of a request that was sent.
enum Sent {
    Library,
    Key(u64, Vec<u8>),
}

/// The server that takes the keys.
struct Target<'o> {
    connection: Connection,
    /// The database in its address: all keys go there.
    database: Option<u64>,
    /// The database that is selected, and whether the server has it.
    selected: Option<(u64, bool)>,
    sent: Vec<Sent>,
    options: &'o Import,
}

impl Target<'_> {
    fn add(&mut self, record: &Record, done: &mut Imported) -> Result<(), TransferError> {
        match record {
            Record::Library(source) => self.add_library(source),
            Record::Key(key) => self.add_key(key, done)?,
        }
        if self.sent.len() >= BATCH || self.connection.waiting_bytes() >= BATCH_BYTES {
            self.flush(done)?;
        }
        Ok(())
    }

    fn add_library(&mut self, source: &[u8]) {
        let mut words: Vec<&[u8]> = vec![b"FUNCTION", b"LOAD"];
        if self.options.replace {
            words.push(b"REPLACE");
        }
        words.push(source);
        self.connection.add(&words);
        self.sent.push(Sent::Library);
    }

    fn add_key(&mut self, key: &Key, done: &mut Imported) -> Result<(), TransferError> {
        let database = self.database.unwrap_or(key.database);
        if !self.select(database, done)? {
            done.refused.add(database, &key.name, NO_DATABASE);
            return Ok(());
        }
        let expires = key.expires.unwrap_or(0).to_string();
        let mut words: Vec<&[u8]> = vec![b"RESTORE", &key.name, expires.as_bytes(), &key.payload];
        words.push(b"ABSTTL");
        if self.options.replace {
            words.push(b"REPLACE");
        }
        self.connection.add(&words);
        self.sent.push(Sent::Key(database, key.name.clone()));
        Ok(())
    }

    /// Selects a database after all earlier requests were answered, since no key may go to another
    /// one.
    fn select(&mut self, database: u64, done: &mut Imported) -> Result<bool, TransferError> {
        if let Some((selected, exists)) = self.selected
            && selected == database
        {
            return Ok(exists);
        }
        self.flush(done)?;
        let reply = self.connection.call(&[b"SELECT", database.to_string().as_bytes()])?;
        let exists = match error_of(&reply) {
            None => true,
            Some(error) if error.contains("out of range") => false,
            Some(reply) => {
                return Err(TransferError::Refused { database, key: String::new(), reply });
            }
        };
        self.selected = Some((database, exists));
        Ok(exists)
    }

    /// Sends the added requests, and counts their results.
    fn flush(&mut self, done: &mut Imported) -> Result<(), TransferError> {
        let replies = self.connection.send()?;
        for (sent, reply) in self.sent.drain(..).zip(&replies) {
            count(sent, reply, done)?;
        }
        Ok(())
    }
}

fn count(sent: Sent, reply: &Value, done: &mut Imported) -> Result<(), TransferError> {
    match (sent, error_of(reply)) {
        (Sent::Library, None) => done.libraries += 1,
        (Sent::Key(..), None) => done.keys += 1,
        (Sent::Key(..), Some(error)) if error.starts_with("BUSYKEY") => done.kept += 1,
        (Sent::Library, Some(error)) if error.contains("already exists") => done.kept += 1,
        (Sent::Library, Some(error)) => return Err(TransferError::Library(error)),
        (Sent::Key(database, key), Some(reply)) if refused::concerns_all(&reply) => {
            return Err(TransferError::Refused { database, key: shown(&key), reply });
        }
        (Sent::Key(database, key), Some(reply)) => done.refused.add(database, &key, &reply),
    }
    Ok(())
}
