//! A dump that a running server sends over the connection (SYNC), of one moment.
//!
//! The dump ends with a mark that was announced before it, or has an announced length: without that
//! it is incomplete. Redis, Valkey and Perdura send it in the same way.

use std::io::{self, BufRead, Read};

use super::connection::{Connection, ConnectionError};
use super::socket::{ServerAddress, Stream, command, line, send};
use super::{TransferError, running};

const MARK: usize = 40;

enum End {
    /// This mark is sent after it.
    Mark(Vec<u8>),
    /// This many bytes are left.
    Length(u64),
}

/// A dump on its way.
pub(super) struct Sync {
    from: Stream,
    end: End,
    address: String,
}

impl Sync {
    /// Requests a dump. Also returns the number of the server's keys.
    pub(super) fn begin(address: &ServerAddress) -> Result<(Sync, u64), TransferError> {
        let mut connection = Connection::open(address)?;
        let keys = running::keyspace(&mut connection)?.iter().map(|(_, keys)| keys).sum();
        drop(connection);
        let shown = address.shown();
        let failed = |text: String| ConnectionError::Broken { address: shown.clone(), text };
        let mut from = address.connect().map_err(|error| failed(error.to_string()))?;
        // A server that does not know this option sends the dump all the same.
        let _ = command(&mut from, &[b"REPLCONF", b"rdb-only", b"1"]);
        let known = command(&mut from, &[b"REPLCONF", b"capa", b"eof"]);
        known.map_err(|error| failed(error.to_string()))?;
        let head = send(&mut from, &[b"SYNC"]).and_then(|()| announced(&mut from));
        let end = head.map_err(|error| failed(format!("SYNC: {error}")))?;
        Ok((Sync { from, end, address: shown }, keys))
    }

    /// To be called after the dump was read. Returns an error unless the server confirms that this
    /// was all.
    pub(super) fn finish(&mut self) -> Result<(), ConnectionError> {
        let is_complete = match &self.end {
            End::Length(left) => *left == 0,
            End::Mark(mark) => {
                let mut found = [0; MARK];
                self.from.read_exact(&mut found).is_ok() && found == mark[..]
            }
        };
        if is_complete {
            return Ok(());
        }
        let text = "the dump was not complete: the server's log says why".into();
        Err(ConnectionError::Broken { address: self.address.clone(), text })
    }
}

impl Sync {
    /// Returns the next bytes of the dump.
    pub(super) fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let End::Length(left) = self.end else { return self.from.fill_buf() };
        if left == 0 {
            return Ok(&[]);
        }
        let next = self.from.fill_buf()?;
        Ok(&next[..next.len().min(usize::try_from(left).unwrap_or(usize::MAX))])
    }

    /// Records that this many of them were read.
    pub(super) fn consume(&mut self, len: usize) {
        if let End::Length(left) = &mut self.end {
            *left -= len as u64;
        }
        self.from.consume(len);
    }
}

/// Reads the announcement before the dump: how it ends. Empty lines keep the connection alive until
/// then.
fn announced(from: &mut Stream) -> io::Result<End> {
    loop {
        let line = line(from)?;
        if line.is_empty() {
            continue;
        }
        let mark = line.strip_prefix("$EOF:").filter(|mark| mark.len() == MARK);
        let length = line.strip_prefix('$').and_then(|length| length.parse().ok());
        return match (mark, length) {
            (Some(mark), _) => Ok(End::Mark(mark.as_bytes().to_vec())),
            (None, Some(length)) => Ok(End::Length(length)),
            (None, None) => Err(io::Error::other(format!("unexpected answer: {line}"))),
        };
    }
}
