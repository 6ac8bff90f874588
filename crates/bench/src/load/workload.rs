//! Turns the options into the requests that each connection sends.
//!
//! A [`Workload`] is built once from the options and defines the classes of requests, each of which
//! is counted separately. A [`Source`] is one connection's copy of it, with its own random
//! generator: it writes the next request.
//!
//! The core workloads of the Yahoo! Cloud Serving Benchmark, on keys with string values:
//!
//! | | mix | keys |
//! |---|---|---|
//! | A | 50 % read, 50 % update | scrambled Zipf |
//! | B | 95 % read, 5 % update | scrambled Zipf |
//! | C | read | scrambled Zipf |
//! | D | 95 % read, 5 % insert | the latest most often |
//! | E | 95 % scan, 5 % insert | scrambled Zipf, up to 100 keys from there |
//! | F | 50 % read, 50 % read, then write the same key | scrambled Zipf |
//!
//! The keys of a key-value store have no order to scan in. E reads keys with consecutive numbers
//! with one MGET, which costs the server more than the scan of a table would. D may read a key
//! whose insert is still in flight, and miss it. Values are single strings of `--data-size` bytes,
//! where YCSB has ten fields of 100 bytes.

use super::Error;
use super::keys::{Keys, Range};
use super::options::{Options, Pattern, Requests, Size};
use super::outcome::Kind;
use super::template::{Piece, Template, write_head, write_parts, write_word};
use clap::ValueEnum;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The number of requests of each connection if neither a number nor a time is given.
const REQUESTS: u64 = 10_000;

/// The exponent of the Zipf distribution that YCSB uses.
const EXPONENT: f64 = 0.99;

/// The maximum length of a scan, in keys.
const LONGEST_SCAN: u64 = 100;

/// The number of offsets in the random bytes at which a value can start.
const STRETCHES: usize = 8192;

/// A YCSB workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "their names say nothing; the file's table does")]
pub enum Ycsb {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// How many keys a request reads, and whether a write follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Many {
    /// One key, or the keys that the command names.
    One,
    /// Up to this many keys with consecutive numbers.
    Run(u64),
    /// One key, and a SET of the same key once its value has arrived.
    Twice,
}

/// A request that is sent repeatedly.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Requests with the same name are counted together.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    class: usize,
    keys: Keys,
    template: Template,
    many: Many,
}

/// The order of the requests, given by their indices.
#[derive(Clone, Debug)]
enum Mix {
    /// This many of each in a row, repeated, as memtier_benchmark does.
    Rows { lengths: Vec<u64>, at: usize, done: u64 },
    /// Drawn by weight. Each entry is the sum of the weights up to it.
    Drawn(Vec<u64>),
}

impl Mix {
    fn next(&mut self, random: &mut SmallRng) -> usize {
        match self {
            Mix::Rows { lengths, at, done } => {
                while *done >= lengths[*at] {
                    (*at, *done) = ((*at + 1) % lengths.len(), 0);
                }
                *done += 1;
                *at
            }
            Mix::Drawn(sums) => {
                let lot = random.random_range(0..sums.last().copied().unwrap_or(1));
                sums.iter().position(|sum| lot < *sum).unwrap_or(0)
            }
        }
    }
}

/// The requests that all connections send.
#[derive(Debug)]
pub(crate) struct Workload {
    /// The first request of each class.
    pub(crate) classes: Vec<Request>,
    requests: Vec<Request>,
    mix: Mix,
    range: Range,
    options: Options,
}

impl Workload {
    /// Returns the workload that the options describe.
    ///
    /// # Errors
    /// A command that cannot be sent.
    pub(crate) fn new(options: &Options) -> Result<Workload, Error> {
        let range = Range { low: options.key_minimum, high: options.key_maximum };
        let rows = |lengths| Mix::Rows { lengths, at: 0, done: 0 };
        let (mut requests, mix) = if let Some(ycsb) = options.ycsb {
            ycsb_requests(ycsb, range)?
        } else if options.commands.is_empty() {
            let keys = match options.key_pattern {
                Pattern::Random => Keys::Random(range),
                Pattern::Parallel => Keys::Sequence { range, next: range.low },
            };
            let set = request("SET __key__ __data__", keys.clone())?;
            let get = request("GET __key__", keys)?;
            (vec![set, get], rows(vec![options.ratio.0, options.ratio.1]))
        } else {
            let commands = options.commands.iter();
            let requests = commands.map(|text| request(text, Keys::Random(range)));
            (requests.collect::<Result<_, _>>()?, rows(vec![1; options.commands.len()]))
        };
        let mut classes: Vec<Request> = Vec::new();
        for request in &mut requests {
            let known = classes.iter().position(|known| known.name == request.name);
            request.class = known.unwrap_or(classes.len());
            if known.is_none() {
                classes.push(request.clone());
            }
        }
        Ok(Workload { classes, requests, mix, range, options: options.clone() })
    }

    /// Returns the source of one connection's requests.
    pub(crate) fn source(&self, connection: u64) -> Source {
        let seed = if self.options.distinct_client_seed { connection } else { 0 };
        let mut random = SmallRng::seed_from_u64(seed);
        let mut requests = self.requests.clone();
        for request in &mut requests {
            if let Keys::Sequence { range, next } = &mut request.keys {
                *range = self.part(connection);
                *next = range.low;
            }
        }
        let values = Values::new(&self.options, &mut random);
        let prefix = self.options.key_prefix.clone().into_bytes();
        Source { requests, mix: self.mix.clone(), values, random, prefix }
    }

    /// Returns how many requests a connection sends; `None` without a limit.
    pub(crate) fn requests_of(&self, connection: u64) -> Option<u64> {
        match (self.options.requests, self.options.test_time) {
            (None, Some(_)) => None,
            (None, None) => Some(REQUESTS),
            (Some(Requests::Each(number)), _) => Some(number),
            (Some(Requests::AllKeys), _) => Some(self.part(connection).len()),
        }
    }

    fn part(&self, connection: u64) -> Range {
        match self.options.key_pattern {
            Pattern::Parallel => self.range.part(connection, self.options.connections()),
            Pattern::Random => self.range,
        }
    }
}

fn request(text: &str, keys: Keys) -> Result<Request, Error> {
    let template = Template::parse(text)
        .map_err(|why| Error::Options(format!("--command {text:?}: {why}")))?;
    let name = template.name.clone();
    let kind = Kind::of(&name, template.sends_data());
    Ok(Request { name, kind, class: 0, keys, template, many: Many::One })
}

fn ycsb_requests(ycsb: Ycsb, range: Range) -> Result<(Vec<Request>, Mix), Error> {
    let inserted = Arc::new(AtomicU64::new(range.high.saturating_add(1)));
    let ranks = Zipf::new(range.len() as f64, EXPONENT)
        .map_err(|error| Error::Options(format!("--key-maximum: {error}")))?;
    let known = match ycsb {
        Ycsb::D => Keys::Latest { range, ranks, inserted: Arc::clone(&inserted) },
        _ => Keys::Scrambled { range, ranks },
    };
    let named =
        |name: &str, kind: Kind, request: Request| Request { name: name.into(), kind, ..request };
    let read = named("READ", Kind::Read, request("GET __key__", known.clone())?);
    let write = request("SET __key__ __data__", known.clone())?;
    let update = named("UPDATE", Kind::Write, write.clone());
    let insert = Request { keys: Keys::Insert { inserted }, ..named("INSERT", Kind::Write, write) };
    let mget = request("MGET", known)?;
    let scan = Request {
        template: mget.template.clone().with_keys(),
        many: Many::Run(LONGEST_SCAN),
        ..named("SCAN", Kind::Read, mget)
    };
    let modify = Request { many: Many::Twice, ..named("RMW", Kind::Write, read.clone()) };
    // Each sum is that of the percentages up to its request.
    let (requests, sums) = match ycsb {
        Ycsb::A => (vec![read, update], vec![50, 100]),
        Ycsb::B => (vec![read, update], vec![95, 100]),
        Ycsb::C => (vec![read], vec![100]),
        Ycsb::D => (vec![read, insert], vec![95, 100]),
        Ycsb::E => (vec![scan, insert], vec![95, 100]),
        Ycsb::F => (vec![read, modify], vec![50, 100]),
    };
    Ok((requests, Mix::Drawn(sums)))
}

/// Produces values as slices of one buffer, which holds random bytes or only `x`, so that any value
/// costs just a copy.
#[derive(Clone, Debug)]
struct Values {
    size: Size,
    bytes: Vec<u8>,
    stretches: usize,
}

impl Values {
    fn new(options: &Options, random: &mut SmallRng) -> Values {
        let size = options.data_size;
        if !options.random_data {
            return Values { size, bytes: vec![b'x'; size.high], stretches: 1 };
        }
        let mut bytes = vec![0; size.high + STRETCHES];
        random.fill(&mut bytes[..]);
        Values { size, bytes, stretches: STRETCHES }
    }

    fn next(&self, random: &mut SmallRng) -> &[u8] {
        let Size { low, high } = self.size;
        let size = if low == high { low } else { random.random_range(low..=high) };
        let from = if self.stretches > 1 { random.random_range(0..self.stretches) } else { 0 };
        &self.bytes[from..from + size]
    }
}

/// A request that has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// The class under which it is counted.
    pub(crate) class: usize,
    /// The number of keys that it requests.
    pub(crate) keys: u64,
    /// The key to write once its value has arrived.
    pub(crate) then_write: Option<u64>,
}

/// The source of one connection's requests.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    requests: Vec<Request>,
    mix: Mix,
    values: Values,
    random: SmallRng,
    prefix: Vec<u8>,
}

impl Source {
    /// Appends the next request.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Sent {
        let at = self.mix.next(&mut self.random);
        let Source { requests, values, random, prefix, .. } = self;
        let Request { template, keys: choice, class, many, .. } = &mut requests[at];
        let (keys, further) = match many {
            Many::Run(longest) => {
                let keys = random.random_range(1..=*longest);
                (keys, keys as usize)
            }
            Many::One | Many::Twice => (1, 0),
        };
        write_head(out, b'*', template.words + further);
        let mut last = 0;
        for piece in &template.pieces {
            match piece {
                Piece::Fixed(bytes) => out.extend_from_slice(bytes),
                Piece::Key { before, after } => {
                    last = choice.next(random);
                    write_key(out, [before, prefix], last, after);
                }
                Piece::Data => write_word(out, values.next(random)),
                Piece::Keys => {
                    let first = choice.next(random);
                    (first..first + keys).for_each(|key| write_key(out, [b"", prefix], key, b""));
                }
            }
        }
        Sent { class: *class, keys, then_write: (*many == Many::Twice).then_some(last) }
    }

    /// Appends the SET that follows the read of a key.
    pub(crate) fn write_back(&mut self, key: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
        write_key(out, [b"", &self.prefix], key, b"");
        write_word(out, self.values.next(&mut self.random));
    }
}

fn write_key(out: &mut Vec<u8>, before: [&[u8]; 2], key: u64, after: &[u8]) {
    write_parts(out, [before[0], before[1], itoa::Buffer::new().format(key).as_bytes(), after]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Ratio;
    use crate::load::replies::Replies;

    /// Returns the first `count` requests of a connection, each as its words.
    fn requests(options: &Options, connection: u64, count: u64) -> Vec<String> {
        let workload = Workload::new(options).expect("a workload");
        let mut source = workload.source(connection);
        (0..count).map(|_| written(&mut source)).collect()
    }

    /// Returns the words of the next request. A request is an array, so `Replies` can parse it.
    fn written(source: &mut Source) -> String {
        let (mut bytes, mut whole) = (Vec::new(), 0);
        source.write(&mut bytes);
        Replies::default().feed(&bytes, |_| whole += 1).expect("an array");
        assert_eq!(whole, 1);
        let text = String::from_utf8(bytes).expect("text");
        let words = text.split("\r\n").skip(2).step_by(2);
        words.collect::<Vec<_>>().join(" ").trim_end().to_owned()
    }

    fn parallel() -> Options {
        let (threads, clients, data_size) = (1, 2, Size::fixed(3));
        let key_pattern = Pattern::Parallel;
        Options { key_pattern, key_maximum: 5, threads, clients, data_size, ..Options::default() }
    }

    #[test]
    fn set_and_get_have_sequences_of_their_own_in_a_connections_part() {
        let options = Options { ratio: Ratio(1, 2), ..parallel() };
        let first = ["SET memtier-0 xxx", "GET memtier-0", "GET memtier-1", "SET memtier-1 xxx"];
        assert_eq!(requests(&options, 0, 4), first);
        let second = ["SET memtier-3 xxx", "GET memtier-3", "GET memtier-4", "SET memtier-4 xxx"];
        assert_eq!(requests(&options, 1, 7)[..4], second);
        assert_eq!(requests(&options, 1, 7)[6], "SET memtier-5 xxx", "and round again");
        let all = Options { requests: Some(Requests::AllKeys), ..options };
        assert_eq!(Workload::new(&all).expect("a workload").requests_of(1), Some(3));
    }

    #[test]
    fn commands_are_sent_in_turn() {
        let commands = ["HSET {__key__} field __data__", "HGET {__key__} field", "HGET o f"];
        let commands = commands.map(str::to_owned).to_vec();
        let options = Options { commands, key_minimum: 5, key_maximum: 5, ..parallel() };
        let set = "HSET {memtier-5} field xxx";
        let expected = [set, "HGET {memtier-5} field", "HGET o f", set];
        assert_eq!(requests(&options, 0, 4), expected);
        let classes = Workload::new(&options).expect("a workload").classes;
        let names: Vec<_> = classes.iter().map(|class| (class.name.as_str(), class.kind)).collect();
        assert_eq!(names, [("HSET", Kind::Write), ("HGET", Kind::Read)]);
    }

    #[test]
    fn connections_draw_the_same_unless_configured_otherwise() {
        let same = Options { random_data: true, ..Options::default() };
        let first = |options: &Options, connection| {
            let mut bytes = Vec::new();
            let mut source = Workload::new(options).expect("a workload").source(connection);
            (0..20).for_each(|_| _ = source.write(&mut bytes));
            bytes
        };
        assert_eq!(first(&same, 0), first(&same, 1));
        let distinct = Options { distinct_client_seed: true, ..same };
        assert_ne!(first(&distinct, 0), first(&distinct, 1));
        assert_eq!(first(&distinct, 1), first(&distinct, 1));
    }

    #[test]
    fn sizes_are_drawn_from_end_to_end() {
        let options = Options { data_size: Size { low: 5, high: 14 }, ..Options::default() };
        let mut random = SmallRng::seed_from_u64(3);
        let values = Values::new(&options, &mut random);
        let seen: std::collections::BTreeSet<_> =
            (0..1000).map(|_| values.next(&mut random).len()).collect();
        assert_eq!(seen, (5..=14).collect());
    }

    #[test]
    fn ycsb_has_its_mixes() {
        let check = |ycsb: Ycsb, expected: &[(&str, u32)]| {
            let options = Options { ycsb: Some(ycsb), key_maximum: 999, ..Options::default() };
            let workload = Workload::new(&options).expect("a workload");
            let mut source = workload.source(0);
            let mut counts = vec![0; workload.classes.len()];
            (0..20_000).for_each(|_| counts[source.write(&mut Vec::new()).class] += 1);
            assert_eq!(counts.len(), expected.len(), "{ycsb:?}");
            for ((class, count), (name, percent)) in
                workload.classes.iter().zip(counts).zip(expected)
            {
                let share = f64::from(count) / 200.0;
                assert_eq!(class.name, *name, "{ycsb:?}");
                assert!((share - f64::from(*percent)).abs() <= 1.0, "{ycsb:?} {name}: {share}");
            }
        };
        check(Ycsb::A, &[("READ", 50), ("UPDATE", 50)]);
        check(Ycsb::B, &[("READ", 95), ("UPDATE", 5)]);
        check(Ycsb::C, &[("READ", 100)]);
        check(Ycsb::D, &[("READ", 95), ("INSERT", 5)]);
        check(Ycsb::E, &[("SCAN", 95), ("INSERT", 5)]);
        check(Ycsb::F, &[("READ", 50), ("RMW", 50)]);
    }

    #[test]
    fn a_scan_reads_consecutive_keys() {
        let options = Options { ycsb: Some(Ycsb::E), key_maximum: 999, ..Options::default() };
        let mut longest = 0;
        for text in requests(&options, 0, 2000).iter().filter(|text| text.starts_with("MGET")) {
            let keys = text.split(' ').skip(1).map(|key| key["memtier-".len()..].parse::<u64>());
            let keys: Vec<u64> = keys.map(|key| key.expect("a number")).collect();
            assert!(keys.windows(2).all(|pair| pair[1] == pair[0] + 1), "{text}");
            longest = longest.max(keys.len());
        }
        assert_eq!(longest as u64, LONGEST_SCAN);
    }
}
