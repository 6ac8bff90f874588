//! Whatever bytes RESTORE is given, the key holds a value that every command can read and that
//! another RESTORE takes over unchanged, or there is no key; the heap is sound in both cases.
//!
//! An input is a type, a value and two bytes of version; the checksum is added.

use std::sync::Arc;

use commands::{Engine, EngineOptions, Peer, Session};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use resp::{Protocol, Writer};

/// Bytes that the values may take.
const MEMORY: u64 = 256 << 20;

/// Reads of every type, and writes that change what was restored.
const READS: [&str; 18] = [
    "TYPE k",
    "OBJECT ENCODING k",
    "MEMORY USAGE k",
    "GET k",
    "STRLEN k",
    "LRANGE k 0 -1",
    "SMEMBERS k",
    "HGETALL k",
    "HTTL k FIELDS 1 f",
    "ZRANGE k 0 -1 WITHSCORES",
    "ZRANGEBYSCORE k -inf +inf",
    "XRANGE k - +",
    "XINFO STREAM k FULL",
    "SCAN 0",
    "HSCAN k 0",
    "SSCAN k 0",
    "ZSCAN k 0",
    "SORT k BY nosort",
];
const WRITES: [&str; 12] = [
    "APPEND k x",
    "LPUSH k x",
    "RPOP k",
    "SADD k x",
    "SPOP k",
    "HSET k x y",
    "HDEL k x",
    "ZADD k 1 x",
    "ZPOPMIN k",
    "XADD k * f v",
    "XTRIM k MAXLEN 1",
    "XGROUP CREATE k g 0",
];

struct Server {
    engine: Engine,
    session: Session,
}

impl Server {
    fn new() -> Server {
        let geometry = Geometry { shards: 2, ..Geometry::default() };
        let options = CreateOptions { geometry, ..CreateOptions::default() };
        let heap = Heap::volatile(MEMORY, &options).expect("memory");
        let engine = Engine::new(EngineOptions::new(Arc::new(Keyspace::new(heap, 0))));
        let mut session = engine.connect(Peer::default(), 0);
        session.authenticated = true;
        Server { engine, session }
    }

    fn call(&mut self, words: &[&[u8]]) -> Vec<u8> {
        let mut out = Writer::new(Protocol::Resp2);
        let _ = self.engine.execute(&mut self.session, words, &mut out);
        out.take()
    }

    fn run(&mut self, line: &str) -> Vec<u8> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&words)
    }

    fn restore(&mut self, key: &[u8], payload: &[u8]) -> Vec<u8> {
        self.call(&[b"RESTORE", key, b"0", payload])
    }

    fn check_heap(&self) {
        let keyspace = self.engine.keyspace();
        let mut problems = Vec::new();
        for shard in 0..keyspace.shards() {
            keyspace.inspect(shard, &|_| (), &mut |problem| problems.push(problem));
        }
        assert!(problems.is_empty(), "{problems:?}");
    }
}

/// The bytes of a bulk reply.
fn bulk(reply: &[u8]) -> Option<&[u8]> {
    let at = reply.windows(2).position(|pair| pair == b"\r\n")?;
    reply.strip_suffix(b"\r\n")?.get(at + 2..).filter(|_| reply.starts_with(b"$"))
}

/// The body of the target.
pub(crate) fn check(data: &[u8]) {
    let Some((body, version)) = data.split_last_chunk() else { return };
    let mut payload = body.to_vec();
    rdb::payload::append_footer(&mut payload, u16::from_le_bytes(*version));
    let mut server = Server::new();
    let restored = server.restore(b"k", &payload);
    if restored != b"+OK\r\n" {
        assert!(restored.starts_with(b"-"), "{}", restored.escape_ascii());
        assert_eq!(server.run("EXISTS k"), b":0\r\n");
        return server.check_heap();
    }
    let dumped = server.run("DUMP k");
    // All fields of a hash may have expired.
    if let Some(dumped) = bulk(&dumped) {
        let again = server.restore(b"again", dumped);
        assert_eq!(again, b"+OK\r\n", "{}", again.escape_ascii());
        let of = |server: &mut Server, key| server.run(&format!("DEBUG DIGEST-VALUE {key}"));
        assert_eq!(of(&mut server, "k"), of(&mut server, "again"));
    }
    for line in READS {
        server.run(line);
    }
    server.check_heap();
    for line in WRITES {
        server.run(line);
    }
    server.run("COPY k copy");
    server.check_heap();
    for line in ["DEL k again copy", "DBSIZE"] {
        assert!(server.run(line).starts_with(b":"));
    }
}
