//! A running server as a source: SCAN, then PEXPIRETIME and DUMP of each key, in a transaction.
//!
//! Servers before Redis 7 do not know PEXPIRETIME. For them it is TIME and PTTL in the same
//! transaction: the server's own clock, since a reply may have been on its way for long, and our
//! clock may differ.
//!
//! The server goes on meanwhile. As SCAN guarantees, a key that exists from the beginning to the
//! end is returned. A key that is written meanwhile has some value of that time with the matching
//! TTL, and one that is created meanwhile may be missing. Users who need the state of one moment
//! must stop the writers first.
//!
//! Neither side keeps more in memory than a batch of bounded size, or one large value, since the
//! server is asked for sizes first.

use std::collections::VecDeque;

use redis::Value;

use super::connection::{Connection, error_of};
use super::{Key, Progress, Record, Source, TransferError, shown};

/// Keys that are requested at once.
pub const BATCH: usize = 256;
/// Bytes of values, as the server counts them, that are requested at once. A larger value is
/// requested alone.
pub const BATCH_BYTES: u64 = 8 << 20;
/// The assumed size of a value if the server does not tell it.
const UNKNOWN_BYTES: u64 = BATCH_BYTES / 16;

/// A server whose keys are read.
pub(super) struct RunningServer {
    connection: Connection,
    /// Whether the server knows PEXPIRETIME.
    has_expiry_times: bool,
    /// The remaining databases; the last one is next.
    databases: Vec<u64>,
    database: u64,
    cursor: Option<Vec<u8>>,
    /// Keys that were found and not yet requested, in batches.
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
        // A server that knows the command answers with other errors, such as one about this key.
        let refusal = error_of(&connection.call(&[b"PEXPIRETIME", b""])?);
        let has_expiry_times =
            !refusal.is_some_and(|error| error.to_lowercase().contains("unknown command"));
        Ok(RunningServer {
            connection,
            has_expiry_times,
            databases,
            database: 0,
            cursor: None,
            found: VecDeque::new(),
            ready,
            progress: Progress { done: 0, total },
        })
    }

    /// Reads another batch. Returns false at the end.
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

    /// Returns the size of each value, as the server counts it.
    fn sizes(&mut self, keys: &[Vec<u8>]) -> Result<Vec<u64>, TransferError> {
        for key in keys {
            self.connection.add(&[b"MEMORY", b"USAGE", key]);
        }
        let size = |reply: &Value| match reply {
            Value::Int(bytes) => u64::try_from(*bytes).unwrap_or(UNKNOWN_BYTES),
            // Deleted meanwhile.
            Value::Nil => 0,
            // The command is unknown, or not allowed.
            _ => UNKNOWN_BYTES,
        };
        Ok(self.connection.send()?.iter().map(size).collect())
    }

    /// Reads values, in transactions, since another client may change a key's value and TTL between
    /// two commands.
    fn dump(&mut self, keys: Vec<Vec<u8>>) -> Result<(), TransferError> {
        for key in &keys {
            self.connection.add(&[b"MULTI"]);
            if self.has_expiry_times {
                self.connection.add(&[b"PEXPIRETIME", key]);
            } else {
                self.connection.add(&[b"TIME"]);
                self.connection.add(&[b"PTTL", key]);
            }
            self.connection.add(&[b"DUMP", key]);
            self.connection.add(&[b"EXEC"]);
        }
        let before_exec = if self.has_expiry_times { 3 } else { 4 };
        let mut replies = self.connection.send()?.into_iter();
        self.progress.done += keys.len() as u64;
        let database = self.database;
        for name in keys {
            let queued: Vec<Value> = replies.by_ref().take(before_exec).collect();
            let mut values = match replies.next() {
                Some(Value::Array(values)) => values,
                Some(other) => vec![other],
                None => Vec::new(),
            };
            match (values.pop(), expiry(&values)) {
                (Some(Value::BulkString(payload)), Some(expires)) => {
                    self.ready.push(Record::Key(Key { database, name, expires, payload }));
                }
                // Deleted meanwhile, or expired.
                (Some(Value::Nil), Some(_)) => {}
                (last, _) => {
                    let replies = queued.iter().chain(&values).chain(&last);
                    let reply = replies.filter_map(error_of).next();
                    let reply = reply.unwrap_or_else(|| "unexpected reply".to_owned());
                    return Err(TransferError::Refused { database, key: shown(&name), reply });
                }
            }
        }
        Ok(())
    }
}

/// Returns when a key expires, in ms since 1970, from the replies of PEXPIRETIME, or of TIME and
/// PTTL: `Some(None)` for a key without an expiry, and for a missing one; `None` for unexpected
/// replies.
fn expiry(replies: &[Value]) -> Option<Option<u64>> {
    let number = |value: &Value| match value {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        _ => None,
    };
    match replies {
        [Value::Int(at)] => Some(u64::try_from(*at).ok()),
        [Value::Array(time), Value::Int(ttl)] => {
            let [seconds, micros] = time.as_slice() else { return None };
            let (seconds, micros): (u64, u64) = (number(seconds)?, number(micros)?);
            let now = seconds.saturating_mul(1000).saturating_add(micros / 1000);
            Some(u64::try_from(*ttl).ok().map(|ttl| now.saturating_add(ttl)))
        }
        _ => None,
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

/// Returns the databases that have keys, in ascending order, and how many keys each has.
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

/// Returns the function libraries; none if the server knows no functions.
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
    use super::{BATCH_BYTES, batches, expiry};
    use redis::Value;

    #[test]
    fn an_expiry_is_that_of_the_server() {
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let time = || Value::Array(vec![bulk("1700000000"), bulk("123999")]);
        assert_eq!(expiry(&[Value::Int(1_700_000_000_456)]), Some(Some(1_700_000_000_456)));
        assert_eq!(expiry(&[Value::Int(-1)]), Some(None));
        assert_eq!(expiry(&[time(), Value::Int(77)]), Some(Some(1_700_000_000_200)));
        assert_eq!(expiry(&[time(), Value::Int(-2)]), Some(None));
        assert_eq!(expiry(&[Value::Int(1), Value::Int(77)]), None);
        assert_eq!(expiry(&[bulk("1")]), None);
        assert_eq!(expiry(&[]), None);
    }

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
