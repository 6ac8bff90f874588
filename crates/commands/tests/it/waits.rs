//! What a reply waits for, with a log whose every write is synced (`always`): a reply that shows
//! anything of another client's write, be it a value, an error, a null or the end of a wait, is
//! sent after that write is durable.
//!
//! The oracle knows no command. The same requests go to two engines with the same data, one of
//! which has one more write that is not durable yet. If the replies differ, the reply shows that
//! write, so it must wait for its position in the log. Cases are generated from the command table.

use crate::generate;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::{self, wire::show};
use crate::support::{Client, MemoryLog, TestClock, volatile};
use commands::spec::{BLOCKING, Group, READONLY, WRITE};
use commands::{CommandLog, Engine, EngineOptions, EventClasses, Next, ReplyLog, Run};
use fastrand::Rng;
use keyspace::Db;
use testkit::EACH_TYPE;

const NOW: u64 = 1_700_000_000_000;
/// Commands whose replies differ from run to run by themselves.
const RANDOM: &[&str] = &["randomkey", "spop", "srandmember", "hrandfield", "zrandmember"];

/// An engine with the data, whose log makes nothing durable.
struct Side {
    log: Arc<MemoryLog>,
    writer: Client,
    reader: Client,
}

impl Side {
    fn new() -> Side {
        let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
        let options = EngineOptions {
            log: Some(log.clone()),
            clock,
            ..EngineOptions::new(volatile(4, 64 << 20))
        };
        let engine = Arc::new(Engine::new(options));
        let mut side = Side { log, writer: Client::new(&engine), reader: Client::patient(&engine) };
        EACH_TYPE.iter().for_each(|line| _ = side.writer.run(line));
        side
    }

    /// Returns the replies to requests, and how far the last of them waits.
    fn ask(&mut self, requests: &[Vec<Vec<u8>>]) -> (Vec<String>, u64) {
        let mut replies = Vec::new();
        for words in requests {
            let reply = self.reader.raw(words);
            replies.push(if reply.is_empty() { "(none)".into() } else { show(&reply) });
        }
        (replies, self.reader.outcome.reply_after)
    }
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn describe(requests: &[Vec<Vec<u8>>]) -> String {
    let line = |words: &Vec<Vec<u8>>| {
        words.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>().join(" ")
    };
    requests.iter().map(line).collect::<Vec<_>>().join("; ")
}

/// The reader's requests around another client's write.
struct Case {
    before: Vec<Vec<Vec<u8>>>,
    write: Vec<Vec<u8>>,
    after: Vec<Vec<Vec<u8>>>,
}

/// Returns true if the reply showed the write; then it must wait for it.
fn check(case: &Case) -> bool {
    let (mut with, mut without) = (Side::new(), Side::new());
    for side in [&mut with, &mut without] {
        side.ask(&case.before);
    }
    let start = with.log.bytes().len();
    with.writer.raw(&case.write);
    let position = with.log.bytes().len();
    let (shown, waits) = with.ask(&case.after);
    let (other, _) = without.ask(&case.after);
    let shows = position > start && shown.last() != other.last();
    assert!(
        !shows || waits >= position as u64,
        "a reply waits for {waits} of {position}: after another's {}: {}: {:.300}, not {:.300}",
        describe(std::slice::from_ref(&case.write)),
        describe(&[&case.before[..], &case.after].concat()),
        shown.last().map_or("", String::as_str),
        other.last().map_or("", String::as_str),
    );
    shows
}

/// A write that changes, creates or deletes a key.
fn write_to(key: &[u8], random: &mut Rng) -> Vec<Vec<u8>> {
    let lines: [&str; 10] = [
        "DEL @",
        "DEL @",
        "SET @ w",
        "SET @ 5",
        "PEXPIREAT @ 1700000090000",
        "RPUSH @ zz",
        "HSET @ zz 1 hello w",
        "SADD @ zz",
        "ZADD @ 4 zz",
        "XADD @ 5-9 f v",
    ];
    let line = lines[random.usize(..lines.len())];
    line.split(' ').map(|word| if word == "@" { key.to_vec() } else { word.into() }).collect()
}

/// A request about data, and its name.
fn request(engine: &Engine, random: &mut Rng) -> (&'static str, Vec<Vec<u8>>) {
    let all = engine.table().all();
    loop {
        let command = &all[random.usize(..all.len())];
        let spec = command.spec;
        if matches!(spec.run, Run::Container)
            || !spec.has(READONLY | WRITE)
            || spec.has(BLOCKING)
            || matches!(spec.group, Group::Transactions | Group::Connection)
        {
            continue;
        }
        let words = match command.parent {
            Some(parent) => generate::sub_request(parent, spec, random),
            None => generate::request(spec, random),
        };
        return (spec.name, words);
    }
}

/// A request, in one of the ways in which a reply is made, and a write to one of its keys.
fn case(engine: &Engine, random: &mut Rng) -> Option<(&'static str, Case)> {
    let (name, words_of) = request(engine, random);
    let keys: BTreeSet<Vec<u8>> = generate::keys_of_requests().map(Into::into).collect();
    let named: Vec<&Vec<u8>> = words_of[1..].iter().filter(|word| keys.contains(*word)).collect();
    // Commands that show all keys show any of them; random ones show only the keys that they name.
    let key = match named.as_slice() {
        [] if RANDOM.contains(&name) => return None,
        [] => generate::keys_of_requests().nth(random.usize(..20))?.into(),
        named => named[random.usize(..named.len())].clone(),
    };
    let write = write_to(&key, random);
    let exec = |requests: &[Vec<Vec<u8>>]| [&[words("MULTI")], requests, &[words("EXEC")]].concat();
    let (before, after) = match random.u8(..4) {
        0 => (vec![], exec(&[words_of])),
        1 => {
            let (_, other) = request(engine, random);
            let is_random = other.first().is_some_and(|word| {
                RANDOM.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
            });
            if is_random {
                return None;
            }
            (vec![], exec(&[words_of, other]))
        }
        2 => (vec![vec![b"WATCH".to_vec(), key]], exec(&[words("PING")])),
        _ => (vec![], vec![words_of]),
    };
    Some((name, Case { before, write, after }))
}

#[test]
fn a_reply_that_shows_anothers_write_waits_for_it() {
    let engine = support::engine();
    let seed = std::env::var("WAITS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let cases = std::env::var("WAITS_CASES").ok().and_then(|cases| cases.parse().ok());
    println!("WAITS_SEED={seed} repeats this");
    let mut random = Rng::with_seed(seed);
    let mut showing = BTreeSet::new();
    for _ in 0..cases.unwrap_or(2500) {
        let Some((name, case)) = case(&engine, &mut random) else { continue };
        if check(&case) {
            showing.insert(name);
        }
    }
    assert!(
        showing.len() > 80,
        "replies of {} commands showed a write: {showing:?}",
        showing.len()
    );
}

/// All replies of a pipelined run wait for everything that any of them shows.
#[test]
fn a_run_that_shows_anothers_write_waits_for_it() {
    let engine = support::engine();
    let (mut random, mut showing) = (Rng::with_seed(3), 0);
    for _ in 0..1000 {
        let requests: Vec<Vec<Vec<u8>>> = (0..random.usize(2..5))
            .map(|_| request(&engine, &mut random))
            .filter(|(name, _)| !RANDOM.contains(name))
            .map(|(_, words)| words)
            .collect();
        let keys: BTreeSet<Vec<u8>> = generate::keys_of_requests().map(Into::into).collect();
        let Some(key) = requests.iter().flatten().find(|word| keys.contains(*word)) else {
            continue;
        };
        let (mut with, mut without) = (Side::new(), Side::new());
        let start = with.log.bytes().len();
        with.writer.raw(&write_to(key, &mut random));
        let position = with.log.bytes().len();
        let shown = with.reader.pipeline(&requests);
        let waits = with.reader.outcome.reply_after;
        let (Some(shown), Some(other)) = (shown, without.reader.pipeline(&requests)) else {
            continue;
        };
        if position > start && shown != other {
            assert!(waits >= position as u64, "{waits} of {position}: {}", describe(&requests));
            showing += 1;
        }
    }
    assert!(showing > 30, "only {showing} runs showed a write");
}

/// Each command that blocks, with a command that unblocks it.
const BLOCKED: &[(&str, &str)] = &[
    ("BLPOP new other 0", "RPUSH new a"),
    ("BRPOP other new 0", "RPUSH new a"),
    ("BLMPOP 0 2 other new LEFT", "RPUSH new a b"),
    ("BLMOVE new other LEFT RIGHT 0", "RPUSH new a"),
    ("BLMOVE new l1 LEFT RIGHT 0", "RPUSH new a"),
    ("BLMOVE new a LEFT RIGHT 0", "RPUSH new a"),
    ("BRPOPLPUSH new new 0", "RPUSH new a"),
    ("BZPOPMIN new other 0", "ZADD new 1 a"),
    ("BZPOPMAX new 0", "ZADD new 1 a"),
    ("BZMPOP 0 2 other new MIN", "ZADD new 1 a"),
    ("XREAD BLOCK 0 STREAMS new x1 0 $", "XADD new 1-1 f v"),
    ("XREAD BLOCK 0 STREAMS new x1 0 $", "XADD x1 6-1 f v"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "XADD x1 6-1 f v"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "DEL x1"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "XGROUP DESTROY x1 g"),
    ("XREADGROUP GROUP g alice BLOCK 0 STREAMS x1 >", "SET x1 v"),
];

#[test]
fn a_reply_that_ends_a_wait_waits_for_what_ended_it() {
    for (blocks, fills) in BLOCKED {
        let mut side = Side::new();
        side.writer.run("XREADGROUP GROUP g bob STREAMS x1 >");
        side.reader.check(blocks, "(blocked)");
        assert_eq!(side.reader.outcome.next, Next::Block);
        side.writer.run(fills);
        let position = side.log.bytes().len() as u64;
        let waits = |client: &mut Client| client.unblocked().map(|_| client.outcome.reply_after);
        assert_eq!(waits(&mut side.reader), Some(position), "{blocks}, ended by {fills}");
    }
}

#[test]
fn a_wait_whose_time_is_over_waits_for_what_it_had_seen() {
    for (blocks, gone) in [
        ("BLPOP l1 0", "DEL l1"),
        ("BZPOPMIN z1 0", "DEL z1"),
        ("XREAD BLOCK 0 STREAMS x1 5-1", "XDEL x1 5-2 5-3"),
    ] {
        let mut side = Side::new();
        side.writer.run(gone);
        let position = side.log.bytes().len() as u64;
        side.reader.patient = false;
        side.reader.check(blocks, "(nil)");
        assert_eq!(side.reader.outcome.reply_after, position, "{blocks} after {gone}");
    }
}

/// Two threads: a value is never seen before its position is known.
#[test]
fn what_another_thread_writes_is_waited_for_as_soon_as_it_is_seen() {
    const READS: &[&str] = &["GET a", "MGET a b", "MGET x b", "EXISTS a b"];
    let mut side = Side::new();
    side.writer.run("MSET a 0 b 0");
    let engine = Arc::clone(&side.reader.engine);
    let mut positions = vec![side.log.bytes().len() as u64];
    let done = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut client = Client::new(&engine);
            let mut seen = Vec::new();
            for n in 0.. {
                let read = READS[n % READS.len()];
                let reply = client.run(read);
                let values = reply.split('"').filter_map(|word| word.parse::<usize>().ok());
                seen.push((read, values.max(), client.outcome.reply_after));
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
            seen
        });
        for n in 1..3000 {
            side.writer.run(&format!("MSET a {n} b {n}"));
            positions.push(side.writer.outcome.reply_after);
        }
        done.store(true, Ordering::Relaxed);
        reads.join().expect("no panic")
    });
    for (read, value, waits) in seen {
        let Some(value) = value else { continue };
        assert!(waits >= positions[value], "{read} of {value} waits for {waits}");
    }
}

/// Messages to a client besides its replies: how the client subscribes, and what sends it
/// something.
const SENT: &[(&str, &[&str])] = &[
    ("SUBSCRIBE c", &["SET a 2", "PUBLISH c it"]),
    ("PSUBSCRIBE c*", &["SET a 2", "PUBLISH c it"]),
    ("SSUBSCRIBE c", &["SET a 2", "SPUBLISH c it"]),
    ("SUBSCRIBE c", &["MULTI", "PUBLISH c it", "SET a 2", "EXEC"]),
    ("MONITOR", &["SET a 2", "GET a"]),
    ("MONITOR", &["MULTI", "SET a 2", "EXEC"]),
    ("CLIENT TRACKING ON BCAST", &["SET a 2"]),
    ("CLIENT TRACKING ON BCAST PREFIX a", &["MULTI", "SET a 2", "EXEC"]),
    ("CLIENT TRACKING ON", &["SET a 2"]),
    ("CLIENT TRACKING ON", &["FLUSHALL"]),
    ("CLIENT TRACKING ON", &["MULTI", "FLUSHDB", "EXEC"]),
];

#[test]
fn what_is_sent_in_addition_to_replies_waits_for_what_it_reports() {
    for (listens, writes) in SENT {
        let mut side = Side::new();
        side.reader.run("HELLO 3");
        side.reader.run(listens);
        side.reader.run("GET a");
        let mut pushes = Vec::new();
        let _ = side.reader.session.client.take_pushes(&mut pushes);
        pushes.clear();
        writes.iter().for_each(|line| _ = side.writer.run(line));
        let after = side.reader.session.client.take_pushes(&mut pushes);
        assert!(!pushes.is_empty(), "{listens} is not told of {writes:?}");
        let position = side.log.bytes().len() as u64;
        assert_eq!(after, position, "{listens} of {writes:?}");
    }
}

/// A log that fails as soon as it gets a write, because of another thread's write.
#[derive(Default)]
struct FailsMeanwhile {
    log: MemoryLog,
    has_failed: AtomicBool,
}

impl ReplyLog for FailsMeanwhile {
    fn end(&self) -> u64 {
        self.log.end()
    }

    fn is_synchronous(&self) -> bool {
        true
    }

    fn failure(&self) -> Option<String> {
        self.has_failed.load(Ordering::Relaxed).then(|| "it fails".to_owned())
    }

    fn is_on(&self) -> bool {
        true
    }

    fn is_synced(&self, _: u64) -> bool {
        false
    }

    fn sync_to(&self, _: u64) -> bool {
        false
    }
}

impl CommandLog for FailsMeanwhile {
    fn append(&self, first: Db, last: Db, bytes: &[u8]) -> u64 {
        self.has_failed.store(true, Ordering::Relaxed);
        self.log.append(first, last, bytes)
    }
}

#[test]
fn what_is_sent_of_a_write_waits_for_it_although_the_log_fails_meanwhile() {
    for (listens, writes) in [
        ("SUBSCRIBE c", "MULTI|SET a 2|PUBLISH c it|EXEC"),
        ("SUBSCRIBE __keyspace@0__:a", "SET a 2"),
        ("MONITOR", "SET a 2"),
        ("MONITOR", "MULTI|SET a 2|EXEC"),
        ("CLIENT TRACKING ON", "SET a 2"),
        ("CLIENT TRACKING ON", "FLUSHALL"),
        ("CLIENT TRACKING ON BCAST", "SET a 2"),
    ] {
        let log = Arc::new(FailsMeanwhile::default());
        let engine = Arc::new(Engine::new(EngineOptions::new(volatile(4, 64 << 20))));
        engine.set_events(EventClasses::parse(b"KEA"));
        let (mut reader, mut writer) = (Client::new(&engine), Client::new(&engine));
        writer.run("SET a 1");
        assert!(engine.set_log(log.clone()));
        ["HELLO 3", listens, "GET a"].iter().for_each(|line| _ = reader.run(line));
        let mut pushes = Vec::new();
        let _ = reader.session.client.take_pushes(&mut pushes);
        pushes.clear();
        writes.split('|').for_each(|line| _ = writer.run(line));
        let after = reader.session.client.take_pushes(&mut pushes);
        assert!(!pushes.is_empty(), "{listens} is not told of {writes}");
        assert_eq!(after, log.end(), "{listens} of {writes}");
    }
}
