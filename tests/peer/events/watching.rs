//! Who listens, and how: channels of events and of messages, tracking, MONITOR, the slow log, and
//! who a connection is.

use super::Story;
use super::commands::{filled, of};
use super::history::ADMIN;
use crate::steps::{Words, with, words};
use fastrand::Rng;

/// How a connection listens to events.
pub(super) const LISTENING: &[&str] = &[
    "PSUBSCRIBE __key*__:*",
    "PSUBSCRIBE __key*__:*",
    "PSUBSCRIBE __keyspace@*",
    "PSUBSCRIBE __keyevent@0__:*",
    "SUBSCRIBE __keyevent@0__:del __keyspace@0__:s1 __keyevent@1__:set",
];
/// Nobody listens to events of its own changes: they come before its reply in Redis, and after it
/// here.
const CHANNELS: &[&str] = &[
    "SUBSCRIBE news.a",
    "SUBSCRIBE news.a news.b news.a",
    "SUBSCRIBE other",
    "PSUBSCRIBE news.*",
    "PSUBSCRIBE no* oth?r",
    "PSUBSCRIBE n[p]*",
    "SSUBSCRIBE news.a news.b",
    "SSUBSCRIBE other",
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
const TRACKING: &[&str] = &[
    "CLIENT TRACKING on",
    "CLIENT TRACKING on",
    "CLIENT TRACKING on",
    "CLIENT TRACKING off",
    "CLIENT TRACKING on NOLOOP",
    "CLIENT TRACKING on OPTIN",
    "CLIENT TRACKING on OPTOUT",
    "CLIENT TRACKING on OPTIN NOLOOP",
    "CLIENT TRACKING on BCAST",
    "CLIENT TRACKING on BCAST PREFIX s",
    "CLIENT TRACKING on BCAST PREFIX l PREFIX h",
    "CLIENT TRACKING on BCAST PREFIX s PREFIX s1",
    "CLIENT TRACKING on BCAST NOLOOP",
    "CLIENT TRACKING on BCAST PREFIX z NOLOOP",
    "CLIENT TRACKING on REDIRECT <id4>",
    "CLIENT TRACKING on REDIRECT <id3> BCAST",
    "CLIENT TRACKING on REDIRECT <id4> NOLOOP",
    "CLIENT TRACKING on REDIRECT 987654",
    "CLIENT TRACKING on REDIRECT <id1>",
    "CLIENT TRACKING on OPTIN OPTOUT",
    "CLIENT TRACKING on BCAST OPTIN",
    "CLIENT TRACKING on PREFIX s",
    "CLIENT TRACKING maybe",
    "CLIENT CACHING yes",
    "CLIENT CACHING no",
    "CLIENT CACHING yes",
    "CLIENT CACHING maybe",
    "CLIENT GETREDIR",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKINGINFO",
    "HELLO 2",
    "HELLO 3",
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

/// A value of `notify-keyspace-events`.
pub(super) fn event_classes(random: &mut Rng) -> String {
    let whole = ["KEA", "KEA", "EA", "KA", "KEAmn", "KEAn", "", "", "A", "KEm"];
    if random.bool() {
        return of(&whole, random).into();
    }
    let letters = "KEg$lshzxetdmnA".chars();
    letters.filter(|letter| random.u8(..3) > u8::from(!"KE".contains(*letter))).collect()
}

impl Story<'_> {
    pub(super) fn configure(&mut self) {
        let flags = event_classes(&mut self.random);
        if flags.contains('m') && !self.has_misses {
            return;
        }
        let set = with("CONFIG SET notify-keyspace-events", &[flags.as_bytes()]);
        self.add(ADMIN, set);
        // After `A`, redis-server 7.0 forgets to say `n`.
        if !(flags.contains('A') && flags.contains('n')) {
            self.history.admin("CONFIG GET notify-keyspace-events");
        }
    }

    pub(super) fn tracking(&mut self) {
        let by = self.anyone();
        let line = of(TRACKING, &mut self.random);
        if line.contains("<id4>") && self.monitoring > 0 {
            // Of a transaction, what monitors see comes before what it invalidated, and in Redis
            // after.
            return;
        }
        if line.contains("NOLOOP") && self.blocks {
            // In Redis the one whose write serves another is not told of what was taken.
            return;
        }
        self.has_no_loop |= line.contains("NOLOOP");
        self.line(by, line);
        if line.starts_with("CLIENT CACHING") || self.random.bool() {
            self.read(by);
        }
        if line.contains("REDIRECT") && self.random.bool() {
            self.line(4, "SUBSCRIBE __redis__:invalidate");
        }
        if self.random.u8(..4) == 0 {
            self.write(3 - by);
        }
    }

    pub(super) fn monitoring(&mut self) {
        let by = self.random.usize(3..5);
        self.line_of(by, &["MONITOR", "RESET", "MONITOR"]);
    }

    pub(super) fn channels(&mut self) {
        let by = self.random.usize(1..5);
        if self.random.bool() {
            self.line_of(by, CHANNELS);
            return;
        }
        let by = [ADMIN, by, 1][self.random.usize(..3)];
        let words = filled(MESSAGES, &[], &mut self.random);
        self.add(by, words);
    }

    pub(super) fn connection(&mut self, by: usize) {
        let line = of(CONNECTION, &mut self.random);
        self.line(by, line);
    }

    pub(super) fn slow_log(&mut self, by: usize) {
        if self.random.bool() {
            self.line_of(ADMIN, SLOW);
            return;
        }
        let long = long(&mut self.random);
        self.add(by, long);
    }
}

/// A command with about as many arguments as the slow log keeps, or with long ones.
fn long(random: &mut Rng) -> Words {
    if random.bool() {
        let mut all = words(of(&["EXISTS", "DEL", "MGET"], random));
        all.resize(random.usize(30..36), b"none".to_vec());
        return all;
    }
    let lengths = [127, 128, 129, 130, 200, 1000];
    let value = vec![b'v'; lengths[random.usize(..lengths.len())]];
    with(of(&["SET s1", "ECHO", "GET", "HSET h1 f"], random), &[&value])
}
