//! The metadata of streams: counts of added and read entries, lag, the highest deleted ID, the
//! effects of trims, pending entries and how often they were delivered.
//!
//! Random commands go to an engine in this process and to redis-server, if there is one; after
//! each, everything that XINFO and XPENDING show is compared, numbers exactly: only times may
//! differ. At the end the log and what a rewrite would write are replayed, and must give the same
//! result. `STREAMS_SEED` repeats a sequence.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::support::data::{data, differences};
use crate::support::streams::masked;
use crate::support::wire::{Remote, describe, parse};
use crate::support::{Client, MemoryLog, TestClock, requests, volatile};
use commands::{Engine, EngineOptions, commands_of};
use fastrand::Rng;
use testkit::Launch;

const STEPS: usize = 500;
/// Numbers of entries that are added at once: around the capacity of a node, and around the default
/// limit of a trim.
const RUNS: &[usize] = &[1, 2, 5, 99, 100, 101, 250, 1100];
/// Lengths that trims leave; below, their limits.
const LENGTHS: &[&str] = &["0", "1", "3", "5", "99", "100", "101", "150", "1000", "1001"];
const LIMITS: &[&str] = &["0", "1", "99", "100", "101", "199", "200", "1000", "1050", "5000"];

fn pick<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.usize(..of.len())]
}

/// An ID near the last ones, at increasing times.
fn id(now: usize, random: &mut Rng) -> String {
    let near = now - random.usize(..now.min(7));
    match random.u8(..16) {
        0 => "0-0".to_owned(),
        1 => near.to_string(),
        2 => format!("{}-1", now + 3),
        3..7 => format!("{near}-{}", random.usize(..120)),
        _ => format!("{near}-{}", random.usize(..4)),
    }
}

fn trim(now: usize, random: &mut Rng) -> String {
    let how = pick(random, &["", "= ", "~ ", "~ "]);
    let bound = match random.bool() {
        true => format!("MAXLEN {how}{}", pick(random, LENGTHS)),
        false => format!("MINID {how}{}", id(now, random)),
    };
    let limited = how == "~ " && random.bool();
    if limited { format!("{bound} LIMIT {}", pick(random, LIMITS)) } else { bound }
}

/// One command, or many entries.
fn command(now: usize, random: &mut Rng) -> Vec<String> {
    let key = pick(random, &["x1", "x1", "x2"]);
    let group = pick(random, &["g", "g", "h"]);
    let consumer = pick(random, &["a", "a", "b", "c"]);
    let read = pick(random, &["", "", " ENTRIESREAD 0", " ENTRIESREAD 3", " ENTRIESREAD -1"]);
    let start = match random.u8(..3) {
        0 => "$".to_owned(),
        1 => "0".to_owned(),
        _ => id(now, random),
    };
    vec![match random.u8(..40) {
        0..3 => format!("XADD {key} {now}-{} f v", random.usize(..4)),
        3 | 4 => format!("XADD {key} {now}-* f v"),
        5 => format!("XADD {key} NOMKSTREAM {} f v", id(now, random)),
        6 | 7 => format!("XADD {key} {} {now}-* f v", trim(now, random)),
        8 => {
            // With the same time, so that the sequence numbers increase.
            let count = RUNS[random.usize(..RUNS.len())];
            let value = "v".repeat(if random.u8(..4) == 0 { 900 } else { 3 });
            return (0..count).map(|_| format!("XADD {key} {now}-* f {value}")).collect();
        }
        9..13 => format!("XDEL {key} {} {}", id(now, random), id(now, random)),
        13 | 14 => format!("XTRIM {key} {}", trim(now, random)),
        15 => format!("XSETID {key} {}", id(now, random)),
        16 => format!("XSETID {key} {} ENTRIESADDED {}", id(now, random), pick(random, LENGTHS)),
        17 => format!("XSETID {key} {} MAXDELETEDID {}", id(now, random), id(now, random)),
        18 => {
            let (last, deleted) = (id(now, random), id(now, random));
            format!("XSETID {key} {last} ENTRIESADDED 10000 MAXDELETEDID {deleted}")
        }
        19 | 20 => format!("XGROUP CREATE {key} {group} {start} MKSTREAM{read}"),
        21 => format!("XGROUP SETID {key} {group} {start}{read}"),
        22 => format!("XGROUP CREATECONSUMER {key} {group} {consumer}"),
        23 => format!("XGROUP DELCONSUMER {key} {group} {consumer}"),
        24 if random.bool() => format!("XGROUP DESTROY {key} {group}"),
        24..29 => {
            let count = pick(random, &["1", "2", "64", "100", "101"]);
            let noack = pick(random, &["", "", " NOACK"]);
            format!("XREADGROUP GROUP {group} {consumer} COUNT {count}{noack} STREAMS {key} >")
        }
        29 => format!("XREADGROUP GROUP {group} {consumer} COUNT 3 STREAMS {key} 0"),
        30 | 31 => format!("XACK {key} {group} {} {}", id(now, random), id(now, random)),
        32..36 => {
            let how = pick(
                random,
                &["", " JUSTID", " FORCE", " RETRYCOUNT 7", " TIME 1000", " FORCE JUSTID"],
            );
            let last =
                if random.bool() { format!(" LASTID {}", id(now, random)) } else { String::new() };
            format!(
                "XCLAIM {key} {group} {consumer} 0 {} {}{how}{last}",
                id(now, random),
                id(now, random)
            )
        }
        36 | 37 => {
            let count = pick(random, &["1", "3", "100"]);
            let how = pick(random, &["", " JUSTID"]);
            format!("XAUTOCLAIM {key} {group} {consumer} 0 {} COUNT {count}{how}", id(now, random))
        }
        38 => match random.u8(..4) {
            0 => format!("RENAME {key} {}", pick(random, &["x1", "x2"])),
            _ => format!("DEL {key}"),
        },
        _ => format!("COPY x1 x2{}", pick(random, &["", " REPLACE"])),
    }]
}

/// The questions after each command.
const QUESTIONS: &[&str] = &[
    "XINFO STREAM @",
    "XINFO GROUPS @",
    "XINFO CONSUMERS @ g",
    "XPENDING @ g",
    "XPENDING @ g - + 200",
    "XPENDING @ h",
    "XLEN @",
];

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// Two servers that get the same commands.
struct Both {
    engine: Arc<Engine>,
    log: Arc<MemoryLog>,
    ours: Client,
    theirs: Option<Remote>,
    /// The last few commands.
    past: VecDeque<String>,
    seed: u64,
    /// The number of commands sent, and of those that were not refused.
    asked: usize,
    taken: usize,
}

impl Both {
    fn new(theirs: Option<Remote>, seed: u64) -> Both {
        let log = Arc::new(MemoryLog::default());
        let options = EngineOptions::new(volatile(4, 256 << 20));
        let engine = Arc::new(Engine::new(EngineOptions { log: Some(log.clone()), ..options }));
        let ours = Client::new(&engine);
        Both { engine, log, ours, theirs, past: VecDeque::new(), seed, asked: 0, taken: 0 }
    }

    /// Fails with the difference, and the commands that led to it.
    fn fail(&self, what: &str) -> ! {
        let past: Vec<String> = self.past.iter().map(|line| format!("{line:.100}")).collect();
        panic!("{what}\n  STREAMS_SEED={} after\n    {}", self.seed, past.join("\n    "));
    }

    fn same(&self, line: &str, ours: &str, theirs: &str) {
        if ours != theirs {
            let from = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
            let from = from.saturating_sub(80);
            let part =
                |text: &str| text.get(from..).unwrap_or("").chars().take(300).collect::<String>();
            let (ours, theirs) = (part(ours), part(theirs));
            self.fail(&format!("{line:.100}\n    ours   ..{ours}\n    theirs ..{theirs}"));
        }
    }

    fn run(&mut self, lines: &[String]) {
        if self.past.len() == 24 {
            self.past.pop_front();
        }
        self.past.push_back(match lines {
            [line] => line.clone(),
            many => format!("{} times {}", many.len(), many[0]),
        });
        let ours: Vec<String> =
            lines.iter().map(|line| masked(&parse(&self.ours.raw(&words(line))))).collect();
        self.taken += ours.iter().filter(|reply| !reply.starts_with("(error)")).count();
        self.asked += ours.len();
        if let Some(theirs) = &mut self.theirs {
            let all: Vec<Vec<&str>> = lines.iter().map(|line| words(line)).collect();
            theirs.send(&all);
            let replies = theirs.receive(all.len());
            for ((line, ours), theirs) in lines.iter().zip(&ours).zip(&replies) {
                self.same(line, ours, &masked(theirs));
            }
        }
    }

    /// Compares everything that is shown of the streams.
    fn ask(&mut self, full: bool) {
        let Some(mut theirs) = self.theirs.take() else { return };
        let full: &[&str] = if full { &["XINFO STREAM @ FULL COUNT 0"] } else { &[] };
        let lines: Vec<String> = ["x1", "x2"]
            .iter()
            .flat_map(|key| QUESTIONS.iter().chain(full).map(|line| line.replace('@', key)))
            .collect();
        let all: Vec<Vec<&str>> = lines.iter().map(|line| words(line)).collect();
        theirs.send(&all);
        let replies = theirs.receive(all.len());
        for (line, reply) in all.iter().zip(&replies) {
            let ours = masked(&parse(&self.ours.raw(line)));
            self.same(&line.join(" "), &ours, &masked(reply));
        }
        self.theirs = Some(theirs);
    }

    /// Replays the log, and what a rewrite would write.
    fn replay(&mut self) {
        let now = self.engine.clock().unix_ns() / 1_000_000;
        let here = data(self.engine.keyspace(), now);
        let mut written = Vec::new();
        for ((_, key), (value, _)) in &here {
            let done: Result<(), ()> = commands_of(key, value, |words| {
                written.push(words.iter().map(|word| word.to_vec()).collect::<Vec<_>>());
                Ok(())
            });
            done.expect("a list");
        }
        for (what, log) in [("log", requests(&self.log.bytes())), ("rewritten log", written)] {
            let options = EngineOptions {
                clock: TestClock::new(now + 5000),
                ..EngineOptions::new(volatile(2, 256 << 20))
            };
            let copy = Arc::new(Engine::new(options));
            let mut replay = Client::of(&copy, copy.connect_replay());
            for request in log {
                let reply = describe(&parse(&replay.raw(&request)));
                if reply.starts_with("(error)") {
                    let line = request.join(&b' ').escape_ascii().to_string();
                    self.fail(&format!("{reply} in the {what}, for {line:.100}"));
                }
            }
            let wrong = differences(&here, &data(copy.keyspace(), now));
            if !wrong.is_empty() {
                self.fail(&format!("the {what} gives another stream: {:.600}", wrong.join("\n")));
            }
        }
    }
}

fn sequence(theirs: Option<Remote>, seed: u64) {
    println!("STREAMS_SEED={seed} repeats this");
    let mut random = Rng::with_seed(seed);
    let mut both = Both::new(theirs, seed);
    for step in 0..STEPS {
        both.run(&command(1 + step / 3, &mut random));
        both.ask(step % 10 == 0);
        if step % 100 == 99 {
            both.replay();
        }
    }
    both.engine.keyspace().check().expect("an intact keyspace");
    let (asked, taken) = (both.asked, both.taken);
    assert!(taken * 2 > asked, "{taken} of {asked} commands were taken");
}

/// A new connection to an empty server.
fn remote(server: &testkit::Server) -> Remote {
    let mut remote = Remote::connect(server.address());
    remote.call(&["FLUSHALL"]);
    remote
}

/// The system's redis-server, if it has one.
fn redis() -> Option<testkit::Server> {
    let has_one = std::process::Command::new("redis-server").arg("--version").output().is_ok();
    if !has_one {
        println!("there is no redis-server: what it tells is not compared");
    }
    has_one.then(|| Launch::redis().start())
}

/// The number of entries in a node, and the default limit of a trim.
const NODE: u64 = 100;
const TAKEN: u64 = 100 * NODE;

/// Trims of whole nodes, of thousands of entries: they delete as much as fits the limit.
#[test]
fn trims_take_whole_nodes_up_to_their_limit() {
    let server = redis();
    let entries: u64 = TAKEN + 250;
    let mut both = Both::new(server.as_ref().map(remote), 0);
    for (limit, kept) in [
        (None, 0),
        (Some(1), 0),
        (Some(99), 0),
        (Some(100), 0),
        (Some(1999), 0),
        (Some(2000), 0),
        (Some(5001), 5000),
        (Some(100_000), 1000),
        (Some(0), 999),
    ] {
        let lines: Vec<String> = (0..entries).map(|_| "XADD x1 1-* f v".to_owned()).collect();
        both.run(&lines);
        both.run(&["XGROUP CREATE x1 g 0 MKSTREAM".to_owned()]);
        let given = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
        let line = format!("XTRIM x1 MAXLEN ~ {kept}{given}");
        let most = if limit == Some(0) { u64::MAX } else { limit.unwrap_or(TAKEN) };
        let nodes = entries.div_ceil(NODE);
        let mut whole = (0..=nodes).rev().map(|nodes| (nodes * NODE).min(entries));
        let taken = whole.find(|gone| *gone <= most && entries - gone >= kept).unwrap_or(0);
        let reply = both.ours.run(&line);
        assert_eq!(reply, format!("(integer) {taken}"), "{line}");
        if let Some(theirs) = &mut both.theirs {
            assert_eq!(describe(&theirs.call(&words(&line))), reply, "{line} in Redis");
        }
        both.ask(false);
        if limit == Some(2000) {
            both.replay();
        }
        // Each begins with an equal stream.
        both.run(&["DEL x1".to_owned()]);
    }
}

#[test]
fn streams_report_what_redis_reports() {
    let server = redis();
    let given = std::env::var("STREAMS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = given.map_or(1..3, |seed| seed..seed + 1);
    seeds.for_each(|seed| sequence(server.as_ref().map(remote), seed));
}
