//! Scripts that are run again, killed, or need shards that others hold, each as a separate history.

use crate::engine::journal::TestClock;
use crate::engine::scripts::{end_request, let_them_move, run_moved, set_up};
use commands::{CommandLog, Engine, EngineOptions, Next, Peer, ReplyLog, Session};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::{Db, Keyspace};
use resp::{Protocol, Writer};
use sim::run_scheduled;
use std::sync::{Arc, Mutex};

const NOW: u64 = 1_700_000_000_000;
const SHARDS: usize = 4;
/// Takes more instructions than a script executes before its running time is checked twice.
const PAUSE: &str = "for i = 1, 60000 do end";

/// A log in memory.
#[derive(Default)]
struct Log(Mutex<Vec<u8>>);

impl Log {
    /// Returns how many times these bytes are in it.
    fn count(&self, bytes: &str) -> usize {
        let log = self.0.lock().expect("no panic");
        log.windows(bytes.len()).filter(|window| *window == bytes.as_bytes()).count()
    }
}

impl ReplyLog for Log {
    fn end(&self) -> u64 {
        0
    }

    fn is_synchronous(&self) -> bool {
        false
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

impl CommandLog for Log {
    fn append(&self, _: Db, _: Db, bytes: &[u8]) -> u64 {
        let mut log = self.0.lock().expect("no panic");
        log.extend_from_slice(bytes);
        log.len() as u64
    }
}

fn engine() -> Arc<Engine> {
    let geometry = Geometry { shards: SHARDS, ring_parts: 3, ring_part: 4096, zone_spans: 64 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    let heap = Heap::volatile(64 << 20, &options).expect("a heap in memory");
    let keyspace = Arc::new(Keyspace::new(heap, NOW));
    let clock = TestClock::at(NOW);
    let engine = Arc::new(Engine::new(EngineOptions { clock, ..EngineOptions::new(keyspace) }));
    let_them_move(&engine);
    engine
}

fn logged() -> (Arc<Engine>, Arc<Log>) {
    let (engine, log) = (engine(), Arc::new(Log::default()));
    assert!(engine.set_log(log.clone()));
    (engine, log)
}

/// A connection that waits for scripts that are moved.
struct Client<'e> {
    engine: &'e Engine,
    session: Session,
    writer: Writer,
}

impl Client<'_> {
    fn of(engine: &Engine) -> Client<'_> {
        let mut session = engine.connect(Peer::default(), 0);
        session.set_can_block();
        session.set_can_walk();
        Client { engine, session, writer: Writer::new(Protocol::Resp2) }
    }

    /// Returns a client that listens to what scripts publish.
    fn listening(engine: &Engine) -> Client<'_> {
        let mut client = Client::of(engine);
        client.call(&["SUBSCRIBE", "channel"]);
        assert_eq!(client.messages(), 0);
        client
    }

    /// Returns how many messages of scripts have arrived.
    fn messages(&mut self) -> usize {
        let mut pushes = Vec::new();
        let _ = self.session.client.take_pushes(&mut pushes);
        pushes.windows(8).filter(|bytes| bytes == b"a script").count()
    }

    fn call(&mut self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        let Client { engine, session, writer } = self;
        if engine.execute(session, &words, writer).next == Next::Block {
            run_moved(engine, session, writer);
        }
        end_request();
        String::from_utf8_lossy(&writer.take()).into_owned()
    }

    #[track_caller]
    fn check(&mut self, line: &str, expected: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(self.call(&words), expected, "{line}");
    }

    /// Like [`Client::call`]; a script that pauses is moved, and killed there if requested.
    fn call_long(&mut self, words: &[&str], kill: Option<&'static str>) -> String {
        set_up(true, kill);
        self.call(words)
    }
}

/// Returns a key of each shard.
fn keys(engine: &Engine) -> Vec<String> {
    let keyspace = engine.keyspace();
    let of = |shard| {
        let mut keys = (0..).map(|n| format!("key{n}"));
        keys.find(|key| keyspace.key(key.as_bytes()).shard() == shard).expect("one of many")
    };
    (0..SHARDS).map(of).collect()
}

/// A script that is moved to a separate thread is run twice. Clients, the log and listeners see the
/// result of one run that starts when the first one did.
pub(crate) fn a_script_that_is_run_again_is_seen_once() {
    let run = |pause: &str| {
        let (engine, log) = logged();
        let mut client = Client::of(&engine);
        let mut listener = Client::listening(&engine);
        (0..200).for_each(|n| drop(client.call(&["SADD", "set", &n.to_string()])));
        let script = format!(
            "redis.call('publish', 'channel', 'a script') \
             redis.call('incr', KEYS[1]) redis.call('incr', 'second') \
             redis.call('set', 'timed', 'v', 'PX', 60000) \
             local members = redis.call('spop', 'set', 5) {pause} return members"
        );
        let members = client.call_long(&["EVAL", &script, "1", "first"], None);
        assert_eq!(listener.messages(), 1, "its message");
        for key in ["first", "second"] {
            client.check(&format!("GET {key}"), "$1\r\n1\r\n");
            assert_eq!(log.count(&format!("{key}\r\n")), 1, "its effects in the log");
        }
        client.check("PEXPIRETIME timed", &format!(":{}\r\n", NOW + 60_000));
        members
    };
    assert_eq!(run(""), run(PAUSE), "its random numbers");
}

/// The changes of a killed script are undone, but nothing else of its EXEC.
pub(crate) fn a_script_that_is_killed_leaves_nothing() {
    let engine = engine();
    let mut client = Client::of(&engine);
    let script = format!("redis.call('incr', KEYS[1]) redis.call('incr', 'b') {PAUSE}");
    let killed = client.call_long(&["EVAL", &script, "1", "a"], Some("SCRIPT"));
    assert!(killed.contains("killed by user"), "{killed}");
    client.check("EXISTS a b", ":0\r\n");
    for words in [&["MULTI"][..], &["INCR", "c"], &["EVAL", &script, "1", "a"], &["INCR", "c"]] {
        client.call(words);
    }
    let replies = client.call_long(&["EXEC"], Some("SCRIPT"));
    assert!(replies.starts_with("*3\r\n:1\r\n-ERR") && replies.ends_with(":2\r\n"), "{replies}");
    client.check("EXISTS a b", ":0\r\n");
}

/// Scripts that need shards that they have not declared, in any order: if another one holds one of
/// them, the script is run again.
pub(crate) fn scripts_that_need_each_others_shards_all_come_to_an_end() {
    const THREADS: usize = 3;
    const CALLS: usize = 4;
    let mut reruns = 0;
    for seed in 0..6 {
        let (engine, log) = logged();
        let (keys, mut listener) = (keys(&engine), Client::listening(&engine));
        let body = |thread: usize| {
            let (engine, keys) = (&engine, &keys);
            move || {
                let mut client = Client::of(engine);
                for n in 0..CALLS {
                    let mut order: Vec<&str> = keys.iter().map(String::as_str).collect();
                    order.rotate_left(thread);
                    if n % 2 == 0 {
                        order.reverse();
                    }
                    // Each has its own text: it is not known which shards they need.
                    let script = format!(
                        "-- {thread} {n}\nredis.call('publish', 'channel', 'a script') \
                         redis.call('incr', KEYS[1]) \
                         for n = 1, #ARGV do redis.call('incr', ARGV[n]) end"
                    );
                    let mut words = vec!["EVAL", &script, "1"];
                    words.extend(order);
                    assert_eq!(client.call(&words), "$-1\r\n");
                }
            }
        };
        run_scheduled(seed, (0..THREADS).map(body).collect());
        let mut client = Client::of(&engine);
        let expected = (THREADS * CALLS).to_string();
        let expected = format!("${}\r\n{expected}\r\n", expected.len());
        for key in &keys {
            client.check(&format!("GET {key}"), &expected);
            let logged = log.count(&format!("\r\n{key}\r\n"));
            assert_eq!(logged, THREADS * CALLS, "their effects in the log");
        }
        assert_eq!(listener.messages(), THREADS * CALLS, "their messages");
        reruns += engine.script_reruns();
    }
    assert!(reruns > 6, "{reruns} scripts were run again");
}
