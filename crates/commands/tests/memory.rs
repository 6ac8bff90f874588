//! The memory limit: what is refused, what is evicted, and what the log learns of it.

mod support;

use std::sync::Arc;

use commands::{Engine, EngineOptions};
use keyspace::{Eviction, Policy};
use support::{Client, MemoryLog, volatile};

const OOM: &str = "(error) OOM command not allowed when used memory > \\'maxmemory\\'.";

fn limited(policy: Policy) -> (Arc<Engine>, Arc<MemoryLog>) {
    let log = Arc::new(MemoryLog::default());
    let options =
        EngineOptions { log: Some(log.clone()), ..EngineOptions::new(volatile(4, 256 << 20)) };
    let engine = Arc::new(Engine::new(options));
    let maxmemory = engine.keyspace().heap().used() + (512 << 10);
    engine.keyspace().set_eviction(Eviction { maxmemory, policy, ..Eviction::default() });
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
    let deleted = log.lines().iter().filter(|line| line.starts_with("DEL key:")).count();
    let kept: usize = client.run("DBSIZE")["(integer) ".len()..].parse().expect("a number");
    assert_eq!(deleted + kept, 2000);
}

/// A heap that is full but for what a deleted value of 4 MiB still holds.
fn full_but_for_garbage() -> Client {
    let mut client = Client::new(&Arc::new(Engine::new(EngineOptions::new(volatile(2, 16 << 20)))));
    let part = "v".repeat(60_000);
    let big = "b".repeat(4 << 20);
    client.check(&format!("SET big {big}"), "OK");
    let stored =
        (0..1000).take_while(|n| client.run(&format!("SET key:{n} {part}")) == "OK").count();
    assert!((50..1000).contains(&stored), "{stored} values fill the heap");
    client.check(&format!("SET another {part}"), OOM);
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
