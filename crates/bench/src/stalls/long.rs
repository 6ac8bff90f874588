//! The client that sends long commands; it waits for replies for a limited time.

use crate::load::replies::Replies;
use redis::Cmd;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

/// How long a script runs before SCRIPT KILL is sent.
const BEFORE_KILL: Duration = Duration::from_secs(1);

/// The pause before SCRIPT KILL is sent again if the script was not running yet.
const AGAIN: Duration = Duration::from_millis(20);

/// A connection that counts its replies and discards them. An error reply is an error of the kind
/// `Other`.
#[derive(Debug)]
pub(super) struct Long {
    port: u16,
    stream: TcpStream,
    replies: Replies,
    buffer: Vec<u8>,
    patience: Duration,
}

impl Long {
    pub(super) fn connect(port: u16, patience: Duration) -> io::Result<Long> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        let (replies, buffer) = (Replies::default(), vec![0; 256 << 10]);
        Ok(Long { port, stream, replies, buffer, patience })
    }

    /// Sends all commands at once and returns the time from the first byte sent to the last byte
    /// received.
    pub(super) fn ask(&mut self, commands: &[Cmd]) -> io::Result<Duration> {
        let bytes = packed(commands);
        let began = Instant::now();
        self.stream.write_all(&bytes)?;
        self.wait(commands.len())?;
        Ok(began.elapsed())
    }

    /// Sends commands that do not end by themselves, and SCRIPT KILL a second later. Returns the
    /// time from then until they ended.
    pub(super) fn kill(&mut self, commands: &[Cmd]) -> io::Result<Duration> {
        self.stream.write_all(&packed(commands))?;
        thread::sleep(BEFORE_KILL);
        let began = Instant::now();
        let mut killer = Long::connect(self.port, self.patience)?;
        let mut kill = redis::cmd("SCRIPT");
        kill.arg("KILL");
        while let Err(error) = killer.ask(std::slice::from_ref(&kill)) {
            if error.kind() != io::ErrorKind::Other || began.elapsed() > self.patience {
                return Err(io::Error::new(error.kind(), format!("SCRIPT KILL: {error}")));
            }
            thread::sleep(AGAIN);
        }
        self.wait(commands.len())?;
        Ok(began.elapsed())
    }

    /// Waits for this many replies. The last error among them is returned when all have arrived.
    fn wait(&mut self, mut missing: usize) -> io::Result<()> {
        let began = Instant::now();
        let mut error = None;
        while missing > 0 {
            let left = self.patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            let length = self.stream.read(&mut self.buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let fed = self.replies.feed(&self.buffer[..length], |reply| {
                missing = missing.saturating_sub(1);
                error = reply.error.or(error.take());
            });
            fed.map_err(io::Error::other)?;
        }
        error.map_or(Ok(()), |text| Err(io::Error::other(text)))
    }
}

fn packed(commands: &[Cmd]) -> Vec<u8> {
    commands.iter().flat_map(Cmd::get_packed_command).collect()
}

/// Returns true if an error is a timeout.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_server_that_hangs_is_left_after_a_bounded_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut long = Long::connect(port, Duration::from_millis(20)).expect("a connection");
        let error = long.ask(&[redis::cmd("PING")]).expect_err("nobody answers");
        assert!(is_timeout(&error), "{error}");
    }

    #[test]
    fn a_pipeline_ends_with_its_last_reply() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut long = Long::connect(port, Duration::from_secs(10)).expect("a connection");
        let (mut server, _) = listener.accept().expect("a client");
        server.write_all(b"+OK\r\n+QUEUED\r\n*1\r\n$2\r\nab\r\n").expect("replies");
        let commands = ["MULTI", "GET", "EXEC"].map(redis::cmd);
        long.ask(&commands).expect("three replies");
        server.write_all(b"-ERR no\r\n").expect("a reply");
        let error = long.ask(&[redis::cmd("NO")]).expect_err("an error reply");
        assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::Other, "ERR no"));
    }
}
