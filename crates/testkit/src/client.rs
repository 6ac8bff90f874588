//! A plain blocking client: it sends what it is given and returns what arrives, in RESP2 or RESP3.
//!
//! Nothing is interpreted, retried or reordered, so that a test knows exactly what was sent and
//! what was acknowledged. A read that waits for more than a minute fails instead of hanging the
//! suite.

use crate::Reply;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The maximum time for a reply.
const PATIENCE: Duration = Duration::from_secs(60);

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Other(Box<dyn Transport>),
}

/// A stream that requests and replies may use.
trait Transport: Read + Write + Send {}

impl<T: Read + Write + Send> Transport for T {}

impl Stream {
    fn set_patience(&self, patience: Duration) -> io::Result<()> {
        match self {
            Stream::Tcp(s) => s.set_read_timeout(Some(patience)),
            Stream::Unix(s) => s.set_read_timeout(Some(patience)),
            Stream::Other(_) => Ok(()),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.read(into),
            Stream::Unix(s) => s.read(into),
            Stream::Other(s) => s.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => s.write(bytes),
            Stream::Unix(s) => s.write(bytes),
            Stream::Other(s) => s.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Other(s) => s.flush(),
        }
    }
}

/// A connection to a server.
pub struct Client {
    stream: BufReader<Stream>,
}

impl Client {
    /// Connects over TCP.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        Client::over(Stream::Tcp(stream))
    }

    /// Connects to a Unix socket.
    pub fn connect_unix(path: &Path) -> io::Result<Client> {
        Client::over(Stream::Unix(UnixStream::connect(path)?))
    }

    /// Uses a connected stream, such as an encrypted one; the stream itself limits the time of its
    /// reads.
    pub fn through(stream: impl Read + Write + Send + 'static) -> Client {
        Client { stream: BufReader::with_capacity(1 << 16, Stream::Other(Box::new(stream))) }
    }

    fn over(stream: Stream) -> io::Result<Client> {
        stream.set_patience(PATIENCE)?;
        Ok(Client { stream: BufReader::with_capacity(1 << 16, stream) })
    }

    /// Sets the maximum time for a reply.
    pub fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.stream.get_ref().set_patience(patience)
    }

    /// Returns true if unread bytes have arrived, or arrive within this time.
    pub fn has_more(&mut self, within: Duration) -> io::Result<bool> {
        if !self.stream.buffer().is_empty() {
            return Ok(true);
        }
        let Stream::Tcp(stream) = self.stream.get_ref() else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        match within {
            Duration::ZERO => stream.set_nonblocking(true)?,
            _ => stream.set_read_timeout(Some(within))?,
        }
        let found = stream.peek(&mut [0]);
        match within {
            Duration::ZERO => stream.set_nonblocking(false)?,
            _ => stream.set_read_timeout(Some(PATIENCE))?,
        }
        match found {
            Ok(_) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Returns this side's port of a connection over TCP.
    pub fn port(&self) -> Option<u16> {
        match self.stream.get_ref() {
            Stream::Tcp(stream) => stream.local_addr().ok().map(|address| address.port()),
            _ => None,
        }
    }

    /// Sends bytes as they are.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes)?;
        stream.flush()
    }

    /// Sends one command without waiting for its reply.
    pub fn send<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode(command, &mut bytes);
        self.send_raw(&bytes)
    }

    /// Waits for the next reply or push message.
    pub fn receive(&mut self) -> io::Result<Reply> {
        decode(&mut self.stream)
    }

    /// Sends one command and waits for its reply.
    pub fn try_call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> io::Result<Reply> {
        self.send(command)?;
        self.receive()
    }

    /// Sends one command and waits for its reply; a connection that breaks ends the test.
    pub fn call<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Reply {
        self.try_call(command).unwrap_or_else(|e| panic!("{}: {e}", shown(command)))
    }

    /// Runs a command given as a line, split at spaces; `"..."` encloses words with spaces or
    /// `\r \n \t \xHH`.
    pub fn run(&mut self, line: &str) -> Reply {
        self.call(&words(line))
    }

    /// Runs a line and compares the reply in redis-cli's notation.
    #[track_caller]
    pub fn check(&mut self, line: &str, expected: &str) {
        let found = self.run(line).to_string();
        assert_eq!(found, expected, "reply to {line}");
    }

    /// Sends all commands in one write, without waiting for replies.
    pub fn send_pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for command in commands {
            encode(command, &mut bytes);
        }
        self.send_raw(&bytes)
    }

    /// Sends all commands in one write, then reads all replies.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, commands: &[Vec<A>]) -> io::Result<Vec<Reply>> {
        self.send_pipeline(commands)?;
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Returns the fields of an INFO section.
    pub fn info(&mut self, section: &str) -> BTreeMap<String, String> {
        let text = self.call(&["INFO", section]).text();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name.to_owned(), value.trim_end().to_owned())).collect()
    }
}

fn encode<A: AsRef<[u8]>>(command: &[A], into: &mut Vec<u8>) {
    into.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for word in command {
        let word = word.as_ref();
        into.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        into.extend_from_slice(word);
        into.extend_from_slice(b"\r\n");
    }
}

fn shown<A: AsRef<[u8]>>(command: &[A]) -> String {
    let words: Vec<String> =
        command.iter().map(|w| w.as_ref().escape_ascii().to_string()).collect();
    words.join(" ")
}

fn words(line: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut bytes = line.bytes().peekable();
    loop {
        while bytes.next_if(|b| *b == b' ').is_some() {}
        match bytes.peek() {
            None => return words,
            Some(b'"') => {
                bytes.next();
                words.push(quoted(&mut bytes));
            }
            Some(_) => {
                let mut word = Vec::new();
                while let Some(b) = bytes.next_if(|b| *b != b' ') {
                    word.push(b);
                }
                words.push(word);
            }
        }
    }
}

fn quoted(bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let mut word = Vec::new();
    while let Some(b) = bytes.next() {
        match b {
            b'"' => break,
            b'\\' => word.push(match bytes.next() {
                Some(b'r') => b'\r',
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'x') => {
                    let digits = [bytes.next().unwrap_or(b'0'), bytes.next().unwrap_or(b'0')];
                    let digits = std::str::from_utf8(&digits).expect("hexadecimal digits");
                    u8::from_str_radix(digits, 16).expect("hexadecimal digits")
                }
                other => other.expect("something follows a backslash"),
            }),
            other => word.push(other),
        }
    }
    word
}

fn broken(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

fn decode(from: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = Vec::new();
    from.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let Some(line) = line.strip_suffix(b"\r\n") else {
        return Err(broken(format!("a line without its end: {}", line.escape_ascii())));
    };
    let text = String::from_utf8_lossy(line.get(1..).unwrap_or_default()).into_owned();
    let length = || text.parse::<i64>().map_err(|_| broken(format!("not a length: {text}")));
    Ok(match line.first() {
        Some(b'+') => Reply::Simple(text),
        Some(b'-') => Reply::Error(text),
        Some(b':') => Reply::Int(length()?),
        Some(b'$') => match length()? {
            -1 => Reply::Nil,
            n => Reply::Bulk(body(from, n)?),
        },
        Some(b'=') => {
            let bytes = body(from, length()?)?;
            let Some((format, text)) = bytes.split_at_checked(4) else {
                return Err(broken("a verbatim string without a format"));
            };
            Reply::Verbatim(String::from_utf8_lossy(&format[..3]).into_owned(), text.to_vec())
        }
        Some(b'*') => match length()? {
            -1 => Reply::NilArray,
            n => Reply::Array(items(from, n)?),
        },
        Some(b'~') => Reply::Set(items(from, length()?)?),
        Some(b'>') => Reply::Push(items(from, length()?)?),
        Some(b'%') => {
            let n = length()?;
            let pairs = (0..n).map(|_| Ok((decode(from)?, decode(from)?)));
            Reply::Map(pairs.collect::<io::Result<_>>()?)
        }
        Some(b'_') => Reply::Nil,
        Some(b',') => Reply::Double(text),
        Some(b'#') => Reply::Bool(text == "t"),
        Some(b'(') => Reply::Big(text),
        _ => return Err(broken(format!("not a reply: {}", line.escape_ascii()))),
    })
}

fn body(from: &mut impl BufRead, length: i64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| broken("a negative length"))?;
    let mut bytes = vec![0; length + 2];
    from.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") {
        return Err(broken("a string longer than its length"));
    }
    bytes.truncate(length);
    Ok(bytes)
}

fn items(from: &mut impl BufRead, count: i64) -> io::Result<Vec<Reply>> {
    (0..count).map(|_| decode(from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, shown: &str) {
        let reply = decode(&mut bytes.as_bytes()).expect("a reply");
        assert_eq!(reply.to_string(), shown);
    }

    #[test]
    fn every_kind_of_reply_is_read() {
        check("+OK\r\n", "OK");
        check("-ERR no\r\n", "(error) ERR no");
        check(":-7\r\n", "(integer) -7");
        check("$4\r\na\r\nb\r\n", r#""a\r\nb""#);
        check("$-1\r\n", "(nil)");
        check("*-1\r\n", "(nil array)");
        check("*2\r\n:1\r\n*1\r\n_\r\n", "[(integer) 1, [(nil)]]");
        check("%1\r\n+k\r\n#t\r\n", "{k => (true)}");
        check("~1\r\n,1.5\r\n", "~[(double) 1.5]");
        check(">1\r\n(12345678901234567890\r\n", ">[(big number) 12345678901234567890]");
        check("=7\r\ntxt:abc\r\n", r#"txt:"abc""#);
    }

    #[test]
    fn lines_are_split_at_spaces_outside_quotes() {
        assert_eq!(
            words(r#"SET  a "b c\x00\n""#),
            [b"SET".to_vec(), b"a".to_vec(), b"b c\0\n".to_vec()]
        );
    }

    #[test]
    fn a_connection_that_ends_is_an_error() {
        assert!(decode(&mut &b"$5\r\nab"[..]).is_err());
        assert!(decode(&mut &b""[..]).is_err());
    }
}
