//! A connection to a running server: packed requests, many at a time.

use std::io::{self, Write};

use redis::{Parser, Value};

use super::socket::{ServerAddress, Stream, pack};

/// Why a connection to a server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionError {
    /// The address is invalid, or there is no server.
    #[error("{address}: {error}")]
    Open {
        /// The address, without a password.
        address: String,
        /// Why.
        error: io::Error,
    },
    /// The connection broke, or the server answered unexpectedly.
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
    stream: Stream,
    parser: Parser,
    address: String,
    /// The database in the address, if it names one.
    database: Option<u64>,
    packed: Vec<u8>,
    requests: usize,
}

impl Connection {
    /// Connects to a server.
    pub(super) fn open(address: &ServerAddress) -> Result<Connection, ConnectionError> {
        let failed = |error| ConnectionError::Open { address: address.shown(), error };
        let stream = address.connect().map_err(failed)?;
        let (parser, packed, requests) = (Parser::new(), Vec::new(), 0);
        let (database, address) = (address.database(), address.shown());
        Ok(Connection { stream, parser, address, database, packed, requests })
    }

    /// Returns the database in the address, if it names one.
    pub(crate) fn database(&self) -> Option<u64> {
        self.database
    }

    /// Adds a request for the next [`Connection::send`].
    pub(crate) fn add(&mut self, words: &[&[u8]]) {
        pack(words, &mut self.packed);
        self.requests += 1;
    }

    /// Returns how many bytes are to be sent.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.packed.len()
    }

    /// Sends the added requests, and returns a reply for each; errors are replies too.
    pub(crate) fn send(&mut self) -> Result<Vec<Value>, ConnectionError> {
        let requests = std::mem::take(&mut self.requests);
        if requests == 0 {
            return Ok(Vec::new());
        }
        let socket = self.stream.get_mut();
        let sent = socket.write_all(&self.packed).and_then(|()| socket.flush());
        self.packed.clear();
        sent.map_err(|error| self.broken(&error.to_string()))?;
        let replies = (0..requests).map(|_| self.parser.parse_value(&mut self.stream));
        let replies: Result<Vec<Value>, _> = replies.collect();
        replies.map_err(|error| self.broken(&error.to_string()))
    }

    /// Executes one command.
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> Result<Value, ConnectionError> {
        self.add(words);
        let reply = self.send()?.pop();
        reply.ok_or_else(|| self.broken("no reply"))
    }

    /// Returns the error for an unexpected reply.
    pub(crate) fn unexpected(&self, command: &str, reply: &Value) -> ConnectionError {
        let text = error_of(reply).unwrap_or_else(|| format!("unexpected reply {reply:?}"));
        self.broken(&format!("{command}: {text}"))
    }

    fn broken(&self, text: &str) -> ConnectionError {
        ConnectionError::Broken { address: self.address.clone(), text: text.to_owned() }
    }
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
