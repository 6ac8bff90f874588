//! A replica written by hand: it says what the test says, and counts what it receives.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use testkit::{Client, Server};

use super::{PATIENCE, end};

/// What a replica of today says it knows.
pub(super) const CAPABLE: &str = "REPLCONF capa eof capa psync2";

/// A connection to a primary.
pub(super) struct Fake {
    stream: BufReader<TcpStream>,
    /// The history that it has.
    pub(super) id: String,
    /// The offset up to which it has received the stream.
    pub(super) offset: u64,
    /// The bytes of the stream that it has received.
    pub(super) received: Vec<u8>,
}

impl Fake {
    pub(super) fn connect(server: &Server) -> Fake {
        let stream = TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("a flag");
        let stream = BufReader::with_capacity(1 << 16, stream);
        Fake { stream, id: String::new(), offset: 0, received: Vec::new() }
    }

    /// Sends bytes; the primary may have closed the connection.
    pub(super) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends an inline command.
    #[track_caller]
    pub(super) fn send(&mut self, line: &str) {
        self.try_send(format!("{line}\r\n").as_bytes()).expect("it is sent");
    }

    /// Returns the next line. Bare newlines, which show that the primary lives, are skipped.
    #[track_caller]
    pub(super) fn line(&mut self) -> String {
        loop {
            let mut line = Vec::new();
            self.stream.read_until(b'\n', &mut line).expect("a line");
            assert!(!line.is_empty(), "the primary has closed the connection");
            if line != b"\n" {
                let line = line.strip_suffix(b"\r\n").expect("the end of the line");
                return String::from_utf8_lossy(line).into_owned();
            }
        }
    }

    /// Returns true if a line comes, false if the primary has closed the connection.
    pub(super) fn has_line(&mut self) -> bool {
        loop {
            match self.stream.fill_buf() {
                Ok([b'\n', ..]) => self.stream.consume(1),
                Ok(bytes) => return !bytes.is_empty(),
                Err(_) => return false,
            }
        }
    }

    /// Sends a command, and checks the reply's line.
    #[track_caller]
    pub(super) fn check(&mut self, line: &str, expected: &str) {
        self.send(line);
        assert_eq!(self.line(), expected, "reply to {line}");
    }

    /// Takes a dump after the reply to PSYNC, and returns it.
    #[track_caller]
    pub(super) fn take_dump(&mut self) -> Vec<u8> {
        let head = self.line();
        let head = head.strip_prefix("+FULLRESYNC ").unwrap_or_else(|| panic!("{head}"));
        let (id, offset) = head.split_once(' ').expect("an ID and an offset");
        assert!(id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        (self.id, self.offset) = (id.to_owned(), offset.parse().expect("an offset"));
        self.received.clear();
        self.take_payload()
    }

    /// Takes the dump itself, of either kind.
    #[track_caller]
    pub(super) fn take_payload(&mut self) -> Vec<u8> {
        let head = self.line();
        let mut dump = Vec::new();
        if let Some(mark) = head.strip_prefix("$EOF:") {
            assert_eq!(mark.len(), 40, "{head}");
            while !dump.ends_with(mark.as_bytes()) {
                let mut byte = [0];
                self.stream.read_exact(&mut byte).expect("the dump goes on");
                dump.push(byte[0]);
            }
            dump.truncate(dump.len() - mark.len());
        } else {
            let len = head.strip_prefix('$').and_then(|len| len.parse().ok());
            dump.resize(len.unwrap_or_else(|| panic!("{head}")), 0);
            self.stream.read_exact(&mut dump).expect("the dump");
        }
        let is_dump = [&b"REDIS00"[..], b"VALKEY0"].iter().any(|name| dump.starts_with(name));
        assert!(is_dump, "{}", dump.escape_ascii());
        dump
    }

    /// Becomes a replica that receives the stream.
    #[track_caller]
    pub(super) fn synchronize(&mut self) {
        self.check(CAPABLE, "+OK");
        self.send("PSYNC ? -1");
        self.take_dump();
        self.acknowledge();
    }

    /// Says that it has everything that it received.
    #[track_caller]
    pub(super) fn acknowledge(&mut self) {
        self.send(&format!("REPLCONF ACK {}", self.offset));
    }

    /// Reads a line of the stream, and returns the number in it.
    fn number(&mut self, sign: u8) -> io::Result<usize> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        self.received.extend_from_slice(&line);
        let Some(text) = line.strip_suffix(b"\r\n") else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        assert_eq!(text.first(), Some(&sign), "{}", line.escape_ascii());
        Ok(String::from_utf8_lossy(&text[1..]).parse().expect("a number"))
    }

    /// Returns the words of the next command of the stream.
    pub(super) fn try_command(&mut self) -> io::Result<Vec<Vec<u8>>> {
        let before = self.received.len();
        let mut words = Vec::new();
        for _ in 0..self.number(b'*')? {
            let mut word = vec![0; self.number(b'$')? + 2];
            self.stream.read_exact(&mut word)?;
            self.received.extend_from_slice(&word);
            assert_eq!(word.split_off(word.len() - 2), b"\r\n");
            words.push(word);
        }
        self.offset += (self.received.len() - before) as u64;
        Ok(words)
    }

    /// Returns the next command of the stream, as a line.
    #[track_caller]
    pub(super) fn command(&mut self) -> String {
        let words = self.try_command().expect("the stream goes on");
        let words: Vec<String> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
        words.join(" ")
    }

    /// Returns the commands up to a mark that the client writes now, without marks and what the
    /// primary says of itself.
    #[track_caller]
    pub(super) fn commands(&mut self, client: &mut Client) -> Vec<String> {
        static MARKS: AtomicU64 = AtomicU64::new(0);
        let mark = format!("SET mark {}", MARKS.fetch_add(1, Relaxed));
        client.check(&mark, "OK");
        let mut commands = Vec::new();
        loop {
            let command = self.command();
            match command.split(' ').next() {
                Some("PING" | "REPLCONF" | "SELECT") => {}
                _ if command == mark => return commands,
                _ if command.starts_with("SET mark ") => {}
                _ => commands.push(command),
            }
        }
    }

    /// Returns this many bytes as they come.
    #[track_caller]
    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("the stream goes on");
        bytes
    }

    /// Receives the stream up to its present end.
    #[track_caller]
    pub(super) fn catch_up(&mut self, client: &mut Client) {
        let end = end(client);
        while self.offset < end {
            self.command();
        }
        assert_eq!(self.offset, end);
    }

    /// Returns true if something can be read now, or the connection has ended.
    pub(super) fn has_more(&mut self) -> bool {
        if !self.stream.buffer().is_empty() {
            return true;
        }
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).expect("a flag");
        let found = stream.peek(&mut [0]);
        stream.set_nonblocking(false).expect("a flag");
        found.is_ok()
    }

    /// Waits until the primary closes the connection, and returns what came before that.
    #[track_caller]
    pub(super) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => panic!("{error}"),
            _ => rest,
        }
    }
}
