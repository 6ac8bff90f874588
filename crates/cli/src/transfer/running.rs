//! A running server as a source: SCAN, then PTTL and DUMP of each key, in a transaction.
//!
//! The server goes on meanwhile. As SCAN guarantees, a key that is there from the beginning to the
//! end is returned; one that is written meanwhile has some value of that time with the time to live
//! that belongs to it, and one that is created meanwhile may be missing. Whoever needs the state of
//! one moment stops the writers first.
//!
//! Neither side keeps more in memory than a batch of bounded size, or one large value: the server
//! is asked for sizes first.

use std::collections::VecDeque;

use redis::Value;

use super::connection::{Connection, error_of};
use super::{Key, Progress, Record, Source, TransferError, shown, unix_ms};

/// Keys that are asked for at once.
pub const BATCH: usize = 256;
/// Bytes of values, as the server counts them, that are asked for at once. A larger one comes
/// alone.
pub const BATCH_BYTES: u64 = 8 << 20;
/// What a value counts whose size the server does not say.
const UNKNOWN_BYTES: u64 = BATCH_BYTES / 16;
/// Requests for one key: MULTI, PTTL, DUMP, EXEC.
const BEFORE_EXEC: usize = 3;

/// A server whose keys are read.
pub(super) struct RunningServer {
    connection: Connection,
    /// Databases that are left; the last one is next.
    databases: Vec<u64>,
    database: u64,
    cursor: Option<Vec<u8>>,
    /// Keys that were found and not asked for yet, in batches.
    found: VecDeque<Vec<Vec<u8>>>,
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
        Ok(RunningServer {
            connection,
            databases,
            database: 0,
            cursor: None,
            found: VecDeque::new(),
            ready,
            progress: Progress { done: 0, total },
        })
    }

    /// Reads another batch; false at the end.
    fn read(&mut self) -> Result<bool, TransferError> {
        if let Some(keys) = self.found.pop_front() {
            self.dump(keys)?;
            return Ok(true);
        }
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
        let reply =
            self.connection.call(&[b"SCAN", &cursor, b"COUNT", BATCH.to_string().as_bytes()])?;
        let Some((cursor, keys)) = scanned(&reply) else {
            return Err(self.connection.unexpected("SCAN", &reply).into());
        };
        self.cursor = Some(cursor).filter(|cursor| cursor != b"0");
        let sizes = self.sizes(&keys)?;
        self.found = batches(keys, &sizes);
        Ok(true)
    }

    /// Returns how many bytes each value takes, as the server counts them.
    fn sizes(&mut self, keys: &[Vec<u8>]) -> Result<Vec<u64>, TransferError> {
        for key in keys {
            self.connection.add(&[b"MEMORY", b"USAGE", key]);
        }
        let size = |reply: &Value| match reply {
            Value::Int(bytes) => u64::try_from(*bytes).unwrap_or(UNKNOWN_BYTES),
            // Deleted meanwhile.
            Value::Nil => 0,
            // The command is not known, or not allowed.
            _ => UNKNOWN_BYTES,
        };
        Ok(self.connection.send()?.iter().map(size).collect())
    }

    /// Reads values. A transaction, since another client may give the key another value, and
    /// another time to live, between two commands.
    fn dump(&mut self, keys: Vec<Vec<u8>>) -> Result<(), TransferError> {
        for key in &keys {
            self.connection.add(&[b"MULTI"]);
            self.connection.add(&[b"PTTL", key]);
            self.connection.add(&[b"DUMP", key]);
            self.connection.add(&[b"EXEC"]);
        }
        let now = unix_ms();
        let mut replies = self.connection.send()?.into_iter();
        self.progress.done += keys.len() as u64;
        let database = self.database;
        for name in keys {
            let queued: Vec<Value> = replies.by_ref().take(BEFORE_EXEC).collect();
            let values = match replies.next() {
                Some(Value::Array(values)) => <[Value; 2]>::try_from(values).ok(),
                _ => None,
            };
            match values {
                Some([Value::Int(ttl), Value::BulkString(payload)]) => {
                    let expires = u64::try_from(ttl).ok().map(|ttl| now.saturating_add(ttl));
                    self.ready.push(Record::Key(Key { database, name, expires, payload }));
                }
                // Deleted meanwhile, or expired.
                Some([_, Value::Nil]) => {}
                values => {
                    let replies = queued.iter().chain(values.iter().flatten());
                    let reply = replies.filter_map(error_of).next();
                    let reply = reply.unwrap_or_else(|| "unexpected reply".to_owned());
                    return Err(TransferError::Refused { database, key: shown(&name), reply });
                }
            }
        }
        Ok(())
    }
}

/// Puts keys into batches of bounded size.
fn batches(keys: Vec<Vec<u8>>, sizes: &[u64]) -> VecDeque<Vec<Vec<u8>>> {
    let (mut batches, mut batch, mut bytes) = (VecDeque::new(), Vec::new(), 0_u64);
    for (key, size) in keys.into_iter().zip(sizes) {
        if !batch.is_empty() && bytes.saturating_add(*size) > BATCH_BYTES {
            batches.push_back(std::mem::take(&mut batch));
            bytes = 0;
        }
        bytes = bytes.saturating_add(*size);
        batch.push(key);
    }
    if !batch.is_empty() {
        batches.push_back(batch);
    }
    batches
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

#[cfg(test)]
mod tests {
    use super::{BATCH_BYTES, batches};

    #[test]
    fn a_large_value_is_asked_for_alone() {
        let check = |sizes: &[u64], expect: &[usize]| {
            let keys = (0..sizes.len()).map(|i| vec![i as u8]).collect();
            let batches = batches(keys, sizes);
            let lens: Vec<usize> = batches.iter().map(Vec::len).collect();
            assert_eq!(lens, expect, "{sizes:?}");
            let order: Vec<u8> = batches.into_iter().flatten().flatten().collect();
            assert_eq!(order, (0..sizes.len() as u8).collect::<Vec<u8>>());
        };
        check(&[], &[]);
        check(&[1; 200], &[200]);
        check(&[BATCH_BYTES / 2; 5], &[2, 2, 1]);
        check(&[1, BATCH_BYTES * 100, 1, 1], &[1, 1, 2]);
        check(&[u64::MAX, u64::MAX, 1], &[1, 1, 1]);
    }
}
