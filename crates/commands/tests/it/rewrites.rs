//! A rewritten log contains all data: values of all types, with as many and as large elements as
//! every bound in the code, and one more, and one less.
//!
//! The log is rewritten while other commands change the same keys, and then loaded into an empty
//! engine, which must hold the same data. `REWRITES_SEED` repeats a run.

use crate::writes;
use std::cell::RefCell;
use std::sync::Arc;

use crate::support::data::{data, differences};
use crate::support::wire::show;
use crate::support::{Client, TestClock, volatile};
use aof::{Aof, Loader, Options};
use commands::{CommandLog, Engine, EngineOptions};
use fastrand::Rng;

const NOW: u64 = 1_700_000_000_000;
/// Around the number of keys and elements in a step of a snapshot, of elements in a logged command,
/// in a listpack, and in a copy step.
const COUNTS: &[usize] =
    &[1, 2, 63, 64, 65, 127, 128, 129, 192, 193, 512, 513, 700, 1023, 1024, 1025];
/// Sizes of elements, around the limits of a listpack, of an entry of a table, and of a node.
const SIZES: &[usize] = &[0, 1, 20, 63, 64, 65, 1023, 1024, 1025, 8128, 8191, 8192, 8193, 65536];
/// Lengths of strings: embedded, in the entry, in a block, in several blocks.
const LENGTHS: &[usize] = &[
    0, 1, 20, 44, 45, 255, 256, 257, 4095, 4096, 4097, 32767, 32768, 32769, 65527, 65528, 65529,
    65535, 65536, 65537, 131_072, 400_000,
];
/// Lengths of names of keys: compared by word, in the entry, in a block of their own.
const NAMES: &[usize] = &[1, 20, 255, 256, 257, 32767, 32768, 32769, 70_000];

struct World {
    engine: Arc<Engine>,
    log: Arc<Aof>,
    options: Options,
}

/// An engine with a log in files.
fn world(folder: &std::path::Path) -> World {
    let options = Options::new(folder);
    let mut loader = Loader::open(options.clone()).expect("an empty folder");
    assert!(loader.next().expect("nothing to read").is_none());
    let log = Arc::new(loader.into_log().expect("a new log"));
    let engine = engine(4, Some(log.clone()));
    World { engine, log, options }
}

fn engine(shards: usize, log: Option<Arc<dyn CommandLog>>) -> Arc<Engine> {
    let options = EngineOptions::new(volatile(shards, 512 << 20));
    Arc::new(Engine::new(EngineOptions { log, clock: TestClock::new(NOW), ..options }))
}

/// Fills a client's database, and remembers the names of keys.
struct Filler {
    client: Client,
    random: Rng,
    names: Vec<Vec<u8>>,
}

impl Filler {
    fn run(&mut self, words: &[Vec<u8>]) {
        let reply = show(&self.client.raw(words));
        let line = words.join(&b' ');
        let line = line[..line.len().min(60)].escape_ascii();
        assert!(!reply.starts_with("(error)"), "{reply:.80} for {line}");
    }

    /// Runs a line in which `@` represents the key.
    fn about(&mut self, key: &[u8], line: &str) {
        let mut words = writes::words(line);
        words.iter_mut().filter(|word| **word == b"@").for_each(|word| *word = key.to_vec());
        self.run(&words);
    }

    fn name(&mut self, what: &str) -> Vec<u8> {
        let mut name = format!("{what}:{}:", self.names.len()).into_bytes();
        // Long names are rare: everything done with them takes long.
        let rare = if self.random.u8(..8) == 0 { NAMES.len() } else { 5 };
        let len = NAMES[self.random.usize(..rare)].max(name.len());
        name.resize(len, b'n');
        self.names.push(name.clone());
        name
    }

    /// A word of this size, or a short one with a number if words must differ.
    fn element(&mut self, n: usize, size: usize) -> Vec<u8> {
        let mut word = format!("{n}").into_bytes();
        word.resize(size.max(word.len()), b'a' + (n % 26) as u8);
        word
    }

    fn collection(&mut self, count: usize, size: usize) {
        let (hash, timed) = (self.name("hash"), self.name("timed"));
        let (set, list, sorted) = (self.name("set"), self.name("list"), self.name("sorted"));
        let (mut pairs, mut values, mut scored) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..count {
            // One large value among small ones.
            let size = if n == count / 2 { size } else { n % 7 };
            let (field, value) = (self.element(n, 3), self.element(n, size));
            pairs.extend([field, value.clone()]);
            scored.extend([(n / 2).to_string().into_bytes(), value.clone()]);
            values.push(value);
        }
        for (command, key, words) in [
            ("HSET", &hash, &pairs),
            ("HSET", &timed, &pairs),
            ("SADD", &set, &values),
            ("RPUSH", &list, &values),
            ("ZADD", &sorted, &scored),
        ] {
            self.run(&[&[command.into(), key.clone()], &words[..]].concat());
        }
        for (n, pair) in pairs.chunks(2).enumerate().filter(|(n, _)| n % 3 < 2) {
            let time = (NOW + 100_000 + n as u64).to_string().into_bytes();
            let words = [&b"HPEXPIREAT"[..], &timed, &time, b"FIELDS", b"1", &pair[0]];
            self.run(&words.map(<[u8]>::to_vec));
        }
        for key in [set, timed] {
            let time = (NOW + 200_000 + count as u64).to_string().into_bytes();
            self.run(&[b"PEXPIREAT".to_vec(), key, time]);
        }
    }

    fn stream(&mut self, count: usize, size: usize) {
        let key = self.name("stream");
        for n in 0..count {
            let size = if n == count / 2 { size.max(1) } else { n % 7 + 1 };
            self.about(&key, &format!("XADD @ 5-{} field ~v*{size} n {n}", n + 1));
        }
        for group in 0..3 {
            self.about(&key, &format!("XGROUP CREATE @ g{group} 0"));
            self.about(&key, &format!("XGROUP CREATECONSUMER @ g{group} idle"));
            let most = count / (group + 1);
            for consumer in 0..3 {
                let some = (most / 3).max(1);
                self.about(
                    &key,
                    &format!("XREADGROUP GROUP g{group} c{consumer} COUNT {some} STREAMS @ >"),
                );
            }
        }
        self.about(&key, &format!("XDEL @ 5-{} 5-{}", count / 2 + 1, count));
        match count % 5 {
            0 => self.about(&key, "XTRIM @ MAXLEN 0"),
            1 => self.about(&key, "XSETID @ 7-7 ENTRIESADDED 5000 MAXDELETEDID 6-6"),
            2 => self.about(&key, &format!("XTRIM @ MAXLEN {}", count / 2)),
            _ => {}
        }
    }

    /// Streams that consist of metadata only.
    fn empty_streams(&mut self) {
        for lines in [
            &["XGROUP CREATE @ g $ MKSTREAM"][..],
            &["XGROUP CREATE @ g 3-3 MKSTREAM", "XGROUP CREATECONSUMER @ g alice"],
            &["XADD @ 5-5 f v", "XDEL @ 5-5"],
            &["XADD @ 5-5 f v", "XADD @ 6-6 f v", "XDEL @ 6-6", "XSETID @ 5-5"],
            &["XADD @ 5-5 f v", "XDEL @ 5-5", "XSETID @ 1-1"],
            &["XADD @ 5-5 f v", "XTRIM @ MAXLEN 0"],
            &["XADD @ 5-5 f v", "XTRIM @ MAXLEN 0", "XSETID @ 9-9 ENTRIESADDED 77"],
        ] {
            let key = self.name("empty");
            for line in lines {
                self.about(&key, line);
            }
        }
    }

    fn string(&mut self, len: usize) {
        let (key, value) = (self.name("string"), self.element(len, len));
        self.run(&[b"SET".to_vec(), key.clone(), value[..len].to_vec()]);
        if len % 2 == 1 {
            self.run(&[b"PEXPIREAT".to_vec(), key, (NOW + 300_000).to_string().into_bytes()]);
        }
    }

    /// Changes existing keys.
    fn disturb(&mut self) {
        let table = writes::WRITES;
        let write = &table[self.random.usize(..table.len())];
        let request = write.requests[self.random.usize(..write.requests.len())];
        if request.contains('^') || ["flushall", "flushdb"].contains(&write.name) {
            return;
        }
        let names: Vec<Vec<u8>> = ["k", "d", "s"]
            .map(|_| self.random.usize(..self.names.len()))
            .map(|at| self.names[at].clone())
            .into();
        let words: Vec<Vec<u8>> = writes::words(request)
            .into_iter()
            .map(|word| match &word[..] {
                b"k" => names[0].clone(),
                b"d" => names[1].clone(),
                b"s" => names[2].clone(),
                _ => word,
            })
            .collect();
        self.client.raw(&words);
    }
}

/// The data that loading the log gives.
fn loaded(world: &World) -> Arc<Engine> {
    world.log.sync_all().expect("files");
    let engine = engine(3, None);
    let mut loader = Loader::open(world.options.clone()).expect("a log");
    commands::replay(&engine, &mut loader, &mut |_| {}).expect("commands");
    engine
}

fn compare(world: &World, what: &str) {
    let (here, there) = (data(world.engine.keyspace(), NOW), loaded(world));
    let wrong = differences(&here, &data(there.keyspace(), NOW));
    let shown: Vec<&String> = wrong.iter().take(8).collect();
    assert!(here.len() > 50, "{} keys", here.len());
    assert!(wrong.is_empty(), "{} keys differ {what}: {shown:#?}", wrong.len());
}

fn round_trip(seed: u64) {
    println!("REWRITES_SEED={seed} repeats this");
    let folder = tempfile::tempdir().expect("a folder");
    let world = world(folder.path());
    let mut filler = Filler {
        client: Client::new(&world.engine),
        random: Rng::with_seed(seed),
        names: Vec::new(),
    };
    for db in [0, 1, 15] {
        filler.client.run(&format!("SELECT {db}"));
        for _ in 0..4 {
            let count = COUNTS[filler.random.usize(..COUNTS.len())];
            let size = SIZES[filler.random.usize(..SIZES.len())];
            filler.collection(count, size);
            filler.stream(count, size);
        }
        LENGTHS.iter().for_each(|len| filler.string(*len));
        filler.empty_streams();
    }
    filler.client.run("SELECT 0");
    compare(&world, "before a rewrite");
    // One rewrite that is given up, and one that completes, each while keys change.
    let filler = RefCell::new(filler);
    for last in [5, usize::MAX] {
        let steps = RefCell::new(0);
        let go_on = || {
            *steps.borrow_mut() += 1;
            (0..3).for_each(|_| filler.borrow_mut().disturb());
            *steps.borrow() < last
        };
        let done =
            commands::rewrite_log(&world.engine, &world.log, false, &go_on, None).expect("files");
        assert_eq!(done.is_some(), last == usize::MAX);
        compare(&world, if last == 5 { "after half a rewrite" } else { "after a rewrite" });
    }
    world.engine.keyspace().check().expect("an intact keyspace");
}

#[test]
fn a_rewritten_log_holds_what_there_is() {
    let given = std::env::var("REWRITES_SEED").ok().and_then(|seed| seed.parse().ok());
    match given {
        Some(seed) => round_trip(seed),
        None => round_trip(1),
    }
}

/// For each type, as many elements as a bound; nothing else changes meanwhile.
#[test]
fn every_count_of_elements_is_rewritten() {
    let folder = tempfile::tempdir().expect("a folder");
    let world = world(folder.path());
    let mut filler =
        Filler { client: Client::new(&world.engine), random: Rng::with_seed(7), names: Vec::new() };
    for &count in COUNTS {
        filler.collection(count, 20);
        filler.stream(count, 20);
    }
    let done =
        commands::rewrite_log(&world.engine, &world.log, false, &|| true, None).expect("files");
    assert!(done.is_some());
    compare(&world, "after a rewrite");
}
