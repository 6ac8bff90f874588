//! A primary that is written by hand: it sends what no real one does, and stops where a test wants.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use testkit::{Launch, Server};

use super::PATIENCE;

/// The history that fakes have.
pub(super) const ID: &str = "0123456789abcdef0123456789abcdef01234567";
/// The mark that ends their dumps.
pub(super) const MARK: &str = "fedcba98765432100123456789abcdef76543210";

/// Waits for replicas.
pub(super) struct Fake {
    listener: TcpListener,
}

/// The connection of a replica.
pub(super) struct Peer {
    stream: BufReader<TcpStream>,
}

impl Fake {
    /// Listens on a port of its own.
    pub(super) fn listen() -> Fake {
        Fake { listener: TcpListener::bind(("127.0.0.1", 0)).expect("a port") }
    }

    pub(super) fn port(&self) -> u16 {
        self.listener.local_addr().expect("an address").port()
    }

    /// Waits for a connection.
    pub(super) fn accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time");
        stream.set_nodelay(true).expect("no delay");
        Peer { stream: BufReader::new(stream) }
    }

    /// Waits for a connection and its PSYNC. Returns what that asks for.
    pub(super) fn accept_psync(&self) -> (Peer, Vec<String>) {
        let mut peer = self.accept();
        let asked = peer.handshake();
        (peer, asked)
    }

    /// Sends all of a dump, at an offset. Returns the connection for the stream.
    pub(super) fn synchronize(&self, dump: &[u8], offset: u64) -> Peer {
        let (mut peer, _) = self.accept_psync();
        peer.send(&header(offset, dump.len()));
        peer.send(dump);
        peer.wait_for_acknowledgement(offset);
        peer
    }
}

/// Returns what comes before a dump with a length.
pub(super) fn header(offset: u64, length: usize) -> Vec<u8> {
    format!("+FULLRESYNC {ID} {offset}\r\n${length}\r\n").into_bytes()
}

/// Returns what comes before a dump with a mark.
pub(super) fn marked_header(offset: u64) -> Vec<u8> {
    format!("+FULLRESYNC {ID} {offset}\r\n$EOF:{MARK}\r\n").into_bytes()
}

impl Peer {
    /// Sends bytes. The replica may have closed the connection.
    pub(super) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("the replica reads");
    }

    /// Sends commands of the stream.
    pub(super) fn send_commands(&mut self, lines: &[&str]) {
        self.send(&commands(lines));
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.stream.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Waits for the replica's next command; none if it has closed the connection.
    pub(super) fn try_read(&mut self) -> Option<Vec<String>> {
        let mut line = self.line()?;
        // A sign of life while a dump is loaded.
        while line.is_empty() {
            line = self.line()?;
        }
        let count: usize = line.strip_prefix('*')?.parse().expect("a count");
        let word = |_| {
            let length = self.line()?.strip_prefix('$')?.parse().expect("a length");
            let mut word = vec![0; length];
            self.stream.read_exact(&mut word).ok()?;
            self.line()?;
            Some(String::from_utf8(word).expect("text"))
        };
        (0..count).map(word).collect()
    }

    pub(super) fn read(&mut self) -> Vec<String> {
        self.try_read().expect("the replica says something")
    }

    /// Replies to what a replica says first. Returns its PSYNC.
    pub(super) fn handshake(&mut self) -> Vec<String> {
        self.introduce("PSYNC")
    }

    /// Replies to what a replica says before a command. Returns that.
    pub(super) fn introduce(&mut self, last: &str) -> Vec<String> {
        loop {
            let words = self.read();
            match words[0].as_str() {
                "PING" => self.send(b"+PONG\r\n"),
                name if name == last => return words,
                _ => self.send(b"+OK\r\n"),
            }
        }
    }

    /// Waits until the replica says that it has the stream up to an offset, and no more.
    #[track_caller]
    pub(super) fn wait_for_acknowledgement(&mut self, offset: u64) {
        loop {
            let words = self.read();
            assert_eq!(words[..2], ["REPLCONF", "ACK"], "{words:?}");
            let has: u64 = words[2].parse().expect("an offset");
            assert!(has <= offset, "{has} is more than {offset}");
            if has == offset {
                return;
            }
        }
    }

    /// Waits until the replica closes the connection.
    pub(super) fn wait_for_end(&mut self) {
        while self.try_read().is_some() {}
    }
}

/// Encodes commands, each of which is a line of words.
pub(super) fn commands(lines: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        write!(bytes, "*{}\r\n", words.len()).expect("memory");
        for word in words {
            write!(bytes, "${}\r\n{word}\r\n", word.len()).expect("memory");
        }
    }
    bytes
}

/// Returns a dump of what a server holds.
pub(super) fn dump_of(server: &Server) -> Vec<u8> {
    server.client().check("SAVE", "OK");
    fs::read(server.folder().join("dump.rdb")).expect("a dump")
}

/// Returns a dump of these writes.
pub(super) fn dump(lines: &[&str]) -> Vec<u8> {
    let server = Launch::perdura_volatile().start();
    let mut client = server.client();
    for line in lines {
        let reply = client.run(line);
        assert!(!reply.is_error(), "{line}: {reply}");
    }
    dump_of(&server)
}

/// Returns a dump that is long enough for half of it to have many keys.
pub(super) fn long_dump() -> Vec<u8> {
    let lines: Vec<String> = (0..2000).map(|n| format!("SET key:{n} {n:050}")).collect();
    dump(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}
