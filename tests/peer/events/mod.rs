//! The side effects of commands that other clients see: keyspace notifications, invalidations of
//! tracked keys, MONITOR, the slow log, messages of channels, counters of INFO.
//!
//! A case is a random history of a few connections ([`history`]) over a few keys of each type
//! ([`commands`]), with listeners switched on and off in its course ([`watching`], [`tracking`]).
//! After each step everything that each connection received is compared ([`talk`], [`same`]), with
//! the counters every few steps. Left out are random replies, and differences that
//! docs/compatibility.md lists.

mod commands;
mod composed;
mod history;
mod same;
mod talk;
mod tracking;
mod watching;

use crate::both::Both;
use crate::shrink;
use crate::steps::{Words, with, words};
use commands::{
    DATA, DATABASES, ELSEWHERE, EXPIRING, FAILING, LOOKS, MISTAKES, OF_NOTHING, OF_SEVERAL, READS,
    WRITES, filled, of, typed,
};
use fastrand::Rng;
use history::{Act, CONNECTIONS, History, Step};
use std::fmt::Write;
use std::time::{Duration, Instant};
use talk::Difference;

/// The commands that each history begins with.
const SETUP: &[&str] = &[
    "ACL DELUSER u v w x",
    "CONFIG SET maxmemory 0",
    "CONFIG SET busy-reply-threshold 5000",
    "CONFIG SET acl-pubsub-default resetchannels",
    "CONFIG SET slowlog-log-slower-than -1",
    "CONFIG SET slowlog-max-len 128",
    "CONFIG SET tracking-table-max-keys 1000000",
    "SLOWLOG RESET",
    "ACL LOG RESET",
    "DEBUG SET-ACTIVE-EXPIRE 0",
    "FUNCTION FLUSH",
    "SCRIPT FLUSH",
    "FLUSHALL",
    "ACL SETUSER u on >secret ~s* &news.* +@read +@write +@connection +@pubsub +@transaction -append",
];
const LIBRARY: &[u8] = b"#!lua name=f
redis.register_function('f', function(keys, args) return redis.call(unpack(args)) end)";

/// How often a history that differs is run, since it may depend on time.
const REPEATED: usize = 4;
/// The maximum time for shrinking a history.
const SHRINKING: Duration = Duration::from_secs(20);

/// Makes histories, and compares both servers with them.
pub(crate) struct Generator<'b> {
    both: &'b Both,
    /// The result of DUMP for a string.
    dump: Vec<u8>,
}

/// A feature that a history can be about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Focus {
    Tracking,
    Channels,
    SlowLog,
    Databases,
    Monitoring,
}

/// A history that is being made.
struct Story<'g> {
    history: History,
    random: Rng,
    dump: &'g [u8],
    /// True if keys may expire when they are looked at.
    expires: bool,
    /// True if missing keys send events.
    has_misses: bool,
    /// True if new keys send events.
    has_new: bool,
    /// True if some connection receives events.
    has_events: bool,
    /// True if some connection receives no invalidations of its own changes: in Redis it gets those
    /// of its scripts.
    has_no_loop: bool,
    /// The connections that have subscribed to channels.
    listens: [bool; CONNECTIONS],
    /// True if connections wait for elements.
    blocks: bool,
    /// True if the slow log is read.
    is_slow: bool,
    /// What half of the steps are about, if anything: features hide each other's mistakes if a
    /// history has a step or two for each.
    focus: Option<Focus>,
    /// How much of the history is about each of the other features.
    tracking: u8,
    monitoring: u8,
    channels: u8,
}

impl<'b> Generator<'b> {
    pub(crate) fn new(both: &'b Both) -> Generator<'b> {
        let mut peer = both.servers[1].client();
        peer.run("SET dumped 12");
        let dump = peer.run("DUMP dumped").bytes().expect("a payload").to_vec();
        Generator { both, dump }
    }

    /// Runs the history of a seed. Returns its number of steps, and the difference if there is one.
    pub(crate) fn run(&self, seed: u64) -> (usize, Option<String>) {
        let history = self.history(seed);
        let differs = (0..REPEATED).all(|_| talk::run(self.both, &history).is_some());
        (history.steps.len(), differs.then(|| self.shown(seed, history)))
    }

    /// Returns the smallest history that differs, as text.
    fn shown(&self, seed: u64, history: History) -> String {
        let with = |steps: &[Step]| History { steps: steps.to_vec(), ..history.clone() };
        let until = Instant::now() + SHRINKING;
        let differs =
            |steps: &[Step]| Instant::now() < until && talk::run(self.both, &with(steps)).is_some();
        let small = with(&shrink::smallest(history.steps.clone(), differs));
        let Some(Difference { at, connection, ours, theirs }) = talk::run(self.both, &small) else {
            return format!("something else than redis-server sent, at times (PEER_SEED={seed})");
        };
        let mut text = format!(
            "connection {connection} received something else than from redis-server after {}\n  \
             ours   {ours}\n  theirs {theirs}\n  after these steps (PEER_SEED={seed}):",
            small.steps[at]
        );
        for step in &small.steps[..=at] {
            let _ = write!(text, "\n    {step}");
        }
        text
    }

    fn history(&self, seed: u64) -> History {
        let mut random = Rng::with_seed(seed);
        let mut setup: Vec<Words> = SETUP.iter().map(|line| words(line)).collect();
        setup.push(with("FUNCTION LOAD", &[LIBRARY]));
        if random.u8(..8) > 0 {
            setup.extend(DATA.iter().map(|line| words(line)));
        }
        let may_expire = random.u8(..3) == 0;
        let flags = watching::event_classes(may_expire, &mut random);
        setup.push(with("CONFIG SET notify-keyspace-events", &[flags.as_bytes()]));
        let blocks = random.u8(..5) == 0;
        let focus = match random.u8(..9) {
            0 => Some(Focus::Tracking),
            1 => Some(Focus::Channels),
            2 if !blocks => Some(Focus::SlowLog),
            3 => Some(Focus::Databases),
            4 => Some(Focus::Monitoring),
            _ => None,
        };
        let is_slow = focus == Some(Focus::SlowLog) || random.u8(..if blocks { 2 } else { 5 }) == 0;
        let weight = |random: &mut Rng| [0, 0, 1, 4][random.usize(..4)];
        let tracking = weight(&mut random).max(u8::from(focus == Some(Focus::Tracking)));
        let mut story = Story {
            history: History { setup, steps: Vec::new() },
            dump: &self.dump,
            // If an expired key is read, Redis first sends that it expired, then that it is
            // missing; Perdura the other way round.
            expires: !flags.contains('m') && may_expire,
            has_misses: flags.contains('m'),
            has_new: flags.contains('n'),
            has_events: !flags.is_empty(),
            has_no_loop: false,
            listens: [false; CONNECTIONS],
            blocks,
            is_slow,
            focus,
            tracking,
            monitoring: weight(&mut random).max(u8::from(focus == Some(Focus::Monitoring))),
            channels: weight(&mut random),
            random,
        };
        story.begin();
        for _ in 0..story.random.usize(10..40) {
            story.step();
        }
        story.end();
        story.history
    }
}

impl Story<'_> {
    fn add(&mut self, connection: usize, words: Words) {
        // A transaction may have ended before it.
        let may_block =
            composed::BLOCKING.iter().any(|line| line.as_bytes().starts_with(&words[0]))
                && !words[0].starts_with(b"XREAD")
                || words.iter().any(|word| word == b"BLOCK");
        let act = if may_block { Act::MayBlock(words) } else { Act::Call(words) };
        self.history.steps.push(Step { connection, act });
    }

    fn line(&mut self, connection: usize, line: &str) {
        self.history.line(connection, line);
    }

    /// Adds one of these lines.
    fn line_of(&mut self, connection: usize, lines: &[&str]) {
        let line = of(lines, &mut self.random);
        self.line(connection, line);
    }

    /// Adds a command made from one of the templates.
    fn filled(&mut self, connection: usize, templates: &[&str]) {
        let words = filled(templates, self.dump, &mut self.random);
        self.add(connection, words);
    }

    /// Returns one of the active connections.
    fn anyone(&mut self) -> usize {
        self.random.usize(1..3)
    }

    /// Sets up the connections before the first step.
    fn begin(&mut self) {
        for connection in 1..CONNECTIONS {
            // A client that tracks keys gets its own invalidations only in RESP3.
            let is_new = self.random.u8(..4) < if self.tracking > 0 { 3 } else { 2 };
            if is_new {
                self.line(connection, "HELLO 3");
            }
        }
        if self.has_events {
            self.line_of(3, watching::LISTENING);
        }
        if self.tracking > 0 {
            // While any client tracks, the reads of those who have stopped are not forgotten.
            self.line(CONNECTIONS - 1, "CLIENT TRACKING on BCAST PREFIX nothing:");
        }
        for by in [1, 2, 5] {
            if self.tracking > 0 && self.random.u8(..3) > 0 {
                self.switch(by);
            }
        }
        if self.monitoring > 0 {
            self.line(4, "MONITOR");
        }
        if self.is_slow {
            let lengths: &[&str] =
                if self.blocks { &["128"] } else { &["128", "128", "3", "1", "0", "10", "11"] };
            let length = of(lengths, &mut self.random);
            self.history.admin(&format!("CONFIG SET slowlog-max-len {length}"));
            self.history.admin("CONFIG SET slowlog-log-slower-than 0");
        }
    }

    fn step(&mut self) {
        let by = self.anyone();
        let (tracking, monitoring, channels) = (self.tracking, self.monitoring, self.channels);
        // A second MONITOR has no reply to wait for, so its place in the slow log is undefined.
        let is_undefined = self.is_slow && self.focus == Some(Focus::Monitoring);
        match self.focus.filter(|_| !is_undefined && self.random.bool()) {
            None => {}
            Some(Focus::Tracking) => return self.tracking(),
            Some(Focus::Channels) => return self.channels(),
            Some(Focus::SlowLog) => return self.slow_log(by),
            Some(Focus::Databases) => return self.filled(by, ELSEWHERE),
            Some(Focus::Monitoring) => return self.monitoring(),
        }
        match self.random.u8(..12) {
            0..2 if tracking == 4 => return self.tracking(),
            2..5 if self.is_slow => return self.slow_log(by),
            5 if channels == 4 => return self.channels(),
            _ => {}
        }
        match self.random.u8(..100) {
            0..38 => self.write(by),
            38..50 => self.read(by),
            50..53 => self.filled(by, DATABASES),
            53..58 => {
                let words = self.any_mistake();
                self.add(by, words);
            }
            58..63 => self.transaction(by),
            63..69 => self.script(by),
            69..73 => self.ask(),
            73..76 => self.connection(by),
            76..78 => self.configure(),
            78 if !self.blocks => self.evict(by),
            78..82 if self.blocks => self.block(),
            82..86 if self.expires => self.expire(by),
            86..90 if self.is_slow => self.slow_log(by),
            90..93 if channels > 0 => self.channels(),
            93..96 if tracking > 0 => self.tracking(),
            96..97 if monitoring > 0 => self.monitoring(),
            _ if channels == 4 && self.random.bool() => self.channels(),
            _ if tracking == 4 && self.random.bool() => self.tracking(),
            _ if self.is_slow => self.slow_log(by),
            _ => self.write(by),
        }
    }

    /// Returns a command that writes, sometimes with an empty result.
    fn any_write(&mut self) -> Words {
        let of_nothing = self.random.u8(..12) == 0;
        self.any_of(if of_nothing { OF_NOTHING } else { WRITES })
    }

    fn any_read(&mut self) -> Words {
        self.any_of(READS)
    }

    fn any_of(&mut self, templates: &[&str]) -> Words {
        let words = typed(templates, self.dump, !self.has_misses, &mut self.random);
        self.unless_failing(words)
    }

    /// Returns a malformed command.
    fn any_mistake(&mut self) -> Words {
        let words = filled(MISTAKES, self.dump, &mut self.random);
        self.unless_failing(words)
    }

    fn unless_failing(&mut self, words: Words) -> Words {
        let name = String::from_utf8_lossy(&words[0]).into_owned();
        let is_left_out = self.has_misses && FAILING.contains(&&*name)
            || self.has_new && OF_SEVERAL.contains(&&*name);
        match is_left_out {
            true => filled(&["GET $s"], &[], &mut self.random),
            false => words,
        }
    }

    fn write(&mut self, by: usize) {
        let words = self.any_write();
        self.add(by, words);
    }

    fn read(&mut self, by: usize) {
        let by = if self.tracking > 0 && self.random.u8(..3) == 0 { 5 } else { by };
        let words = self.any_read();
        self.add(by, words);
    }

    /// Lets a key expire, and looks at it, alone or in a transaction.
    fn expire(&mut self, by: usize) {
        let made = filled(EXPIRING, self.dump, &mut self.random);
        let key = made[1].clone();
        let mut look = words(of(LOOKS, &mut self.random));
        look.insert(1, key);
        if self.tracking > 0 {
            return self.expire_for_trackers(made, look);
        }
        self.history.steps.push(Step { connection: by, act: Act::Expiring(made) });
        let by = self.anyone();
        match self.random.u8(..4) {
            0 => {
                self.line(by, "MULTI");
                self.write(by);
                self.add(by, look);
                self.line(by, "EXEC");
            }
            _ => self.add(by, look),
        }
    }

    /// Makes the administrator ask for facts that depend on the history.
    fn ask(&mut self) {
        let line = of(
            &[
                "INFO everything",
                "INFO everything",
                "CLIENT LIST",
                "CLIENT LIST",
                "INFO commandstats",
                "INFO errorstats",
                "PUBSUB NUMPAT",
                "DBSIZE",
                "CONFIG RESETSTAT",
            ],
            &mut self.random,
        );
        self.history.admin(line);
    }

    fn end(&mut self) {
        if self.is_slow {
            self.history.admin("SLOWLOG LEN");
            if !self.blocks {
                self.history.admin("SLOWLOG GET");
            }
            self.history.admin("SLOWLOG GET -1");
        }
        self.history.admin("CLIENT LIST");
        self.history.admin("INFO everything");
        self.history.admin("INFO keyspace");
        for connection in 1..CONNECTIONS {
            self.line(connection, "PING");
        }
    }
}
