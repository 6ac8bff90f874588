//! A running server as a source: SCAN, then DUMP and PTTL of each key.
//!
//! The server goes on meanwhile. As SCAN guarantees, a key that is there from the beginning to the
//! end is returned; one that is written meanwhile has some value of that time, and one that is
//! created meanwhile may be missing. Whoever needs the state of one moment stops the writers first.

use redis::Value;

use super::connection::{Connection, error_of};
use super::{Key, Progress, Record, Source, TransferError, shown, unix_ms};

/// Keys that are asked for at once.
const BATCH: &str = "256";

/// A server whose keys are read.
pub(super) struct RunningServer {
    connection: Connection,
    /// Databases that are left; the last one is next.
    databases: Vec<u64>,
    database: u64,
    cursor: Option<Vec<u8>>,
    /// Records that were read and not returned yet; the last one is next.
    ready: Vec<Record>,
    progress: Progress,
}

impl RunningServer {
    pub(super) fn new(mut connection: Connection) -> Result<RunningServer, TransferError> {
        let only = connection.database();
        let (mut databases, mut total) = (Vec::new(), 0);
        for (database, keys) in keyspace(&mut connection)? {
            if only.is_none_or(|only| only == database) {
                databases.push(database);
                total += keys;
            }
        }
        databases.reverse();
        let ready = libraries(&mut connection)?;
        let progress = Progress { done: 0, total };
        Ok(RunningServer { connection, databases, database: 0, cursor: None, ready, progress })
    }

    /// Reads another batch; false at the end.
    fn read(&mut self) -> Result<bool, TransferError> {
        let cursor = match self.cursor.take() {
            Some(cursor) => cursor,
            None => {
                let Some(database) = self.databases.pop() else { return Ok(false) };
                self.database = database;
                let reply = self.connection.call(&[b"SELECT", database.to_string().as_bytes()])?;
                if error_of(&reply).is_some() {
                    return Err(self.connection.unexpected("SELECT", &reply).into());
                }
                b"0".to_vec()
            }
        };
        let reply = self.connection.call(&[b"SCAN", &cursor, b"COUNT", BATCH.as_bytes()])?;
        let Some((cursor, keys)) = scanned(&reply) else {
            return Err(self.connection.unexpected("SCAN", &reply).into());
        };
        self.cursor = Some(cursor).filter(|cursor| cursor != b"0");
        self.dump(keys)?;
        Ok(true)
    }

    fn dump(&mut self, keys: Vec<Vec<u8>>) -> Result<(), TransferError> {
        for key in &keys {
            self.connection.add(&[b"PTTL", key]);
            self.connection.add(&[b"DUMP", key]);
        }
        let now = unix_ms();
        let mut replies = self.connection.send()?.into_iter();
        self.progress.done += keys.len() as u64;
        for name in keys {
            let (Some(ttl), Some(dump)) = (replies.next(), replies.next()) else { break };
            let database = self.database;
            match (ttl, dump) {
                (Value::Int(ttl), Value::BulkString(payload)) => {
                    let expires = u64::try_from(ttl).ok().map(|ttl| now.saturating_add(ttl));
                    self.ready.push(Record::Key(Key { database, name, expires, payload }));
                }
                // Deleted meanwhile, or expired.
                (_, Value::Nil) => {}
                (_, other) => {
                    let reply = error_of(&other).unwrap_or_else(|| "unexpected reply".to_owned());
                    return Err(TransferError::Refused { database, key: shown(&name), reply });
                }
            }
        }
        Ok(())
    }
}

impl Source for RunningServer {
    fn next(&mut self) -> Result<Option<Record>, TransferError> {
        while self.ready.is_empty() {
            if !self.read()? {
                return Ok(None);
            }
        }
        Ok(self.ready.pop())
    }

    fn progress(&self) -> Progress {
        self.progress
    }

    fn counts_bytes(&self) -> bool {
        false
    }
}

/// Returns the databases that have keys, in ascending order, and how many.
pub(super) fn keyspace(connection: &mut Connection) -> Result<Vec<(u64, u64)>, TransferError> {
    let reply = connection.call(&[b"INFO", b"keyspace"])?;
    let text = match &reply {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        other => return Err(connection.unexpected("INFO", other).into()),
    };
    let row = |line: &str| {
        let (database, keys) = line.strip_prefix("db")?.split_once(":keys=")?;
        Some((database.parse().ok()?, keys.split(',').next()?.parse().ok()?))
    };
    let mut found: Vec<(u64, u64)> = text.lines().filter_map(row).collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns the function libraries; none of a server that knows no functions.
fn libraries(connection: &mut Connection) -> Result<Vec<Record>, TransferError> {
    let mut found = Vec::new();
    if let Value::BulkString(payload) = connection.call(&[b"FUNCTION", b"DUMP"])? {
        let longest = payload.len().saturating_mul(100) as u64;
        let read = rdb::payload::functions(&payload, longest, |source| {
            found.push(Record::Library(source));
            Ok::<_, rdb::Error>(())
        });
        read.map_err(|error| connection.unexpected("FUNCTION DUMP", &text(&error)))?;
    }
    found.reverse();
    Ok(found)
}

fn text(error: &rdb::Error) -> Value {
    Value::SimpleString(error.to_string())
}

/// Returns the cursor and the keys of a reply of SCAN.
fn scanned(reply: &Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(cursor), Value::Array(keys)] = parts.as_slice() else { return None };
    let bytes = |key: &Value| match key {
        Value::BulkString(key) => Some(key.clone()),
        _ => None,
    };
    Some((cursor.clone(), keys.iter().map(bytes).collect::<Option<_>>()?))
}
