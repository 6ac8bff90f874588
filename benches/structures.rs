//! What hashes, sets, lists, sorted sets and streams cost, from the words of a request to its
//! reply, the durable commit included.
//!
//! `cargo bench --bench structures`. Each structure has a hundred elements (as one packed block,
//! where a type has such) or a hundred thousand (a table, a counted tree, linked nodes); an element
//! is a member of 16 bytes, in a hash with a value of 16. An iteration picks an element uniformly
//! at random and is one command, or a pair that leaves the structure as large as it was:
//! - *HGET*, *SISMEMBER*, *ZSCORE*, *ZRANK*, *LINDEX*: one lookup of what is there;
//! - *HSET*: it gets another value of the same length; *ZADD*: it gets another score, so that it
//!   moves;
//! - *SADD and SREM*, *LPUSH and RPOP*: one element comes, one goes, in two commits;
//! - *LRANGE 100*, *ZRANGE 100*, *XRANGE 100*: a hundred elements from a random place on;
//! - *XADD MAXLEN*: an entry comes, the oldest goes, in one command;
//! - *SORT LIMIT*: the first ten of the list by their bytes.
//!
//! There is no socket and no parser in it. Nothing runs in the background.

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::Arc;

use commands::{Clock, Engine, EngineOptions, Peer, Session, SystemClock};
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};
use keyspace::Keyspace;
use resp::{Protocol, Writer};

mod media;
#[path = "media/pool.rs"]
mod pool;

use media::Medium;
use pool::Pool;

const SIZES: [u64; 2] = [100, 100_000];

/// How many elements a range has.
const RANGE: u64 = 100;

/// A client of an engine in this process.
struct Client {
    engine: Arc<Engine>,
    session: Session,
    writer: Writer,
}

impl Client {
    fn new(engine: Engine) -> Client {
        let engine = Arc::new(engine);
        let session = engine.connect(Peer::default(), 0);
        Client { engine, session, writer: Writer::new(Protocol::Resp2) }
    }

    /// Executes a request and gives the length of its reply, which is no error.
    fn run(&mut self, words: &[&[u8]]) -> usize {
        // Without a log no reply has to wait.
        let _ = self.engine.execute(&mut self.session, black_box(words), &mut self.writer);
        let reply = self.writer.take();
        assert_ne!(reply.first(), Some(&b'-'), "{}", String::from_utf8_lossy(&reply));
        reply.len()
    }
}

/// Returns a member of 16 bytes.
fn member(n: u64) -> [u8; 16] {
    let mut member = *b"member:000000000";
    let mut rest = n;
    for digit in member[7..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    member
}

fn fill(client: &mut Client, size: u64) {
    for n in 0..size {
        let member = member(n);
        client.run(&[b"HSET", b"hash", &member, &member]);
        client.run(&[b"SADD", b"set", &member]);
        client.run(&[b"RPUSH", b"list", &member]);
        client.run(&[b"ZADD", b"sorted_set", n.to_string().as_bytes(), &member]);
        client.run(&[b"XADD", b"stream", format!("{}-0", n + 1).as_bytes(), b"field", &member]);
    }
}

fn structures(c: &mut Criterion, medium: Medium, size: u64) {
    let pool = Pool::on(medium);
    let keyspace = Keyspace::new(pool.heap, SystemClock.unix_ms());
    let client = &mut Client::new(Engine::new(EngineOptions::new(Arc::new(keyspace))));
    fill(client, size);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut group = c.benchmark_group(format!("structures/{}/{size}", medium.name()));
    for (name, key) in
        [("HGET", "hash"), ("SISMEMBER", "set"), ("ZSCORE", "sorted_set"), ("ZRANK", "sorted_set")]
    {
        group.bench_function(name, |b| {
            b.iter(|| client.run(&[name.as_bytes(), key.as_bytes(), &member(rng.u64(..size))]));
        });
    }
    group.bench_function("LINDEX", |b| {
        b.iter(|| client.run(&[b"LINDEX", b"list", rng.u64(..size).to_string().as_bytes()]));
    });
    group.bench_function("HSET", |b| {
        b.iter(|| {
            let value = member(rng.u64(..));
            client.run(&[b"HSET", b"hash", &member(rng.u64(..size)), &value])
        });
    });
    group.bench_function("ZADD", |b| {
        b.iter(|| {
            let score = rng.u64(..size).to_string();
            client.run(&[b"ZADD", b"sorted_set", score.as_bytes(), &member(rng.u64(..size))])
        });
    });
    group.bench_function("SADD and SREM", |b| {
        b.iter(|| {
            let other = member(size + rng.u64(..size));
            client.run(&[b"SADD", b"set", &other]);
            client.run(&[b"SREM", b"set", &other])
        });
    });
    group.bench_function("LPUSH and RPOP", |b| {
        b.iter(|| {
            client.run(&[b"LPUSH", b"list", &member(rng.u64(..size))]);
            client.run(&[b"RPOP", b"list"])
        });
    });
    for (name, key) in [("LRANGE", "list"), ("ZRANGE", "sorted_set")] {
        group.bench_function(format!("{name} {RANGE}"), |b| {
            b.iter(|| {
                let first = rng.u64(..=size - RANGE);
                let (first, last) = (first.to_string(), (first + RANGE - 1).to_string());
                client.run(&[name.as_bytes(), key.as_bytes(), first.as_bytes(), last.as_bytes()])
            });
        });
    }
    sequences(&mut group, client, size, &mut rng);
    group.finish();
}

/// Streams, and a list in another order.
fn sequences(
    group: &mut BenchmarkGroup<'_, WallTime>,
    client: &mut Client,
    size: u64,
    rng: &mut fastrand::Rng,
) {
    group.bench_function(format!("XRANGE {RANGE}"), |b| {
        b.iter(|| {
            let first = format!("{}-0", 1 + rng.u64(..=size - RANGE));
            let count = RANGE.to_string();
            let words: [&[u8]; 6] =
                [b"XRANGE", b"stream", first.as_bytes(), b"+", b"COUNT", count.as_bytes()];
            client.run(&words)
        });
    });
    let most = size.to_string();
    group.bench_function("XADD MAXLEN", |b| {
        b.iter(|| {
            let value = member(rng.u64(..));
            let words: [&[u8]; 7] =
                [b"XADD", b"stream", b"MAXLEN", most.as_bytes(), b"*", b"field", &value];
            client.run(&words)
        });
    });
    group.bench_function("SORT LIMIT", |b| {
        b.iter(|| client.run(&[b"SORT_RO", b"list", b"ALPHA", b"LIMIT", b"0", b"10"]));
    });
}

fn all_media(c: &mut Criterion) {
    for medium in media::ALL {
        SIZES.iter().for_each(|size| structures(c, medium, *size));
    }
}

criterion_group!(benches, all_media);
criterion_main!(benches);
