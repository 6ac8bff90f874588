//! The measurements of a run.
//!
//! A request counts as an operation if its reply arrived and was not an error. Errors are counted
//! by their text, and are part of neither rates nor latencies.

use crate::histogram::Histogram;
use crate::results::Latency;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The maximum number of error texts that are counted separately: a server that puts a number into
/// each must not exhaust the memory.
const DIFFERENT_ERRORS: usize = 64;

/// The name under which further error texts are counted.
const OTHER_ERRORS: &str = "(other errors)";

/// Everything that one run measured, even if it broke off.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// Seconds from the first request to the last reply, or to the end of the requested time if
    /// that is later.
    pub seconds: f64,
    /// How the run ended.
    pub ended: Ended,
    /// All classes together.
    pub totals: Class,
    /// The classes of requests: `SET` and `GET`, or the names of the commands.
    pub classes: Vec<Class>,
    /// Replies that were errors, by their text.
    pub errors: BTreeMap<String, u64>,
    /// Waiting times of the requests that had no reply when the run ended.
    pub unanswered: Histogram,
    /// At a limited rate: requests that were due but not sent when the run ended.
    pub unsent: u64,
    /// The CPU time of this program itself.
    pub generator: Generator,
}

impl Outcome {
    /// Returns all classes of a kind combined.
    pub fn of_kind(&self, kind: Kind) -> Class {
        let mut whole = Class::new("", kind);
        self.classes.iter().filter(|class| class.kind == kind).for_each(|class| whole.add(class));
        whole.finish(self.seconds);
        whole
    }

    /// Returns the number of error replies.
    pub fn error_count(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Returns true if everything requested was measured: the run reached its end, and no reply was
    /// missing or an error.
    pub fn is_whole(&self) -> bool {
        self.ended == Ended::Done && self.errors.is_empty() && self.unanswered.count() == 0
    }
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// All requests were sent, or the time ran out.
    #[default]
    Done,
    /// It was cancelled.
    Cancelled,
    /// It failed for this reason.
    Failed(String),
}

/// How a request accesses the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// It changes data.
    Write,
    /// It reads data, and can hit or miss.
    Read,
    /// Neither.
    #[default]
    Other,
}

impl Kind {
    /// Returns the kind of a command. A command that sends a value counts as a write, and so does
    /// an unknown command.
    pub(crate) fn of(name: &str, sends_data: bool) -> Kind {
        const READERS: &str = "GET MGET GETRANGE STRLEN EXISTS TTL PTTL TYPE HGET HMGET HGETALL HLEN HKEYS HVALS HEXISTS \
            HSTRLEN HRANDFIELD LRANGE LLEN LINDEX LPOS SCARD SISMEMBER SMISMEMBER SMEMBERS SRANDMEMBER SINTER SUNION SDIFF \
            ZRANGE ZREVRANGE ZRANGEBYSCORE ZRANGEBYLEX ZSCORE ZMSCORE ZCARD ZCOUNT ZRANK ZREVRANK XRANGE XREVRANGE XLEN \
            XREAD GETBIT BITCOUNT BITPOS PFCOUNT DUMP OBJECT GEOPOS GEODIST GEOHASH GEOSEARCH";
        const NEITHER: &str =
            "PING ECHO TIME WAIT INFO COMMAND DBSIZE SCAN HSCAN SSCAN ZSCAN RANDOMKEY KEYS SELECT";
        let among = |list: &str| list.split(' ').any(|known| known == name);
        if !sends_data && among(READERS) {
            Kind::Read
        } else if !sends_data && among(NEITHER) {
            Kind::Other
        } else {
            Kind::Write
        }
    }
}

/// The measurements of one class of requests.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Class {
    /// The name of the class.
    pub name: String,
    /// How its requests access the data.
    pub kind: Kind,
    /// Replies that were not errors.
    pub operations: u64,
    /// Operations per second.
    pub per_second: f64,
    /// Keys that were found; counted for reads only.
    pub hits: u64,
    /// Keys that were missing; counted for reads only.
    pub misses: u64,
    /// Bytes of the requests.
    pub sent: u64,
    /// Bytes of the replies.
    pub received: u64,
    /// A summary of the latencies, in microseconds.
    pub latency: Latency,
    /// The distribution of all latencies.
    pub histogram: Histogram,
}

impl Class {
    pub(crate) fn new(name: &str, kind: Kind) -> Class {
        Class { name: name.into(), kind, ..Class::default() }
    }

    /// Counts the reply to a request for `keys` keys, of which `misses` were missing.
    pub(crate) fn count(&mut self, keys: u64, misses: u64, latency: Duration) {
        self.operations += 1;
        self.histogram.record(latency);
        if self.kind == Kind::Read {
            self.hits += keys - misses;
            self.misses += misses;
        }
    }

    /// Adds the measurements of another class or another thread of the same run.
    pub(crate) fn add(&mut self, other: &Class) {
        self.operations += other.operations;
        self.hits += other.hits;
        self.misses += other.misses;
        self.sent += other.sent;
        self.received += other.received;
        self.histogram.add(&other.histogram);
    }

    /// Computes the figures that follow from the counts.
    pub(crate) fn finish(&mut self, seconds: f64) {
        self.per_second = per_second(self.operations, seconds);
        self.latency = self.histogram.summary();
    }
}

/// Returns a rate; 0 if no time has passed.
pub(crate) fn per_second(number: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { number as f64 / seconds } else { 0.0 }
}

/// Adds to the count of an error text.
pub(crate) fn count_error(errors: &mut BTreeMap<String, u64>, text: &str, count: u64) {
    let known = errors.contains_key(text) || errors.len() < DIFFERENT_ERRORS;
    let text = if known { text } else { OTHER_ERRORS };
    *errors.entry(text.to_owned()).or_default() += count;
}

/// The resources that the load generator used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Generator {
    /// CPU time of its threads, in seconds.
    pub cpu_seconds: f64,
    /// CPU time for each operation, in microseconds.
    pub cpu_per_operation: f64,
    /// The share of time that the busiest thread ran, leaving out the time that it waited for a
    /// CPU.
    pub busiest: f64,
    /// Whether that is above 0.9. The figures then say more about the generator than about the
    /// server.
    pub saturated: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, kind: Kind, micros: &[u64]) -> Class {
        let mut class = Class::new(name, kind);
        micros.iter().for_each(|micros| class.count(1, 0, Duration::from_micros(*micros)));
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
    }

    #[test]
    fn errors_are_counted_by_text_up_to_a_number_of_texts() {
        let mut errors = BTreeMap::new();
        let texts = ["ERR a", "OOM b", "ERR a"].map(str::to_owned).into_iter();
        for text in texts.chain((0..1000).map(|number| format!("ERR number {number}"))) {
            count_error(&mut errors, &text, 1);
        }
        assert_eq!((errors["ERR a"], errors["OOM b"]), (2, 1));
        assert_eq!((errors.len(), errors.values().sum::<u64>()), (DIFFERENT_ERRORS + 1, 1003));
    }

    #[test]
    fn commands_have_their_kinds() {
        assert_eq!(Kind::of("GET", false), Kind::Read);
        assert_eq!(Kind::of("HSET", true), Kind::Write);
        assert_eq!(Kind::of("INCR", false), Kind::Write);
        assert_eq!(Kind::of("PING", false), Kind::Other);
    }
}
