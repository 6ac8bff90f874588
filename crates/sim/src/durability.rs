//! What is durable, what may be durable, and what a crash leaves: the crash models.
//!
//! Memory is made of lines of 64 bytes, each of eight aligned words of 8 bytes. A store changes a
//! word of a line in the cache. It is **certain** to survive only when some thread flushed the line
//! after the store and then fenced. Until then it is **pending**: the cache may write a line back
//! at any moment, for reasons of its own, so a pending store may have arrived all the same. A fence
//! does not cover what other threads flushed. A word arrives whole or not at all, and takes its
//! values in the order in which they were stored. A longer store is a sequence of words, and may be
//! torn between any of them.
//!
//! Two models determine which pending stores arrive together.
//!
//! - [`Crash::Strict`]: each word by itself. Any subset of the pending words may have arrived, each
//!   with any of its values. No processor promises less; nothing can be concluded from the order of
//!   stores.
//! - [`Crash::X86`]: each line by itself. Stores to a line arrive in program order, since x86 makes
//!   them visible in that order and writes the line back whole: a prefix of the line's stores has
//!   arrived. This is a subset of what the strict model allows, and draws realistic images with
//!   higher probability.
//!
//! A copy may go past the cache, by whole lines. Such a **streamed** store is in a buffer of its
//! processor, in no cache: only the next fence of the thread that made it makes it certain; a flush
//! does not, nor does a fence of another thread. Nor does it evict earlier stores to other words of
//! its line. The buffer empties at any time, so its words arrive each by itself, even in the x86
//! model. Still, a word takes its values in order, streamed or not: when one is certain, the
//! earlier ones are past. When the process ends, its buffers empty into the caches.
//!
//! If the kernel syncs pages there are no flushes: a store is certain when its page was synced
//! after it. Until then the kernel may have written the page at any moment.
//!
//! - [`Crash::SyncedWords`]: any subset of the pending words, as in the strict model.
//! - [`Crash::SyncedPages`]: each page by itself, with a prefix of the stores to it.
//!
//! A journal takes the words that a flush names, and not the rest of their lines. How it keeps them
//! is searched elsewhere; what it takes is a model of its own.
//!
//! - [`Crash::FlushedWords`]: as the strict model, where a flush covers words.
//!
//! In every model a file that has grown may have its old length, its new one or any in between, by
//! whole pages, until the length is synced. Stores beyond the length are lost, whatever was
//! flushed.
//!
//! After a power loss the medium holds an image and nothing is pending. If only the process ends,
//! the next one sees everything that was stored, and pending stores are still pending: the power
//! may fail later.

use crate::choices::Choices;
use crate::medium::{Event, Trace};
use pmem::{Domain, LINE};
use std::collections::BTreeMap;

/// Which pending stores can arrive without which others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// Any subset of words.
    Strict,
    /// A prefix of each line's stores.
    X86,
    /// Any subset of words, if pages are synced.
    SyncedWords,
    /// A prefix of each page's stores, if pages are synced.
    SyncedPages,
    /// Any subset of words, each of which is flushed by itself.
    FlushedWords,
}

impl Crash {
    /// All models.
    pub const ALL: [Crash; 5] =
        [Crash::Strict, Crash::X86, Crash::SyncedWords, Crash::SyncedPages, Crash::FlushedWords];

    /// Returns the domain to which the model belongs.
    pub fn domain(self) -> Domain {
        match self {
            Crash::Strict | Crash::X86 | Crash::FlushedWords => Domain::Clwb,
            Crash::SyncedWords | Crash::SyncedPages => Domain::Msync,
        }
    }

    /// Returns the number of bytes that a flush covers at least.
    pub fn flush_unit(self) -> u64 {
        if self == Crash::FlushedWords { WORD } else { LINE }
    }
}

/// Bytes of a page.
const PAGE: usize = 4096;

/// Bytes of a word.
const WORD: u64 = 8;

/// A store to one word, or to some bytes of it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Offset of the first byte; the bytes are in one word.
    off: u64,
    len: u8,
    bytes: [u8; 8],
    /// When it was stored, as a count of fences.
    epoch: u64,
    /// Its place among all stores.
    order: u64,
    /// The thread that stored it past the cache.
    streamed_by: Option<u32>,
}

impl Piece {
    /// Returns the number of its word in the line.
    fn word(&self) -> usize {
        (self.off % LINE / 8) as usize
    }
}

/// What a flush covers at least: a line, or a word of it.
#[derive(Clone, Debug, Default)]
struct Line {
    /// Pending stores in program order.
    pieces: Vec<Piece>,
    /// How many of them each thread has flushed and not yet fenced.
    flushed: Vec<(u32, usize)>,
}

impl Line {
    /// Returns the stores that a fence of this thread makes certain, in order: those that the
    /// thread flushed or streamed, and those that they overtake.
    fn fence(&mut self, thread: u32) -> Vec<Piece> {
        let flushed = match self.flushed.iter().position(|(by, _)| *by == thread) {
            Some(at) => self.flushed.swap_remove(at).1,
            None => 0,
        };
        let mut until = [0; 8];
        for (at, piece) in self.pieces.iter().enumerate() {
            let is_certain = match piece.streamed_by {
                None => at < flushed,
                by => by == Some(thread),
            };
            if is_certain {
                until[piece.word()] = at + 1;
            }
        }
        let (mut certain, mut kept) = (Vec::new(), Vec::new());
        let mut flushed_left: Vec<usize> = self.flushed.iter().map(|(_, count)| *count).collect();
        for (at, piece) in self.pieces.drain(..).enumerate() {
            if at >= until[piece.word()] {
                kept.push(piece);
                continue;
            }
            certain.push(piece);
            let counted = self.flushed.iter().zip(&mut flushed_left);
            counted.filter(|((_, count), _)| at < *count).for_each(|(_, left)| *left -= 1);
        }
        self.pieces = kept;
        self.flushed.iter_mut().zip(flushed_left).for_each(|((_, count), left)| *count = left);
        certain
    }
}

/// A medium at one moment of a trace.
#[derive(Clone, Debug)]
pub struct Durability {
    durable: Vec<u8>,
    /// The file's length that is certain; a program sees that of `durable`.
    certain_len: usize,
    /// The length of the last image.
    image_len: usize,
    /// Bytes of a line here: what a flush covers at least.
    flush_unit: u64,
    lines: BTreeMap<u64, Line>,
    /// Lines that each thread flushed, or streamed to, since its last fence.
    flushes: Vec<(u32, u64)>,
    fences: u64,
    stores: u64,
    /// Ranges of `durable` that changed since an image was last opened.
    changed: Vec<(u64, usize)>,
}

/// How many images of one crash to examine.
#[derive(Clone, Copy, Debug)]
pub struct Choose {
    /// All of them, if there are at most this many.
    pub all_of: usize,
    /// Otherwise this many.
    pub some: usize,
}

/// An image that a crash may leave.
pub struct Image<'a> {
    /// The content of the medium.
    pub bytes: &'a [u8],
    /// Ranges that changed since the previous image, or more; code that copies them empties the
    /// list.
    pub changed: &'a mut Vec<(u64, usize)>,
}

impl Durability {
    /// Creates a medium that holds `image`, with nothing pending. A flush covers a line.
    pub fn new(image: Vec<u8>) -> Durability {
        Durability::of(Crash::Strict, image)
    }

    /// As [`Durability::new`], with the flushes of a crash model.
    pub fn of(crash: Crash, image: Vec<u8>) -> Durability {
        Durability {
            flush_unit: crash.flush_unit(),
            changed: vec![(0, image.len())],
            certain_len: image.len(),
            image_len: image.len(),
            durable: image,
            lines: BTreeMap::new(),
            flushes: Vec::new(),
            fences: 0,
            stores: 0,
        }
    }

    /// Applies one event of `trace`.
    pub fn apply(&mut self, trace: &Trace, event: Event) {
        match event {
            Event::Store { off, from, len } => {
                self.store(off, &trace.bytes[from..from + len], None);
            }
            Event::Stream { thread, off, from, len } => {
                self.store(off, &trace.bytes[from..from + len], Some(thread));
                let lines = (off..off + len as u64).step_by(self.flush_unit as usize);
                self.flushes.extend(lines.map(|line| (thread, line)));
            }
            Event::Flush { thread, line } => self.flush(thread, line),
            Event::Fence { thread } => self.fence(thread),
            Event::Sync { off, len } => self.sync(off, len),
            Event::Grow(len) => self.durable.resize(len as usize, 0),
            Event::SyncLength => self.certain_len = self.durable.len(),
            Event::Mark(_) | Event::Passed(_) => {}
        }
    }

    fn store(&mut self, off: u64, bytes: &[u8], streamed_by: Option<u32>) {
        let mut rest = bytes;
        let mut off = off;
        while !rest.is_empty() {
            let len = rest.len().min((8 - off % 8) as usize);
            let mut piece = Piece {
                off,
                len: len as u8,
                bytes: [0; 8],
                epoch: self.fences,
                order: self.stores,
                streamed_by,
            };
            self.stores += 1;
            piece.bytes[..len].copy_from_slice(&rest[..len]);
            let line = off / self.flush_unit * self.flush_unit;
            self.lines.entry(line).or_default().pieces.push(piece);
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
            for piece in pending.fence(thread) {
                put(durable, &piece);
                changed.push((piece.off, piece.len as usize));
            }
            if pending.pieces.is_empty() {
                lines.remove(&line);
            }
            false
        });
    }

    fn sync(&mut self, off: u64, len: u64) {
        self.fences += 1;
        let Durability { durable, lines, changed, .. } = self;
        let synced: Vec<u64> = lines.range(off..off + len).map(|(line, _)| *line).collect();
        for piece in synced.iter().filter_map(|line| lines.remove(line)).flat_map(|l| l.pieces) {
            put(durable, &piece);
            changed.push((piece.off, piece.len as usize));
        }
    }

    /// Returns the medium after the end of the process: pending stores are still pending, and
    /// nobody will fence them.
    pub(crate) fn orphaned(&self) -> Durability {
        let mut orphaned = self.clone();
        orphaned.flushes.clear();
        for line in orphaned.lines.values_mut() {
            line.flushed.clear();
            line.pieces.iter_mut().for_each(|piece| piece.streamed_by = None);
        }
        orphaned
    }

    /// Marks everything as changed: nobody has a copy, and the next image is listed as changed from
    /// end to end.
    pub(crate) fn changed_everywhere(&mut self) {
        self.changed = vec![(0, self.durable.len())];
    }

    /// Returns true if nothing is pending.
    pub fn has_nothing_pending(&self) -> bool {
        self.lines.is_empty() && self.certain_len == self.durable.len()
    }

    /// Returns what a program sees: everything stored so far.
    pub fn visible(&self) -> Vec<u8> {
        let mut image = self.durable.clone();
        for piece in self.lines.values().flat_map(|line| &line.pieces) {
            put(&mut image, piece);
        }
        image
    }

    /// Returns only what is certain.
    pub fn certain(&self) -> &[u8] {
        &self.durable[..self.certain_len]
    }

    /// Calls `see` with the images that a power loss may leave now, and a description of the
    /// pending stores that arrived. `see` returns whether to continue.
    pub fn images(
        &mut self,
        crash: Crash,
        choose: Choose,
        rng: &mut fastrand::Rng,
        mut see: impl FnMut(Image<'_>, &dyn Fn() -> String) -> bool,
    ) {
        let units = self.units(crash);
        let is_fresh = |unit: &Vec<Piece>| unit.last().is_some_and(|p| p.epoch == self.fences);
        let mut shape: Vec<(usize, bool)> =
            units.iter().map(|unit| (unit.len(), is_fresh(unit))).collect();
        let grown = (self.durable.len() - self.certain_len).div_ceil(PAGE);
        shape.extend((grown > 0).then_some((grown, true)));
        let mut undo = Vec::new();
        for choice in Choices::new(&shape, choose, rng) {
            for (unit, arrived) in units.iter().zip(&choice) {
                for piece in &unit[..*arrived] {
                    undo.push((*piece, put(&mut self.durable, piece)));
                    self.changed.push((piece.off, piece.len as usize));
                }
            }
            let pages = if grown > 0 { choice[units.len()] } else { 0 };
            let len = self.durable.len().min(self.certain_len + pages * PAGE);
            let (from, to) = (len.min(self.image_len), len.max(self.image_len));
            self.changed.push((from as u64, to - from));
            self.image_len = len;
            let image = Image { bytes: &self.durable[..len], changed: &mut self.changed };
            let go_on = see(image, &|| describe(&units, &choice, len));
            while let Some((piece, before)) = undo.pop() {
                put(&mut self.durable, &Piece { bytes: before, ..piece });
                self.changed.push((piece.off, piece.len as usize));
            }
            if !go_on {
                return;
            }
        }
    }

    /// Returns the pending stores in groups that arrive in order: a prefix of each group arrives.
    fn units(&self, crash: Crash) -> Vec<Vec<Piece>> {
        match crash {
            Crash::X86 => self.lines.values().flat_map(cached_and_streamed).collect(),
            Crash::SyncedPages => {
                let mut pages = BTreeMap::<u64, Vec<Piece>>::new();
                for (line, pending) in &self.lines {
                    pages.entry(line / PAGE as u64).or_default().extend(&pending.pieces);
                }
                pages.values_mut().for_each(|page| page.sort_by_key(|piece| piece.order));
                pages.into_values().collect()
            }
            Crash::Strict | Crash::SyncedWords | Crash::FlushedWords => {
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

/// Returns the pending stores of a line in the x86 model: one group for each word that was streamed
/// to, and one for the other words.
fn cached_and_streamed(line: &Line) -> Vec<Vec<Piece>> {
    let mut is_streamed = [false; 8];
    for piece in line.pieces.iter().filter(|piece| piece.streamed_by.is_some()) {
        is_streamed[piece.word()] = true;
    }
    let mut units = vec![Vec::new(); 9];
    for piece in &line.pieces {
        units[if is_streamed[piece.word()] { piece.word() } else { 8 }].push(*piece);
    }
    units.retain(|unit| !unit.is_empty());
    units
}

/// Returns in words which stores arrived; long lists are shortened.
fn describe(units: &[Vec<Piece>], choice: &[usize], len: usize) -> String {
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
    let (arrived, lost) = (list(true), list(false));
    format!("{len} bytes; pending stores that arrived: {arrived}; lost: {lost}")
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
        /// Streams a word by a thread past the cache; a real processor streams whole lines.
        Stream(u32, u64, u64),
        Flush(u32, u64),
        Fence(u32),
    }
    use Do::*;

    /// Checks the images of two words, as sets of (word at 0, word at 8, word at 64), after some
    /// events.
    fn check(crash: Crash, events: &[Do], expect: &[(u64, u64, u64)]) {
        let mut medium = Durability::new(vec![0; 128]);
        for event in events {
            match *event {
                Store(off, value) => medium.store(off, &value.to_le_bytes(), None),
                Stream(thread, off, value) => {
                    medium.store(off, &value.to_le_bytes(), Some(thread));
                    medium.flushes.push((thread, off / LINE * LINE));
                }
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
    fn what_is_streamed_is_certain_after_a_fence_of_its_thread_and_no_other() {
        check(Crash::Strict, &[Stream(0, 0, 1)], &[(0, 0, 0), (1, 0, 0)]);
        check(Crash::Strict, &[Stream(0, 0, 1), Fence(0)], &[(1, 0, 0)]);
        check(Crash::Strict, &[Stream(0, 0, 1), Fence(1)], &[(0, 0, 0), (1, 0, 0)]);
    }

    #[test]
    fn what_is_streamed_is_flushed_by_nobody() {
        let events = [Stream(0, 0, 1), Flush(1, 0), Fence(1)];
        check(Crash::Strict, &events, &[(0, 0, 0), (1, 0, 0)]);
        let events = [Stream(0, 0, 1), Store(8, 2), Flush(1, 0), Fence(1)];
        check(Crash::Strict, &events, &[(0, 2, 0), (1, 2, 0)]);
    }

    #[test]
    fn a_stream_makes_nothing_else_of_its_line_certain() {
        let events = [Store(8, 2), Stream(0, 0, 1), Fence(0)];
        check(Crash::Strict, &events, &[(1, 0, 0), (1, 2, 0)]);
    }

    #[test]
    fn what_a_certain_store_overtakes_comes_back_never() {
        let events = [Stream(0, 0, 1), Store(0, 2), Flush(1, 0), Fence(1)];
        check(Crash::Strict, &events, &[(2, 0, 0)]);
        let events = [Store(0, 1), Stream(0, 0, 2), Fence(0)];
        check(Crash::Strict, &events, &[(2, 0, 0)]);
    }

    #[test]
    fn words_that_are_streamed_arrive_apart_in_every_model() {
        let apart = [(0, 0, 0), (1, 0, 0), (0, 2, 0), (1, 2, 0)];
        check(Crash::X86, &[Stream(0, 0, 1), Stream(0, 8, 2)], &apart);
        check(Crash::X86, &[Store(0, 1), Stream(0, 8, 2)], &apart);
    }

    #[test]
    fn a_word_takes_its_values_in_order() {
        check(Crash::Strict, &[Store(0, 1), Store(0, 2)], &[(0, 0, 0), (1, 0, 0), (2, 0, 0)]);
    }

    #[test]
    fn what_a_program_sees_is_all_it_stored() {
        let mut medium = Durability::new(vec![0; 128]);
        medium.store(6, &[1, 2, 3, 4], None);
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
