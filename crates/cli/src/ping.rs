//! `perdura ping`: asks a server whether it serves, for supervisors and container images that have
//! no other program for it.
//!
//! A server that requires a password serves: its refusal is an answer. So is MISCONF, the reply to
//! PING while writes are refused: reads are served, and a restart would cure nothing. A server that
//! is loading data does not serve yet.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::Verdict;
use crate::arguments::Ping;
use crate::output::say;

/// The longest answer that is read.
const LONGEST: usize = 512;

pub(crate) fn run(options: &Ping) -> Verdict {
    let answer = match ask(&options.server, Duration::from_secs(options.timeout)) {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("perdura: {}: {error}", options.server);
            return Verdict::Unchecked;
        }
    };
    say!("{answer}");
    let serves = ["-NOAUTH", "-NOPERM", "-MISCONF"].iter().any(|start| answer.starts_with(start));
    if serves || answer == "+PONG" { Verdict::Sound } else { Verdict::Damaged }
}

/// Returns the first line of the answer to PING.
fn ask(server: &str, patience: Duration) -> io::Result<String> {
    let deadline = Instant::now() + patience;
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left()?) {
            Ok(mut stream) => {
                stream.set_write_timeout(Some(left()?))?;
                stream.write_all(b"PING\r\n")?;
                let mut answer = Vec::new();
                while !answer.contains(&b'\n') {
                    stream.set_read_timeout(Some(left()?))?;
                    let mut buffer = [0; LONGEST];
                    match stream.read(&mut buffer)? {
                        0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                        n => answer.extend_from_slice(&buffer[..n]),
                    }
                    if answer.len() > LONGEST {
                        return Err(io::Error::other("the answer is not that of a server"));
                    }
                }
                let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
                return Ok(String::from_utf8_lossy(line).trim_end().to_owned());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}
