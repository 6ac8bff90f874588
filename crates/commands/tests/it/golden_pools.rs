//! Pools in the tree, one for each version of the format and for each set of features that it had,
//! as a killed server left them: this program opens those of the current version and finds all of
//! their data; those of other versions are refused by their numbers.
//!
//! A change of the format without a new version or feature fails here. Either needs a new pool:
//!
//! ```sh
//! WRITE_GOLDEN_POOL=1 cargo test -p perdura-commands --test it golden_pools::
//! ```
//!
//! A pool is mostly zeros, and its long values are runs of one word: it is stored as runs of words.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::support::{Client, TestClock, volatile};
use commands::{Engine, EngineOptions};
use heap::{CreateOptions, FORMAT, Geometry, Heap, OpenError};
use keyspace::Keyspace;
use pmem::{DomainRequest, MapOptions, Region};

const NOW: u64 = 1_700_000_000_000;
const BOOT: [u8; 16] = [3; 16];
/// The number of equal words from which on they are stored as a run.
const RUN: usize = 3;
/// A bit in the length: the words are stored literally.
const LITERAL: u32 = 1 << 31;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pools")
}

/// Pools of the current version with fewer features than this program's.
const OLDER: [&str; 1] = ["2"];
/// The pool that this program writes: entries and members have short headers.
const CURRENT: &str = "2-short-headers";

fn stored(name: &str) -> PathBuf {
    folder().join(format!("format-{name}.runs"))
}

/// The words of a pool as runs: a length and a word; or a length with the mark, and this many
/// words.
fn pack(bytes: &[u8]) -> Vec<u8> {
    let words: Vec<&[u8]> = bytes.chunks(8).collect();
    let (mut out, mut at) = (Vec::new(), 0);
    let run_at = |at: usize| words[at..].iter().take_while(|word| **word == words[at]).count();
    while at < words.len() {
        let run = run_at(at);
        if run >= RUN {
            out.extend_from_slice(&(run as u32).to_le_bytes());
            out.extend_from_slice(words[at]);
            at += run;
            continue;
        }
        let end = (at..words.len()).find(|&end| run_at(end) >= RUN).unwrap_or(words.len());
        out.extend_from_slice(&((end - at) as u32 | LITERAL).to_le_bytes());
        out.extend(words[at..end].concat());
        at = end;
    }
    out
}

fn unpack(mut packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((head, rest)) = packed.split_first_chunk() {
        let head = u32::from_le_bytes(*head);
        let count = (head & !LITERAL) as usize;
        let len = if head & LITERAL == 0 { 8 } else { 8 * count };
        let (words, rest) = rest.split_at(len);
        let repeats = if head & LITERAL == 0 { count } else { 1 };
        (0..repeats).for_each(|_| out.extend_from_slice(words));
        packed = rest;
    }
    out
}

fn region(path: &Path) -> Region {
    let options = MapOptions { domain: DomainRequest::Process, ..MapOptions::new(64 << 20) };
    Region::open(path, &options).expect("a mapping")
}

fn create(path: &Path) -> Heap {
    let geometry = Geometry { shards: 2, ring_parts: 4, ring_part: 4096, zone_spans: 32 };
    let options = CreateOptions {
        geometry,
        uuid: *b"the golden pool.",
        hash_seed: *b"0123456789abcdef",
        boot_id: BOOT,
    };
    Heap::create(region(path), &options).expect("a pool")
}

/// A stored pool, as a file of its own.
fn open(name: &str, path: &Path) -> Result<Heap, OpenError> {
    let packed = fs::read(stored(name)).expect("a pool of this version: see above");
    fs::write(path, unpack(&packed)).expect("free memory");
    Heap::open(region(path), BOOT).map(|(heap, _)| heap)
}

fn engine(keyspace: Arc<Keyspace>) -> Arc<Engine> {
    let clock = TestClock::new(NOW);
    Arc::new(Engine::new(EngineOptions { clock, ..EngineOptions::new(keyspace) }))
}

/// Every type in each of its encodings, values of each length class, expiry, other databases, and
/// garbage to free.
fn fill(client: &mut Client) {
    let lines = [
        "SET short hello",
        "SET number 41",
        "INCR number",
        "SET expires soon PXAT 1900000000000",
        "SETRANGE holes 700000 end",
        "SETBIT bits 100 1",
        "PFADD visitors a b c d e f",
        "HSET small-hash f1 v1 f2 v2",
        "HPEXPIREAT small-hash 1900000000000 FIELDS 1 f1",
        "SADD small-set 1 2 three",
        "ZADD small-zset 1 one 2.5 two",
        "RPUSH small-list a b c",
        "GEOADD places 13.361389 38.115556 palermo 15.087269 37.502669 catania",
        "XADD stream 1-1 f v",
        "XADD stream 1-2 f w",
        "XGROUP CREATE stream group 0",
        "XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >",
        "SELECT 5",
        "SET elsewhere here",
        "SELECT 0",
    ];
    for line in lines {
        let reply = client.run(line);
        assert!(!reply.contains("ERR"), "{line}: {reply}");
    }
    for (key, len) in [("line", 200), ("block", 5000), ("chunks", 50_000), ("tree", 600_000)] {
        client.raw(&["SET".as_bytes(), key.as_bytes(), &vec![b'x'; len]]);
    }
    for n in 0..150 {
        client.run(&format!("HSET hash field-{n} value-{n}"));
        client.run(&format!("SADD set member-{n}"));
        client.run(&format!("ZADD zset {n} member-{n}"));
        client.run(&format!("RPUSH list element-{n}-{}", "y".repeat(100)));
        client.run(&format!("SET key-{n} {n}"));
    }
    client.run("HPEXPIREAT hash 1900000000000 FIELDS 1 field-7");
    client.raw(&["SET".as_bytes(), b"gone", &[b'z'; 300_000]]);
    client.run("DEL gone");
}

/// The content of the pool, by commands whose replies have an order.
fn transcript(client: &mut Client) -> String {
    let lines = [
        "DBSIZE",
        "GET short",
        "GET number",
        "PEXPIRETIME expires",
        "GET expires",
        "STRLEN holes",
        "GETRANGE holes 699990 700002",
        "GET line",
        "GET block",
        "GET chunks",
        "GET tree",
        "GET gone",
        "BITPOS bits 1",
        "PFCOUNT visitors",
        "HMGET small-hash f1 f2 f3",
        "HPEXPIRETIME small-hash FIELDS 2 f1 f2",
        "SORT small-set ALPHA",
        "ZRANGE small-zset 0 -1 WITHSCORES",
        "LRANGE small-list 0 -1",
        "GEOPOS places palermo catania",
        "XRANGE stream - +",
        "XPENDING stream group",
        "HLEN hash",
        "HPEXPIRETIME hash FIELDS 2 field-7 field-8",
        "SORT set ALPHA",
        "ZRANGE zset 0 -1 WITHSCORES",
        "LRANGE list 0 -1",
    ];
    let all = lines.map(str::to_owned).into_iter();
    let all = all.chain((0..150).map(|n| format!("HGET hash field-{n}")));
    let all = all.chain((0..150).map(|n| format!("GET key-{n}")));
    let all = all.chain(["SELECT 5", "GET elsewhere", "SELECT 0"].map(str::to_owned));
    all.fold(String::new(), |mut text, line| {
        writeln!(text, "{line}: {}", client.run(&line)).expect("memory");
        text
    })
}

#[test]
fn a_pool_of_this_format_in_the_tree_opens_and_holds_all_that_was_put_into_it() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(CURRENT.starts_with(&FORMAT.to_string()));
    if std::env::var_os("WRITE_GOLDEN_POOL").is_some() {
        let path = folder.path().join("new");
        let keyspace = Arc::new(Keyspace::new(create(&path), NOW));
        fill(&mut Client::new(&engine(Arc::clone(&keyspace))));
        fs::create_dir_all(self::folder()).expect("a folder");
        fs::write(stored(CURRENT), pack(&fs::read(&path).expect("the pool"))).expect("free memory");
    }
    for name in OLDER.iter().chain([&CURRENT]) {
        check_content(open(name, &folder.path().join(name)).expect("a pool of this format"));
    }
}

/// Checks that a pool has all that was put into it, and takes changes.
fn check_content(heap: Heap) {
    let keyspace = Arc::new(Keyspace::new(heap, NOW));
    assert!(keyspace.check().expect("a sound pool").keys > 150);
    let mut reference = Client::new(&engine(volatile(2, 64 << 20)));
    fill(&mut reference);
    let expected = transcript(&mut reference);
    let mut client = Client::new(&engine(keyspace));
    let found = transcript(&mut client);
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert!(found == expected, "{:.300}\nis not\n{:.300}", found, expected);
    }
    client.check("SET short again", "OK");
    // Consumers of this pool have no record of when they were last active.
    let now = "(integer) 0";
    let consumers = |pending: u32| {
        let times = format!("\"idle\", {now}, \"inactive\", {now}");
        format!("[[\"name\", \"consumer\", \"pending\", (integer) {pending}, {times}]]")
    };
    client.check("XINFO CONSUMERS stream group", &consumers(1));
    client.run("XREADGROUP GROUP group consumer COUNT 1 STREAMS stream >");
    client.check("XINFO CONSUMERS stream group", &consumers(2));
}

/// A random command about what [`fill`] wrote.
fn change(random: &mut fastrand::Rng) -> String {
    let key = ["short", "number", "expires", "line", "block", "key-1", "key-2", "new", "other"];
    let (key, other) = (key[random.usize(0..key.len())], key[random.usize(0..key.len())]);
    let (n, at) = (random.u8(0..160), 1_800_000_000_000u64 + random.u64(0..1000));
    match random.u8(0..24) {
        0 => format!("SET {key} value-{n}"),
        1 => format!("SET {key} {n}"),
        2 => format!("SET {key} {} PXAT {at}", "v".repeat(n.into())),
        3 => format!("APPEND {key} {n}"),
        4 => format!("SETRANGE {key} {n} x"),
        5 => format!("INCRBY key-{n} {n}"),
        6 => format!("PEXPIREAT {key} {at}"),
        7 => format!("PEXPIREAT key-{n} {at}"),
        8 => format!("PERSIST {key}"),
        9 => format!("PERSIST key-{n}"),
        10 => format!("RENAME key-{n} {key}"),
        11 => format!("COPY key-{n} {key} REPLACE"),
        12 => format!("GETEX {key} PXAT {at}"),
        13 => format!("DEL {key} key-{n}"),
        14 => format!("HSET hash field-{n} changed-{n}"),
        15 => format!("HDEL hash field-{n}"),
        16 => format!("HPEXPIREAT hash {at} FIELDS 1 field-{n}"),
        17 => format!("HPERSIST hash FIELDS 1 field-{n}"),
        18 => format!("SADD set member-{n} other-{n}"),
        19 => format!("SREM set member-{n}"),
        20 => format!("ZINCRBY zset 1.5 member-{n}"),
        21 => format!("ZREM zset member-{n}"),
        22 => format!("GET {other}"),
        _ => format!("PEXPIRETIME {other}"),
    }
}

#[test]
fn older_pools_take_changes_and_keep_what_they_had() {
    let folder = tempfile::tempdir().expect("a folder");
    for (seed, name) in OLDER.iter().cycle().take(4).enumerate() {
        let path = folder.path().join(seed.to_string());
        let heap = open(name, &path).expect("a pool of this format");
        let keyspace = Arc::new(Keyspace::new(heap, NOW));
        let (mut reference, mut client) = (
            Client::new(&engine(volatile(2, 64 << 20))),
            Client::new(&engine(Arc::clone(&keyspace))),
        );
        fill(&mut reference);
        let mut random = fastrand::Rng::with_seed(seed as u64);
        for n in 0..2000 {
            let line = change(&mut random);
            let (found, expected) = (client.run(&line), reference.run(&line));
            assert_eq!(found, expected, "seed {seed}, command {n}: {line}");
        }
        assert!(transcript(&mut client) == transcript(&mut reference), "seed {seed}");
        keyspace.check().expect("a sound pool");
        drop((client, keyspace));
        let (heap, _) = Heap::open(region(&path), BOOT).expect("the same pool");
        let keyspace = Arc::new(Keyspace::new(heap, NOW));
        keyspace.check().expect("a sound pool");
        let mut client = Client::new(&engine(keyspace));
        assert!(transcript(&mut client) == transcript(&mut reference), "seed {seed}, reopened");
    }
}

#[test]
fn a_pool_of_another_format_is_refused_by_its_number() {
    let folder = tempfile::tempdir().expect("a folder");
    for version in (1..FORMAT).filter(|version| stored(&version.to_string()).exists()) {
        let name = version.to_string();
        let refused = open(&name, &folder.path().join("pool")).expect_err("another format");
        assert!(
            matches!(refused, OpenError::Version { found, .. } if found == version),
            "{refused}"
        );
        assert!(refused.to_string().contains(&format!("format {version}")), "{refused}");
    }
}

#[test]
fn what_is_packed_is_what_is_unpacked() {
    let words = [1u64, 1, 1, 1, 2, 3, 3, 4, 0, 0, 0, 0, 0, 5];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(unpack(&pack(&bytes)), bytes);
}
