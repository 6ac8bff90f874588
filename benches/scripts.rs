//! What a script costs in the engine, from the words of EVALSHA to the reply, in addition to the
//! same commands without a script: no socket, no log, a heap in DRAM.
//!
//! `cargo bench --bench scripts` gives times. `benches/script-instructions.sh` counts instructions
//! under callgrind, for which this program runs one load (`SCRIPT_LOAD`) a fixed number of times
//! (`SCRIPT_ROUNDS`) when both are set.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commands::{Clock, Engine, EngineOptions, Peer, Session};
use criterion::Criterion;
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use resp::{Protocol, Writer};

const KEYS: usize = 1000;
const LIMIT: u64 = 1 << 30;
/// 2026-01-01.
const NOW_NS: u64 = 1_767_225_600_000_000_000;

/// What is measured, by name: a script, or the command itself.
const LOADS: [(&str, Load); 9] = [
    ("set", Load::Command(&["SET", "KEY", "VALUE"])),
    ("get", Load::Command(&["GET", "KEY"])),
    ("transaction-of-1000", Load::Transaction),
    ("script-set", Load::Script("redis.call('set', KEYS[1], ARGV[1])")),
    ("script-get", Load::Script("return redis.call('get', KEYS[1])")),
    ("script-nothing", Load::Script("return 1")),
    ("script-1000-set", Load::Script("for i=1,1000 do redis.call('set', KEYS[1]..i, ARGV[1]) end")),
    ("script-1000-same", Load::Script("for i=1,1000 do redis.call('set', KEYS[1], ARGV[1]) end")),
    ("script-1000-get", Load::Script("for i=1,1000 do redis.call('get', KEYS[1]) end")),
];

#[derive(Clone, Copy)]
enum Load {
    /// These words, with a key and the value for `KEY` and `VALUE`.
    Command(&'static [&'static str]),
    /// EVALSHA of this text, with one key and the value.
    Script(&'static str),
    /// MULTI, a SET of each of the keys, EXEC.
    Transaction,
}

/// A clock that goes on by a nanosecond each time: the machine's cannot be asked under callgrind.
#[derive(Default)]
struct Counter(AtomicU64);

impl Clock for Counter {
    fn unix_ns(&self) -> u64 {
        NOW_NS + self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A client of an engine in this process.
struct Client {
    engine: Arc<Engine>,
    session: Session,
    out: Writer,
    keys: Vec<String>,
    value: String,
    next: Cell<usize>,
}

impl Client {
    /// Connects to a new engine, and sets all keys.
    fn new() -> Client {
        let create = CreateOptions { geometry: Geometry::default(), ..CreateOptions::default() };
        let heap = Heap::volatile(LIMIT, &create).expect("a heap");
        let keyspace = Arc::new(Keyspace::new(heap, NOW_NS / 1_000_000));
        let clock = Arc::new(Counter::default());
        let engine = Engine::new(EngineOptions { clock, ..EngineOptions::new(keyspace) });
        let engine = Arc::new(engine);
        let session = engine.connect(Peer::default(), 0);
        let keys: Vec<String> = (0..KEYS).map(|n| format!("key:{n:012}")).collect();
        let (value, next) = ("v".repeat(32), Cell::new(0));
        let mut client =
            Client { engine, session, out: Writer::new(Protocol::Resp2), keys, value, next };
        let (keys, value) = (client.keys.clone(), client.value.clone());
        keys.iter().for_each(|key| client.send(&["SET", key, &value]));
        client
    }

    /// Executes a command as a batch of one, which is how a server does; it must not fail.
    fn send(&mut self, words: &[&str]) {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.out.buffer().clear();
        let mut batch = self.engine.batch();
        batch.push(&words);
        let _ = self.engine.execute_batch(&mut self.session, &mut batch, &mut self.out);
        assert_ne!(self.out.as_bytes().first(), Some(&b'-'), "{words:?} fails");
    }

    /// Prepares a load: what runs it once.
    fn prepare(&mut self, load: Load) -> impl FnMut(&mut Client) + use<> {
        let sha = match load {
            Load::Script(text) => {
                self.send(&["SCRIPT", "LOAD", text]);
                let reply = String::from_utf8_lossy(self.out.as_bytes()).into_owned();
                reply.split("\r\n").nth(1).unwrap_or_default().to_owned()
            }
            Load::Command(_) | Load::Transaction => String::new(),
        };
        let (keys, value) = (self.keys.clone(), self.value.clone());
        move |client| {
            let key = &keys[client.next.replace((client.next.get() + 1) % KEYS)];
            match load {
                Load::Script(_) => client.send(&["EVALSHA", &sha, "1", key, &value]),
                Load::Command(words) => {
                    let with = |word: &&'static str| match *word {
                        "KEY" => key.as_str(),
                        "VALUE" => value.as_str(),
                        word => word,
                    };
                    client.send(&words.iter().map(with).collect::<Vec<_>>());
                }
                Load::Transaction => {
                    client.send(&["MULTI"]);
                    keys.iter().for_each(|key| client.send(&["SET", key, &value]));
                    client.send(&["EXEC"]);
                }
            }
        }
    }
}

fn main() {
    if let (Ok(name), Ok(rounds)) = (std::env::var("SCRIPT_LOAD"), std::env::var("SCRIPT_ROUNDS")) {
        let (_, load) = LOADS.into_iter().find(|(known, _)| *known == name).expect("a known load");
        let mut client = Client::new();
        let mut run = client.prepare(load);
        let rounds: usize = rounds.parse().expect("a number of rounds");
        (0..rounds).for_each(|_| run(&mut client));
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    for (name, load) in LOADS {
        let mut client = Client::new();
        let mut run = client.prepare(load);
        criterion.bench_function(name, |b| b.iter(|| run(&mut client)));
    }
    criterion.final_summary();
}
