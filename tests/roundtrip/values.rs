//! The commands that make a set of data: a key for each shape, and related data.
//!
//! Names, contents, databases and expiry times are derived from a counter and a seed, so that no
//! two keys share them and none has a default.

use fastrand::Rng;

use crate::edges;
use crate::shapes::{Dimension, Shape, What};
use crate::streams;

/// A command, and the database in which it is sent.
pub(crate) type Request = (usize, Vec<Vec<u8>>);

/// The usage of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Seconds.
    Idle(u64),
    Frequency(u64),
}

/// A set of data.
pub(crate) struct Data {
    /// The commands that make it.
    pub(crate) requests: Vec<Request>,
    /// Commands that are sent some milliseconds later: each changes one of two times that were
    /// equal.
    pub(crate) later: Vec<Request>,
    /// Keys whose usage is set.
    pub(crate) usage: Vec<(usize, Vec<u8>, Usage)>,
    /// True if it has data that Redis 7.0 does not know.
    pub(crate) is_newer: bool,
}

/// Makes a set of data.
pub(crate) struct Maker {
    pub(crate) random: Rng,
    pub(crate) data: Data,
    counter: usize,
    now: u64,
    is_lfu: bool,
}

/// Databases for keys.
const DATABASES: [usize; 5] = [0, 3, 0, 15, 9];
/// Databases of which only the number of keys matters.
const FREE: [usize; 12] = [1, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14];
/// The number of elements from which a collection is saved in parts.
const STEP: usize = commands::chunks::COLLECTED_ELEMENTS;
/// The number of keys whose usage is set.
const USED: usize = 24;
/// Milliseconds after which the first key expires.
const SOON: u64 = 100_000_000;

pub(crate) fn words<const N: usize>(all: [&[u8]; N]) -> Vec<Vec<u8>> {
    all.map(<[u8]>::to_vec).into()
}

impl Maker {
    pub(crate) fn new(seed: u64, now: u64, is_lfu: bool) -> Maker {
        let data =
            Data { requests: Vec::new(), later: Vec::new(), usage: Vec::new(), is_newer: false };
        Maker { random: Rng::with_seed(seed), data, counter: 0, now, is_lfu }
    }

    /// Makes the keys of the shapes, and some that are always made.
    pub(crate) fn make(mut self, shapes: &[Shape]) -> Data {
        shapes.iter().for_each(|shape| self.shape(*shape));
        self.numbers();
        self.small();
        edges::make(&mut self);
        edges::namesakes(&mut self);
        if self.data.is_newer {
            edges::timed(&mut self);
        }
        streams::special(&mut self);
        streams::odd(&mut self);
        self.libraries();
        self.data
    }

    /// Makes values that no step and no buffer holds: each is saved, spooled, loaded and logged in
    /// more than two parts.
    pub(crate) fn giants(mut self) -> Data {
        let [bytes, elements] = [commands::chunks::COLLECTED_BYTES, STEP].map(|size| 2 * size + 99);
        let key = self.key("giant-string");
        let value = self.bytes(1, bytes / 2);
        self.add(words([b"SET", &key, &value]));
        self.expire(&key);
        let key = self.key("giant-hash");
        self.collection(What::Hash, &key, Dimension::Total, bytes);
        self.expire(&key);
        let key = self.key("giant-scores");
        self.collection(What::SortedSet, &key, Dimension::Count, elements);
        let key = self.key("giant-timed");
        for n in 0..bytes / 900 {
            let (field, at) = (format!("f{n}"), self.time().to_string());
            let value = self.bytes(n, 1000);
            self.add(words([b"HSET", &key, field.as_bytes(), &value]));
            if n % 4 != 3 {
                let field = field.as_bytes();
                self.add(words([b"HPEXPIREAT", &key, at.as_bytes(), b"FIELDS", b"1", field]));
            }
        }
        self.expire(&key);
        streams::giant(&mut self, bytes);
        self.data
    }

    fn expire(&mut self, key: &[u8]) {
        let at = self.time().to_string();
        self.add(words([b"PEXPIREAT", key, at.as_bytes()]));
    }

    pub(crate) fn database(&self) -> usize {
        DATABASES[self.counter % DATABASES.len()]
    }

    /// Adds a command.
    pub(crate) fn add(&mut self, words: Vec<Vec<u8>>) {
        self.data.requests.push((self.database(), words));
    }

    /// Adds a command that is sent later.
    pub(crate) fn add_later(&mut self, words: Vec<Vec<u8>>) {
        self.data.later.push((self.database(), words));
    }

    /// Begins a key.
    pub(crate) fn key(&mut self, about: &str) -> Vec<u8> {
        self.counter += 1;
        format!("{about}:{}", self.counter).into_bytes()
    }

    /// Ends a key: gives it a TTL, or not.
    pub(crate) fn end(&mut self, key: &[u8]) {
        if self.counter % 3 == 1 {
            self.expire(key);
        }
    }

    /// Returns a unique future time.
    pub(crate) fn time(&mut self) -> u64 {
        self.now + SOON + self.random.u64(..1 << 36)
    }

    /// Returns a past time.
    pub(crate) fn past(&mut self) -> u64 {
        self.now - self.random.u64(1..1 << 36)
    }

    /// Returns bytes that no other call returns, if they are long enough: compressible text,
    /// digits, or any bytes.
    pub(crate) fn bytes(&mut self, number: usize, length: usize) -> Vec<u8> {
        let begin = format!("{number}.");
        let rest = length.saturating_sub(begin.len());
        let mut bytes = begin.into_bytes();
        match (self.counter + number) % 3 {
            0 => bytes.extend(b"all work and no play ".iter().cycle().take(rest)),
            1 => bytes.extend((0..rest).map(|_| self.random.u8(..))),
            _ => bytes.extend((0..rest).map(|_| self.random.u8(b'0'..=b'9'))),
        }
        bytes.truncate(length);
        bytes
    }

    fn shape(&mut self, shape: Shape) {
        let Shape { what, dimension, size } = shape;
        let about = format!("{what:?}-{dimension:?}-{size}").to_lowercase();
        let mut key = self.key(&about);
        if dimension == Dimension::Name {
            key = self.bytes(self.counter, size);
        }
        match what {
            What::String if dimension == Dimension::Keys => return self.keys(size),
            What::String => {
                let length = if dimension == Dimension::Name { 3 } else { size };
                let value = self.bytes(self.counter, length);
                self.add(words([b"SET", &key, &value]));
            }
            What::Sketch => self.sketch(&key, size),
            What::Library => return self.library(dimension, size),
            What::Stream => streams::shape(self, &key, dimension, size),
            What::Timed => self.timed(&key, dimension, size),
            what => self.collection(what, &key, dimension, size),
        }
        self.end(&key);
    }

    /// Returns the members of a collection, and the values of its fields.
    fn members(
        &mut self,
        what: What,
        dimension: Dimension,
        size: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let short = |n: usize| format!("m{n}").into_bytes();
        match dimension {
            Dimension::Count if what == What::Ints => {
                let wide = [7, 40_000, 5_000_000_000][self.counter % 3];
                let int = |n: usize| (n as i64 - size as i64 / 2) * wide;
                (0..size).map(|n| (int(n).to_string().into_bytes(), Vec::new())).collect()
            }
            Dimension::Count => (0..size).map(|n| (short(n), n.to_string().into_bytes())).collect(),
            Dimension::Length => {
                vec![
                    (b"a".into(), b"1".into()),
                    (self.bytes(1, size), b"v".into()),
                    (b"c".into(), b"-7".into()),
                ]
            }
            Dimension::Value => {
                vec![(b"a".into(), self.bytes(1, size)), (b"b".into(), b"2".into())]
            }
            _ => {
                // Some 1000 bytes each, with the value of a field.
                let each = 1000;
                let number = size.div_ceil(each).max(1);
                let length = |n: usize| if n + 1 == number { size - each * n } else { each };
                (0..number).map(|n| (self.bytes(n, length(n)), Vec::new())).collect()
            }
        }
    }

    fn collection(&mut self, what: What, key: &[u8], dimension: Dimension, size: usize) {
        let command: &[u8] = match what {
            What::List => b"RPUSH",
            What::Hash => b"HSET",
            What::SortedSet => b"ZADD",
            _ => b"SADD",
        };
        for (at, some) in self.members(what, dimension, size).chunks(500).enumerate() {
            let mut request = words([command, key]);
            for (n, (member, value)) in some.iter().enumerate() {
                if what == What::SortedSet {
                    request.push(score(at * 500 + n).into_bytes());
                }
                request.push(member.clone());
                if what == What::Hash {
                    request.push(value.clone());
                }
            }
            self.add(request);
        }
    }

    /// Makes a hash in which most fields have a TTL of their own.
    fn timed(&mut self, key: &[u8], dimension: Dimension, size: usize) {
        self.data.is_newer = true;
        self.collection(What::Hash, key, dimension, size);
        for (n, (field, _)) in self.members(What::Hash, dimension, size).into_iter().enumerate() {
            // Random fields differ from those made before.
            if n % 4 == 3 || dimension != Dimension::Count {
                continue;
            }
            let at = self.time().to_string();
            self.add(words([b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", b"1", &field]));
        }
        if dimension != Dimension::Count {
            let at = self.time().to_string();
            let value = self.bytes(7, 30);
            self.add(words([b"HSET", key, b"timed", &value]));
            self.add(words([b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", b"1", b"timed"]));
        }
    }

    /// Makes strings that are numbers, or nearly.
    fn numbers(&mut self) {
        let texts = edges::integers();
        for text in texts {
            let key = self.key("number");
            self.add(words([b"SET", &key, text.as_bytes()]));
            self.end(&key);
        }
        let key = self.key("raw");
        self.add(words([b"SET", &key, b"short"]));
        self.add(words([b"APPEND", &key, b"er"]));
        let text = "{".repeat(20_000);
        let key = self.key("compressible");
        self.add(words([b"SET", &key, text.as_bytes()]));
        self.end(&key);
    }

    /// Makes small keys of each type, whose usage is set.
    fn small(&mut self) {
        for n in 0..USED {
            let key = self.key("used");
            // redis-server shares small integers, and thus their usage.
            let value = (100_000 + n).to_string();
            let value = value.as_bytes();
            self.add(match n % 5 {
                0 => words([b"SET", &key, value]),
                1 => words([b"RPUSH", &key, b"a", value, b"-1"]),
                2 => words([b"SADD", &key, b"b", value]),
                3 => words([b"HSET", &key, b"f", value, b"g", b"\xff\0"]),
                _ => words([b"ZADD", &key, b"-1.25", value, b"1e17", b"z"]),
            });
            self.end(&key);
            let usage = match self.is_lfu {
                // Below this, each use counts.
                true => Usage::Frequency([255, 254, 100, 7][n % 4] - (n / 4 % 4) as u64 % 2),
                false => Usage::Idle(self.random.u64(1000..9_000_000)),
            };
            self.data.usage.push((self.database(), key, usage));
        }
    }

    /// Makes a database with this many keys.
    fn keys(&mut self, size: usize) {
        let db = FREE[self.counter % FREE.len()];
        for n in 0..size {
            let name = format!("many:{}:{n}", self.counter);
            let request = words([b"SET", name.as_bytes(), n.to_string().as_bytes()]);
            self.data.requests.push((db, request));
        }
    }

    /// Makes a HyperLogLog with this many elements.
    fn sketch(&mut self, key: &[u8], size: usize) {
        self.add(words([b"PFADD", key]));
        let all: Vec<_> = (0..size).map(|n| format!("{}:{n}", self.counter)).collect();
        for some in all.chunks(500) {
            let mut request = words([b"PFADD", key]);
            request.extend(some.iter().map(|one| one.clone().into_bytes()));
            self.add(request);
        }
        if self.counter.is_multiple_of(2) {
            // The value keeps its count.
            self.add(words([b"PFCOUNT", key]));
        }
    }

    /// Makes this many libraries, or one whose code has this many bytes.
    fn library(&mut self, dimension: Dimension, size: usize) {
        let (count, length) = if dimension == Dimension::Count { (size, 0) } else { (1, size) };
        for n in 0..count {
            let name = format!("l{}_{n}", self.counter);
            let mut code = format!(
                "#!lua name={name}\nredis.register_function('{name}_f', function() return {n} end)"
            )
            .into_bytes();
            if code.len() + 4 <= length {
                code.extend_from_slice(b" -- ");
                let rest = length - code.len();
                code.extend((0..rest).map(|at| b'a' + (at * at % 23) as u8));
            }
            self.add(words([b"FUNCTION", b"LOAD", &code]));
        }
    }

    fn libraries(&mut self) {
        let mark = self.random.u32(..);
        for name in ["first", "second", "third"] {
            let code = format!(
                "#!lua name={name}\nlocal mark = '{mark}\\n\"'\n\
                 redis.register_function{{function_name='{name}_f', callback=function() return mark end, \
                 flags={{'no-writes', 'allow-stale'}}, description='what {name} does'}}\n\
                 redis.register_function('{name}_g', function(keys, args) return args end)"
            );
            self.add(words([b"FUNCTION", b"LOAD", code.as_bytes()]));
        }
    }
}

fn score(n: usize) -> String {
    match n % 9 {
        0 => "inf".into(),
        1 => "-inf".into(),
        2 => "0".into(),
        3 => "0.1".into(),
        4 => "1.7976931348623157e308".into(),
        5 => (n as f64 / 3.0).to_string(),
        6 => (9_007_199_254_740_991 - n).to_string(),
        7 => format!("-{n}"),
        _ => "5e-324".into(),
    }
}
