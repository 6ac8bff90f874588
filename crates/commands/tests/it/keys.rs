//! Commands on keys of any type and on whole databases.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::support::wire::{Reply, parse};
use crate::support::{Client, TestClock, engine, volatile};
use commands::{Engine, EngineOptions, Next};
use keyspace::{Eviction, Policy};
use resp::{Protocol, Writer};

const NOW: u64 = 1_700_000_000_000;

/// A client of an engine with this clock.
fn client(clock: &Arc<TestClock>) -> Client {
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 64 << 20)) };
    Client::new(&Arc::new(Engine::new(options)))
}

/// No time passes between the lines.
#[track_caller]
fn check(lines: &[(&str, &str)]) {
    let mut client = client(&TestClock::new(NOW));
    for (line, expected) in lines {
        client.check(line, expected);
    }
}

#[test]
fn a_value_moves_with_its_expiry_time() {
    check(&[
        ("SET a 1 EX 100", "OK"),
        ("RENAME a b", "OK"),
        ("EXISTS a", "(integer) 0"),
        ("TTL b", "(integer) 100"),
        ("RENAME nothing b", "(error) ERR no such key"),
        ("SET c 3", "OK"),
        ("RENAMENX b c", "(integer) 0"),
        ("RENAMENX b d", "(integer) 1"),
        ("MOVE d 1", "(integer) 1"),
        ("EXISTS d", "(integer) 0"),
        ("SELECT 1", "OK"),
        ("TTL d", "(integer) 100"),
        ("COPY d d DB 0", "(integer) 1"),
        ("COPY d d DB 0", "(integer) 0"),
        ("COPY d d DB 0 REPLACE", "(integer) 1"),
        ("COPY d d", "(error) ERR source and destination objects are the same"),
        ("SELECT 0", "OK"),
        ("TTL d", "(integer) 100"),
    ]);
}

#[test]
fn expire_obeys_its_conditions() {
    check(&[
        ("SET k v", "OK"),
        ("EXPIRE k 100 XX", "(integer) 0"),
        ("EXPIRE k 100 GT", "(integer) 0"),
        ("EXPIRE k 100 LT", "(integer) 1"),
        ("EXPIRE k 200 NX", "(integer) 0"),
        ("EXPIRE k 50 GT", "(integer) 0"),
        ("EXPIRE k 200 GT", "(integer) 1"),
        ("TTL k", "(integer) 200"),
        ("EXPIRE k -1", "(integer) 1"),
        ("EXISTS k", "(integer) 0"),
    ]);
}

#[test]
fn expired_keys_are_gone() {
    let clock = TestClock::new(NOW);
    let mut client = client(&clock);
    client.run("SET k v PX 100");
    client.check("PTTL k", "(integer) 100");
    clock.advance_ms(99);
    client.check("GET k", "\"v\"");
    clock.advance_ms(1);
    for (line, expected) in [
        ("GET k", "(nil)"),
        ("TTL k", "(integer) -2"),
        ("EXISTS k", "(integer) 0"),
        ("TYPE k", "none"),
        ("KEYS *", "[]"),
        ("RANDOMKEY", "(nil)"),
        ("DEL k", "(integer) 0"),
        ("SET k w XX", "(nil)"),
        ("INCR k", "(integer) 1"),
        ("TTL k", "(integer) -1"),
    ] {
        client.check(line, expected);
    }
}

#[test]
fn databases_are_apart() {
    check(&[
        ("SET k 0", "OK"),
        ("SELECT 1", "OK"),
        ("SET k 1", "OK"),
        ("SWAPDB 0 1", "OK"),
        ("GET k", "\"0\""),
        ("FLUSHDB", "OK"),
        ("DBSIZE", "(integer) 0"),
        ("SELECT 0", "OK"),
        ("GET k", "\"1\""),
        ("DBSIZE", "(integer) 1"),
        ("FLUSHALL ASYNC", "OK"),
        ("DBSIZE", "(integer) 0"),
        ("FLUSHALL NOW", "(error) ERR syntax error"),
        ("SELECT 16", "(error) ERR DB index is out of range"),
    ]);
}

/// All keys that a SCAN with these options returns.
fn scan(client: &mut Client, options: &str) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    for _ in 0..10_000 {
        let line = format!("SCAN {cursor} {options}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let Reply::Many(_, Some(parts)) = parse(&client.raw(&words)) else { panic!("{line}") };
        let [Reply::Bulk(_, Some(next)), Reply::Many(_, Some(keys))] = &parts[..] else {
            panic!("{line}");
        };
        for key in keys {
            let Reply::Bulk(_, Some(key)) = key else { panic!("a key") };
            found.insert(key.clone());
        }
        cursor = String::from_utf8_lossy(next).into_owned();
        if cursor == "0" {
            return found;
        }
    }
    panic!("a scan that does not end");
}

#[test]
fn a_scan_returns_every_key_that_stays() {
    let engine = engine();
    let mut client = Client::new(&engine);
    for n in 0..3000 {
        client.run(&format!("SET key:{n} {n}"));
    }
    assert_eq!(scan(&mut client, "").len(), 3000);
    assert_eq!(scan(&mut client, "COUNT 1000").len(), 3000);
    assert_eq!(scan(&mut client, "MATCH key:1?").len(), 10);
    assert_eq!(scan(&mut client, "TYPE string MATCH key:29*").len(), 111);
    assert_eq!(scan(&mut client, "TYPE hash").len(), 0);
    client.check("SCAN x", "(error) ERR invalid cursor");
    client.check("SCAN 0 COUNT 0", "(error) ERR syntax error");
}

#[test]
fn a_scan_that_may_visit_all_keys_ends_at_once() {
    let mut client = Client::new(&engine());
    client.check("SCAN 0", "[\"0\", []]");
    for n in 0..7 {
        client.run(&format!("SET key:{n} v"));
    }
    let keys = |reply: &str| reply.matches("key:").count();
    for line in ["SCAN 0", "SCAN 0 COUNT 1000", "SCAN 0 COUNT 1000 TYPE string MATCH k*"] {
        let reply = client.run(line);
        assert!(reply.starts_with("[\"0\", ") && keys(&reply) == 7, "{line}: {reply}");
        client.check("MULTI", "OK");
        client.check(line, "QUEUED");
        assert_eq!(client.run("EXEC"), format!("[{reply}]"));
    }
    let reply = client.run("SCAN 0 COUNT 3");
    assert!(!reply.starts_with("[\"0\", ") && (3..6).contains(&keys(&reply)), "{reply}");
}

#[test]
fn a_random_key_is_a_key() {
    let mut client = Client::new(&engine());
    client.check("RANDOMKEY", "(nil)");
    (0..20).for_each(|n| drop(client.run(&format!("SET {n} v"))));
    let drawn: BTreeSet<String> = (0..200).map(|_| client.run("RANDOMKEY")).collect();
    assert!(drawn.len() > 5, "{drawn:?}");
}

#[test]
fn objects_report_how_they_are_kept() {
    check(&[
        ("SET k 12345", "OK"),
        ("OBJECT ENCODING k", "\"int\""),
        ("SET k hello", "OK"),
        ("OBJECT ENCODING k", "\"embstr\""),
        ("OBJECT REFCOUNT k", "(integer) 1"),
        ("OBJECT IDLETIME k", "(integer) 0"),
        ("OBJECT ENCODING nothing", "(nil)"),
        ("TYPE k", "string"),
        ("TYPE nothing", "none"),
        ("TOUCH k nothing k", "(integer) 2"),
    ]);
}

#[test]
fn integers_are_shared_only_where_nothing_is_evicted_by_its_last_use() {
    let options = |maxmemory, policy| Eviction { maxmemory, policy, ..Eviction::default() };
    for (eviction, count) in [
        (options(0, Policy::AllkeysLru), "(integer) 2147483647"),
        (options(1 << 20, Policy::AllkeysRandom), "(integer) 2147483647"),
        (options(1 << 20, Policy::AllkeysLru), "(integer) 1"),
        (options(1 << 20, Policy::VolatileLfu), "(integer) 1"),
    ] {
        let (engine, _) = filled(1);
        engine.keyspace().set_eviction(eviction, 1_000_000);
        let mut client = Client::new(&engine);
        client.check("SET key:0 1", "OK");
        client.check("OBJECT REFCOUNT key:0", count);
    }
}

/// An engine with this many keys, and a clock that the test sets.
fn filled(keys: usize) -> (Arc<Engine>, Arc<TestClock>) {
    let clock = TestClock::new(1_000_000);
    let options =
        EngineOptions { clock: clock.clone(), ..EngineOptions::new(volatile(4, 256 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let mut client = Client::new(&engine);
    (0..keys).for_each(|n| client.check(&format!("SET key:{n} v"), "OK"));
    (engine, clock)
}

/// A client whose connection continues a long command step by step.
fn walker(engine: &Arc<Engine>) -> Client {
    let mut client = Client::new(engine);
    client.session.set_can_walk();
    client
}

#[test]
fn keys_lets_others_be_served_between_its_steps() {
    const KEYS: usize = 5000;
    let (engine, clock) = filled(KEYS);
    let (mut client, mut other) = (walker(&engine), Client::new(&engine));
    engine.admin().slow_log.set_slower_than(0);
    assert_eq!(client.raw(&["KEYS", "key:*"]), b"");
    assert_eq!(client.outcome.next, Next::Walk);
    let (mut out, mut steps) = (Writer::new(Protocol::Resp2), 0);
    let outcome = loop {
        // Other clients' turn: any shard can be locked, and time passes.
        other.check(&format!("MSET a:{steps} v b:{steps} v c:{steps} v d:{steps} v"), "OK");
        clock.advance_ms(1000);
        steps += 1;
        if let Some(outcome) = engine.go_on(&mut client.session, &mut out) {
            break outcome;
        }
        assert!(out.is_empty(), "there is no part of a reply");
    };
    assert_eq!(outcome.next, Next::Reply);
    assert!((KEYS / 2000..=KEYS / 500).contains(&steps), "{steps} steps");
    let reply = String::from_utf8(out.take()).expect("text");
    let listed: BTreeSet<&str> = reply.lines().filter(|line| line.starts_with("key:")).collect();
    assert!(reply.starts_with(&format!("*{KEYS}\r\n")) && listed.len() == KEYS);
    let slow = other.run("SLOWLOG GET 1");
    assert!(slow.contains("(integer) 0, [\"KEYS\", \"key:*\"]"), "its own time: {slow}");
    client.check("GET key:7", "\"v\"");
}

#[test]
fn keys_of_a_transaction_or_of_few_keys_is_answered_at_once() {
    let (engine, _) = filled(3000);
    let mut client = walker(&engine);
    for (line, start) in [("MULTI", "OK"), ("KEYS *", "QUEUED"), ("EXEC", "[[\"key:")] {
        let reply = client.run(line);
        assert!(reply.starts_with(start) && client.outcome.next == Next::Reply, "{line}");
    }
    let (few, _) = filled(2);
    let mut client = walker(&few);
    assert!(client.run("KEYS *:1").ends_with("[\"key:1\"]"));
    assert_eq!(client.outcome.next, Next::Reply);
}
