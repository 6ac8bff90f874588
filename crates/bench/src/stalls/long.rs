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

/// A connection that counts its replies and discards them.
#[derive(Debug)]
pub(super) struct Long {
    port: u16,
    stream: TcpStream,
    replies: Replies,
    sent: u64,
    answered: u64,
    error: Option<String>,
    buffer: Vec<u8>,
    patience: Duration,
}

impl Long {
    pub(super) fn connect(port: u16, patience: Duration) -> io::Result<Long> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(patience))?;
        let (replies, buffer) = (Replies::default(), vec![0; 256 << 10]);
        Ok(Long { port, stream, replies, sent: 0, answered: 0, error: None, buffer, patience })
    }

    /// Sends all commands at once and returns the time from the first byte sent to the last byte
    /// received.
    pub(super) fn ask(&mut self, commands: &[Cmd]) -> io::Result<Duration> {
        let bytes = packed(commands);
        let began = Instant::now();
        self.send(&bytes, commands.len())?;
        self.wait()?;
        Ok(began.elapsed())
    }

    /// Sends commands that do not end by themselves, and SCRIPT KILL a second later. Returns the
    /// time from then until they ended.
    pub(super) fn kill(&mut self, commands: &[Cmd]) -> io::Result<Duration> {
        self.send(&packed(commands), commands.len())?;
        thread::sleep(BEFORE_KILL);
        let began = Instant::now();
        let mut killer = Long::connect(self.port, self.patience)?;
        let mut kill = redis::cmd("SCRIPT");
        kill.arg("KILL");
        loop {
            killer
                .ask(std::slice::from_ref(&kill))
                .map_err(|error| io::Error::new(error.kind(), format!("SCRIPT KILL: {error}")))?;
            match killer.take_error() {
                None => break,
                Some(why) if began.elapsed() > self.patience => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
                }
                Some(_) => thread::sleep(AGAIN),
            }
        }
        self.wait()?;
        Ok(began.elapsed())
    }

    /// Takes the last error reply.
    pub(super) fn take_error(&mut self) -> Option<String> {
        self.error.take()
    }

    fn send(&mut self, bytes: &[u8], commands: usize) -> io::Result<()> {
        self.sent += commands as u64;
        self.stream.write_all(bytes)
    }

    fn wait(&mut self) -> io::Result<()> {
        let began = Instant::now();
        while self.answered < self.sent {
            let left = self.patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            let length = self.stream.read(&mut self.buffer)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Long { replies, answered, error, buffer, .. } = self;
            let fed = replies.feed(&buffer[..length], |reply| {
                *answered += 1;
                *error = reply.error.or(error.take());
            });
            fed.map_err(io::Error::other)?;
        }
        Ok(())
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
        server.write_all(b"+OK\r\n+QUEUED\r\n*1\r\n$2\r\nab\r\n-ERR no\r\n").expect("replies");
        let commands = ["MULTI", "GET", "EXEC"].map(redis::cmd);
        long.ask(&commands).expect("three replies");
        long.ask(&[redis::cmd("NO")]).expect("an error is a reply");
        assert_eq!(long.take_error().as_deref(), Some("ERR no"));
    }
}
