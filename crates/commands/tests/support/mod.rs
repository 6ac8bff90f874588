//! An engine in this process, a client of it, and helpers for replies.
#![allow(dead_code, unreachable_pub, reason = "each test uses its own part")]

pub mod data;
pub mod streams;
pub mod wire;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use commands::{
    Clock, CommandLog, Engine, EngineOptions, Outcome, Peer, ReplyLog, Session, SystemClock,
};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Keyspace};
use pmem::{DomainRequest, MapOptions, Region};
use resp::{Limits, Next, Parser, Protocol, Writer};

const SEED: [u8; 16] = *b"a seed for tests";

fn options(shards: usize) -> CreateOptions {
    let geometry = Geometry { shards, ring_parts: 8, ring_part: 32 * 1024, zone_spans: 64 };
    CreateOptions { geometry, hash_seed: SEED, ..CreateOptions::default() }
}

/// A keyspace in DRAM.
pub fn volatile(shards: usize, limit: u64) -> Arc<Keyspace> {
    let heap = Heap::volatile(limit, &options(shards)).expect("a heap in memory");
    Arc::new(Keyspace::new(heap, SystemClock.unix_ms()))
}

/// A keyspace in a file, with the instructions of persistent memory.
pub fn emulated(file: &Path, shards: usize) -> Arc<Keyspace> {
    let domain = DomainRequest::Clwb;
    opened(file, shards, MapOptions { domain, emulate: true, ..MapOptions::new(256 << 20) })
}

/// A keyspace in a file with a journal.
pub fn journaled(file: &Path, shards: usize) -> Arc<Keyspace> {
    let (domain, journal_size) = (DomainRequest::Journal, 1 << 20);
    opened(file, shards, MapOptions { domain, journal_size, ..MapOptions::new(256 << 20) })
}

fn opened(file: &Path, shards: usize, map: MapOptions) -> Arc<Keyspace> {
    let region = Region::open(file, &map).expect("a mapping");
    let heap = if Heap::is_blank(&region) {
        Heap::create(region, &options(shards)).expect("a new pool")
    } else {
        Heap::open(region, [0; 16]).expect("the same pool").0
    };
    Arc::new(Keyspace::new(heap, SystemClock.unix_ms()))
}

/// An engine in DRAM with the machine's clock.
pub fn engine() -> Arc<Engine> {
    Arc::new(Engine::new(EngineOptions::new(volatile(4, 256 << 20))))
}

/// A clock that the test sets.
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn new(unix_ms: u64) -> Arc<TestClock> {
        Arc::new(TestClock(AtomicU64::new(unix_ms * 1_000_000)))
    }

    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms * 1_000_000, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn unix_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A command log in memory, with SELECT where the database changes.
#[derive(Default)]
pub struct MemoryLog {
    state: Mutex<(Vec<u8>, Option<Db>)>,
}

impl MemoryLog {
    pub fn bytes(&self) -> Vec<u8> {
        self.state.lock().expect("no panic").0.clone()
    }

    /// Forgets all that was logged.
    pub fn clear(&self) {
        *self.state.lock().expect("no panic") = Default::default();
    }

    /// The logged commands, words joined by spaces.
    pub fn lines(&self) -> Vec<String> {
        let words = |args: Vec<Vec<u8>>| {
            let words = args.iter().map(|arg| String::from_utf8_lossy(arg).into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        requests(&self.bytes()).into_iter().map(words).collect()
    }
}

impl ReplyLog for MemoryLog {
    fn end(&self) -> u64 {
        self.state.lock().expect("no panic").0.len() as u64
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, _: u64) -> bool {
        true
    }

    fn sync_to(&self, _: u64) -> bool {
        true
    }
}

impl CommandLog for MemoryLog {
    fn append(&self, first: Db, last: Db, bytes: &[u8]) -> u64 {
        let mut state = self.state.lock().expect("no panic");
        if state.1 != Some(first) {
            let number = first.number().to_string();
            let select = wire::request(&["SELECT".as_bytes(), number.as_bytes()]);
            state.0.extend_from_slice(&select);
        }
        state.0.extend_from_slice(bytes);
        state.1 = Some(last);
        state.0.len() as u64
    }
}

/// The requests in a buffer.
pub fn requests(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut parser = Parser::default();
    let limits = Limits::default();
    while let Ok(Next::Command) = parser.next(bytes, &limits) {}
    parser.commands(bytes).map(|c| c.arguments().map(<[u8]>::to_vec).collect()).collect()
}

/// A client of an engine in this process.
pub struct Client {
    pub engine: Arc<Engine>,
    pub session: Session,
    writer: Writer,
    /// The words of the last request.
    request: Vec<Vec<u8>>,
    pub outcome: Outcome,
    /// True if it waits when it is blocked; otherwise it times out at once.
    pub patient: bool,
}

impl Client {
    pub fn new(engine: &Arc<Engine>) -> Client {
        let mut session = engine.connect(Peer::default(), 0);
        session.set_can_block();
        session.set_gives_way();
        Client::of(engine, session)
    }

    pub fn of(engine: &Arc<Engine>, session: Session) -> Client {
        Client {
            engine: Arc::clone(engine),
            session,
            writer: Writer::new(Protocol::Resp2),
            request: Vec::new(),
            outcome: Outcome::default(),
            patient: false,
        }
    }

    /// A client that waits when it is blocked.
    pub fn patient(engine: &Arc<Engine>) -> Client {
        Client { patient: true, ..Client::new(engine) }
    }

    /// The reply to the command that blocked it, once there is one.
    pub fn unblocked(&mut self) -> Option<String> {
        self.outcome = self.engine.unblocked(&mut self.session, &mut self.writer)?;
        if self.outcome.next == commands::Next::Locked {
            let request = std::mem::take(&mut self.request);
            let reply = self.raw(&request);
            return (self.outcome.next != commands::Next::Block).then(|| wire::show(&reply));
        }
        Some(wire::show(&self.writer.take()))
    }

    /// Executes a request and returns the reply as it would go over the wire.
    pub fn raw<A: AsRef<[u8]>>(&mut self, args: &[A]) -> Vec<u8> {
        self.request = args.iter().map(|arg| arg.as_ref().to_vec()).collect();
        let args: Vec<&[u8]> = args.iter().map(AsRef::as_ref).collect();
        self.outcome = self.engine.execute(&mut self.session, &args, &mut self.writer);
        while self.outcome.next == commands::Next::Locked {
            // Tried again in any case: a script may hold the shards for longer than a client may
            // wait.
            let _ = self.engine.poll_shards(&self.session, Waker::noop());
            std::thread::yield_now();
            self.outcome = self.engine.execute(&mut self.session, &args, &mut self.writer);
        }
        if self.outcome.next == commands::Next::Block && !self.patient {
            let timed_out = self.engine.time_out(&mut self.session, &mut self.writer);
            self.outcome = timed_out.expect("nobody serves it");
        }
        self.writer.take()
    }

    /// Executes requests as one run; `None` if it was not accepted as a whole.
    pub fn pipeline<A: AsRef<[u8]>>(&mut self, requests: &[Vec<A>]) -> Option<Vec<u8>> {
        let words: Vec<Vec<&[u8]>> =
            requests.iter().map(|words| words.iter().map(AsRef::as_ref).collect()).collect();
        let mut batch = self.engine.batch();
        words.iter().for_each(|words| batch.push(words));
        let done = self.engine.execute_run(&mut self.session, &batch, 0, &mut self.writer).ok()?;
        self.outcome = Outcome { next: done.next, reply_after: done.reply_after };
        (done.requests == batch.len()).then(|| self.writer.take())
    }

    /// Executes a line of words.
    pub fn run(&mut self, line: &str) -> String {
        let words: Vec<&str> =
            line.split_whitespace().map(|word| if word == "\"\"" { "" } else { word }).collect();
        match self.raw(&words) {
            reply if reply.is_empty() && self.outcome.next == commands::Next::Block => {
                "(blocked)".into()
            }
            reply => wire::show(&reply),
        }
    }

    /// Executes a line, and expects this reply, in redis-cli's words on one line.
    #[track_caller]
    pub fn check(&mut self, line: &str, expected: &str) {
        assert_eq!(self.run(line), expected, "{line}");
    }
}
