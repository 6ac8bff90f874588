//! What one thread has measured so far.
//!
//! A latency goes into the histogram of the running second only. When the second is over, its
//! histogram is added to the whole and packed away, so that a reply costs one counter and a run of
//! hours little memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::outcome::{Class as Measured, Kind, Second};
use super::workload::Class;
use crate::histogram::Histogram;

/// Different error texts that are kept: a server that puts a number into each must not fill the
/// memory.
const DIFFERENT_ERRORS: usize = 64;

/// What further error texts are counted under.
const OTHER_ERRORS: &str = "(other errors)";

/// One reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replied {
    pub(crate) class: usize,
    /// How many keys were asked for, and how many of them were not there.
    pub(crate) keys: u64,
    pub(crate) misses: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) latency: Duration,
}

/// What one thread has measured so far.
#[derive(Debug)]
pub(crate) struct Record {
    began: Instant,
    /// The number of the running second.
    second: u64,
    classes: Vec<Running>,
    pub(crate) errors: BTreeMap<String, u64>,
    /// When the last reply came.
    pub(crate) last: Instant,
}

/// A class, with its running second.
#[derive(Debug)]
struct Running {
    whole: Measured,
    second: Second,
    latencies: Histogram,
}

impl Running {
    /// Ends the running second.
    fn roll(&mut self, seconds: u64) {
        let mut second = std::mem::take(&mut self.second);
        if second.operations > 0 {
            second.packed = self.latencies.pack();
            self.whole.histogram.add(&self.latencies);
            self.latencies.clear();
        }
        self.whole.operations += second.operations;
        self.whole.sent += second.sent;
        self.whole.received += second.received;
        self.whole.series.push(second);
        for _ in 1..seconds {
            self.whole.series.push(Second::default());
        }
    }
}

impl Record {
    pub(crate) fn new(classes: &[Class], began: Instant) -> Record {
        let running = |class: &Class| Running {
            whole: Measured::new(&class.name, class.kind),
            second: Second::default(),
            latencies: Histogram::new(),
        };
        let classes = classes.iter().map(running).collect();
        Record { began, second: 0, classes, errors: BTreeMap::new(), last: began }
    }

    /// Tells the time: all that is counted until the next call came then.
    pub(crate) fn at(&mut self, now: Instant) {
        self.last = now;
        let second = now.duration_since(self.began).as_secs();
        if second > self.second {
            let seconds = second - self.second;
            self.classes.iter_mut().for_each(|class| class.roll(seconds));
            self.second = second;
        }
    }

    /// Counts a reply.
    pub(crate) fn reply(&mut self, reply: &Replied) {
        let class = &mut self.classes[reply.class];
        class.second.operations += 1;
        class.second.sent += reply.sent;
        class.second.received += reply.received;
        class.latencies.record(reply.latency);
        if class.whole.kind == Kind::Read {
            class.whole.hits += reply.keys - reply.misses;
            class.whole.misses += reply.misses;
        }
    }

    /// Counts a reply that was an error.
    pub(crate) fn error(&mut self, text: &str) {
        if let Some(count) = self.errors.get_mut(text) {
            *count += 1;
            return;
        }
        let known = self.errors.len() < DIFFERENT_ERRORS;
        let text = if known { text } else { OTHER_ERRORS };
        *self.errors.entry(text.to_owned()).or_default() += 1;
    }

    /// Returns all classes, with the running second.
    pub(crate) fn finish(mut self) -> (Vec<Measured>, BTreeMap<String, u64>) {
        self.classes.iter_mut().for_each(|class| class.roll(1));
        (self.classes.into_iter().map(|class| class.whole).collect(), self.errors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(latency: Duration, misses: u64) -> Replied {
        Replied { class: 0, keys: 1, misses, sent: 10, received: 20, latency }
    }

    fn record() -> (Record, Instant) {
        let began = Instant::now();
        (Record::new(&[Class { name: "GET".into(), kind: Kind::Read }], began), began)
    }

    #[test]
    fn replies_fall_into_their_seconds() {
        let (mut record, began) = record();
        for (millis, misses) in [(100, 0), (999, 1), (1000, 0), (3500, 0)] {
            record.at(began + Duration::from_millis(millis));
            record.reply(&get(Duration::from_micros(millis), misses));
        }
        let (classes, _) = record.finish();
        let get = &classes[0];
        assert_eq!((get.operations, get.hits, get.misses), (4, 3, 1));
        assert_eq!((get.sent, get.received, get.histogram.count()), (40, 80, 4));
        let seconds: Vec<_> = get.series.iter().map(|second| second.operations).collect();
        assert_eq!(seconds, [2, 1, 0, 1]);
        assert_eq!(get.series[0].histogram().count(), 2);
        assert_eq!(get.series[3].histogram().percentile(50.0).round(), 3500.0);
    }

    #[test]
    fn errors_are_counted_by_text_and_are_no_operations() {
        let (mut record, _) = record();
        for text in ["ERR a", "OOM b", "ERR a"] {
            record.error(text);
        }
        for number in 0..1000 {
            record.error(&format!("ERR number {number}"));
        }
        let (classes, errors) = record.finish();
        assert_eq!(classes[0].operations, 0);
        assert_eq!((errors["ERR a"], errors["OOM b"]), (2, 1));
        assert_eq!(errors.len(), DIFFERENT_ERRORS + 1);
        assert_eq!(errors.values().sum::<u64>(), 1003);
    }
}
