//! The generator's choices: names, sizes at and across every constant of the code, times, bounds.

use std::ops::Bound;
use std::time::Duration;

use super::state::{Bytes, Db};

/// Constants of the library, in bytes: the size of an iterator's batch and of a piece of a
/// snapshot's string, and the greatest element of a small collection and of a node of a list or a
/// stream.
const BYTES: &[usize] = &[44, 64, 256, 1024, 4096, 8192];
/// Counts of the library: items of a batch, of the later batches of a sorted set, and of a small
/// collection; items sorted at once; entries of a stream's node.
pub(crate) const COUNTS: &[usize] = &[64, 100, 128, 192, 256, 512, 1024];

pub(crate) struct Draw {
    pub(crate) rng: fastrand::Rng,
    /// Whether many calls, and large values, are cheap.
    pub(crate) is_cheap: bool,
    /// The latest calls, which the text of a failure shows.
    pub(crate) trace: Vec<String>,
}

impl Draw {
    pub(crate) fn new(seed: u64, is_cheap: bool) -> Draw {
        Draw { rng: fastrand::Rng::with_seed(seed), is_cheap, trace: Vec::new() }
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.rng.usize(..n)
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }

    /// Records a call, and returns its text.
    pub(crate) fn call(&mut self, text: String) -> String {
        let end = text.char_indices().nth(160).map_or(text.len(), |(at, _)| at);
        let text = text[..end].to_owned();
        self.trace.push(text.clone());
        if self.trace.len() > 400 {
            self.trace.drain(..200);
        }
        text
    }

    /// Draws a size: mostly small, else at or across a constant.
    pub(crate) fn size(&mut self) -> usize {
        match self.below(40) {
            0..=29 => self.below(24),
            30..=37 => {
                let constant = self.of(BYTES);
                self.around(constant)
            }
            _ => {
                let large = if self.is_cheap { keyspace::chunks::BYTES } else { BYTES };
                let constant = self.of(large);
                self.around(constant)
            }
        }
    }

    /// Draws `c - 1`, `c`, `c + 1`, `2c` or `3c + 1`.
    pub(crate) fn around(&mut self, c: usize) -> usize {
        [c - 1, c, c + 1, 2 * c, 3 * c + 1][self.below(5)]
    }

    pub(crate) fn bytes(&mut self) -> Bytes {
        let len = self.size();
        if self.one_in(8) {
            // Sometimes all bits are equal: none is set, or every one.
            return vec![self.of(&[0, 0xff]); len.min(9)];
        }
        self.bytes_of(len)
    }

    /// Draws bytes of which no two pieces are equal.
    pub(crate) fn bytes_of(&mut self, len: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.rng.u64(..).to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// Draws a key, mostly of those that hold this kind of value.
    pub(crate) fn key(&mut self, kind: u8) -> Bytes {
        const KINDS: &[u8] = b"sbplhczgx";
        let kind = if self.one_in(12) { KINDS[self.below(KINDS.len())] } else { kind };
        match self.below(20) {
            0 => Vec::new(),
            1 => vec![kind, 0],
            2 => vec![kind, 0xff, 0xff],
            3 => vec![0xff; 3],
            4 if self.is_cheap && self.one_in(4) => vec![kind; (32 << 10) + 1],
            4 => vec![kind; 300],
            n => vec![kind, b'0' + (n % 4) as u8],
        }
    }

    /// Draws an existing key, of any type, if there is one.
    pub(crate) fn existing(&mut self, db: &Db) -> Option<Bytes> {
        let n = db.keys.len();
        (n > 0).then(|| db.keys.keys().nth(self.below(n)).expect("a key").clone())
    }

    /// Draws an element of a collection: one of few, including those at the ends of the order.
    pub(crate) fn element(&mut self) -> Bytes {
        match self.below(24) {
            0 => Vec::new(),
            1 => vec![0],
            2 => vec![0xff; 2],
            3 => vec![b'e'; 63 + self.below(4)],
            4 => vec![0, 0xff],
            n if n < 12 => self.below(1000).to_string().into_bytes(),
            _ => self.below(20).to_string().into_bytes(),
        }
    }

    /// Draws a TTL: zero, and less than, as much as and more than the clock advances at once.
    pub(crate) fn ttl(&mut self) -> Duration {
        Duration::from_millis(self.of(&[0, 1, 2, 5, 1000, 1500, 60_000, 3_600_000]))
    }

    pub(crate) fn score(&mut self) -> f64 {
        self.of(&[
            f64::NEG_INFINITY,
            -1e300,
            -2.5,
            -0.0,
            0.0,
            0.5,
            1.0,
            2.0,
            3.0,
            4.0,
            (1u64 << 53) as f64 + 2.0,
            f64::INFINITY,
        ])
    }

    pub(crate) fn bound<T>(&mut self, mut value: impl FnMut(&mut Draw) -> T) -> Bound<T> {
        match self.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(value(self)),
            _ => Bound::Excluded(value(self)),
        }
    }
}

/// Returns true if a value is between bounds.
pub(crate) fn is_in<T: PartialOrd + ?Sized, B: std::borrow::Borrow<T>>(
    what: &T,
    bounds: &(Bound<B>, Bound<B>),
) -> bool {
    (match &bounds.0 {
        Bound::Unbounded => true,
        Bound::Included(from) => what >= from.borrow(),
        Bound::Excluded(from) => what > from.borrow(),
    }) && match &bounds.1 {
        Bound::Unbounded => true,
        Bound::Included(to) => what <= to.borrow(),
        Bound::Excluded(to) => what < to.borrow(),
    }
}

/// Takes all items from an iterator, from both ends in random order, or only some, and drops it.
pub(crate) fn take_all<T, E>(
    draw: &mut Draw,
    mut iter: impl DoubleEndedIterator<Item = Result<T, E>>,
) -> Result<Taken<T>, E> {
    let way = draw.below(3);
    let most = if draw.one_in(4) { 1 + draw.below(200) } else { usize::MAX };
    let (mut front, mut back, mut ended) = (Vec::new(), Vec::new(), false);
    while front.len() + back.len() < most {
        let from_back = way == 1 || way == 2 && draw.below(7) < 3;
        let Some(item) = (if from_back { iter.next_back() } else { iter.next() }) else {
            ended = true;
            break;
        };
        let item = item?;
        if from_back { back.push(item) } else { front.push(item) }
    }
    Ok(Taken { front, back, ended })
}

/// The items that an iterator gave from its front and from its back, and whether it was exhausted.
#[derive(Debug)]
pub(crate) struct Taken<T> {
    front: Vec<T>,
    back: Vec<T>,
    ended: bool,
}

impl<T: PartialEq + std::fmt::Debug> Taken<T> {
    /// Compares the items with the expected ones, in order.
    pub(crate) fn check(self, what: &str, want: &[T]) -> Result<(), String> {
        let (f, b) = (self.front.len(), self.back.len());
        let is_wrong = |text: &str| Err(format!("{what} {text} (of {} items)", want.len()));
        if f + b > want.len() {
            return is_wrong(&format!("shows {} items", f + b));
        }
        if self.ended && f + b < want.len() {
            return is_wrong(&format!("ends after {f} from the front and {b} from the back"));
        }
        let at = self.front.iter().zip(want).position(|(got, want)| got != want);
        if let Some(at) = at {
            return is_wrong(&format!("shows another number {at}: {:.200?}", self.front[at]));
        }
        let at = self.back.iter().zip(want.iter().rev()).position(|(got, want)| got != want);
        match at {
            Some(at) => is_wrong(&format!("shows another number -{at}: {:.200?}", self.back[at])),
            None => Ok(()),
        }
    }
}
