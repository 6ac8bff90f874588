//! The server that takes the keys, over the connection that the host opens.
//!
//! A reply has a total limit in bytes and in time: a target that sends it byte by byte is given up
//! like one that sends nothing.

use std::io::{self, BufRead, BufReader, Write};
use std::time::Duration;

use engine::Engine;
use engine::failure::Failure;
use engine::host::Wire;
use resp::Writer;

use super::Migration;

const NOT_CONNECTED: &str = "IOERR error or timeout connecting to the client";
const NOT_WRITTEN: &str = "IOERR error or timeout writing to target instance";
const NOT_READ: &str = "IOERR error or timeout reading to target instance";
/// The maximum length of a reply.
const LONGEST_REPLY: usize = 64 << 10;

/// The other server.
pub(super) struct Target<'e> {
    engine: &'e Engine,
    /// The time that a reply may take.
    timeout: Duration,
    wire: BufReader<Box<dyn Wire>>,
    /// The number of requests sent before those of the keys.
    greetings: usize,
    /// The error reply to one of those, if there was one.
    refusal: Option<Vec<u8>>,
}

impl<'e> Target<'e> {
    /// Connects, and sends the requests that precede the keys.
    pub(super) fn connect(
        engine: &'e Engine,
        migration: &Migration<'_>,
    ) -> Result<Target<'e>, Failure> {
        let host = str::from_utf8(migration.host).ok();
        let port = str::from_utf8(migration.port).ok().and_then(|port| port.parse().ok());
        let (Some(server), Some(host)) = (engine.host(), host) else {
            return Err(NOT_CONNECTED.into());
        };
        let wire = server.dial(host, port.unwrap_or(0), migration.timeout);
        // Redis does not wait for the connection before it writes.
        let wire = wire.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => NOT_WRITTEN,
            _ => NOT_CONNECTED,
        })?;
        let (wire, timeout) = (BufReader::new(wire), migration.timeout);
        let mut target = Target { engine, timeout, wire, greetings: 1, refusal: None };
        if !migration.auth.is_empty() {
            target.greetings += 1;
            target.send(&migration.auth)?;
        }
        target.send(&[b"SELECT", migration.db.to_string().as_bytes()])?;
        Ok(target)
    }

    /// Sends a request.
    pub(super) fn send(&mut self, words: &[&[u8]]) -> Result<(), Failure> {
        let mut out = Writer::default();
        out.array(words.len());
        words.iter().for_each(|word| out.bulk(word));
        self.wire.get_mut().write_all(out.as_bytes()).map_err(|_| NOT_WRITTEN.into())
    }

    /// Reads the reply to the next request for a key; an error reply has no `-`.
    pub(super) fn reply(&mut self) -> Result<Result<(), Vec<u8>>, Failure> {
        while self.greetings > 0 {
            self.greetings -= 1;
            let greeting = self.line()?;
            self.refusal = self.refusal.take().or(greeting.err());
        }
        let reply = self.line()?;
        // After a wrong password, or a database that does not exist, no reply counts.
        Ok(self.refusal.clone().map_or(reply, Err))
    }

    fn line(&mut self) -> Result<Result<(), Vec<u8>>, Failure> {
        let line = self.read_line().map_err(|_| NOT_READ)?;
        Ok(match line.split_first() {
            Some((b'-', text)) => Err(text.to_vec()),
            _ => Ok(()),
        })
    }

    /// Reads up to the end of a line, and returns it without its end.
    fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let began = self.engine.clock().unix_ns();
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let elapsed = self.engine.clock().unix_ns().saturating_sub(began);
            if u128::from(elapsed) > self.timeout.as_nanos() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let arrived = self.wire.fill_buf()?;
            let end =
                arrived.iter().position(|byte| *byte == b'\n').map_or(arrived.len(), |at| at + 1);
            if end == 0 || line.len() + end > LONGEST_REPLY {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            line.extend_from_slice(&arrived[..end]);
            self.wire.consume(end);
        }
        line.truncate(line.len() - 2);
        Ok(line)
    }
}
