//! An engine in this process, and a client that talks to it as to a server.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use aof::{Aof, Loader, Options};
use commands::{CommandLog, Engine, EngineOptions, Peer, Session, Settings};
use heap::{CreateOptions, Heap};
use keyspace::{Keyspace, Limits};
use pmem::{DomainRequest, MapOptions, Region};
use resp::{Parser, Protocol, Writer};
use testkit::Client;

/// The maximum size of the data in bytes.
const LIMIT: u64 = 4 << 30;

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

fn options() -> CreateOptions {
    CreateOptions::fitting(LIMIT).expect("random bytes")
}

/// The limits up to which values are small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Smallness {
    Usual,
    /// Nearly no value is small.
    Least,
    /// Nearly all values are small.
    Most,
}

impl Smallness {
    /// Returns the directives that set these limits.
    pub(crate) fn directives(self) -> Vec<String> {
        let [entries, value, list, bytes, stream] = match self {
            Smallness::Usual => return Vec::new(),
            Smallness::Least => ["3", "5", "2", "100", "2"],
            Smallness::Most => ["70000", "100000", "-5", "0", "0"],
        };
        let pairs = [
            ("hash-max-listpack-entries", entries),
            ("hash-max-listpack-value", value),
            ("zset-max-listpack-entries", entries),
            ("zset-max-listpack-value", value),
            ("set-max-intset-entries", entries),
            ("list-max-listpack-size", list),
            ("stream-node-max-bytes", bytes),
            ("stream-node-max-entries", stream),
        ];
        pairs.iter().flat_map(|(name, text)| [format!("--{name}"), (*text).to_owned()]).collect()
    }

    fn set(self, engine: &Engine) {
        let (limits, list, stream) = match self {
            Smallness::Usual => return,
            Smallness::Least => (Limits { entries: 3, value: 5 }, 2, (100, 2)),
            Smallness::Most => (Limits { entries: 70_000, value: 100_000 }, -5, (0, 0)),
        };
        let config = engine.config();
        config.store(Settings {
            hash_max_listpack_entries: limits.entries,
            hash_max_listpack_value: limits.value,
            zset_max_listpack_entries: limits.entries,
            zset_max_listpack_value: limits.value,
            set_max_intset_entries: limits.entries,
            list_max_listpack_size: list,
            stream_node_max_bytes: stream.0,
            stream_node_max_entries: stream.1,
            ..config.settings()
        });
    }
}

fn engine(
    heap: Heap,
    log: Option<Arc<dyn CommandLog>>,
    threads: usize,
    smallness: Smallness,
) -> Arc<Engine> {
    let keyspace = Arc::new(Keyspace::new(heap, now()));
    let options = EngineOptions { log, threads, ..EngineOptions::new(keyspace) };
    let engine = Engine::new(options);
    smallness.set(&engine);
    Arc::new(engine)
}

/// Makes an engine in memory, with a log or not.
pub(crate) fn in_memory(
    threads: usize,
    log: Option<Arc<dyn CommandLog>>,
    smallness: Smallness,
) -> Arc<Engine> {
    let heap = Heap::volatile(LIMIT, &options()).expect("memory");
    engine(heap, log, threads, smallness)
}

/// Makes an engine over a pool, which is created if necessary, with a log or not.
pub(crate) fn over_pool(
    pool: &Path,
    log: Option<Arc<dyn CommandLog>>,
    smallness: Smallness,
) -> Arc<Engine> {
    let map = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(LIMIT) };
    let region = Region::open(pool, &map).expect("a mapping");
    let heap = match Heap::is_blank(&region) {
        true => Heap::create(region, &options()).expect("a pool"),
        false => Heap::open(region, pmem::boot_id()).expect("the pool").0,
    };
    engine(heap, log, 1, smallness)
}

/// Makes a log in a folder.
pub(crate) fn log(folder: &Path) -> Arc<Aof> {
    let mut loader = Loader::open(Options::new(folder)).expect("an empty folder");
    assert!(loader.next().expect("nothing to read").is_none(), "the log is new");
    Arc::new(loader.into_log().expect("a new log"))
}

/// Makes an engine in memory from the log in a folder.
pub(crate) fn replayed(folder: &Path, smallness: Smallness) -> Result<Arc<Engine>, String> {
    let engine = in_memory(3, None, smallness);
    let mut loader = Loader::open(Options::new(folder)).map_err(|error| error.to_string())?;
    commands::replay(&engine, &mut loader, &mut |_| {}).map_err(|error| error.to_string())?;
    Ok(engine)
}

/// Connects to an engine.
pub(crate) fn connect(engine: &Arc<Engine>) -> Client {
    let session = engine.connect(Peer::default(), 0);
    Client::through(Connection {
        engine: Arc::clone(engine),
        session,
        parser: Parser::new(),
        input: Vec::new(),
        out: Writer::new(Protocol::Resp2),
        sent: 0,
    })
}

struct Connection {
    engine: Arc<Engine>,
    session: Session,
    parser: Parser,
    input: Vec<u8>,
    out: Writer,
    /// The number of bytes of the output that were read.
    sent: usize,
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.input.extend_from_slice(bytes);
        let limits = resp::Limits::default();
        loop {
            match self.parser.next(&self.input, &limits) {
                Ok(resp::Next::Command) => {}
                Ok(resp::Next::Empty) => continue,
                Ok(resp::Next::Partial { .. }) => break,
                Err(error) => {
                    return Err(io::Error::other(error.message().escape_ascii().to_string()));
                }
            }
        }
        for at in 0..self.parser.complete() {
            let words: Vec<&[u8]> = self.parser.command(at, &self.input).arguments().collect();
            let _ = self.engine.execute(&mut self.session, &words, &mut self.out);
        }
        let gone = self.parser.release();
        self.input.drain(..gone);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Connection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let rest = &self.out.as_bytes()[self.sent..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        self.sent += len;
        if self.sent == self.out.len() {
            self.out.clear();
            self.sent = 0;
        }
        Ok(len)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.engine.disconnect(&mut self.session);
    }
}
