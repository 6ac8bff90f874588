//! What a run measured.
//!
//! A request counts as an operation when its reply came and was no error. Errors are counted by
//! their text and appear nowhere else, neither in rates nor in latencies.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, Latency};

/// Everything that one run measured, also one that broke off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Seconds from the first request to the last reply, or to the end of the time that was asked
    /// for.
    pub seconds: f64,
    /// When it began, in seconds since 1970.
    pub began: f64,
    /// How it ended.
    pub ended: Ended,
    /// All classes together.
    pub totals: Class,
    /// Each kind of request: `SET`, `GET`, or the names of commands.
    pub classes: Vec<Class>,
    /// Replies that were errors, by their text.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were sent and had no reply when the run ended.
    pub unanswered: u64,
    /// With a limited rate: requests that were due and had not been sent when the run ended.
    pub unsent: u64,
    /// What this program itself used up.
    pub generator: Generator,
}

impl Outcome {
    /// Returns all classes of a kind together, under the kind's name.
    pub fn of_kind(&self, kind: Kind) -> Class {
        let mut whole = Class::new(kind.name(), kind);
        for class in self.classes.iter().filter(|class| class.kind == kind) {
            whole.add(class);
        }
        whole.finish(self.seconds);
        whole
    }

    /// Returns how many replies were errors.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns true if all was measured that was asked for: the run came to its end, and no reply
    /// was an error or missing.
    pub fn is_whole(&self) -> bool {
        self.ended == Ended::Done && self.errors.is_empty() && self.unanswered == 0
    }
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All requests were sent, or the time was over.
    #[default]
    Done,
    /// It was told to end.
    Cancelled,
    /// Something failed: what.
    Failed(String),
}

/// What a kind of request does to the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It changes data.
    Write,
    /// It reads data: it can hit or miss.
    Read,
    /// Neither, or not known.
    #[default]
    Other,
}

impl Kind {
    /// Returns its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Write => "Writes",
            Kind::Read => "Reads",
            Kind::Other => "Others",
        }
    }

    /// Returns the kind of a command. What sends a value writes it; what is not known as a reader
    /// is taken for a writer.
    pub(crate) fn of(name: &str, sends_data: bool) -> Kind {
        const READERS: &str = "GET MGET GETRANGE STRLEN EXISTS TTL PTTL TYPE HGET HMGET HGETALL HLEN HKEYS HVALS HEXISTS \
            HSTRLEN HRANDFIELD LRANGE LLEN LINDEX LPOS SCARD SISMEMBER SMISMEMBER SMEMBERS SRANDMEMBER SINTER SUNION SDIFF \
            ZRANGE ZREVRANGE ZRANGEBYSCORE ZRANGEBYLEX ZSCORE ZMSCORE ZCARD ZCOUNT ZRANK ZREVRANK XRANGE XREVRANGE XLEN \
            XREAD GETBIT BITCOUNT BITPOS PFCOUNT DUMP OBJECT GEOPOS GEODIST GEOHASH GEOSEARCH";
        const NEITHER: &str =
            "PING ECHO TIME WAIT INFO COMMAND DBSIZE SCAN HSCAN SSCAN ZSCAN RANDOMKEY KEYS SELECT";
        let among = |list: &str| list.split(' ').any(|known| known == name);
        if sends_data {
            Kind::Write
        } else if among(READERS) {
            Kind::Read
        } else if among(NEITHER) {
            Kind::Other
        } else {
            Kind::Write
        }
    }
}

/// What was measured of one class of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// What it does to the data.
    pub kind: Kind,
    /// Replies that were no errors.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Keys that were found, of classes that read.
    pub hits: u64,
    /// Keys that were not there, of classes that read.
    pub misses: u64,
    /// Bytes of requests.
    pub sent: u64,
    /// Bytes of replies.
    pub received: u64,
    /// Latencies in microseconds.
    pub latency: Latency,
    /// Latencies, all of them.
    pub histogram: Histogram,
    /// Each second of the run.
    pub series: Vec<Second>,
}

impl Class {
    pub(crate) fn new(name: &str, kind: Kind) -> Class {
        Class { name: name.into(), kind, ..Class::default() }
    }

    /// Adds what another class, or another thread, measured in the same run.
    pub(crate) fn add(&mut self, other: &Class) {
        self.operations += other.operations;
        self.hits += other.hits;
        self.misses += other.misses;
        self.sent += other.sent;
        self.received += other.received;
        self.histogram.add(&other.histogram);
        for (at, second) in other.series.iter().enumerate() {
            if self.series.len() == at {
                self.series.push(Second::default());
            }
            self.series[at].add(second);
        }
    }

    /// Makes the figures that follow from the counts.
    pub(crate) fn finish(&mut self, seconds: f64) {
        self.per_second = per_second(self.operations, seconds);
        self.latency = self.histogram.summary();
        for second in &mut self.series {
            second.latency = second.histogram().summary();
        }
    }

    /// Thousands of bytes per second, both ways, as memtier_benchmark counts them: 1024 bytes each.
    pub fn kib_per_second(&self, seconds: f64) -> f64 {
        if seconds > 0.0 { (self.sent + self.received) as f64 / 1024.0 / seconds } else { 0.0 }
    }
}

/// Returns a rate; none where no time passed, since then nothing was answered.
pub(crate) fn per_second(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { number as f64 / seconds } else { 0.0 }
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Replies that were no errors.
    pub operations: u64,
    /// Bytes of requests whose reply came.
    pub sent: u64,
    /// Bytes of replies.
    pub received: u64,
    /// Latencies in microseconds.
    pub latency: Latency,
    /// Latencies, packed, since there may be many seconds. Not in JSON.
    #[serde(skip)]
    pub(crate) packed: Vec<u8>,
}

impl Second {
    /// Returns all latencies. Empty after a way through JSON.
    pub fn histogram(&self) -> Histogram {
        Histogram::unpack(&self.packed)
    }

    fn add(&mut self, other: &Second) {
        self.operations += other.operations;
        self.sent += other.sent;
        self.received += other.received;
        if self.packed.is_empty() {
            self.packed.clone_from(&other.packed);
        } else if !other.packed.is_empty() {
            let mut whole = self.histogram();
            whole.add(&other.histogram());
            self.packed = whole.pack();
        }
    }
}

/// What the generator of load used up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time of its threads, in seconds.
    pub cpu_seconds: f64,
    /// CPU time for each operation, in microseconds.
    pub cpu_per_operation: f64,
    /// Of the thread that had least to spare: the part of the time in which it could have run that
    /// it did run. Time in which the thread had to wait for a CPU does not count as time in which
    /// it could have run.
    pub busiest: f64,
    /// Whether that is above nine tenths: then the figures say more about the generator than about
    /// the server.
    pub saturated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn class(name: &str, kind: Kind, micros: &[u64]) -> Class {
        let mut class = Class::new(name, kind);
        for micros in micros {
            class.operations += 1;
            class.histogram.record(Duration::from_micros(*micros));
        }
        let packed = class.histogram.pack();
        let operations = class.operations;
        class.series.push(Second { operations, packed, ..Second::default() });
        class
    }

    #[test]
    fn classes_of_a_kind_add_up() {
        let outcome = Outcome {
            seconds: 2.0,
            classes: vec![
                class("HSET", Kind::Write, &[10, 20]),
                class("GET", Kind::Read, &[1000]),
                class("SET", Kind::Write, &[30, 40]),
            ],
            ..Outcome::default()
        };
        let writes = outcome.of_kind(Kind::Write);
        assert_eq!((writes.operations, writes.per_second), (4, 2.0));
        assert!((writes.latency.mean - 25.0).abs() < 0.1, "{:?}", writes.latency);
        assert!((writes.latency.max - 40.0).abs() < 0.1, "{:?}", writes.latency);
        assert_eq!((writes.series.len(), writes.series[0].operations), (1, 4));
        assert_eq!(writes.series[0].histogram().count(), 4);
    }

    #[test]
    fn an_outcome_comes_back_from_json() {
        let mut get = class("GET", Kind::Read, &[50, 60, 70]);
        get.finish(1.0);
        let outcome = Outcome {
            seconds: 1.0,
            ended: Ended::Failed("the server went away".into()),
            classes: vec![get],
            errors: BTreeMap::from([("ERR no".into(), 3)]),
            ..Outcome::default()
        };
        assert!(!outcome.is_whole());
        let text = serde_json::to_string(&outcome).expect("JSON");
        let back: Outcome = serde_json::from_str(&text).expect("an outcome");
        assert_eq!(back.classes[0].latency, outcome.classes[0].latency);
        assert_eq!(back.classes[0].histogram.summary(), outcome.classes[0].histogram.summary());
        assert_eq!((back.ended, back.errors), (outcome.ended, outcome.errors));
    }

    #[test]
    fn commands_have_their_kinds() {
        assert_eq!(Kind::of("GET", false), Kind::Read);
        assert_eq!(Kind::of("HSET", true), Kind::Write);
        assert_eq!(Kind::of("INCR", false), Kind::Write);
        assert_eq!(Kind::of("PING", false), Kind::Other);
    }
}
