//! Commands of a run that change the same key are executed together: their replies, what is logged
//! of them, their events and the data are those of one by one.

use std::sync::Arc;

use crate::pipeline::{batch, engine};
use crate::support::{Client, MemoryLog, emulated, volatile};
use commands::{Engine, EventClasses};
use fastrand::Rng;

/// Requests of which several follow each other; `%` stands for a random element, `#` for a random
/// number.
const REQUESTS: &[&str] = &[
    "LPUSH l %",
    "RPUSH l % %",
    "LPUSHX l %",
    "RPUSHX m % # %",
    "LPOP l",
    "RPOP l",
    "RPOP m",
    "LPOP l 2",
    "LRANGE l 0 5",
    "ZADD z # %",
    "ZADD z # %",
    "ZPOPMIN z",
    "ZPOPMAX z",
    "ZPOPMAX z 2",
    "XADD x * f %",
    "XADD x * f % g #",
    "XADD x NOMKSTREAM * f %",
    "XADD x MAXLEN 3 * f %",
    "XADD x 5-5 f %",
    "XADD l * f %",
    "LPOP x",
    "ZPOPMIN x",
    "DEL l",
    "RENAME l m",
    "PEXPIRE l 0",
];

/// Requests whose replies show all data.
const SHOWN: &[&str] = &[
    "LRANGE l 0 -1",
    "LRANGE m 0 -1",
    "ZRANGE z 0 -1 WITHSCORES",
    "XRANGE x - +",
    "XINFO STREAM x",
];

fn words(line: &str, random: &mut Rng) -> Vec<Vec<u8>> {
    let mut word = |word: &str| match word {
        // Some spell integers, some fill a node.
        "%" => match random.u32(..100) {
            // Several in one reply are more than a run may have.
            0 => vec![b'v'; random.usize(..40_000)],
            1..10 => vec![b'v'; random.usize(..5000)],
            10..40 => random.i64(-5000..5_000_000).to_string().into_bytes(),
            _ => format!("element {}", random.u32(..1000)).into_bytes(),
        },
        "#" => random.u32(..100).to_string().into_bytes(),
        word => word.as_bytes().to_vec(),
    };
    line.split(' ').map(&mut word).collect()
}

/// A client of an engine, its log, and a subscriber of all its events.
struct Side {
    log: Arc<MemoryLog>,
    client: Client,
    listener: Client,
}

impl Side {
    fn new(engine: &Arc<Engine>) -> Side {
        let log = Arc::new(MemoryLog::default());
        assert!(engine.set_log(log.clone()));
        engine.set_events(EventClasses::parse(b"KEAnm"));
        let (client, mut listener) = (Client::new(engine), Client::new(engine));
        listener.run("PSUBSCRIBE __key*");
        Side { log, client, listener }
    }

    /// Returns what was logged and published since the last call.
    fn effects(&mut self) -> (Vec<String>, String) {
        let mut events = Vec::new();
        let _ = self.listener.session.client.take_pushes(&mut events);
        let lines = self.log.lines();
        self.log.clear();
        (lines, events.escape_ascii().to_string())
    }
}

/// Sends the same requests to both, in runs to one and one by one to the other.
fn check(joined: &Arc<Engine>, single: &Arc<Engine>, seed: u64) {
    let (mut one, mut other) = (Side::new(joined), Side::new(single));
    let (mut random, mut in_runs) = (Rng::with_seed(seed), 0);
    for round in 0..400 {
        let mut requests = Vec::new();
        for _ in 0..random.usize(1..5) {
            let line = REQUESTS[random.usize(..REQUESTS.len())];
            requests.extend((0..random.usize(1..14)).map(|_| words(line, &mut random)));
        }
        let expected: Vec<u8> = requests.iter().flat_map(|r| other.client.raw(r)).collect();
        let (replies, taken) = batch(&mut one.client, &requests);
        in_runs += taken;
        let context = || format!("round {round} with seed {seed}");
        let (replies, expected) = (replies.escape_ascii(), expected.escape_ascii());
        assert_eq!(replies.to_string(), expected.to_string(), "{}", context());
        assert_eq!(one.effects(), other.effects(), "{}", context());
        for line in SHOWN {
            let (found, expected) = (one.client.run(line), other.client.run(line));
            // Nodes and the bytes in them may differ, as they depend on how elements arrive.
            let plain = |text: String| {
                let is_shape = |line: &&str| !line.contains("radix");
                text.lines().filter(is_shape).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(plain(found), plain(expected), "{line} in {}", context());
        }
        one.effects();
        other.effects();
    }
    assert!(in_runs > 2000, "only {in_runs} commands in runs");
}

#[test]
fn commands_on_one_key_are_executed_together_as_one_by_one() {
    for seed in 0..3 {
        check(&engine(volatile(4, 256 << 20)), &engine(volatile(4, 256 << 20)), seed);
    }
}

#[test]
fn commands_on_one_key_of_a_pool_are_executed_together_as_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = |name: &str| engine(emulated(&folder.path().join(name), 4));
    check(&pool("joined"), &pool("single"), 7);
}
