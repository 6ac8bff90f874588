//! A dump that a running server sends over the connection (SYNC), of one moment.
//!
//! The dump ends with a mark that was announced before it, or has an announced length: what ends
//! without that is not complete. Redis, Valkey and Perdura send it alike.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;

use redis::{Client, ConnectionAddr};

use super::TransferError;
use super::connection::{Connection, ConnectionError, PATIENCE, SILENCE, pack, without_password};
use super::running;
use crate::dump::BUFFER;

/// The longest line that announces a dump, or refuses it.
const LONGEST_LINE: u64 = 4096;
const MARK: usize = 40;

/// A stream of bytes in both directions.
trait Socket: Read + Write + Send {}

impl Socket for TcpStream {}
impl Socket for UnixStream {}

enum End {
    /// This is sent after it.
    Mark(Vec<u8>),
    /// This many bytes are left.
    Length(u64),
}

/// A dump on its way.
pub(super) struct Sync {
    from: BufReader<Box<dyn Socket>>,
    end: End,
    address: String,
}

impl Sync {
    /// Asks for a dump. Returns the number of keys that the server has, too.
    pub(super) fn begin(address: &str) -> Result<(Sync, u64), TransferError> {
        let mut connection = Connection::open(address)?;
        let keys = running::keyspace(&mut connection)?.iter().map(|(_, keys)| keys).sum();
        drop(connection);
        let shown = without_password(address);
        let failed = |text: String| ConnectionError::Broken { address: shown.clone(), text };
        let mut from = connect(address).map_err(|error| failed(error.to_string()))?;
        // A server that does not know this one sends the dump all the same.
        let _ = command(&mut from, &[b"REPLCONF", b"rdb-only", b"1"]);
        let known = command(&mut from, &[b"REPLCONF", b"capa", b"eof"]);
        known.map_err(|error| failed(error.to_string()))?;
        let head = send(&mut from, &[b"SYNC"]).and_then(|()| announced(&mut from));
        let end = head.map_err(|error| failed(format!("SYNC: {error}")))?;
        Ok((Sync { from, end, address: shown }, keys))
    }

    /// To be called when the dump was read: an error if the server does not say that this was all.
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
    /// Returns bytes of the dump that come next.
    pub(super) fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let End::Length(left) = self.end else { return self.from.fill_buf() };
        if left == 0 {
            return Ok(&[]);
        }
        let next = self.from.fill_buf()?;
        Ok(&next[..next.len().min(usize::try_from(left).unwrap_or(usize::MAX))])
    }

    /// Says that this many of them were read.
    pub(super) fn consume(&mut self, len: usize) {
        if let End::Length(left) = &mut self.end {
            *left -= len as u64;
        }
        self.from.consume(len);
    }
}

fn connect(address: &str) -> io::Result<BufReader<Box<dyn Socket>>> {
    let client = Client::open(address).map_err(io::Error::other)?;
    let info = client.get_connection_info();
    let socket: Box<dyn Socket> = match info.addr() {
        ConnectionAddr::Tcp(host, port) => {
            let mut last = io::Error::from(io::ErrorKind::NotFound);
            let mut found = None;
            for address in (host.as_str(), *port).to_socket_addrs()? {
                match TcpStream::connect_timeout(&address, PATIENCE) {
                    Ok(socket) => {
                        found = Some(socket);
                        break;
                    }
                    Err(error) => last = error,
                }
            }
            let socket = found.ok_or(last)?;
            socket.set_read_timeout(Some(SILENCE))?;
            Box::new(socket)
        }
        ConnectionAddr::Unix(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_read_timeout(Some(SILENCE))?;
            Box::new(socket)
        }
        other => return Err(io::Error::other(format!("{other}: no dump comes this way"))),
    };
    let mut from = BufReader::with_capacity(BUFFER, socket);
    let settings = info.redis_settings();
    if let Some(password) = settings.password() {
        let user = settings.username().map(str::as_bytes);
        let words: Vec<&[u8]> =
            [Some(&b"AUTH"[..]), user, Some(password.as_bytes())].into_iter().flatten().collect();
        command(&mut from, &words)?;
    }
    Ok(from)
}

fn send(to: &mut BufReader<Box<dyn Socket>>, words: &[&[u8]]) -> io::Result<()> {
    let mut packed = Vec::new();
    pack(words, &mut packed);
    to.get_mut().write_all(&packed)
}

fn command(from: &mut BufReader<Box<dyn Socket>>, words: &[&[u8]]) -> io::Result<String> {
    send(from, words)?;
    line(from)
}

/// Reads a line; an error where it is one.
fn line(from: &mut BufReader<Box<dyn Socket>>) -> io::Result<String> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
    match line.strip_prefix('-') {
        Some(text) => Err(io::Error::other(text.to_owned())),
        None => Ok(line),
    }
}

/// Reads what precedes the dump: how it ends. Empty lines keep the connection alive until then.
fn announced(from: &mut BufReader<Box<dyn Socket>>) -> io::Result<End> {
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
