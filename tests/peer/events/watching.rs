//! Listeners: channels of events and of messages, tracking, MONITOR, the slow log, and the identity
//! of a connection.

use super::Story;
use super::commands::{filled, of};
use super::history::ADMIN;
use crate::steps::{Words, with, words};
use fastrand::Rng;

/// Commands that subscribe to keyspace events.
pub(super) const LISTENING: &[&str] = &[
    "PSUBSCRIBE __key*__:*",
    "PSUBSCRIBE __key*__:*",
    "PSUBSCRIBE __keyspace@*",
    "PSUBSCRIBE __keyevent@0__:*",
    "SUBSCRIBE __keyevent@0__:del __keyspace@0__:s1 __keyevent@1__:set",
];
/// No connection listens to events of its own changes: they come before its reply in Redis, and
/// after it here.
const CHANNELS: &[&str] = &[
    "SUBSCRIBE news.a",
    "SUBSCRIBE news.a news.b news.a",
    "SUBSCRIBE other",
    "PSUBSCRIBE news.*",
    "PSUBSCRIBE no* oth?r",
    "PSUBSCRIBE n[p]*",
    "SSUBSCRIBE news.a news.b",
    "SSUBSCRIBE other",
    "SSUBSCRIBE news.b other news.a",
    "UNSUBSCRIBE",
    "UNSUBSCRIBE news.a",
    "UNSUBSCRIBE nothing news.b",
    "PUNSUBSCRIBE",
    "PUNSUBSCRIBE news.*",
    "PUNSUBSCRIBE nothing",
    "SUNSUBSCRIBE",
    "SUNSUBSCRIBE news.a",
    "RESET",
    "PING",
    "PING hello",
    "HELLO 2",
    "HELLO 3",
];
const MESSAGES: &[&str] = &[
    "PUBLISH news.a $v",
    "PUBLISH news.b $v",
    "PUBLISH other $v",
    "SPUBLISH news.a $v",
    "SPUBLISH other $v",
    "PUBLISH nothing $v",
    "PUBSUB CHANNELS",
    "PUBSUB CHANNELS news.*",
    "PUBSUB NUMSUB",
    "PUBSUB NUMSUB news.a nothing other news.a",
    "PUBSUB NUMPAT",
    "PUBSUB SHARDCHANNELS",
    "PUBSUB SHARDCHANNELS o*",
    "PUBSUB SHARDNUMSUB news.a other",
];
const CONNECTION: &[&str] = &[
    "CLIENT SETNAME one",
    "CLIENT SETNAME two",
    "CLIENT GETNAME",
    "CLIENT INFO",
    "CLIENT LIST",
    "AUTH u secret",
    "AUTH default x",
    "AUTH u wrong",
    "AUTH secret",
    "HELLO 3 AUTH u secret",
    "HELLO 2",
    "HELLO 3",
    "HELLO 3 SETNAME three",
    "HELLO",
    "RESET",
    "CLIENT KILL ID <id3>",
    "CLIENT KILL ID <id4>",
    "CLIENT NO-EVICT on",
    "CLIENT NO-EVICT off",
    "ACL WHOAMI",
    "ACL SETUSER v >pass",
    "SELECT 1",
    "QUIT",
    "ACL DELUSER v",
    "CLIENT TRACKINGINFO",
    "CONFIG SET maxmemory 0",
    "ACL CAT x",
    "ACL GETUSER v",
    "CONFIG GET maxmemory",
    "SLOWLOG LEN",
    "SCRIPT EXISTS a",
    "FUNCTION LIST",
    "DEBUG SET-ACTIVE-EXPIRE 0",
    "CLIENT SETNAME \"a",
    "MIGRATE localhost 1 none 0 1 AUTH pass",
    "MIGRATE localhost 1 none 0 1 AUTH2 me pass KEYS none",
    "LATENCY RESET",
];
/// Commands with secret words, at each possible position.
const SECRETS: &[&str] = &[
    "AUTH default x",
    "AUTH x",
    "AUTH u secret",
    "AUTH u wrong",
    "HELLO 3 AUTH u secret",
    "HELLO 2 AUTH u wrong SETNAME x",
    "HELLO 3 SETNAME x AUTH default x",
    "HELLO 3 SETNAME x",
    "ACL SETUSER v on >pass ~* +get",
    "ACL SETUSER v",
    "ACL GETUSER v",
    "ACL DELUSER v w",
    "CONFIG SET masterauth x",
    "CONFIG SET masterauth x maxmemory 0",
    "CONFIG SET maxmemory 0 masterauth x",
    "CONFIG SET MASTERAUTH x maxmemory 0 masteruser y",
    "CONFIG SET maxmemory 0 timeout 0",
    "CONFIG SET maxmemory 0 masterauth",
    "CONFIG GET masterauth",
    "MIGRATE localhost 1 none 0 1 AUTH pass",
    "MIGRATE localhost 1 none 0 1 AUTH2 me pass KEYS none",
    "MIGRATE localhost 1 none 0 1 COPY AUTH2 me pass REPLACE",
    "MIGRATE localhost 1 none 0 1 REPLACE AUTH pass COPY",
    "MIGRATE localhost 1 auth 0 1 COPY",
    "CLIENT SETNAME one",
    "CLIENT SETNAME two",
];
const SLOW: &[&str] = &[
    "SLOWLOG GET",
    "SLOWLOG GET 1",
    "SLOWLOG GET 0",
    "SLOWLOG GET -1",
    "SLOWLOG GET 2",
    "SLOWLOG GET 1000",
    "SLOWLOG LEN",
    "SLOWLOG RESET",
    "SLOWLOG GET -2",
    "SLOWLOG GET 10",
    "SLOWLOG GET 11",
    "CONFIG SET slowlog-max-len 2",
    "CONFIG SET slowlog-max-len 0",
    "CONFIG SET slowlog-max-len 100",
    "CONFIG SET slowlog-log-slower-than -1",
    "CONFIG SET slowlog-log-slower-than 0",
];

/// A value of `notify-keyspace-events`. If keys expire, it usually has that class, and lacks the
/// one of deletions, or the other way round.
pub(super) fn event_classes(expires: bool, random: &mut Rng) -> String {
    if expires && random.u8(..3) > 0 {
        return of(&["KEx", "Ex", "Kx$", "KEg", "Eg$", "KEgx", "Kg$lshzt", "Ex$lshzt"], random)
            .into();
    }
    let whole = ["KEA", "KEA", "EA", "KA", "KEAmn", "KEAn", "", "", "A", "KEm"];
    match random.u8(..8) {
        0..4 => return of(&whole, random).into(),
        4..6 => {
            // One class alone, or two.
            let class = |random: &mut Rng| of(&["g", "$", "l", "s", "h", "z", "x", "t"], random);
            let second = if random.bool() { class(random) } else { "" };
            return [of(&["KE", "K", "E"], random), class(random), second].concat();
        }
        _ => {}
    }
    let letters = "KEg$lshzxetdmnA".chars();
    letters.filter(|letter| random.u8(..3) > u8::from(!"KE".contains(*letter))).collect()
}

impl Story<'_> {
    pub(super) fn configure(&mut self) {
        let flags = event_classes(self.expires, &mut self.random);
        let has_more =
            flags.contains('m') && !self.has_misses || flags.contains('n') && !self.has_new;
        if has_more || !self.has_events && !flags.is_empty() {
            return;
        }
        let set = with("CONFIG SET notify-keyspace-events", &[flags.as_bytes()]);
        self.add(ADMIN, set);
        // After `A`, redis-server 7.0 omits `n`.
        if !(flags.contains('A') && flags.contains('n')) {
            self.history.admin("CONFIG GET notify-keyspace-events");
        }
    }

    pub(super) fn monitoring(&mut self) {
        // Invalidations may be redirected to the other one.
        let by = if self.tracking > 0 { 4 } else { self.random.usize(3..5) };
        self.line_of(by, &["MONITOR", "RESET", "MONITOR"]);
    }

    pub(super) fn channels(&mut self) {
        let by = self.random.usize(1..5);
        if self.random.bool() {
            self.line_of(by, CHANNELS);
            self.listens[by] = true;
            if self.random.bool() {
                return;
            }
            // Others subscribe to the same channel, by its name or by a pattern.
            let by = self.random.usize(3..5);
            self.line_of(by, &["PSUBSCRIBE news.*", "PSUBSCRIBE news.*", "SUBSCRIBE news.a other"]);
            self.listens[by] = true;
        }
        let by = [ADMIN, by, 1][self.random.usize(..3)];
        // The administrator is asked between the steps. A subscriber that publishes in a
        // transaction gets its own message after the reply here, and before it in Redis, and a
        // client that monitors one gets its lines within the array of the reply there.
        let is_watched = self.listens[by] || self.monitoring > 0;
        let is_queued = by != ADMIN && !is_watched && self.random.u8(..3) == 0;
        if is_queued {
            self.line(by, "MULTI");
        }
        for _ in 0..self.random.usize(1..4) {
            let words = filled(MESSAGES, &[], &mut self.random);
            self.add(by, words);
        }
        if is_queued {
            self.line(by, "EXEC");
        }
    }

    pub(super) fn connection(&mut self, by: usize) {
        let line = of(CONNECTION, &mut self.random);
        let words = with_case(words(line), &mut self.random);
        self.history.add(by, words);
    }

    pub(super) fn slow_log(&mut self, by: usize) {
        match self.random.u8(..4) {
            // If two end at the same time, the order of their entries is undefined.
            0 | 1 if self.blocks => self.line_of(ADMIN, &["SLOWLOG GET -1", "SLOWLOG LEN"]),
            0 | 1 => self.line_of(ADMIN, SLOW),
            2 => {
                let long = long(&mut self.random);
                self.add(by, long);
            }
            _ => {
                let line = of(SECRETS, &mut self.random);
                let by =
                    if line.starts_with(['C', 'c']) || line.contains("SETUSER") { 0 } else { by };
                let words = with_case(words(line), &mut self.random);
                self.add(by, words);
            }
        }
    }
}

/// A command with about as many or as long arguments as the slow log keeps.
fn long(random: &mut Rng) -> Words {
    if random.bool() {
        let mut all = words(of(&["EXISTS", "DEL", "MGET"], random));
        let many = [2, 31, 32, 33, 32, 33, 34, 65];
        all.resize(many[random.usize(..many.len())], b"none".to_vec());
        return all;
    }
    let lengths = [126, 127, 128, 129, 130, 255, 256, 257, 1000];
    let value = vec![b'v'; lengths[random.usize(..lengths.len())]];
    with(of(&["SET s1", "ECHO", "GET", "HSET h1 f", "CLIENT SETNAME"], random), &[&value])
}

/// The same words, some of them in other case, since options may have any case.
pub(super) fn with_case(words: Words, random: &mut Rng) -> Words {
    let change = |word: Vec<u8>| match random.u8(..6) {
        // Names and passwords must not change.
        _ if word.iter().any(u8::is_ascii_lowercase) || word.starts_with(b"<") => word,
        0 => word.to_ascii_lowercase(),
        1 => {
            let letter = |(at, byte): (usize, &u8)| match at % 2 {
                0 => *byte,
                _ => byte.to_ascii_lowercase(),
            };
            word.iter().enumerate().map(letter).collect()
        }
        _ => word,
    };
    words.into_iter().map(change).collect()
}
