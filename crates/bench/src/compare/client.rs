//! A connection for what is not measured: filling, asking, checking.

use redis::{Client, Connection, FromRedisValue, RedisError, RedisResult, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a reply may take: a full disk or a rewrite may hold one back for a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects to a server on this machine.
pub(crate) fn connect(port: u16) -> RedisResult<Connection> {
    let client = Client::open(format!("redis://127.0.0.1:{port}"))?;
    let connection = client.get_connection_with_timeout(Duration::from_secs(5))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// Sends one command, whose words are separated by spaces.
pub(crate) fn ask<T: FromRedisValue>(connection: &mut Connection, line: &str) -> RedisResult<T> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    for word in words {
        command.arg(word);
    }
    command.query(connection)
}

/// Returns the fields of a section of INFO.
pub(crate) fn info(
    connection: &mut Connection,
    section: &str,
) -> RedisResult<BTreeMap<String, String>> {
    let text: String = ask(connection, &format!("INFO {section}"))?;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    Ok(fields.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect())
}

/// Returns those of the commands that the server does not have.
pub(super) fn missing(connection: &mut Connection, commands: &[&str]) -> RedisResult<Vec<String>> {
    let mut missing = Vec::new();
    for name in commands {
        let found: Value = ask(connection, &format!("COMMAND INFO {name}"))?;
        let known = match &found {
            Value::Array(items) => items.iter().any(|item| !matches!(item, Value::Nil)),
            _ => false,
        };
        if !known {
            missing.push((*name).to_owned());
        }
    }
    Ok(missing)
}

/// Returns true if a server answered that it is still loading its data.
pub(crate) fn is_loading(error: &RedisError) -> bool {
    error.code() == Some("LOADING")
}

/// Names keys as memtier_benchmark does, so that either generator finds what was filled in:
/// `memtier-1` and so on.
pub(super) fn key(number: u64) -> String {
    format!("memtier-{number}")
}

/// Sets keys 1 to `keys` to values of this many bytes.
pub(super) fn fill(connection: &mut Connection, keys: u64, value_bytes: usize) -> RedisResult<()> {
    let value = vec![b'x'; value_bytes];
    let step = u64::try_from((1 << 20) / (value_bytes + 64)).unwrap_or(1).clamp(1, 1000);
    let mut first = 1;
    while first <= keys {
        let last = (first + step - 1).min(keys);
        let mut pipe = redis::pipe();
        for number in first..=last {
            pipe.cmd("SET").arg(key(number)).arg(&value).ignore();
        }
        pipe.query::<()>(connection)?;
        first = last + 1;
    }
    Ok(())
}
