//! The command log contains only commands that changed something, in a form that gives the same
//! result at any time.

use crate::generate;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{self, Client, MemoryLog, TestClock, requests, volatile};
use commands::spec::{Group, WRITE};
use commands::{CommandLog, Engine, EngineOptions, ReplyLog, Run};
use fastrand::Rng;
use keyspace::Db;

const NOW: u64 = 1_700_000_000_000;

struct Logged {
    engine: Arc<Engine>,
    log: Arc<MemoryLog>,
    clock: Arc<TestClock>,
}

fn logged() -> Logged {
    let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
    let options = EngineOptions {
        log: Some(log.clone()),
        clock: clock.clone(),
        ..EngineOptions::new(volatile(4, 256 << 20))
    };
    Logged { engine: Arc::new(Engine::new(options)), log, clock }
}

/// After these lines, separated by `;`, the log contains these (after the first SELECT).
#[track_caller]
fn check(lines: &str, expected: &str) {
    let logged = logged();
    let mut client = Client::new(&logged.engine);
    for line in lines.split("; ") {
        match line.strip_prefix("wait ") {
            Some(ms) => logged.clock.advance_ms(ms.parse().expect("milliseconds")),
            None => drop(client.run(line)),
        }
    }
    let written = logged.log.lines();
    let written = written.strip_prefix(&["SELECT 0".to_owned()]).unwrap_or(&written);
    assert_eq!(written.join("; "), expected, "{lines}");
}

#[test]
fn only_what_changed_something_is_logged() {
    check("GET k; DEL k; EXPIRE k 10; PERSIST k; GETDEL k; RENAME k l", "");
    check("SET k v; SETNX k w; SET k w NX; MSETNX k 1 l 2", "SET k v");
    check("SET k v; INCR k; SETRANGE k 0 \"\"; COPY k k", "SET k v");
    check("SET k v; COPY k l; COPY k l", "SET k v; COPY k l");
    check("MULTI; SET k v; DISCARD", "");
    check("SWAPDB 0 0; SET k v; FLUSHALL", "SET k v; FLUSHALL");
}

#[test]
fn a_flush_is_logged_even_if_nothing_was_there() {
    check("FLUSHALL; FLUSHDB ASYNC; SET k v", "FLUSHALL; FLUSHDB ASYNC; SET k v");
}

#[test]
fn times_are_logged_as_points_in_time() {
    check("SET k v EX 10", "SET k v PXAT 1700000010000");
    check("SETEX k 10 v; PSETEX k 5 v", "SET k v PXAT 1700000010000; SET k v PXAT 1700000000005");
    check("SET k v; EXPIRE k 10", "SET k v; PEXPIREAT k 1700000010000");
    check("SET k v; EXPIRE k 0", "SET k v; DEL k");
    check("SET k v; GETEX k EX 1", "SET k v; PEXPIREAT k 1700000001000");
    check("SET k v EX 1; GETEX k PERSIST", "SET k v PXAT 1700000001000; PERSIST k");
    check("SET k v; GETEX k EXAT 1", "SET k v; DEL k");
}

#[test]
fn conditions_and_replies_are_not_logged() {
    check("SET k v NX GET", "SET k v");
    check("SET k v; SET k w XX KEEPTTL", "SET k v; SET k w KEEPTTL");
    check("GETSET k v; GETDEL k", "SET k v; DEL k");
    check("INCRBYFLOAT k 1.5", "SET k 1.5 KEEPTTL");
}

#[test]
fn a_source_that_expired_is_deleted_in_the_log_before_it_is_not_read() {
    let gone = |made: &str, run: &str, expected: &str| {
        let lines = format!("{made}; PEXPIREAT {{k}}s 1700000000050; wait 100; {run}");
        let before = format!("{made}; PEXPIREAT {{k}}s 1700000000050");
        check(&lines, &format!("{before}; MULTI; DEL {{k}}s; {expected}; EXEC"));
    };
    gone("SET {k}a x; SET {k}s y", "BITOP OR {k}t {k}a {k}s", "BITOP OR {k}t {k}a {k}s");
    gone("PFADD {k}a x; PFADD {k}s y", "PFMERGE {k}t {k}a {k}s", "PFMERGE {k}t {k}a {k}s");
    gone("SADD {k}a x; SADD {k}s y", "SUNIONSTORE {k}t {k}a {k}s", "SUNIONSTORE {k}t {k}a {k}s");
    gone("SADD {k}a x; SADD {k}s y", "SDIFFSTORE {k}t {k}a {k}s", "SDIFFSTORE {k}t {k}a {k}s");
}

#[test]
fn expired_keys_are_deleted_in_the_log_first() {
    check("SET k v PX 5; wait 10; GET k", "SET k v PXAT 1700000000005; DEL k");
    check(
        "SET k v PX 5; wait 10; APPEND k w",
        "SET k v PXAT 1700000000005; MULTI; DEL k; APPEND k w; EXEC",
    );
    check("SET k v PX 5; wait 10; SET k w XX", "SET k v PXAT 1700000000005; DEL k");
}

#[test]
fn what_a_transaction_found_expired_is_deleted_in_the_log_where_it_was_found() {
    check(
        "SET k v; SELECT 1; SET k v PX 5; SELECT 0; wait 10; MULTI; SWAPDB 0 1; SET k x XX; SET l y; EXEC",
        "SET k v; SELECT 1; SET k v PXAT 1700000000005; SELECT 0; MULTI; SWAPDB 0 1; DEL k; SET l y; EXEC",
    );
    check(
        "SET k v PX 5; wait 10; MULTI; SET l y; SELECT 1; SET m z; SELECT 0; APPEND k w; EXEC",
        "SET k v PXAT 1700000000005; MULTI; SET l y; SELECT 1; SET m z; SELECT 0; DEL k; SELECT 0; APPEND k w; EXEC",
    );
}

#[test]
fn transactions_are_logged_as_one() {
    check("MULTI; SET k v; GET k; INCR n; EXEC", "MULTI; SET k v; INCR n; EXEC");
    check("MULTI; SET k v; GET k; EXEC", "SET k v");
    check("SET k v; MULTI; INCR k; SET l 1; EXEC", "SET k v; SET l 1");
}

#[test]
fn the_database_is_selected_where_it_changes() {
    check("SET k v; SELECT 3; SET k v; GET k; SET l v", "SET k v; SELECT 3; SET k v; SET l v");
    check(
        "MULTI; SET k v; SELECT 2; SET k v; EXEC; SET l v",
        "MULTI; SET k v; SELECT 2; SET k v; EXEC; SET l v",
    );
}

/// A log whose file could not be written.
struct Broken;

impl ReplyLog for Broken {
    fn end(&self) -> u64 {
        0
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        Some("No space left on device".to_owned())
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, _: u64) -> bool {
        false
    }

    fn sync_to(&self, _: u64) -> bool {
        false
    }
}

impl CommandLog for Broken {
    fn append(&self, _: Db, _: Db, _: &[u8]) -> u64 {
        0
    }
}

#[test]
fn no_write_is_taken_after_the_log_failed() {
    const REFUSED: &str = "(error) MISCONF Errors writing to the AOF file: No space left on device";
    let engine = Arc::new(Engine::new(EngineOptions {
        log: Some(Arc::new(Broken)),
        ..EngineOptions::new(volatile(4, 64 << 20))
    }));
    let mut client = Client::new(&engine);
    for (line, expected) in [
        ("SET k v", REFUSED),
        ("PING", REFUSED),
        ("GET k", "(nil)"),
        ("MULTI", "OK"),
        ("SET k v", REFUSED),
        ("EXEC", "(error) EXECABORT Transaction discarded because of previous errors."),
    ] {
        client.check(line, expected);
    }
}

/// Value and expiry time of every key.
fn dump(engine: &Arc<Engine>) -> BTreeMap<String, String> {
    let mut client = Client::new(engine);
    let mut found = BTreeMap::new();
    for db in 0..16 {
        client.run(&format!("SELECT {db}"));
        let keys = support::wire::parse(&client.raw(&["KEYS", "*"]));
        let support::wire::Reply::Many(_, Some(keys)) = keys else { panic!("an array") };
        for key in keys {
            let support::wire::Reply::Bulk(_, Some(key)) = key else { panic!("a key") };
            let mut ask = |words: &[&str]| {
                let mut words: Vec<&[u8]> = words.iter().map(|w| w.as_bytes()).collect();
                words.push(&key);
                support::wire::show(&client.raw(&words))
            };
            let described = [ask(&["GET"]), ask(&["PEXPIRETIME"])].join(" ");
            found.insert(format!("{db} {}", key.escape_ascii()), described);
        }
    }
    found
}

#[test]
fn replaying_the_log_gives_the_same_data() {
    const STEPS: usize = 5000;
    let logged = logged();
    let mut client = Client::new(&logged.engine);
    let mut random = Rng::with_seed(7);
    let groups = [Group::String, Group::Generic, Group::Transactions];
    let mut specs: Vec<_> = logged.engine.table().top().iter().map(|c| c.spec).collect();
    specs.retain(|s| !matches!(s.run, Run::Container));
    specs.retain(|s| groups.contains(&s.group) || s.has(WRITE) || s.name == "select");
    for step in 0..STEPS {
        let spec = specs[random.usize(..specs.len())];
        if spec.name.starts_with("flush") && random.u8(..) > 5 {
            continue;
        }
        client.raw(&generate::request(spec, &mut random));
        if step % 10 == 0 {
            logged.clock.advance_ms(40_000);
        }
    }
    client.run("DISCARD");

    let options =
        EngineOptions { clock: logged.clock.clone(), ..EngineOptions::new(volatile(2, 256 << 20)) };
    let copy = Arc::new(Engine::new(options));
    let mut replay = Client::of(&copy, copy.connect_replay());
    for request in requests(&logged.log.bytes()) {
        let reply = replay.raw(&request);
        assert!(!reply.starts_with(b"-"), "{}", String::from_utf8_lossy(&reply));
    }
    let (original, copied) = (dump(&logged.engine), dump(&copy));
    assert!(original.len() > 5, "there is something to compare");
    assert_eq!(original, copied);
}

#[test]
fn a_read_deletes_what_it_found_expired_when_it_is_done() {
    for transaction in [false, true] {
        let (clock, log) = (TestClock::new(1_000_000), Arc::new(MemoryLog::default()));
        let options = EngineOptions::new(volatile(4, 64 << 20));
        let options = EngineOptions { clock: clock.clone(), log: Some(log.clone()), ..options };
        let mut client = Client::new(&Arc::new(Engine::new(options)));
        for key in ["a", "b", "c", "d"] {
            client.run(&format!("SET {key} v PX 100"));
        }
        client.run("SET stays v");
        clock.advance_ms(200);
        client.check("DBSIZE", "(integer) 5");
        if transaction {
            client.run("MULTI");
            client.run("MGET a b stays");
            client.run("SET c w");
            client.check("EXEC", "[[(nil), (nil), \"v\"], OK]");
        } else {
            client.check("MGET a b stays", "[(nil), (nil), \"v\"]");
        }
        client.check("DBSIZE", "(integer) 3");
        for gone in ["DEL a", "DEL b"] {
            assert!(log.lines().iter().any(|line| line == gone), "{:?}", log.lines());
        }
    }
}

/// Writes must wait, and a logged deletion would be one.
#[test]
fn a_read_deletes_nothing_in_a_pause() {
    let clock = TestClock::new(1_000_000);
    let options = EngineOptions::new(volatile(4, 64 << 20));
    let mut client =
        Client::new(&Arc::new(Engine::new(EngineOptions { clock: clock.clone(), ..options })));
    client.run("SET k v PX 100");
    client.run("CLIENT PAUSE 100000 WRITE");
    clock.advance_ms(200);
    client.check("GET k", "(nil)");
    client.check("DBSIZE", "(integer) 1");
    client.run("CLIENT UNPAUSE");
    client.check("GET k", "(nil)");
    client.check("DBSIZE", "(integer) 0");
}
