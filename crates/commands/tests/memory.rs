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
