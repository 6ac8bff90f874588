//! The medium loses bytes, and one thread finds out what they meant while a command of another waits for its locks: the
//! reply tells of the damage, and not of a key that never was.

mod support;

use std::fs::{self, OpenOptions};
use std::sync::Arc;
use std::time::Duration;

use commands::{Engine, EngineOptions};
use support::{Client, emulated, wire};

const PAGE: usize = 4096;
const KEYS: usize = 200;
const READERS: usize = 4;
const ROUNDS: usize = 20;

fn name(i: usize) -> String {
    format!("key:{i:05}")
}

fn value(i: usize) -> String {
    format!("the value of key {i}, which is a bit longer")
}

/// How a key is asked for.
#[derive(Clone, Copy, Debug)]
enum Way {
    Alone,
    InMulti,
}

fn ask(client: &mut Client, way: Way, i: usize) -> String {
    let get = ["GET", &name(i)];
    if let Way::Alone = way {
        return wire::show(&client.raw(&get));
    }
    client.check("MULTI", "OK");
    client.raw(&get);
    let reply = client.raw(&["EXEC"]);
    wire::show(reply.strip_prefix(b"*1\r\n").unwrap_or(&reply))
}

/// Loses a page while a transaction holds its shard, a second thread waits to settle the loss, and others to read a key.
fn lose(way: Way) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let keyspace = emulated(&path, 1);
    let engine = Arc::new(Engine::new(EngineOptions::new(Arc::clone(&keyspace))));
    let mut client = Client::new(&engine);
    for i in 0..KEYS {
        assert_eq!(client.raw(&["SET", &name(i), &value(i)]), b"+OK\r\n");
    }
    let bytes = fs::read(&path).expect("the pool");
    let last = value(KEYS - 1);
    let end = bytes.windows(last.len()).rposition(|text| text == last.as_bytes());
    let page = end.expect("the last value") & !(PAGE - 1);
    let file = OpenOptions::new().write(true).open(&path).expect("the pool");
    file.set_len(page as u64).expect("a shorter file");
    let shown = std::thread::scope(|scope| {
        let held = keyspace.begin_one(0, 0);
        keyspace.heap().region().load(page as u64);
        assert!(keyspace.is_unsettled());
        // Whoever comes first to the lock, the answer must be right; mostly it is the one who waits longer.
        let waits = || std::thread::sleep(Duration::from_millis(5));
        scope.spawn(|| keyspace.settle());
        waits();
        let read = || ask(&mut Client::new(&engine), way, KEYS - 1);
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        waits();
        drop(held);
        readers.into_iter().map(|reader| reader.join().expect("a reply")).collect()
    });
    file.set_len(bytes.len() as u64).expect("as long as before");
    shown
}

#[test]
fn a_key_that_is_lost_while_its_command_waits_is_not_one_that_never_was() {
    for way in [Way::Alone, Way::InMulti] {
        for round in 0..ROUNDS {
            for shown in lose(way) {
                assert!(shown.starts_with("(error) MEDIAERR"), "{way:?}, round {round}: {shown}");
            }
        }
    }
}
