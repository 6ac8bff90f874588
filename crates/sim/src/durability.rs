//! What is durable, what may be, and what a crash leaves: the crash models.
//!
//! Memory is made of lines of 64 bytes, each of eight aligned words of 8 bytes. A store changes a word of a line
//! in the cache. It is **certain** to survive only when some thread flushed the line after the store and then
//! fenced. Until then it is **pending**: the cache may write a line back at any moment, for reasons of its own, so
//! a pending store may have arrived all the same. A fence says nothing of what other threads flushed. A word
//! arrives whole or not at all, and takes the values it was given in the order it was given them. A longer store
//! is one of its words after another, of which any may be torn off.
//!
//! Two models say which pending stores arrive together.
//!
//! * [`Crash::Strict`]: each word by itself. Any subset of the pending words may have arrived, each with any of
//!   the values it had. No processor promises less; nothing may be concluded from the order of stores.
//! * [`Crash::X86`]: each line by itself. Stores to a line arrive in the order they were made, since x86 makes
//!   them visible in that order and writes the line back whole: a prefix of the line's stores has arrived. A
//!   subset of what the strict model allows; images that are likely in reality are more likely to be drawn.
//!
//! After a power loss the medium holds an image and nothing is pending. After the death of the process alone, all
//! that was stored is visible to the next one, and what was pending is pending still: power may fail later.

use crate::choices::Choices;
use crate::medium::{Event, Trace};
use pmem::LINE;
use std::collections::BTreeMap;

/// Which pending stores can arrive without which others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Any subset of words.
    Strict,
    /// A prefix of each line's stores.
    X86,
}

/// A store to one word, or to some bytes of it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Offset of the first byte; the bytes lie in one word.
    off: u64,
    len: u8,
    bytes: [u8; 8],
    /// When it was stored: a count of fences.
    epoch: u64,
}

#[derive(Clone, Debug, Default)]
struct Line {
    /// Pending stores in program order.
    pieces: Vec<Piece>,
    /// How many of them each thread has flushed and not yet fenced.
    flushed: Vec<(u32, usize)>,
}

/// A medium at one moment of a trace.
#[derive(Clone, Debug)]
pub struct Durability {
    durable: Vec<u8>,
    lines: BTreeMap<u64, Line>,
    /// Lines that each thread flushed since its last fence.
    flushes: Vec<(u32, u64)>,
    fences: u64,
    /// Ranges of `durable` that changed since an image was last opened.
    changed: Vec<(u64, usize)>,
}

/// How many images of one crash to look at.
#[derive(Clone, Copy, Debug)]
pub struct Choose {
    /// All of them, if there are at most so many.
    pub all_of: usize,
    /// Else so many.
    pub some: usize,
}

/// An image that a crash may leave.
pub struct Image<'a> {
    /// What the medium holds.
    pub bytes: &'a [u8],
    /// Ranges that changed since the image before it, or more; whoever copies them empties the list.
    pub changed: &'a mut Vec<(u64, usize)>,
}

impl Durability {
    /// A medium that holds `image`, nothing pending.
    pub fn new(image: Vec<u8>) -> Durability {
        Durability {
            changed: vec![(0, image.len())],
            durable: image,
            lines: BTreeMap::new(),
            flushes: Vec::new(),
            fences: 0,
        }
    }

    /// Lets one event of `trace` happen.
    pub fn apply(&mut self, trace: &Trace, event: Event) {
        match event {
            Event::Store { off, from, len } => self.store(off, &trace.bytes[from..from + len]),
            Event::Flush { thread, line } => self.flush(thread, line),
            Event::Fence { thread } => self.fence(thread),
            Event::Grow(len) => self.durable.resize(len as usize, 0),
            Event::Mark(_) | Event::Steps(_) => {}
        }
    }

    fn store(&mut self, off: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let mut off = off;
        while !rest.is_empty() {
            let len = rest.len().min((8 - off % 8) as usize);
            let mut piece = Piece { off, len: len as u8, bytes: [0; 8], epoch: self.fences };
            piece.bytes[..len].copy_from_slice(&rest[..len]);
            self.lines.entry(off / LINE * LINE).or_default().pieces.push(piece);
            rest = &rest[len..];
            off += len as u64;
        }
    }

    fn flush(&mut self, thread: u32, line: u64) {
        let Some(pending) = self.lines.get_mut(&line) else { return };
        let count = pending.pieces.len();
        match pending.flushed.iter_mut().find(|(by, _)| *by == thread) {
            Some(flushed) => flushed.1 = count,
            None => {
                pending.flushed.push((thread, count));
                self.flushes.push((thread, line));
            }
        }
    }

    fn fence(&mut self, thread: u32) {
        self.fences += 1;
        let Durability { durable, lines, flushes, changed, .. } = self;
        flushes.retain(|&(by, line)| {
            if by != thread {
                return true;
            }
            let Some(pending) = lines.get_mut(&line) else { return false };
            let Some(at) = pending.flushed.iter().position(|(by, _)| *by == thread) else {
                return false;
            };
            let (_, count) = pending.flushed.swap_remove(at);
            for piece in pending.pieces.drain(..count) {
                put(durable, &piece);
                changed.push((piece.off, piece.len as usize));
            }
            for other in &mut pending.flushed {
                other.1 = other.1.saturating_sub(count);
            }
            if pending.pieces.is_empty() {
                lines.remove(&line);
            }
            false
        });
    }

    /// The medium after the death of the process: what was pending is pending still, and nobody is going to fence it.
    pub(crate) fn orphaned(&self) -> Durability {
        let mut orphaned = self.clone();
        orphaned.flushes.clear();
        orphaned.lines.values_mut().for_each(|line| line.flushed.clear());
        orphaned
    }

    /// Nobody holds a copy of it: the next image is listed as changed from end to end.
    pub(crate) fn changed_everywhere(&mut self) {
        self.changed = vec![(0, self.durable.len())];
    }

    /// Whether nothing is pending.
    pub fn is_settled(&self) -> bool {
        self.lines.is_empty()
    }

    /// What a program sees: everything stored so far.
    pub fn visible(&self) -> Vec<u8> {
        let mut image = self.durable.clone();
        for piece in self.lines.values().flat_map(|line| &line.pieces) {
            put(&mut image, piece);
        }
        image
    }

    /// What is certain, and nothing else.
    pub fn certain(&self) -> &[u8] {
        &self.durable
    }

    /// Shows `see` what a loss of power may leave now, and says which of the pending stores arrived. `see` returns
    /// whether to go on.
    pub fn images(
        &mut self,
        crash: Crash,
        choose: Choose,
        rng: &mut fastrand::Rng,
        mut see: impl FnMut(Image<'_>, &dyn Fn() -> String) -> bool,
    ) {
        let units = self.units(crash);
        let shape: Vec<(usize, bool)> = units
            .iter()
            .map(|unit| (unit.len(), unit.last().is_some_and(|last| last.epoch == self.fences)))
            .collect();
        let mut undo = Vec::new();
        for choice in Choices::new(&shape, choose, rng) {
            for (unit, arrived) in units.iter().zip(&choice) {
                for piece in &unit[..*arrived] {
                    undo.push((*piece, put(&mut self.durable, piece)));
                    self.changed.push((piece.off, piece.len as usize));
                }
            }
            let image = Image { bytes: &self.durable, changed: &mut self.changed };
            let go_on = see(image, &|| told(&units, &choice));
            while let Some((piece, before)) = undo.pop() {
                put(&mut self.durable, &Piece { bytes: before, ..piece });
                self.changed.push((piece.off, piece.len as usize));
            }
            if !go_on {
                return;
            }
        }
    }

    /// Pending stores, grouped by what arrives in order: of each group a prefix arrives.
    fn units(&self, crash: Crash) -> Vec<Vec<Piece>> {
        match crash {
            Crash::X86 => self.lines.values().map(|line| line.pieces.clone()).collect(),
            Crash::Strict => {
                let mut units = Vec::new();
                for line in self.lines.values() {
                    let mut words: [Vec<Piece>; 8] = Default::default();
                    for piece in &line.pieces {
                        words[(piece.off % LINE / 8) as usize].push(*piece);
                    }
                    units.extend(words.into_iter().filter(|word| !word.is_empty()));
                }
                units
            }
        }
    }
}

/// Which stores arrived, in words; long lists are cut.
fn told(units: &[Vec<Piece>], choice: &[usize]) -> String {
    const MOST: usize = 24;
    let list = |arrived: bool| {
        let pieces = units
            .iter()
            .zip(choice)
            .flat_map(|(unit, &to)| if arrived { &unit[..to] } else { &unit[to..] });
        let count = pieces.clone().count();
        let offs: Vec<String> =
            pieces.take(MOST).map(|piece| format!("{:#x}", piece.off)).collect();
        let cut = if count > MOST { " ..." } else { "" };
        format!("{count} ({}{cut})", offs.join(" "))
    };
    format!("pending stores that arrived: {}; lost: {}", list(true), list(false))
}

/// Writes a piece into an image and returns what was there.
fn put(image: &mut [u8], piece: &Piece) -> [u8; 8] {
    let mut before = [0; 8];
    let len = piece.len as usize;
    let place = &mut image[piece.off as usize..piece.off as usize + len];
    before[..len].copy_from_slice(place);
    place.copy_from_slice(&piece.bytes[..len]);
    before
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    enum Do {
        Store(u64, u64),
        Flush(u32, u64),
        Fence(u32),
    }
    use Do::*;

    /// The images of two words, as sets of (word at 0, word at 8, word at 64), after some events.
    fn check(crash: Crash, events: &[Do], expect: &[(u64, u64, u64)]) {
        let mut medium = Durability::new(vec![0; 128]);
        for event in events {
            match *event {
                Store(off, value) => medium.store(off, &value.to_le_bytes()),
                Flush(thread, line) => medium.flush(thread, line),
                Fence(thread) => medium.fence(thread),
            }
        }
        let mut found = BTreeSet::new();
        let mut seen = 0;
        let choose = Choose { all_of: 1000, some: 10 };
        medium.images(crash, choose, &mut fastrand::Rng::with_seed(1), |image, _| {
            let word = |at: usize| u64::from_le_bytes(image.bytes[at..at + 8].try_into().unwrap());
            found.insert((word(0), word(8), word(64)));
            seen += 1;
            true
        });
        let expect: BTreeSet<_> = expect.iter().copied().collect();
        assert_eq!(found, expect);
        assert_eq!(seen, expect.len(), "each image once");
    }

    #[test]
    fn nothing_stored_leaves_one_image() {
        check(Crash::Strict, &[], &[(0, 0, 0)]);
    }

    #[test]
    fn a_pending_store_may_or_may_not_arrive() {
        check(Crash::Strict, &[Store(0, 1)], &[(0, 0, 0), (1, 0, 0)]);
    }

    #[test]
    fn a_flush_alone_makes_nothing_certain() {
        check(Crash::Strict, &[Store(0, 1), Flush(0, 0)], &[(0, 0, 0), (1, 0, 0)]);
    }

    #[test]
    fn a_fence_alone_makes_nothing_certain() {
        check(Crash::Strict, &[Store(0, 1), Fence(0)], &[(0, 0, 0), (1, 0, 0)]);
    }

    #[test]
    fn flush_and_fence_of_one_thread_make_the_line_certain() {
        check(Crash::Strict, &[Store(0, 1), Store(8, 2), Flush(0, 0), Fence(0)], &[(1, 2, 0)]);
    }

    #[test]
    fn a_fence_of_another_thread_makes_nothing_certain() {
        check(Crash::Strict, &[Store(0, 1), Flush(0, 0), Fence(1)], &[(0, 0, 0), (1, 0, 0)]);
    }

    #[test]
    fn each_thread_completes_its_own_flush() {
        let events = [Store(0, 1), Flush(0, 0), Store(8, 2), Flush(1, 0), Fence(0)];
        check(Crash::Strict, &events, &[(1, 0, 0), (1, 2, 0)]);
        let events = [Store(0, 1), Flush(0, 0), Store(8, 2), Flush(1, 0), Fence(1), Fence(0)];
        check(Crash::Strict, &events, &[(1, 2, 0)]);
    }

    #[test]
    fn a_store_after_the_flush_is_pending_after_the_fence() {
        let events = [Store(0, 1), Flush(0, 0), Store(0, 2), Fence(0)];
        check(Crash::Strict, &events, &[(1, 0, 0), (2, 0, 0)]);
    }

    #[test]
    fn strict_lets_words_of_a_line_arrive_apart() {
        let events = [Store(0, 1), Store(8, 2)];
        check(Crash::Strict, &events, &[(0, 0, 0), (1, 0, 0), (0, 2, 0), (1, 2, 0)]);
    }

    #[test]
    fn x86_keeps_the_order_within_a_line_only() {
        check(Crash::X86, &[Store(0, 1), Store(8, 2)], &[(0, 0, 0), (1, 0, 0), (1, 2, 0)]);
        let events = [Store(0, 1), Store(64, 2)];
        check(Crash::X86, &events, &[(0, 0, 0), (1, 0, 0), (0, 0, 2), (1, 0, 2)]);
    }

    #[test]
    fn a_word_takes_its_values_in_order() {
        check(Crash::Strict, &[Store(0, 1), Store(0, 2)], &[(0, 0, 0), (1, 0, 0), (2, 0, 0)]);
    }

    #[test]
    fn what_a_program_sees_is_all_it_stored() {
        let mut medium = Durability::new(vec![0; 128]);
        medium.store(6, &[1, 2, 3, 4]);
        assert_eq!(medium.visible()[5..11], [0, 1, 2, 3, 4, 0]);
        let mut images = 0;
        let choose = Choose { all_of: 10, some: 10 };
        medium.images(Crash::Strict, choose, &mut fastrand::Rng::with_seed(1), |image, _| {
            let (first, second) = (&image.bytes[6..8], &image.bytes[8..10]);
            assert!([[0, 0], [1, 2]].iter().any(|word| first == word));
            assert!([[0, 0], [3, 4]].iter().any(|word| second == word));
            images += 1;
            true
        });
        assert_eq!(images, 4);
    }
}
