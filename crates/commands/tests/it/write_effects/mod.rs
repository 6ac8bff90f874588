//! The effects of each write command, for every state of its keys: which watches it breaks, and
//! what it logs.
//!
//! The cases are generated from [`writes::WRITES`], which must contain every write command of the
//! table. For each it is checked that
//!
//! - a watch of a key breaks if the key changed, and no watch breaks by a command that did nothing;
//! - the watches that break are those that break in redis-server;
//! - the log, replayed into an empty keyspace five seconds later, gives the same keys with the same
//!   values and times;
//! - the command had the effects that its row lists: creating, changing, deleting or leaving a key.
//!
//! The request is executed alone, as a transaction, within one, pipelined, and after waiting.
//! `WRITE_EFFECTS=name` runs one command.

mod peer;

use std::collections::BTreeSet;
use std::sync::Arc;

use self::peer::{Redis, redis};
use crate::support::data::{self, Data, data};
use crate::support::wire::{Reply, describe, parse};
use crate::support::{self, Client, MemoryLog, TestClock, requests, volatile};
use crate::writes::{self, State, WAIT, WRITES, Write};
use commands::spec::WRITE;
use commands::{Clock, CommandLog, Engine, EngineOptions};

const NOW: u64 = 1_700_000_000_000;
/// Databases and keys that are watched. Only commands that touch all keys may touch `x`.
const WATCHED: [(usize, &str); 6] = [(0, "k"), (0, "d"), (0, "s"), (0, "x"), (1, "k"), (1, "d")];
/// The length of a long name of a key: more than 32 KiB.
const LONG: usize = 33_000;
/// Commands that touch keys that they do not name.
const TOUCH_ALL: &[&str] = &["swapdb", "flushdb", "flushall"];
/// Commands that break no watch, as in Redis, if the key existed before and no entry of a stream
/// was deleted.
const UNTOLD: &[&str] = &[
    "pfdebug",
    "xsetid",
    "xgroup|create",
    "xgroup|setid",
    "xgroup|createconsumer",
    "xgroup|delconsumer",
    "xgroup|destroy",
    "xreadgroup",
    "xack",
    "xackdel",
    "xdelex",
    "xclaim",
    "xautoclaim",
];
/// Commands that break a watch even if they change nothing, as in Redis.
const NOTIFIES_WATCHES: &[&str] = &["ltrim"];

/// Options that redis-server does not know.
const LATER_WORDS: &[&str] =
    &["IFEQ", "IFNE", "DIFF", "DIFF1", "ANDOR", "ONE", "KEEPREF", "DELREF", "ACKED", "CLAIM"];

/// How a request is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Alone,
    Exec,
    /// In a transaction that read the key before, and writes another one afterwards.
    Among,
    Pipelined,
    /// It waits until another client executes this.
    Blocked(&'static str),
}

/// A request and the state that it finds.
struct Case {
    write: &'static Write,
    request: &'static str,
    setup: Vec<String>,
    /// True if the key expires after it was watched.
    expires: bool,
    mode: Mode,
    /// True if the names of the keys are too long for an entry.
    is_long: bool,
}

impl Case {
    /// The name of a key in the plan. Short names are in different shards, long ones in one.
    fn name(&self, key: &str) -> Vec<u8> {
        match key {
            "k" | "d" | "s" if self.is_long => format!("{{k}}{}", key.repeat(LONG)).into_bytes(),
            key => key.into(),
        }
    }

    /// The words of a line of the plan.
    fn words(&self, line: &str) -> Vec<Vec<u8>> {
        let mut words = writes::words(line);
        for word in &mut words {
            match &word[..] {
                b"k" | b"d" | b"s" => *word = self.name(&String::from_utf8_lossy(word)),
                b"^k" => *word = [b"^", &self.name("k")[..]].concat(),
                _ => {}
            }
        }
        words
    }

    fn describe(&self) -> String {
        let Case { request, setup, expires, mode, is_long, .. } = self;
        let expires = if *expires { ", expires when watched" } else { "" };
        let long = if *is_long { ", long names" } else { "" };
        format!("{request} ({mode:?}{expires}{long}), after {}", setup.join("; "))
    }

    /// The requests that are executed, without words that depend on the server's data.
    fn lines(&self) -> Vec<String> {
        let own = self.request.to_owned();
        match self.mode {
            Mode::Alone => vec![own],
            Mode::Blocked(fills) => vec![own, fills.into()],
            Mode::Exec => vec!["MULTI".into(), own, "EXEC".into()],
            Mode::Among => {
                vec!["MULTI".into(), "TYPE k".into(), own, "APPEND y 1".into(), "EXEC".into()]
            }
            Mode::Pipelined => vec![own, "APPEND y 1".into()],
        }
    }

    /// Returns true if redis-server writes a key without breaking its watches: one that BITFIELD
    /// creates before it finds that all of its values are out of range, or one that RESTORE writes
    /// over a key that had expired when it was watched.
    fn is_quirk(&self) -> bool {
        let has_expired = self.setup.iter().any(|line| line == WAIT);
        self.request.contains("OVERFLOW FAIL")
            || self.request.starts_with("RESTORE")
                && self.request.contains("REPLACE")
                && has_expired
    }

    /// Returns true if redis-server can be compared: in a transaction its effects are the same
    /// unless keys expired, and it must have all of the commands.
    fn is_known(&self, later: &BTreeSet<String>) -> bool {
        let lines = self.setup.iter().map(String::as_str).chain([self.request]);
        let mut names = lines.filter_map(|line| line.split(' ').next());
        let has_expired = self.setup.iter().any(|line| line == WAIT);
        let is_notified = match self.mode {
            Mode::Alone | Mode::Blocked(_) => true,
            Mode::Among => has_expired,
            Mode::Exec | Mode::Pipelined => false,
        };
        is_notified
            && !self.expires
            && !self.is_long
            && names.all(|name| !later.contains(&name.to_lowercase()))
            && !self.request.split(' ').any(|word| LATER_WORDS.contains(&word))
    }
}

/// The lines that bring a key into a state.
fn spell(state: &[String], key: &str) -> Vec<String> {
    let entries = |key: &str| (0..150).map(|n| format!("XADD {key} 6-{n} f ~v*50")).collect();
    let lines = state.iter().map(|line| match line.as_str() {
        "~x" => entries(key),
        line => vec![line.replace('@', key)],
    });
    lines.collect::<Vec<Vec<String>>>().concat()
}

/// All requests of a command, in all states of the keys that they name.
fn cases(write: &'static Write) -> Vec<Case> {
    let mut cases = Vec::new();
    for (r, request) in write.requests.iter().enumerate() {
        let names = |key: &str| request.split(' ').any(|word| word.trim_start_matches('^') == key);
        let elsewhere = match request.split_once(" DB 1").map(|(before, _)| before) {
            Some(before) => before.rsplit(' ').next(),
            None if write.name == "move" || TOUCH_ALL.contains(&write.name) => Some("k"),
            None => None,
        };
        let (mine, others) = (writes::states(write.of), writes::other_states(write.of));
        let is_here = names("d") && elsewhere != Some("d");
        let destinations = if is_here { &others[..] } else { &others[..1] };
        let aside = if elsewhere.is_some() { &others[..] } else { &others[..1] };
        for (n, state) in mine.iter().enumerate() {
            for (m, destination) in destinations.iter().enumerate() {
                for (l, there) in aside.iter().enumerate() {
                    // A third of the pairs of states of both keys is enough.
                    if m * l > 0 || (m + l > 0 && (n + m + l + r) % 3 > 0) {
                        continue;
                    }
                    let mut setup = vec!["SET x stays".to_owned()];
                    setup.extend(spell(state, "k"));
                    setup.extend(spell(destination, "d"));
                    if names("s") {
                        setup.extend(spell(&others[(n + m) % others.len()], "s"));
                    }
                    if let Some(key) = elsewhere.filter(|_| !there.is_empty()) {
                        setup.push("SELECT 1".into());
                        setup.extend(spell(there, key));
                        setup.push("SELECT 0".into());
                    }
                    let case = |mode, expires| {
                        let setup = setup.clone();
                        Case { write, request, setup, expires, mode, is_long: (n + m + l) % 4 == 3 }
                    };
                    cases.push(case(Mode::Alone, false));
                    let turn = n + m + l + r;
                    let mode = [Mode::Exec, Mode::Among, Mode::Pipelined][turn / 2 % 3];
                    if turn % 2 == 0 {
                        cases.push(case(mode, false));
                    }
                    if m + l == 0 && !state.is_empty() && !state.iter().any(|line| line == WAIT) {
                        cases.push(case(mode, true));
                    }
                }
            }
        }
    }
    cases
}

/// Cases of commands that wait for a key to be filled.
fn blocked_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, of, setup, request, fills) in writes::BLOCKED {
        let write = WRITES.iter().find(|write| write.name == *name).expect("a command");
        for (n, state) in writes::other_states(*of).iter().enumerate() {
            let mut lines = vec!["SET x stays".to_owned()];
            lines.extend(spell(&setup.map_or(State::new(), |line| vec![line.into()]), "k"));
            if request.contains(" d ") {
                lines.extend(spell(state, "d"));
            } else if n > 0 {
                continue;
            }
            let (mode, is_long) = (Mode::Blocked(fills), n % 2 == 1);
            cases.push(Case { write, request, setup: lines, expires: false, mode, is_long });
        }
    }
    cases
}

/// The outcome of a case.
struct Outcome {
    reply: String,
    broken: Vec<bool>,
}

/// An engine with a log, and the observations of a case.
struct Ours {
    outcome: Outcome,
    before: Data,
    after: Data,
    /// The commands that the request logged.
    logged: Vec<String>,
    /// The data of the engine, and of the replayed log, some seconds later.
    kept: Data,
    replayed: Data,
    replay_errors: Vec<String>,
}

impl Ours {
    /// Returns the effects of the case on the keys, by the letters of [`Write::ways`].
    fn ways(&self, case: &Case) -> BTreeSet<char> {
        let mut ways = BTreeSet::new();
        for (db, key) in &WATCHED {
            let place = (*db, case.name(key));
            ways.insert(match (self.before.get(&place), self.after.get(&place)) {
                (None, Some(_)) => 'c',
                (Some(_), None) => 'd',
                (before, after) if before != after => 'm',
                _ if self.logged.is_empty() => 'n',
                _ => continue,
            });
        }
        ways
    }
}

/// Engines in this process: one with a log, one without, and one into which the log is replayed,
/// with another number of shards and a clock that is ahead.
struct Perdura {
    log: Arc<MemoryLog>,
    clock: Arc<TestClock>,
    logged: Arc<Engine>,
    copy: Arc<Engine>,
    /// The memory that the engine with a log uses without data.
    empty: Option<u64>,
}

/// How far the clock of the copy is ahead.
const AHEAD: u64 = 5000;

impl Perdura {
    fn new() -> Perdura {
        let (log, clock) = (Arc::new(MemoryLog::default()), TestClock::new(NOW));
        let engine = |shards, log: Option<Arc<dyn CommandLog>>, clock| {
            let options = EngineOptions::new(volatile(shards, 64 << 20));
            Arc::new(Engine::new(EngineOptions { log, clock, ..options }))
        };
        Perdura {
            logged: engine(4, Some(log.clone()), clock.clone()),
            copy: engine(2, None, Arc::new(Ahead(clock.clone()))),
            log,
            clock,
            empty: None,
        }
    }

    fn now(&self) -> u64 {
        self.clock.unix_ns() / 1_000_000
    }

    /// Deletes all data. Returns a violation if memory is left in use.
    fn clear(&mut self) -> Option<String> {
        for engine in [&self.logged, &self.copy] {
            Client::new(engine).run("FLUSHALL");
            let ks = engine.keyspace();
            (0..ks.shards()).for_each(|shard| {
                while ks.reclaim_step(shard, 1000).expect("a commit").done > 0 {}
            });
        }
        self.log.clear();
        let used = self.logged.keyspace().heap().used();
        let empty = *self.empty.get_or_insert(used);
        (used != empty)
            .then(|| format!("{used} bytes are in use of an empty keyspace, not {empty}"))
    }

    fn run(&mut self, case: &Case) -> Ours {
        let engine = Arc::clone(&self.logged);
        let mut client = Client::new(&engine);
        for line in case.setup.iter().filter(|line| *line != WAIT) {
            let reply = describe(&parse(&client.raw(&case.words(line))));
            assert!(!reply.starts_with("(error)"), "{reply:.100} for {line:.100}");
        }
        if case.expires {
            client.raw(&case.words("PEXPIRE k 50"));
        }
        self.clock.advance_ms(10);
        let lines: Vec<Vec<Vec<u8>>> = case
            .lines()
            .iter()
            .map(|line| with_dumps(case.words(line), &mut |words| parse(&client.raw(words))))
            .collect();
        let mut watchers = WATCHED.map(|(db, key)| {
            let mut watcher = Client::new(&engine);
            watcher.run(&format!("SELECT {db}"));
            watcher.raw(&[b"WATCH".to_vec(), case.name(key)]);
            watcher
        });
        if case.expires {
            self.clock.advance_ms(100);
        }
        let before = data(engine.keyspace(), self.now());
        let start = self.log.lines().len();
        let reply = match case.mode {
            Mode::Blocked(_) => {
                let mut waiting = Client::patient(&engine);
                assert!(waiting.raw(&lines[0]).is_empty(), "it blocks: {:.200}", case.describe());
                client.raw(&lines[1]);
                let reply = waiting.unblocked();
                engine.disconnect(&mut waiting.session);
                reply.unwrap_or_else(|| "(none)".to_owned())
            }
            Mode::Pipelined => {
                if client.pipeline(&lines).is_none() {
                    lines.iter().for_each(|line| drop(client.raw(line)));
                }
                String::new()
            }
            _ => {
                let replies = lines.iter().map(|line| describe(&parse(&client.raw(line))));
                replies.last().expect("a request")
            }
        };
        let after = data(engine.keyspace(), self.now());
        let logged = self.log.lines().split_off(start);
        let broken = watchers.iter_mut().map(|watcher| {
            watcher.run("MULTI");
            watcher.run("EXEC") == "(nil)"
        });
        let outcome = Outcome { reply, broken: broken.collect() };
        let replay_errors = self.replay();
        let replayed = data(self.copy.keyspace(), self.now() + AHEAD);
        let kept = data(engine.keyspace(), self.now() + AHEAD);
        for mut client in watchers.into_iter().chain([client]) {
            engine.disconnect(&mut client.session);
        }
        Ours { outcome, before, after, logged, kept, replayed, replay_errors }
    }

    /// Replays the log into the copy. Returns the commands that failed.
    fn replay(&self) -> Vec<String> {
        let mut replay = Client::of(&self.copy, self.copy.connect_replay());
        let mut errors = Vec::new();
        for request in requests(&self.log.bytes()) {
            let reply = describe(&parse(&replay.raw(&request)));
            if reply.starts_with("(error)") {
                let line = request.join(&b' ').escape_ascii().to_string();
                errors.push(format!("{reply} for {line}"));
            }
        }
        errors
    }
}

/// A clock that shows a later time than another.
struct Ahead(Arc<TestClock>);

impl Clock for Ahead {
    fn unix_ns(&self) -> u64 {
        self.0.unix_ns() + AHEAD * 1_000_000
    }
}

/// Replaces `^key` with the result of DUMP.
fn with_dumps(line: Vec<Vec<u8>>, call: &mut dyn FnMut(&[Vec<u8>]) -> Reply) -> Vec<Vec<u8>> {
    let fill = |word: Vec<u8>| match word.strip_prefix(b"^") {
        Some(key) => match call(&[b"DUMP".to_vec(), key.to_vec()]) {
            Reply::Bulk(_, Some(payload)) => payload,
            _ => b"nothing".to_vec(),
        },
        None => word,
    };
    line.into_iter().map(fill).collect()
}

/// Returns the violations of a case, one line each.
fn violations(case: &Case, ours: &Ours) -> Vec<String> {
    let mut wrong = Vec::new();
    let all = TOUCH_ALL.contains(&case.write.name);
    for ((db, key), &broken) in WATCHED.iter().zip(&ours.outcome.broken) {
        let place = (*db, case.name(key));
        let changed = ours.before.get(&place) != ours.after.get(&place);
        let is_untold = UNTOLD.contains(&case.write.name)
            && ours.before.contains_key(&place)
            && !ours.logged.iter().any(|line| line.starts_with("XDEL "));
        if changed && !broken && !is_untold {
            wrong.push(format!("{key} in database {db} changed, and its watch holds"));
        }
        let may_break = NOTIFIES_WATCHES.contains(&case.write.name) || case.expires && *key == "k";
        if broken && ours.logged.is_empty() && !may_break {
            wrong.push(format!("nothing was logged, and a watch of {key} in database {db} broke"));
        }
        if *key == "x" && (broken || changed) && !all {
            wrong.push("a key was touched that was not named".to_owned());
        }
    }
    if ours.logged.is_empty() && ours.before != ours.after {
        wrong.push("keys changed, and nothing was logged".to_owned());
    }
    let logged = ours.logged.join("; ");
    for what in data::differences(&ours.kept, &ours.replayed) {
        wrong.push(format!("the log gives another value: {what:.300}, by {logged:.200}"));
    }
    wrong.extend(ours.replay_errors.iter().map(|error| format!("the log's {error:.200}")));
    wrong
}

/// Returns the differences from redis-server.
fn differences(case: &Case, ours: &Ours, theirs: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    for (n, (db, key)) in WATCHED.iter().enumerate() {
        let (mine, other) = (ours.outcome.broken[n], theirs.broken[n]);
        if mine != other && !(mine && case.is_quirk()) {
            let described = |broken: bool| if broken { "breaks" } else { "holds" };
            wrong.push(format!(
                "a watch of {key} in database {db} {}, and {} in Redis",
                described(mine),
                described(other),
            ));
        }
    }
    let (mine, other) = (&ours.outcome.reply, &theirs.reply);
    let is_error = |reply: &String| reply.starts_with("(error)");
    if matches!(case.mode, Mode::Alone | Mode::Blocked(_))
        && mine != other
        && (is_error(mine) || is_error(other))
    {
        wrong.push(format!("the reply is {mine:.100}, and {other:.100} in Redis"));
    }
    wrong
}

/// Reports the violations first, then what led to them, with lines of readable length.
fn report(wrong: &[(String, String)]) {
    const SHOWN: usize = 12;
    let lines = wrong.iter().take(SHOWN).map(|(what, how)| format!("{what:.500}\n    {how:.600}"));
    let lines = lines.collect::<Vec<_>>().join("\n");
    assert!(wrong.is_empty(), "{} violations\n{lines}", wrong.len());
}

#[test]
fn every_command_that_writes_has_cases() {
    let engine = support::engine();
    let writes = engine.table().all().iter().filter(|command| command.spec.has(WRITE));
    let (mut names, listed): (BTreeSet<String>, BTreeSet<String>) = (
        writes.map(|command| command.full_name()).collect(),
        WRITES.iter().map(|write| write.name.to_owned()).collect(),
    );
    // Function libraries are not keys. MIGRATE needs another server: its effects are tested with
    // the server.
    names.remove("migrate");
    names.retain(|name| !listed.contains(name) && !name.starts_with("function|"));
    assert!(names.is_empty(), "no cases for {names:?}");
}

/// Runs cases here and in redis-server, and collects violations.
struct Runner {
    perdura: Perdura,
    redis: Option<Redis>,
    /// Commands that redis-server does not have.
    later: BTreeSet<String>,
    wrong: Vec<(String, String)>,
    count: usize,
}

impl Runner {
    fn new(server: Option<&testkit::Server>) -> Runner {
        let mut perdura = Perdura::new();
        perdura.clear();
        let shard = |key: &str| perdura.logged.keyspace().key(key.as_bytes()).shard();
        assert_ne!(shard("k"), shard("d"));
        let specs = perdura.logged.table().top().iter().map(|command| command.spec);
        let later = specs.filter(|spec| {
            spec.since.starts_with(['8', '9']) || ["7.2.0", "7.4.0"].contains(&spec.since)
        });
        let later = later.map(|spec| spec.name.to_owned()).collect();
        Runner { perdura, redis: server.map(Redis::of), later, wrong: Vec::new(), count: 0 }
    }

    fn run(&mut self, case: &Case) -> Ours {
        let ours = self.perdura.run(case);
        let mut found = violations(case, &ours);
        found.extend(self.perdura.clear());
        if let Some(redis) = self.redis.as_mut().filter(|_| case.is_known(&self.later)) {
            found.extend(differences(case, &ours, &redis.run(case)));
        }
        self.wrong.extend(found.into_iter().map(|what| (what, case.describe())));
        self.count += 1;
        ours
    }
}

#[test]
fn writes_break_the_watches_of_what_they_change_and_log_what_they_did() {
    let only = std::env::var("WRITE_EFFECTS").ok();
    let server = redis();
    let mut runner = Runner::new(server.as_ref());
    for write in WRITES.iter().filter(|write| only.as_ref().is_none_or(|only| only == write.name)) {
        let mut seen = BTreeSet::new();
        for case in cases(write) {
            let ours = runner.run(&case);
            if case.mode == Mode::Alone {
                seen.extend(ours.ways(&case));
            }
        }
        let seen: String = seen.into_iter().collect();
        if seen != write.ways {
            let what = format!("{} was seen to do {seen:?}, not {:?}", write.name, write.ways);
            runner.wrong.push((what, "see `Write::ways`".to_owned()));
        }
    }
    println!("{} cases", runner.count);
    report(&runner.wrong);
}

#[test]
fn so_do_those_that_waited_for_a_key() {
    let server = redis();
    let mut runner = Runner::new(server.as_ref());
    blocked_cases().iter().for_each(|case| drop(runner.run(case)));
    assert!(runner.count > 20, "{} cases", runner.count);
    report(&runner.wrong);
}
