//! Commands while a snapshot is read: none is refused because of it, and a rewrite whose snapshot
//! holds too much is given up without a loss.

use crate::support::data::data;
use crate::support::{Client, volatile};
use aof::{Loader, Options};
use commands::{CommandLog, Engine, EngineOptions, RewriteLogError};
use keyspace::SnapshotLost;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

fn engine(limit: u64, log: Option<Arc<dyn CommandLog>>) -> Arc<Engine> {
    Arc::new(Engine::new(EngineOptions { log, ..EngineOptions::new(volatile(4, limit)) }))
}

fn set(client: &mut Client, n: usize, len: usize) -> String {
    client.run(&format!("SET key:{n} {}", "v".repeat(len)))
}

/// Sets keys to values of this length until there is no more space. Returns their number.
fn fill(client: &mut Client, len: usize) -> usize {
    let refused = (0..).find(|n| set(client, *n, len) != "OK").expect("a limit");
    assert!(set(client, refused, len).starts_with("(error) OOM the store is full"));
    refused
}

#[test]
fn no_command_is_refused_because_of_a_snapshot_of_a_full_store() {
    for len in [100, 3000, 50_000, 300_000] {
        let engine = engine(16 << 20, None);
        engine.keyspace().heap().set_snapshot_limit(u64::MAX);
        let mut client = Client::new(&engine);
        let keys = fill(&mut client, len);
        let mut walk = engine.keyspace().snapshot(|| ()).expect("a snapshot").0.walk();
        for n in 0..keys / 2 {
            client.check(&format!("DEL key:{n}"), "(integer) 1");
        }
        // As much as was deleted, except for spans that are not completely free.
        for n in 0..keys / 3 {
            assert_eq!(set(&mut client, n, len), "OK", "{n} of {keys} of {len} bytes");
        }
        assert_eq!(walk.next(&mut Vec::new()), Err(SnapshotLost::Full));
        let info = client.run("INFO persistence");
        assert!(info.contains("snapshots_given_up:1"), "{info}");
        drop(walk);
        for n in keys / 2..keys {
            client.check(&format!("STRLEN key:{n}"), &format!("(integer) {len}"));
        }
        engine.keyspace().check().expect("an intact keyspace");
    }
}

#[test]
fn transactions_and_scripts_have_what_a_snapshot_holds_too() {
    let engine = engine(16 << 20, None);
    engine.keyspace().heap().set_snapshot_limit(u64::MAX);
    let mut client = Client::new(&engine);
    let keys = fill(&mut client, 3000);
    let (snapshot, ()) = engine.keyspace().snapshot(|| ()).expect("a snapshot");
    for n in 0..keys / 2 {
        client.check(&format!("DEL key:{n}"), "(integer) 1");
    }
    let value = "v".repeat(3000);
    let pairs: Vec<String> = (0..200).map(|n| format!("key:{n} {value}")).collect();
    client.check(&format!("MSET {}", pairs.join(" ")), "OK");
    client.check("MULTI", "OK");
    for n in 200..300 {
        client.check(&format!("SET key:{n} {value}"), "QUEUED");
    }
    assert!(!client.run("EXEC").contains("OOM"));
    client.check("DBSIZE", &format!("(integer) {}", keys - keys / 2 + 300));
    let script = "for n = 300, 399 do redis.call('SET', 'key:' .. n, ARGV[1]) end return 'done'";
    let words = ["EVAL", script, "0", &value];
    assert_eq!(client.raw(&words), b"$4\r\ndone\r\n");
    drop(snapshot);
    engine.keyspace().check().expect("an intact keyspace");
}

#[test]
fn a_rewrite_that_holds_too_much_is_given_up_and_the_log_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path());
    let mut loader = Loader::open(options.clone()).expect("an empty folder");
    assert!(loader.next().expect("nothing to read").is_none());
    let log = Arc::new(loader.into_log().expect("a new log"));
    let engine = engine(64 << 20, Some(log.clone()));
    let client = RefCell::new(Client::new(&engine));
    (0..2000).for_each(|n| assert_eq!(set(&mut client.borrow_mut(), n, 100), "OK"));
    let rounds = Cell::new(0);
    let go_on = || {
        for n in 0..200 {
            let reply = set(&mut client.borrow_mut(), n, 100 + rounds.get());
            assert_eq!(reply, "OK", "no write is refused because of a rewrite");
        }
        rounds.set(rounds.get() + 1);
        true
    };
    engine.keyspace().heap().set_snapshot_limit(100_000);
    let done = commands::rewrite_log(&engine, &log, false, &go_on, None);
    let lost = done.expect_err("it holds more than its limit");
    assert!(matches!(lost, RewriteLogError::GivenUp(SnapshotLost::OverLimit)), "{lost}");
    assert!(lost.to_string().contains("given up"), "{lost}");
    let loaded = |what: &str| {
        log.sync_all().expect("files");
        let again = self::engine(64 << 20, None);
        let mut loader = Loader::open(options.clone()).expect("a log");
        commands::replay(&again, &mut loader, &mut |_| {}).expect("commands");
        assert!(data(again.keyspace(), 0) == data(engine.keyspace(), 0), "{what}");
    };
    assert_eq!((log.figures().rewrites, log.figures().last_rewrite_ok), (0, false));
    loaded("after a rewrite that was given up");
    engine.keyspace().heap().set_snapshot_limit(u64::MAX);
    assert!(commands::rewrite_log(&engine, &log, false, &go_on, None).expect("files").is_some());
    assert!(log.figures().last_rewrite_ok);
    loaded("after a rewrite");
}
