//! A connection to a running server: packed requests, many at a time.

use std::time::Duration;

use redis::{Client, Cmd, ConnectionLike, RedisError, Value};

/// How long a server may take to accept a connection.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How long a server may send nothing, or take nothing: it may be busy with a large value, a script
/// or another dump.
pub(super) const SILENCE: Duration = Duration::from_secs(600);

/// Why a server cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// The address is none, or there is no server.
    #[error("{address}: {error}")]
    Open {
        /// The address, without a password.
        address: String,
        /// Why.
        error: RedisError,
    },
    /// The connection broke, or the server does not answer as it should.
    #[error("{address}: {text}")]
    Broken {
        /// The address, without a password.
        address: String,
        /// Why.
        text: String,
    },
}

/// A connection, by requests and their replies.
pub(crate) struct Connection {
    inner: redis::Connection,
    address: String,
    /// The database that the address names, if it names one.
    database: Option<u64>,
    packed: Vec<u8>,
    requests: usize,
}

impl Connection {
    /// Connects to `redis://[[user]:password@]host[:port][/database]`, or
    /// `redis+unix:///path`.
    pub(crate) fn open(address: &str) -> Result<Connection, ConnectionError> {
        let failed = |error| ConnectionError::Open { address: without_password(address), error };
        let client = Client::open(address).map_err(failed)?;
        let inner = client.get_connection_with_timeout(PATIENCE).map_err(failed)?;
        inner.set_read_timeout(Some(SILENCE)).map_err(failed)?;
        inner.set_write_timeout(Some(SILENCE)).map_err(failed)?;
        let info = client.get_connection_info();
        let names_one = address.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let names_one = names_one.is_some_and(|(_, database)| !database.is_empty());
        let database = u64::try_from(info.redis_settings().db()).ok().filter(|_| names_one);
        let address = info.addr().to_string();
        Ok(Connection { inner, address, database, packed: Vec::new(), requests: 0 })
    }

    /// Returns the database that the address names, if it names one.
    pub(crate) fn database(&self) -> Option<u64> {
        self.database
    }

    /// Adds a request to those that [`Connection::send`] sends.
    pub(crate) fn add(&mut self, words: &[&[u8]]) {
        pack(words, &mut self.packed);
        self.requests += 1;
    }

    /// Returns the bytes that are to be sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.packed.len()
    }

    /// Sends what was added, and returns a reply for each request; errors are replies too.
    pub(crate) fn send(&mut self) -> Result<Vec<Value>, ConnectionError> {
        let requests = std::mem::take(&mut self.requests);
        if requests == 0 {
            return Ok(Vec::new());
        }
        let replies = self.inner.req_packed_commands(&self.packed, 0, requests);
        self.packed.clear();
        replies.map_err(|error| self.broken(&error.to_string()))
    }

    /// Executes one command.
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Result<Value, ConnectionError> {
        self.add(words);
        let reply = self.send()?.pop();
        reply.ok_or_else(|| self.broken("no reply"))
    }

    /// Returns the error of a reply that makes no sense here.
    pub(crate) fn unexpected(&self, command: &str, reply: &Value) -> ConnectionError {
        let text = error_of(reply).unwrap_or_else(|| format!("unexpected reply {reply:?}"));
        self.broken(&format!("{command}: {text}"))
    }

    fn broken(&self, text: &str) -> ConnectionError {
        ConnectionError::Broken { address: self.address.clone(), text: text.to_owned() }
    }
}

/// Writes a request as a client sends it.
pub(crate) fn pack(words: &[&[u8]], out: &mut Vec<u8>) {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.write_packed_command(out);
}

/// Returns the text of an error reply.
pub(crate) fn error_of(reply: &Value) -> Option<String> {
    match reply {
        Value::ServerError(error) => {
            let details = error.details().unwrap_or_default();
            Some(format!("{} {details}", error.code()).trim_end().to_owned())
        }
        _ => None,
    }
}

pub(super) fn without_password(address: &str) -> String {
    match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::without_password;

    #[test]
    fn an_address_is_shown_without_its_password() {
        let check = |address: &str, expect: &str| assert_eq!(without_password(address), expect);
        check("redis://h:1/2", "redis://h:1/2");
        check("redis://:secret@h:1", "redis://h:1");
        check("redis://user:sec@ret@h", "redis://h");
        check("h:1", "h:1");
    }
}
