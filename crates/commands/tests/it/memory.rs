//! The memory limit: what is refused, what is evicted, and what is logged.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::support::{Client, MemoryLog, volatile};
use commands::{CommandLog, Engine, EngineOptions, ReplyLog};
use keyspace::{Eviction, Policy};

const FULL: &str = "(error) OOM the store is full: its heap is at its limit or its file cannot grow \
                    (INFO persistence: pool_used, pool_size, pool_limit)";
const OOM: &str = "(error) OOM command not allowed when used memory > \\'maxmemory\\'.";

fn limited(policy: Policy) -> (Arc<Engine>, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let options =
        EngineOptions { log: Some(log.clone()), ..EngineOptions::new(volatile(4, 256 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let maxmemory = engine.keyspace().heap().used() + (512 << 10);
    engine.keyspace().set_eviction(Eviction { maxmemory, policy, ..Eviction::default() }, 0);
    (engine, log)
}

fn fill(client: &mut Client, keys: usize) -> usize {
    let value = "v".repeat(1000);
    (0..keys).filter(|n| client.run(&format!("SET key:{n} {value}")) == "OK").count()
}

#[test]
fn writes_are_refused_over_the_limit_and_deletes_are_not() {
    let (engine, _) = limited(Policy::NoEviction);
    let mut client = Client::new(&engine);
    let stored = fill(&mut client, 2000);
    assert!(stored < 2000, "the limit was reached");
    for (line, expected) in [
        ("SET k v", OOM),
        ("MULTI", "OK"),
        ("SET k v", OOM),
        ("EXEC", "(error) EXECABORT Transaction discarded because of previous errors."),
        ("STRLEN key:0", "(integer) 1000"),
        ("DEL key:0 key:1 key:2 key:3 key:4 key:5", "(integer) 6"),
    ] {
        client.check(line, expected);
    }
    assert!(client.run("DBSIZE").starts_with("(integer)"), "reads work");
}

#[test]
fn keys_are_evicted_and_their_deletion_is_logged() {
    let (engine, log) = limited(Policy::AllkeysLru);
    let mut client = Client::new(&engine);
    assert_eq!(fill(&mut client, 2000), 2000, "room is made");
    // DBSIZE may evict, too, if the last SET exceeded the limit.
    let kept: usize = client.run("DBSIZE")["(integer) ".len()..].parse().expect("a number");
    let deleted = log.lines().iter().filter(|line| line.starts_with("DEL key:")).count();
    assert_eq!(deleted + kept, 2000);
}

#[test]
fn reads_evict_too() {
    let (engine, log) = limited(Policy::AllkeysLru);
    let mut client = Client::new(&engine);
    fill(&mut client, 100);
    let before = client.run("DBSIZE");
    // Not while clients are paused.
    client.run("CLIENT PAUSE 100000 WRITE");
    let maxmemory = engine.keyspace().heap().used() / 2;
    let policy = Policy::AllkeysLru;
    engine.keyspace().set_eviction(Eviction { maxmemory, policy, ..Eviction::default() }, 0);
    log.clear();
    for line in ["GET nothing", "MULTI", "GET nothing", "DISCARD", "EVAL_RO return(1) 0"] {
        client.run(line);
        Client::new(&engine).check("DBSIZE", &before);
    }
    assert!(!engine.may_delete_unasked(), "the workers delete nothing either");
    client.run("CLIENT UNPAUSE");
    assert!(engine.may_delete_unasked());
    // Nor while data is loaded, which must be restored exactly; nor for an unauthenticated client.
    engine.config().set_loading(true);
    client.check("SET k v", "(error) LOADING Redis is loading the dataset in memory");
    client.run("PING");
    engine.config().set_loading(false);
    engine.permissions().set_default_password(b"secret");
    Client::new(&engine).check("GET nothing", "(error) NOAUTH Authentication required.");
    engine.permissions().set_default_password(b"");
    assert_eq!(log.lines(), Vec::<String>::new());
    client.run("GET nothing");
    assert!(engine.keyspace().heap().used() <= maxmemory);
    assert!(log.lines().iter().any(|line| line.starts_with("DEL key:")), "{:?}", log.lines());
    assert_ne!(client.run("DBSIZE"), before);
}

#[test]
fn what_a_read_evicts_is_said_before_its_reply() {
    let (engine, _) = limited(Policy::VolatileRandom);
    let mut client = Client::new(&engine);
    client.run("HELLO 3");
    client.run("CLIENT TRACKING on");
    client.run("SETEX k 10000 x");
    client.run("GET k");
    client.raw(&[&b"SET"[..], b"big", &[0x40; 1 << 20]]);
    let mut batch = engine.batch();
    batch.push(&[b"GETBIT", b"big", b"0"]);
    let mut writer = resp::Writer::new(resp::Protocol::Resp3);
    let done = engine.execute_batch(&mut client.session, &mut batch, &mut writer);
    assert_eq!(done.requests, 1);
    let reply = writer.take();
    let text = String::from_utf8_lossy(&reply);
    assert_eq!(text, ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n:0\r\n");
}

/// A heap that is full except for the space of a deleted value of 4 MiB.
fn full_but_for_garbage() -> Client {
    let mut client = Client::new(&Arc::new(Engine::new(EngineOptions::new(volatile(2, 16 << 20)))));
    let part = "v".repeat(60_000);
    let big = "b".repeat(4 << 20);
    client.check(&format!("SET big {big}"), "OK");
    let stored =
        (0..1000).take_while(|n| client.run(&format!("SET key:{n} {part}")) == "OK").count();
    assert!((50..1000).contains(&stored), "{stored} values fill the heap");
    client.check(&format!("SET another {part}"), FULL);
    client.check("DEL big", "(integer) 1");
    client
}

#[test]
fn what_deletes_left_is_freed_before_a_write_is_refused() {
    let part = "w".repeat(60_000);
    let mut client = full_but_for_garbage();
    client.check(&format!("SET another {part}"), "OK");

    let mut client = full_but_for_garbage();
    client.run("MULTI");
    client.run(&format!("SET another {part}"));
    client.run(&format!("SET third {part}"));
    client.check("EXEC", "[OK, OK]");
    client.check("STRLEN third", "(integer) 60000");

    let mut client = full_but_for_garbage();
    let words = ["MSET", "another", &part, "third", &part, "{third}2", &part];
    assert_eq!(client.raw(&words), b"+OK\r\n");
}

/// A heap of 16 MiB without `maxmemory`.
fn small(policy: Policy) -> Client {
    let engine = Arc::new(Engine::new(EngineOptions::new(volatile(4, 16 << 20))));
    engine.keyspace().set_eviction(Eviction { policy, ..Eviction::default() }, 0);
    Client::new(&engine)
}

fn info(client: &mut Client, field: &str) -> String {
    let page = client.run("INFO everything");
    let start = page.find(&format!("{field}:")).expect("the field") + field.len() + 1;
    page[start..].split('\\').next().unwrap_or_default().to_owned()
}

/// Small values fill the heap, then large ones replace them, then small ones again: blocks of one
/// size do not serve another, so the heap is full before its limit is in use.
#[test]
fn keys_are_evicted_where_the_heap_is_full() {
    for (policy, lens) in [
        (Policy::AllkeysLru, &[400, 60_000, 2000, 300_000, 40][..]),
        (Policy::AllkeysLfu, &[10_000]),
        (Policy::AllkeysRandom, &[10_000]),
    ] {
        let mut client = small(policy);
        for (round, len) in lens.iter().copied().enumerate() {
            let value = "v".repeat(len);
            for n in 0..(20 << 20) / (len + 200) {
                let reply = client.run(&format!("SET {round}:{n} {value}"));
                assert_eq!(reply, "OK", "{policy:?}, value {n} of {len} bytes");
            }
        }
        assert_ne!(info(&mut client, "evicted_keys"), "0");
        assert_eq!(info(&mut client, "full_refused_commands"), "0");
    }
}

/// With a policy that finds no key, or none, the whole heap can be filled; refusals are counted and
/// explained.
#[test]
fn a_full_heap_is_distinguished_from_a_limit_that_was_set() {
    let value = "v".repeat(10_000);
    let [none, volatile] = [Policy::NoEviction, Policy::VolatileLru].map(|policy| {
        let mut client = small(policy);
        let stored = (0..10_000).find(|n| client.run(&format!("SET {n} {value}")) != "OK");
        let set = format!("SET {} {value}", stored.expect("16 MiB are full"));
        for (line, expected) in
            [(&*set, FULL), ("MULTI", "OK"), (&set, "QUEUED"), ("EXEC", &format!("[{FULL}]"))]
        {
            assert!(client.run(line) == expected, "{}", &line[..line.len().min(20)]);
        }
        assert_eq!(info(&mut client, "full_refused_commands"), "3");
        assert_eq!(info(&mut client, "full_last_refused_sec"), "0");
        stored
    });
    assert_eq!(none, volatile);
}

/// A client subscribed to `news`, and one that monitors.
fn listeners(engine: &Arc<Engine>) -> [Client; 2] {
    let [mut subscriber, mut monitor] = [Client::new(engine), Client::new(engine)];
    subscriber.run("SUBSCRIBE news");
    monitor.check("MONITOR", "OK");
    [subscriber, monitor]
}

/// Counts `word` in the messages sent to the client.
fn heard(client: &Client, word: &str) -> usize {
    let mut pushes = Vec::new();
    let _ = client.session.client.take_pushes(&mut pushes);
    String::from_utf8(pushes).expect("text").matches(word).count()
}

#[test]
fn a_transaction_that_is_run_again_publishes_and_is_monitored_once() {
    let mut client = full_but_for_garbage();
    let [subscriber, monitor] = listeners(&client.engine);
    client.run("MULTI");
    client.run("PUBLISH news extra");
    client.run(&format!("SET another {}", "w".repeat(60_000)));
    client.run("PUBLISH news extra");
    client.check("EXEC", "[(integer) 1, OK, (integer) 1]");
    assert_eq!(heard(&subscriber, "extra"), 2);
    assert_eq!(heard(&monitor, "\"PUBLISH\" \"news\" \"extra\""), 2);
}

/// A log that records how often a word had been sent to a client when the effects of a transaction
/// arrived.
struct Witness {
    client: OnceLock<Arc<commands::Client>>,
    had_pushes: AtomicBool,
    appends: AtomicUsize,
}

impl ReplyLog for Witness {
    fn end(&self) -> u64 {
        1
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

impl CommandLog for Witness {
    fn append(&self, _: keyspace::Db, _: keyspace::Db, _: &[u8]) -> u64 {
        self.appends.fetch_add(1, Relaxed);
        let has_pushes = self.client.get().is_some_and(|client| client.has_pushes.load(Relaxed));
        self.had_pushes.fetch_or(has_pushes, Relaxed);
        1
    }
}

/// Messages of a transaction, one of each kind; the listeners receive nothing before its effects
/// are in the log.
#[test]
fn a_transaction_sends_nothing_before_its_commit() {
    for (listen, lines, expected) in [
        ("SUBSCRIBE news", ["PUBLISH news word", "SET k v"], 1),
        ("PSUBSCRIBE n*", ["PUBLISH news word", "SET k v"], 1),
        ("SSUBSCRIBE news", ["SPUBLISH news word", "SET k v"], 1),
        ("MONITOR", ["SET k word", "SET k word"], 2),
    ] {
        let witness = Arc::new(Witness {
            client: OnceLock::new(),
            had_pushes: AtomicBool::new(false),
            appends: AtomicUsize::new(0),
        });
        let log: Option<Arc<dyn CommandLog>> = Some(witness.clone());
        let keyspace = volatile(2, 64 << 20);
        let engine = Arc::new(Engine::new(EngineOptions { log, ..EngineOptions::new(keyspace) }));
        let [mut listener, mut client] = [Client::new(&engine), Client::new(&engine)];
        listener.run(listen);
        let shared = Arc::clone(&listener.session.client);
        assert!(witness.client.set(shared).is_ok());
        client.run("MULTI");
        lines.iter().for_each(|line| client.check(line, "QUEUED"));
        heard(&listener, "");
        client.run("EXEC");
        assert_eq!(witness.appends.load(Relaxed), 1, "{listen}");
        assert!(!witness.had_pushes.load(Relaxed), "{listen}: sent before the commit");
        assert_eq!(heard(&listener, "word"), expected, "{listen}");
    }
}

/// The receivers are those that are subscribed when the command is executed, whatever follows in
/// the same transaction.
#[test]
fn a_transaction_publishes_to_those_who_listened_at_the_command() {
    let mut client = Client::new(&Arc::new(Engine::new(EngineOptions::new(volatile(2, 64 << 20)))));
    for line in ["MULTI", "PUBLISH c early", "SUBSCRIBE c", "PUBLISH c kept", "UNSUBSCRIBE c"] {
        client.run(line);
    }
    let reply = client.run("EXEC");
    assert!(reply.contains("(integer) 0, ") && reply.contains("(integer) 1"), "{reply}");
    let mut pushes = Vec::new();
    let _ = client.session.client.take_pushes(&mut pushes);
    let pushes = String::from_utf8(pushes).expect("text");
    assert!(pushes.contains("kept") && !pushes.contains("early"), "{pushes:?}");
}
