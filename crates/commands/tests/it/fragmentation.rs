//! A full store, in which deletes left blocks of other sizes than those needed.

use std::sync::Arc;

use crate::support::{Client, volatile};
use commands::{Engine, EngineOptions};

const LIMIT: u64 = 16 << 20;

/// A client of a store of its own.
fn client(limit: u64) -> Client {
    Client::new(&Arc::new(Engine::new(EngineOptions::new(volatile(2, limit)))))
}

/// Returns the share of the pool in use, in percent.
fn used(client: &Client) -> u64 {
    let heap = client.engine.keyspace().heap();
    heap.used() * 100 / heap.limit()
}

/// How elements of a type are added and deleted: in collections of a thousand, or as keys of their
/// own.
struct Kind {
    name: &'static str,
    add: fn(usize, usize) -> Vec<String>,
    delete: fn(usize, usize) -> Vec<String>,
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn value(len: usize) -> String {
    "v".repeat(len)
}

/// Returns the collection of an element, of which a thousand share one.
fn large(n: usize) -> String {
    format!("large:{}", n / 1000)
}

fn small(n: usize) -> String {
    format!("small:{}", n / 10)
}

/// An element with a text of this length.
fn element(n: usize, len: usize) -> String {
    format!("{n:0>len$}")
}

const KINDS: [Kind; 9] = [
    Kind {
        name: "strings",
        add: |n, len| words(&["SET", &n.to_string(), &value(len)]),
        delete: |n, _| words(&["DEL", &n.to_string()]),
    },
    Kind {
        name: "strings that expire",
        add: |n, len| words(&["SET", &n.to_string(), &value(len), "EX", "100000"]),
        delete: |n, _| words(&["DEL", &n.to_string()]),
    },
    Kind {
        name: "strings of blobs",
        add: |n, len| words(&["SET", &n.to_string(), &value(len * 20)]),
        delete: |n, _| words(&["DEL", &n.to_string()]),
    },
    Kind {
        name: "small hashes",
        add: |n, len| words(&["HSET", &small(n), &format!("f{n}"), &value(len)]),
        delete: |n, _| words(&["HDEL", &small(n), &format!("f{n}")]),
    },
    Kind {
        name: "large hashes",
        add: |n, len| words(&["HSET", &large(n), &format!("f{n}"), &value(len)]),
        delete: |n, _| words(&["HDEL", &large(n), &format!("f{n}")]),
    },
    Kind {
        name: "sets",
        add: |n, len| words(&["SADD", &large(n), &element(n, len)]),
        delete: |n, len| words(&["SREM", &large(n), &element(n, len)]),
    },
    Kind {
        name: "sorted sets",
        add: |n, len| words(&["ZADD", &large(n), &n.to_string(), &element(n, len)]),
        delete: |n, len| words(&["ZREM", &large(n), &element(n, len)]),
    },
    Kind {
        name: "lists",
        add: |n, len| words(&["RPUSH", &large(n), &value(len)]),
        delete: |n, _| words(&["LPOP", &large(n)]),
    },
    Kind {
        name: "streams",
        add: |n, len| words(&["XADD", &large(n), &format!("{}-1", n + 1), "f", &value(len)]),
        delete: |n, _| words(&["XTRIM", &large(n), "MAXLEN", "250"]),
    },
];

fn run(client: &mut Client, line: &[String]) -> String {
    let words: Vec<&[u8]> = line.iter().map(String::as_bytes).collect();
    String::from_utf8_lossy(&client.raw(&words)).into_owned()
}

/// Adds elements from `from` on until the store is full. Returns the number after the last.
fn fill(client: &mut Client, kind: &Kind, from: usize, len: usize) -> usize {
    for n in from.. {
        let reply = run(client, &(kind.add)(n, len));
        if reply.starts_with("-OOM the store is full") {
            return n;
        }
        assert!(!reply.starts_with('-'), "{}: {reply}", kind.name);
    }
    from
}

#[test]
fn most_of_the_store_serves_values_of_other_sizes() {
    for kind in &KINDS {
        let mut client = client(LIMIT);
        let (mut from, mut shares) = (0, Vec::new());
        for len in [100, 200, 1000] {
            let to = fill(&mut client, kind, from, len);
            shares.push(used(&client));
            for n in (from..to).filter(|n| n % 4 != 0) {
                let reply = run(&mut client, &(kind.delete)(n, len));
                assert!(reply.starts_with(':') || reply.starts_with('$'), "a delete: {reply}");
            }
            from = to;
        }
        assert!(shares.iter().all(|share| *share >= 85), "{}: {shares:?} %", kind.name);
        let checked = client.engine.keyspace().check();
        assert!(checked.is_ok(), "{}: {checked:?}", kind.name);
    }
}

/// Returns how many of `keys` can be set to a value of this length.
fn set(client: &mut Client, keys: std::ops::Range<usize>, prefix: &str, len: usize) -> usize {
    let value = value(len);
    keys.filter(|n| client.run(&format!("SET {prefix}{n} {value}")) == "OK").count()
}

/// A small value fits in the same shard; other shards get the space when a whole span is free.
#[test]
fn a_small_value_fits_as_soon_as_any_was_deleted() {
    let mut client = client(LIMIT);
    let stored = set(&mut client, 0..LIMIT as usize / 3000, "", 3000);
    assert!(stored < LIMIT as usize / 3000, "the store is full");
    assert!(set(&mut client, 0..10_000, "filler:", 16) < 10_000, "for small values too");
    for n in 0..5 {
        client.check(&format!("DEL {n}"), "(integer) 1");
        for len in [10, 100, 1000] {
            client.check(&format!("SET other:{{{n}}}:{len} {}", value(len)), "OK");
            client.check(&format!("DEL other:{{{n}}}:{len}"), "(integer) 1");
        }
        client.check(&format!("SET other:{{{n}}} {}", value(50)), "OK");
    }
    client.engine.keyspace().check().expect("an intact keyspace");
}

#[test]
fn a_transaction_and_a_script_find_the_space_too() {
    for write in ["EXEC", "EVAL"] {
        let mut client = client(LIMIT);
        let stored = set(&mut client, 0..LIMIT as usize / 100, "", 100);
        assert!(used(&client) > 85, "the store is full");
        (0..stored).filter(|n| n % 4 != 0).for_each(|n| {
            client.run(&format!("DEL {n}"));
        });
        for n in 0..500 {
            let value = value(3000);
            if write == "EXEC" {
                client.check("MULTI", "OK");
                client.check(&format!("SET large:{n} {value}"), "QUEUED");
                client.check("EXEC", "[OK]");
            } else {
                let script = "return redis.call('SET', KEYS[1], ARGV[1])";
                let words = ["EVAL", script, "1", &format!("large:{n}"), &value];
                assert_eq!(client.raw(&words), b"+OK\r\n");
            }
        }
    }
}

#[test]
fn a_refusal_names_fragmentation_where_it_is_and_the_next_try_finds_the_space() {
    let mut client = client(LIMIT);
    let shard_of =
        |client: &Client, key: &str| client.engine.keyspace().key(key.as_bytes()).shard();
    let (mut is_full, mut of_the_other) = ([false; 2], Vec::new());
    for n in (0..).map(|n: usize| n.to_string()) {
        let shard = shard_of(&client, &n);
        if is_full == [true; 2] {
            break;
        }
        if !is_full[shard] && client.run(&format!("SET {n} {}", value(100))) != "OK" {
            is_full[shard] = true;
        } else if !is_full[shard] && shard == 1 {
            of_the_other.push(n);
        }
    }
    let full = "(error) OOM the store is full: its heap is at its limit or its file cannot grow (INFO persistence: pool_used, pool_size, pool_limit)";
    let large = (0..).map(|n| format!("large:{n}")).find(|key| shard_of(&client, key) == 0);
    let large = format!("SET {} {}", large.expect("a key"), value(3000));
    client.check(&large, full);
    // The free space is in the other shard, which another client has locked.
    for (_, key) in of_the_other.iter().enumerate().filter(|(n, _)| n % 4 != 0) {
        client.check(&format!("DEL {key}"), "(integer) 1");
    }
    let engine = Arc::clone(&client.engine);
    let held = engine.keyspace().begin_one(1, 0);
    let reply = client.run(&large);
    assert!(
        reply.starts_with(
            "(error) OOM the store is full of blocks of other sizes: its free space is fragmented"
        ),
        "{reply}"
    );
    drop(held);
    client.check(&large, "OK");
}
