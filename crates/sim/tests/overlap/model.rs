//! What the pool must hold: the fences of each writer, in their order, and which of them were
//! acknowledged.
//!
//! Each writer owns lines, and a word of one line that all of them share. A fence stores its number
//! into its word of the shared line, and into all words of some of its lines. The result must be
//! something that persistent memory may hold after some prefix of one order of all fences: of each
//! writer the first few fences, whole; of its next one any words, since a store may arrive before
//! it is flushed; and with a word of a fence, all fences that had ended when it began.

use super::pool::{GROWN, LEN, store};
use pmem::Region;

pub(crate) const WRITERS: usize = 3;
/// Minimum number of lines that each writer owns.
pub(crate) const OWN: u64 = 300;
/// The line of which each writer has a word.
const SHARED: u64 = 1;
const LINES: u64 = GROWN / 64;

/// Returns who owns a line: the first writer owns those that the pool gets when it grows.
fn owner(line: u64) -> Option<usize> {
    let writer = line.checked_sub(2)? / OWN;
    match writer < WRITERS as u64 {
        true => Some(writer as usize),
        false => (line >= LEN / 64).then_some(0),
    }
}

/// Returns the lines of a writer, of a pool of this length.
pub(crate) fn own_lines(writer: usize, len: u64) -> Vec<u64> {
    (0..len / 64).filter(|line| owner(*line) == Some(writer)).collect()
}

/// The content of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Contents {
    lines: Vec<[u64; 8]>,
    shared: [u64; WRITERS],
}

impl Contents {
    pub(crate) fn empty() -> Contents {
        Contents { lines: vec![[0; 8]; LINES as usize], shared: [0; WRITERS] }
    }

    /// Reads all lines; those that the pool does not have yet count as zeros.
    pub(crate) fn read(region: &Region) -> Contents {
        let mut contents = Contents::empty();
        let lines = region.len() / 64;
        for line in (0..lines.min(LINES)).filter(|line| owner(*line).is_some()) {
            let words = [0, 8, 16, 24, 32, 40, 48, 56].map(|at| region.load(line * 64 + at));
            contents.lines[line as usize] = words;
        }
        for writer in 0..WRITERS {
            contents.shared[writer] = region.load(SHARED * 64 + 8 * writer as u64);
        }
        contents
    }
}

/// A fence of a writer.
#[derive(Clone, Debug)]
struct Fence {
    /// Its own lines, ascending.
    lines: Vec<u64>,
    /// The moments between which it was executed.
    begin: u64,
    end: Option<u64>,
    /// The end of the journal after it.
    position: u64,
}

impl Fence {
    fn has(&self, line: u64) -> bool {
        self.lines.binary_search(&line).is_ok()
    }
}

/// What the writers have done since the pool was opened.
#[derive(Clone, Debug)]
pub(crate) struct History {
    base: Contents,
    /// The highest number that each writer had stored before, even in part of a fence.
    numbers: [u64; WRITERS],
    fences: [Vec<Fence>; WRITERS],
    moment: u64,
}

/// The number of fences of each writer.
pub(crate) type Counts = [usize; WRITERS];

fn number(value: u64) -> u64 {
    value & u64::from(u32::MAX)
}

impl History {
    pub(crate) fn after(base: Contents) -> History {
        let numbers = std::array::from_fn(|writer| {
            let own = own_lines(writer, GROWN).into_iter().map(|line| base.lines[line as usize]);
            let words = own.flatten().chain([base.shared[writer]]);
            words.map(number).max().unwrap_or(0)
        });
        History { base, numbers, fences: Default::default(), moment: 0 }
    }

    /// Returns the value that a writer's fence of this count stores: a different one in each
    /// history.
    fn value(&self, writer: usize, count: usize) -> u64 {
        (writer as u64 + 1) << 32 | (self.numbers[writer] + count as u64)
    }

    /// Returns the count of a writer's fence that stored a value; 0 for the initial value.
    fn count(&self, writer: usize, value: u64, before: u64) -> Option<usize> {
        if value == before {
            return Some(0);
        }
        let count = number(value).checked_sub(self.numbers[writer])? as usize;
        let is_one = (1..=self.fences[writer].len()).contains(&count);
        (is_one && self.value(writer, count) == value).then_some(count)
    }

    /// Records that a writer begins to store to some of its lines. Returns the fence's count and
    /// value.
    pub(crate) fn begin(&mut self, writer: usize, lines: &[u64]) -> (usize, u64) {
        self.moment += 1;
        let fence = Fence { lines: lines.to_vec(), begin: self.moment, end: None, position: 0 };
        self.fences[writer].push(fence);
        let count = self.fences[writer].len();
        (count, self.value(writer, count))
    }

    /// Records that a writer's last fence ended, and where the journal ended then.
    pub(crate) fn end(&mut self, writer: usize, position: u64) {
        self.moment += 1;
        if let Some(fence) = self.fences[writer].last_mut() {
            (fence.end, fence.position) = (Some(self.moment), position);
        }
    }

    /// Returns how many fences of a writer have ended, and the position after them.
    pub(crate) fn ended(&self, writer: usize) -> (usize, u64) {
        let ended = self.fences[writer].iter().filter(|fence| fence.end.is_some());
        ended.fold((0, 0), |(count, _), fence| (count + 1, fence.position))
    }

    /// Refuses a content that no prefix of an order of all fences leaves, or that lacks one of the
    /// `required` fences. Returns how many fences of each writer are there, whole.
    pub(crate) fn check(&self, found: &Contents, required: &Counts) -> Result<Counts, String> {
        let mut whole = [0; WRITERS];
        let mut traces = [0; WRITERS];
        for writer in 0..WRITERS {
            (whole[writer], traces[writer]) = self.check_writer(found, writer)?;
            if whole[writer] < required[writer] {
                return Err(format!(
                    "{} of writer {writer} was acknowledged, and {} are there",
                    required[writer], whole[writer]
                ));
            }
        }
        for (of, other) in (0..WRITERS).flat_map(|of| (0..WRITERS).map(move |other| (of, other))) {
            let Some(newest) = traces[of].checked_sub(1) else { continue };
            let begin = self.fences[of][newest].begin;
            let before = |fence: &&Fence| fence.end.is_some_and(|end| end < begin);
            let ended = self.fences[other].iter().take_while(before).count();
            if whole[other] < ended {
                return Err(format!(
                    "{} of writer {of} is there, but of writer {other} {} of {ended} that had \
                     ended when it began",
                    newest + 1,
                    whole[other]
                ));
            }
        }
        Ok(whole)
    }

    /// Returns how many fences of a writer are there, and the count of the newest that left a
    /// trace.
    fn check_writer(&self, found: &Contents, writer: usize) -> Result<(usize, usize), String> {
        let fences = &self.fences[writer];
        let counts = self.counts(found, writer)?;
        let in_lines = counts.iter().flatten().copied().max().unwrap_or(0);
        let (shared, before) = (found.shared[writer], self.base.shared[writer]);
        let in_shared = self.count(writer, shared, before);
        let in_shared = in_shared
            .ok_or_else(|| format!("the shared line has {shared:x} of writer {writer}"))?;
        let newest = in_lines.max(in_shared);
        let whole = newest.saturating_sub(1);
        if in_shared < whole {
            return Err(format!(
                "the shared line has {in_shared} of writer {writer}, of which {newest} is there"
            ));
        }
        let mut expected = vec![0; LINES as usize];
        for (n, fence) in fences[..whole].iter().enumerate() {
            fence.lines.iter().for_each(|line| expected[*line as usize] = n + 1);
        }
        // Of the newest fence, any words may be there.
        let last = newest.checked_sub(1).map(|at| &fences[at]);
        let mut all = in_shared == newest;
        for (line, found) in counts.iter().enumerate() {
            let is_last = last.is_some_and(|fence| fence.has(line as u64));
            all &= !is_last || found.iter().all(|count| *count == newest);
            let may_be = |count: &usize| *count == expected[line] || is_last && *count == newest;
            if let Some(other) = found.iter().find(|count| !may_be(count)) {
                return Err(format!(
                    "{newest} of writer {writer} is there, and line {line} of {other} and not of \
                     {}",
                    expected[line]
                ));
            }
        }
        Ok((if all { newest } else { whole }, newest))
    }

    /// Returns the count of the fence that stored each word of a writer's lines.
    fn counts(&self, found: &Contents, writer: usize) -> Result<Vec<[usize; 8]>, String> {
        let mut counts = vec![[0; 8]; LINES as usize];
        for line in own_lines(writer, GROWN) {
            let at = line as usize;
            if found.lines[at] == self.base.lines[at] {
                continue;
            }
            for (word, value) in found.lines[at].into_iter().enumerate() {
                let count = self.count(writer, value, self.base.lines[at][word]);
                let is_its =
                    |count: &usize| *count == 0 || self.fences[writer][*count - 1].has(line);
                counts[at][word] = count.filter(is_its).ok_or_else(|| {
                    format!("line {line} of writer {writer} holds {value:x}, which it never did")
                })?;
            }
        }
        Ok(counts)
    }
}

/// Stores a fence's value, flushes, and lets others run in between; the caller fences.
pub(crate) fn store_and_flush(region: &Region, writer: usize, lines: &[u64], value: u64) {
    let put = |off: u64| {
        store(region, off, value);
        region.flush(off, 8);
    };
    put(SHARED * 64 + 8 * writer as u64);
    sim::yield_now();
    for (n, line) in lines.iter().enumerate() {
        (0..8).for_each(|word| {
            if n < 2 && word == 3 {
                sim::yield_now();
            }
            put(line * 64 + 8 * word);
        });
    }
}
