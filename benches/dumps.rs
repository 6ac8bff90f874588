//! What loading and saving a dump costs in the engine, by one thread: no file, no socket, a heap in
//! DRAM.
//!
//! `cargo bench --bench dumps` gives times. `benches/dump-instructions.sh` counts instructions
//! under callgrind, for which this program does one thing (`DUMP_LOAD`) a fixed number of times
//! (`DUMP_ROUNDS`) when both are set.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use commands::{Clock, Engine, EngineOptions, LoadOptions, Peer, SaveOptions};
use criterion::{Criterion, Throughput};
use heap::{CreateOptions, Geometry, Heap};
use keyspace::Keyspace;
use resp::{Protocol, Writer};

const KEYS: u64 = 60_000;
const ELEMENTS: u64 = 10;
const LIMIT: u64 = 1 << 30;
/// 2026-01-01.
const NOW_NS: u64 = 1_767_225_600_000_000_000;

/// What the keys of a dump are: strings of 32 bytes, collections of ten elements, or streams of one
/// entry of ten fields.
const KINDS: [(&str, &str); 6] = [
    ("strings", "SET"),
    ("hashes", "HSET"),
    ("lists", "RPUSH"),
    ("sets", "SADD"),
    ("sorted-sets", "ZADD"),
    ("streams", "XADD"),
];

/// A clock that goes on by a nanosecond each time: the machine's cannot be asked under callgrind.
#[derive(Default)]
struct Counter(AtomicU64);

impl Clock for Counter {
    fn unix_ns(&self) -> u64 {
        NOW_NS + self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Makes an engine without keys.
fn engine() -> Engine {
    let create = CreateOptions { geometry: Geometry::default(), ..CreateOptions::default() };
    let heap = Heap::volatile(LIMIT, &create).expect("a heap");
    let keyspace = Arc::new(Keyspace::new(heap, NOW_NS / 1_000_000));
    let clock = Arc::new(Counter::default());
    Engine::new(EngineOptions { clock, ..EngineOptions::new(keyspace) })
}

/// Makes an engine with keys, each by a command of this name.
fn filled(name: &str) -> Engine {
    let engine = engine();
    let mut session = engine.connect(Peer::default(), 0);
    let mut out = Writer::new(Protocol::Resp2);
    let text = |what: &dyn Display| what.to_string().into_bytes();
    for number in 0..KEYS {
        let mut words = vec![text(&name), text(&format_args!("key:{number:012}"))];
        words.extend((name == "XADD").then(|| text(&"1-1")));
        match name {
            "SET" => words.push(text(&format_args!("{:0>32}", format!("value:{number}")))),
            _ => (0..ELEMENTS).for_each(|n| match name {
                "HSET" | "XADD" => words
                    .extend([text(&format_args!("field:{n}")), text(&format_args!("v:{number}"))]),
                "ZADD" => words.extend([text(&(number * n)), text(&format_args!("member:{n}"))]),
                _ => words.push(text(&format_args!("element:{}", number + n))),
            }),
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        out.buffer().clear();
        let _ = engine.execute(&mut session, &words, &mut out);
        assert_ne!(out.as_bytes().first(), Some(&b'-'), "{name} fails");
    }
    engine.disconnect(&mut session);
    engine
}

fn save(engine: &Engine) -> Vec<u8> {
    let options = SaveOptions {
        stream: &|| None,
        compresses: true,
        has_checksum: true,
        is_base: false,
        is_for_valkey: false,
        is_background: false,
        backend: "aof",
        spool: &|| Ok(Box::new(Cursor::new(Vec::new()))),
        go_on: &|_| true,
    };
    commands::save(engine, io::Cursor::new(Vec::new()), &options, || {})
        .expect("a dump")
        .into_inner()
}

fn load(dump: &[u8]) {
    let mut report = |_| {};
    let mut options = LoadOptions { verifies: true, keeps_expired: false, report: &mut report };
    let loaded =
        commands::load_dump(&engine(), dump, &mut options).expect("a dump that can be loaded");
    assert_eq!(loaded.keys, KEYS);
}

fn main() {
    if let (Ok(name), Ok(rounds)) = (std::env::var("DUMP_LOAD"), std::env::var("DUMP_ROUNDS")) {
        let (what, kind) = name.split_once('-').expect("load-KIND or save-KIND");
        let known = KINDS.into_iter().find(|(known, _)| *known == kind);
        let (_, command) = known.expect("a known kind");
        let filled = filled(command);
        let dump = save(&filled);
        for _ in 0..rounds.parse::<u32>().expect("a number of rounds") {
            match what {
                "load" => load(&dump),
                _ => drop(save(&filled)),
            }
        }
        return;
    }
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("dumps");
    group.throughput(Throughput::Elements(KEYS)).sample_size(10);
    for (kind, command) in KINDS {
        let filled = filled(command);
        let dump = save(&filled);
        group.bench_function(format!("load-{kind}"), |b| b.iter(|| load(&dump)));
        group.bench_function(format!("save-{kind}"), |b| b.iter(|| save(&filled)));
    }
    group.finish();
    criterion.final_summary();
}
