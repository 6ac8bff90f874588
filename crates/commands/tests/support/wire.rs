//! Replies as bytes: reading them from a stream, describing them, and asking a server over a
//! socket.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A request on the wire.
pub fn request<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.as_ref().len()).as_bytes());
        bytes.extend_from_slice(arg.as_ref());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A parsed reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A line: status, error, integer, double, boolean, null, big number; with its kind.
    Line(u8, Vec<u8>),
    /// A bulk or verbatim string; `None` for RESP2's null.
    Bulk(u8, Option<Vec<u8>>),
    /// An aggregate; `None` for RESP2's null array.
    Many(u8, Option<Vec<Reply>>),
}

/// Reads one reply.
pub fn read(from: &mut impl Read) -> Reply {
    let line = read_line(from);
    let (kind, rest) = (line[0], &line[1..]);
    let number = || String::from_utf8_lossy(rest).parse::<i64>().expect("a length");
    match kind {
        b'$' | b'=' => Reply::Bulk(kind, usize::try_from(number()).ok().map(|n| bulk(from, n))),
        b'*' | b'~' | b'>' => Reply::Many(kind, many(from, number())),
        b'%' => Reply::Many(kind, many(from, number() * 2)),
        _ => Reply::Line(kind, rest.to_vec()),
    }
}

fn many(from: &mut impl Read, len: i64) -> Option<Vec<Reply>> {
    usize::try_from(len).ok().map(|len| (0..len).map(|_| read(from)).collect())
}

fn bulk(from: &mut impl Read, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len + 2];
    from.read_exact(&mut bytes).expect("a bulk string");
    assert!(bytes.ends_with(b"\r\n"), "a bulk string ends with its line");
    bytes.truncate(len);
    bytes
}

fn read_line(from: &mut impl Read) -> Vec<u8> {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") {
        from.read_exact(&mut byte).expect("a reply");
        line.push(byte[0]);
    }
    line.truncate(line.len() - 2);
    line
}

/// Parses one whole reply; nothing may follow it.
pub fn parse(mut bytes: &[u8]) -> Reply {
    let reply = read(&mut bytes);
    assert!(bytes.is_empty(), "one reply: {}", String::from_utf8_lossy(bytes));
    reply
}

/// A reply in redis-cli's words, on one line.
pub fn show(bytes: &[u8]) -> String {
    describe(&parse(bytes))
}

/// A reply in redis-cli's words, on one line.
pub fn describe(reply: &Reply) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match reply {
        Reply::Line(b'-', line) => format!("(error) {}", text(line)),
        Reply::Line(b':', line) => format!("(integer) {}", text(line)),
        Reply::Line(b'+', line) => text(line),
        Reply::Line(b'_', _) | Reply::Bulk(_, None) | Reply::Many(_, None) => "(nil)".to_owned(),
        Reply::Line(kind, line) => format!("{}{}", *kind as char, text(line)),
        Reply::Bulk(_, Some(bytes)) => format!("\"{}\"", text(bytes)),
        Reply::Many(_, Some(items)) => {
            format!("[{}]", items.iter().map(describe).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A connection to a real server.
pub struct Remote {
    stream: BufReader<TcpStream>,
}

impl Remote {
    pub fn connect(address: SocketAddr) -> Remote {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        Remote { stream: BufReader::new(stream) }
    }

    pub fn call<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Reply {
        self.stream.get_mut().write_all(&request(args)).expect("a request is sent");
        read(&mut self.stream)
    }

    /// Sends requests, whose replies are read later.
    pub fn send<R: AsRef<[A]>, A: AsRef<[u8]>>(&mut self, requests: &[R]) {
        let bytes: Vec<u8> = requests.iter().flat_map(|words| request(words.as_ref())).collect();
        self.stream.get_mut().write_all(&bytes).expect("requests are sent");
    }

    /// Reads this many replies.
    pub fn receive(&mut self, replies: usize) -> Vec<Reply> {
        (0..replies).map(|_| read(&mut self.stream)).collect()
    }
}
