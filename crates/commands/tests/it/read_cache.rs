//! The same random requests to two engines, one of which has a read cache: all replies are the
//! same.
//!
//! Two sessions, several databases, MULTI with commands that fail, WATCH, pipelined runs, time that
//! passes, and the steps that a server takes in the background.

use std::sync::Arc;

use crate::support::{Client, TestClock, volatile};
use commands::{Engine, EngineOptions};
use fastrand::Rng;
use keyspace::{Defragmentation, Eviction, Keyspace, Policy};

const KEYS: [&str; 7] = ["a", "b", "c", "{a}1", "{a}2", "{b}1", "d"];
const BEGIN: u64 = 1_700_000_000_000;

/// One of the two stores.
struct Store {
    keyspace: Arc<Keyspace>,
    clock: Arc<TestClock>,
    engine: Arc<Engine>,
    clients: Vec<Client>,
    defragmentation: Vec<Defragmentation>,
}

impl Store {
    fn new(cache: u64) -> Store {
        let keyspace = volatile(3, 64 << 20);
        keyspace.heap().set_read_cache(cache);
        let clock = TestClock::new(BEGIN);
        let options =
            EngineOptions { clock: clock.clone(), ..EngineOptions::new(Arc::clone(&keyspace)) };
        let engine = Arc::new(Engine::new(options));
        let clients = (0..2).map(|_| Client::new(&engine)).collect();
        let defragmentation = vec![Defragmentation::default(); keyspace.shards()];
        Store { keyspace, clock, engine, clients, defragmentation }
    }

    /// Performs an action, and returns what a client sees of it.
    fn act(&mut self, action: &Action) -> Vec<u8> {
        match action {
            Action::Request(client, words) => self.clients[*client].raw(words),
            Action::Pipeline(client, all) => {
                let client = &mut self.clients[*client];
                let together = client.pipeline(all);
                together.unwrap_or_else(|| all.iter().flat_map(|words| client.raw(words)).collect())
            }
            Action::Later(ms) => {
                self.clock.advance_ms(*ms);
                Vec::new()
            }
            Action::Expire(shard) => {
                let now = commands::Clock::unix_ms(&*self.clock);
                let done = self.keyspace.expire_step(*shard, 20, now).expect("a commit").1;
                format!("{done:?}").into_bytes()
            }
            Action::Reclaim(shard) => {
                let done = self.keyspace.reclaim_step(*shard, 5).expect("a commit");
                format!("{done:?}").into_bytes()
            }
            Action::Defragment(shard) => {
                let at = &mut self.defragmentation[*shard];
                let next = self.keyspace.defragment_step(*shard, *at, 8).expect("a commit");
                *at = next.unwrap_or_default();
                format!("{at:?}").into_bytes()
            }
            Action::Evict(seed) => self.evict(*seed),
        }
    }

    fn evict(&self, seed: u64) -> Vec<u8> {
        let maxmemory = (self.keyspace.heap().used() * 3 / 4).max(1);
        let policy = Policy::AllkeysRandom;
        self.keyspace.set_eviction(Eviction { maxmemory, policy, ..Eviction::default() }, 0);
        let now = commands::Clock::unix_ms(&*self.clock);
        let evicted = self.keyspace.evict_step(1, now, seed).expect("a commit");
        let gone = evicted.iter().flat_map(|txn| txn.changes()).map(|change| change.key.to_vec());
        let gone = gone.collect::<Vec<_>>().concat();
        drop(evicted);
        self.keyspace.set_eviction(Eviction::default(), 0);
        gone
    }
}

#[derive(Debug)]
enum Action {
    Request(usize, Vec<Vec<u8>>),
    Pipeline(usize, Vec<Vec<Vec<u8>>>),
    Later(u64),
    Expire(usize),
    Reclaim(usize),
    Defragment(usize),
    Evict(u64),
}

fn value(rng: &mut Rng) -> String {
    let len = match rng.usize(..12) {
        0 => return rng.i64(-5..1000).to_string(),
        1 => rng.usize(..40),
        2 => rng.usize(30_000..34_000),
        3 => rng.usize(4000..9000),
        // Few different lengths, so that blocks are reused for other values of the same length.
        n => [256, 300, 1000, 1000][n % 4],
    };
    char::from(rng.u8(b'a'..=b'z')).to_string().repeat(len)
}

fn request(rng: &mut Rng) -> Vec<Vec<u8>> {
    let key = KEYS[rng.usize(..KEYS.len())];
    let other = KEYS[rng.usize(..KEYS.len())];
    let number = rng.usize(..3);
    let line = match rng.usize(..48) {
        0..14 => format!("GET {key}"),
        14 => format!("MGET {key} {other} d"),
        15 => format!("GETEX {key} PX {}", rng.usize(1..60)),
        16..24 => format!("SET {key} {}", value(rng)),
        24 => format!("SET {key} {} PX {}", value(rng), rng.usize(1..60)),
        25 => format!("SET {key} {} GET", value(rng)),
        26..29 => format!("APPEND {key} {}", value(rng)),
        29 => format!("SETRANGE {key} {} {}", rng.usize(..1200), value(rng)),
        30 => format!("INCR {key}"),
        31 => format!("DEL {key}"),
        32 => format!("GETDEL {key}"),
        33 => format!("RENAME {key} {other}"),
        34 => format!("COPY {key} {other} DB {number} REPLACE"),
        35 => format!("MOVE {key} {number}"),
        36 => format!("PEXPIRE {key} {}", rng.usize(1..60)),
        37 => format!("PERSIST {key}"),
        38 => format!("SWAPDB {number} {}", rng.usize(..3)),
        39 if rng.usize(..4) == 0 => String::from("FLUSHDB"),
        40 => format!("SELECT {number}"),
        41 => String::from("MULTI"),
        42 => String::from("EXEC"),
        43 => String::from("DISCARD"),
        44 => format!("WATCH {key}"),
        45 => format!("MSET {key} {} {other} {}", value(rng), value(rng)),
        46 => format!("GETRANGE {key} 10 400"),
        // Fails when it is executed, if the key does not hold an integer.
        _ => format!("INCRBY {key} 9223372036854775807"),
    };
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn action(rng: &mut Rng) -> Action {
    let shard = rng.usize(..3);
    match rng.usize(..60) {
        0 => Action::Later(rng.u64(1..40)),
        1 => Action::Expire(shard),
        2 | 3 => Action::Reclaim(shard),
        4 | 5 => Action::Defragment(shard),
        6 => Action::Evict(rng.u64(..)),
        7..10 => {
            let all = (0..rng.usize(2..8)).map(|_| request(rng)).collect();
            Action::Pipeline(rng.usize(..2), all)
        }
        _ => Action::Request(rng.usize(..2), request(rng)),
    }
}

fn sequence(seed: u64, cache: u64) {
    let (mut with, mut without) = (Store::new(cache), Store::new(0));
    let mut rng = Rng::with_seed(seed);
    let mut past = Vec::new();
    for _ in 0..4000 {
        let action = action(&mut rng);
        let replies = [with.act(&action), without.act(&action)];
        past.push(action);
        if replies[0] != replies[1] {
            let last: String = past[past.len().saturating_sub(12)..]
                .iter()
                .map(|action| format!("{:.200}\n", format!("{action:?}")))
                .collect();
            panic!("seed {seed}: with and without a read cache differ after\n{last}");
        }
    }
    let stats = with.engine.keyspace().heap().read_cache_stats();
    assert!(stats.hits > 50 && stats.misses > 100, "{stats:?}");
    with.keyspace.check().expect("an intact keyspace");
}

#[test]
fn every_reply_is_the_same_with_a_read_cache() {
    (0..6).for_each(|seed| sequence(seed, 8 << 20));
}

#[test]
fn and_with_one_that_has_space_for_a_few_values() {
    (10..16).for_each(|seed| sequence(seed, 3 * 20_000));
}
