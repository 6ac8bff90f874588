//! The two servers, and the comparison of their replies.
//!
//! Time passes between the two, so remaining TTLs may differ a little; the order of KEYS, and of
//! the elements of a large hash or set, is undefined. The encoding of a string depends on the
//! command that made it, which a log does not record: after a restart from a log, the encoding is
//! that of a restarted redis-server.

use crate::generate::{Op, Sequence};
use std::io;
use testkit::{Client, Launch, Reply, Server};

/// The maximum difference of times between two clocks, in milliseconds.
const TOLERANCE: u64 = 10_000;

/// Two replies that differ.
pub(crate) struct Difference {
    pub(crate) ours: Reply,
    pub(crate) theirs: Reply,
}

/// Perdura and redis-server.
pub(crate) struct Pair {
    ours: Server,
    theirs: Server,
    /// Perdura's data is restored from a log.
    from_log: bool,
}

struct Connections {
    ours: Client,
    theirs: Client,
    /// Encodings may differ.
    is_reencoded: bool,
}

impl Pair {
    pub(crate) fn start(ours: Launch, from_log: bool) -> Pair {
        Pair { ours: ours.start(), theirs: Launch::redis().start(), from_log }
    }

    /// Runs a sequence over empty data. Returns the first difference.
    pub(crate) fn run(&mut self, sequence: &Sequence) -> Option<Difference> {
        let Sequence { protocol, burst, ops } = sequence;
        let mut both = self.connect(*protocol);
        both.ours.check("FLUSHALL", "OK");
        both.theirs.check("FLUSHALL", "OK");
        for part in ops.chunk_by(|a, b| a.is_call() && b.is_call()) {
            let calls: Vec<&Vec<Vec<u8>>> = part.iter().filter_map(Op::words).collect();
            if calls.is_empty() {
                self.restart(&part[0]);
                both = self.connect(*protocol);
                both.is_reencoded = self.from_log;
            }
            let different = calls.chunks(*burst).find_map(|calls| both.call_all(calls));
            if different.is_some() {
                return different;
            }
        }
        Connections { is_reencoded: both.is_reencoded, ..self.connect(*protocol) }.compare_data()
    }

    fn restart(&mut self, op: &Op) {
        match op {
            Op::Terminate => assert!(self.ours.terminate().success(), "{}", self.ours.log()),
            _ => self.ours.kill(),
        }
        self.ours.start_again();
    }

    fn connect(&self, protocol: u8) -> Connections {
        let (mut ours, mut theirs) = (self.ours.client(), self.theirs.client());
        for client in [&mut ours, &mut theirs] {
            let reply = client.run(&format!("HELLO {protocol}"));
            assert!(!reply.is_error(), "{reply}");
        }
        Connections { ours, theirs, is_reencoded: false }
    }
}

impl Connections {
    /// Sends commands in one write, and compares the replies.
    fn call_all(&mut self, calls: &[&Vec<Vec<u8>>]) -> Option<Difference> {
        let commands: Vec<Vec<Vec<u8>>> = calls.iter().map(|words| words.to_vec()).collect();
        let sent = [&mut self.ours, &mut self.theirs].map(|client| client.send_pipeline(&commands));
        let receive = |client: &mut Client, sent: &io::Result<()>| match sent {
            Err(error) => Reply::Error(format!("the connection: {error}")),
            Ok(()) => client
                .receive()
                .unwrap_or_else(|error| Reply::Error(format!("the connection: {error}"))),
        };
        commands.iter().find_map(|words| {
            let ours = receive(&mut self.ours, &sent[0]);
            let theirs = receive(&mut self.theirs, &sent[1]);
            let same = self.is_same(words, &ours, &theirs);
            (!same).then_some(Difference { ours, theirs })
        })
    }

    fn call(&mut self, words: &[Vec<u8>]) -> Option<Difference> {
        self.call_all(&[&words.to_vec()])
    }

    fn is_same(&self, words: &[Vec<u8>], ours: &Reply, theirs: &Reply) -> bool {
        let name = words.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        match name.as_slice() {
            b"keys" | b"hgetall" | b"hkeys" | b"hvals" | b"smembers" | b"sinter" | b"sunion"
            | b"sdiff" => sorted(ours) == sorted(theirs),
            b"object" | b"ttl" | b"pttl" | b"expiretime" | b"pexpiretime" | b"exec" | b"time"
            | b"xpending" => is_close(ours, theirs, self.is_reencoded),
            b"xinfo" => is_close(&as_of_7_0(ours), theirs, self.is_reencoded),
            _ => ours == theirs,
        }
    }

    /// Compares all keys in all available ways.
    fn compare_data(&mut self) -> Option<Difference> {
        for db in 0..16 {
            let select = [b"SELECT".to_vec(), db.to_string().into_bytes()];
            let keys = [b"KEYS".to_vec(), b"*".to_vec()];
            let different = self.call(&select).or_else(|| self.call(&keys));
            if different.is_some() {
                return different;
            }
            for key in self.theirs.run("KEYS *").items().iter().filter_map(Reply::bytes) {
                for about in [
                    &["GET"][..],
                    &["OBJECT", "ENCODING"],
                    &["PEXPIRETIME"],
                    &["TYPE"],
                    &["HGETALL"],
                    &["SMEMBERS"],
                    &["LRANGE", "*", "0", "-1"],
                    &["ZRANGE", "*", "0", "-1", "WITHSCORES"],
                    &["XRANGE", "*", "-", "+"],
                    &["XINFO", "GROUPS"],
                    &["XPENDING", "*", "g", "-", "+", "1000"],
                    &["XINFO", "CONSUMERS", "*", "g"],
                ] {
                    let mut words: Vec<Vec<u8>> =
                        about.iter().map(|word| word.as_bytes().to_vec()).collect();
                    match words.iter().position(|word| word == b"*") {
                        Some(place) => words[place] = key.to_vec(),
                        None => words.push(key.to_vec()),
                    }
                    let different = self.call(&words);
                    if different.is_some() {
                        return different;
                    }
                }
            }
        }
        None
    }
}

/// Returns the reply without the fields of consumers that Redis has from 7.2 on.
fn as_of_7_0(reply: &Reply) -> Reply {
    let Reply::Array(items) = reply else { return reply.clone() };
    let later = items.iter().position(|item| item.bytes() == Some(b"inactive"));
    let kept =
        items.iter().enumerate().filter(|(n, _)| later.is_none_or(|at| *n < at || *n > at + 1));
    Reply::Array(kept.map(|(_, item)| as_of_7_0(item)).collect())
}

fn is_encoding(reply: &Reply) -> bool {
    matches!(reply.bytes(), Some(b"int" | b"embstr" | b"raw"))
}

/// Returns true if Redis's SORT has converted a small sorted set to the large encoding.
fn is_converted(ours: &Reply, theirs: &Reply) -> bool {
    (ours.bytes(), theirs.bytes()) == (Some(b"listpack"), Some(b"skiplist"))
}

/// Returns the kind of a reply, and its elements in a canonical order.
fn sorted(reply: &Reply) -> (&'static str, Vec<String>) {
    let strings = |items: &[Reply]| items.iter().map(Reply::to_string).collect();
    let (kind, mut items): (_, Vec<String>) = match reply {
        Reply::Array(items) => ("array", strings(items)),
        Reply::Set(items) => ("set", strings(items)),
        Reply::Map(pairs) => ("map", pairs.iter().map(|(k, v)| format!("{k} => {v}")).collect()),
        other => ("other", vec![other.to_string()]),
    };
    items.sort();
    (kind, items)
}

/// Returns true if replies are equal, except for a little time, for the order of what may be KEYS
/// or a large hash, and for encodings if those may differ.
fn is_close(ours: &Reply, theirs: &Reply, is_reencoded: bool) -> bool {
    match (ours, theirs) {
        (Reply::Int(a), Reply::Int(b)) => {
            a == b || (*a >= 0 && *b >= 0 && a.abs_diff(*b) <= TOLERANCE)
        }
        (Reply::Array(a), Reply::Array(b)) => {
            a.len() == b.len()
                && (a.iter().zip(b).all(|(a, b)| is_close(a, b, is_reencoded))
                    || sorted(ours) == sorted(theirs))
        }
        (Reply::Map(a), Reply::Map(b)) => {
            let same = |((a, x), (b, y)): (&(Reply, Reply), &(Reply, Reply))| {
                a == b && is_close(x, y, is_reencoded)
            };
            a.len() == b.len() && a.iter().zip(b).all(same) || sorted(ours) == sorted(theirs)
        }
        (Reply::Set(_), Reply::Set(_)) => sorted(ours) == sorted(theirs),
        _ => {
            ours == theirs
                || is_converted(ours, theirs)
                || (is_reencoded && is_encoding(ours) && is_encoding(theirs))
        }
    }
}
