//! Which blocks are allocated, according to the bitmaps alone, and whether headers, spans and
//! counters agree with them.
//!
//! The layer above knows which blocks it can reach: in an intact pool these are exactly the
//! allocated ones. A [`Ledger`] holds both sets for one shard, a bit for each block, and is filled
//! with that shard locked.

use crate::error::CommitError;
use crate::layout::header::Header;
use crate::layout::size_class::{BITMAP_AT, Class, TABLE, WHOLE};
use crate::layout::span::{header, split_span_word};
use crate::layout::{HEADER_A, HEADER_B};
use crate::ptr::Ptr;
use crate::transaction::heap::Heap;
use crate::transaction::shard::Shard;
use pmem::Region;

/// An allocated block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The block's place.
    pub ptr: Ptr,
    /// How many bytes it holds.
    pub capacity: usize,
    /// The shard that owns it.
    pub shard: usize,
}

/// An error in a pool's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// One copy of the header is damaged; the other one is used.
    #[error("the copy of the pool's header at offset {at:#x} is damaged")]
    Header {
        /// Byte offset in the pool.
        at: u64,
    },
    /// A word of the span table makes no sense.
    #[error(
        "span {span}: its word in the span table is {found:#x}, which names no class and shard"
    )]
    SpanWord {
        /// Span number.
        span: u32,
        /// The word.
        found: u64,
    },
    /// A span's header does not match its class.
    #[error("span {span}: its header is not that of class {class}, which the span table says")]
    SpanHeader {
        /// Span number.
        span: u32,
        /// Class by the span table.
        class: u8,
    },
    /// The bitmap marks blocks that the span does not have.
    #[error("span {span}: its bitmap marks blocks after the last one")]
    Bitmap {
        /// Span number.
        span: u32,
    },
    /// The counter of a shard differs from the sum of its blocks.
    #[error("shard {shard}: {counted} bytes are counted as allocated, its blocks have {found}")]
    Used {
        /// Shard number.
        shard: usize,
        /// The logged counter.
        counted: u64,
        /// Sum over the allocated blocks.
        found: u64,
    },
}

impl CheckError {
    /// Returns true if opening the pool, or counting again, repairs it; otherwise the correct value
    /// is unknown.
    pub fn is_repairable(&self) -> bool {
        matches!(self, CheckError::Header { .. } | CheckError::Used { .. })
    }
}

/// The result of following a pointer to a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// The block is allocated, and was not reached before; its size in bytes.
    First(usize),
    /// It was reached before.
    Again,
    /// No allocated block of this shard begins there.
    Nothing,
}

/// A span of the shard, and where its bits are.
#[derive(Debug, Clone, Copy)]
struct Own {
    class: u8,
    bits: u32,
}

/// The allocated blocks of one shard, and those that have been reached.
#[derive(Debug)]
pub struct Ledger<'h> {
    heap: &'h Heap,
    shard: usize,
    /// By span number.
    spans: Vec<Option<Own>>,
    allocated: Vec<u64>,
    reached: Vec<u64>,
    bytes: u64,
}

/// Returns the damaged copies of the header. Call it before the pool is opened, which writes both.
pub fn check_headers(region: &Region) -> Vec<CheckError> {
    let damaged = |at: &u64| Header::read_at(region, *at).is_err();
    [HEADER_A, HEADER_B].into_iter().filter(damaged).map(|at| CheckError::Header { at }).collect()
}

impl Heap {
    /// Returns all allocated blocks, in the order of their places. Locks every shard; the caller
    /// must hold none.
    pub fn allocated(&self) -> Result<Vec<Block>, CheckError> {
        let shards: Vec<Shard<'_>> = (0..self.shards()).map(|shard| self.lock(shard)).collect();
        let mut blocks = Vec::new();
        let mut problems = self.check_spans();
        for shard in &shards {
            let ledger = Ledger::of(shard, &mut |problem| problems.push(problem));
            blocks.extend(ledger.unreached());
        }
        blocks.sort_unstable_by_key(|block| block.ptr);
        problems.first().map_or(Ok(blocks), |problem| Err(*problem))
    }

    /// Returns the words of the span table that make no sense.
    pub fn check_spans(&self) -> Vec<CheckError> {
        let word = |span: u32| self.region.load(self.geometry.span_word(span));
        self.span_numbers()
            .map(|span| (span, word(span)))
            .filter(|&(_, found)| found != 0 && split_span_word(found, self.shards()).is_none())
            .map(|(span, found)| CheckError::SpanWord { span, found })
            .collect()
    }

    fn span_numbers(&self) -> impl Iterator<Item = u32> + use<'_> {
        let spans = self.spans.zones() * self.geometry.zone_spans as u64;
        (0..spans as u32).filter(|span| !self.geometry.is_table(*span))
    }
}

impl<'h> Ledger<'h> {
    /// Returns the allocated blocks of a locked shard, none of them reached. Reports errors in its
    /// spans and its counter to `problem`.
    pub fn of(shard: &Shard<'h>, problem: &mut dyn FnMut(CheckError)) -> Ledger<'h> {
        let (heap, id) = (shard.heap(), shard.id());
        let count = heap.span_numbers().last().map_or(0, |last| last as usize + 1);
        let mut ledger = Ledger {
            heap,
            shard: id,
            spans: vec![None; count],
            allocated: Vec::new(),
            reached: Vec::new(),
            bytes: 0,
        };
        for span in heap.span_numbers() {
            let found = heap.region.load(heap.geometry.span_word(span));
            match split_span_word(found, heap.shards()) {
                Some((class, owner)) if owner == id => ledger.enter(span, class, problem),
                _ => {}
            }
        }
        ledger.reached = vec![0; ledger.allocated.len()];
        let counted = heap.region.load(heap.area(id).used());
        if counted != ledger.bytes {
            problem(CheckError::Used { shard: id, counted, found: ledger.bytes });
        }
        ledger
    }

    /// Like [`Ledger::of`], for a shard whose bitmaps cannot be trusted: every block of its spans
    /// counts as allocated.
    pub fn of_all(shard: &Shard<'h>) -> Ledger<'h> {
        let mut ledger = Ledger::of(shard, &mut |_| {});
        for own in ledger.spans.iter().flatten() {
            let shape = &TABLE[own.class as usize];
            for (word, bits) in
                ledger.allocated[own.bits as usize..][..shape.words()].iter_mut().enumerate()
            {
                *bits = within(shape, word);
            }
        }
        ledger
    }

    fn enter(&mut self, span: u32, class: u8, problem: &mut dyn FnMut(CheckError)) {
        let shape = &TABLE[class as usize];
        let base = self.heap.geometry.span_at(span);
        let region = &self.heap.region;
        self.spans[span as usize] = Some(Own { class, bits: self.allocated.len() as u32 });
        if class == WHOLE {
            self.allocated.push(1);
            self.bytes += u64::from(shape.size);
            return;
        }
        let header = header(class, shape);
        let intact = header
            .chunks_exact(8)
            .enumerate()
            .all(|(i, bytes)| region.load(base + 8 * i as u64).to_le_bytes() == bytes);
        if !intact {
            problem(CheckError::SpanHeader { span, class });
        }
        for word in 0..shape.words() as u64 {
            let bits = region.load(base + BITMAP_AT + 8 * word);
            let within = within(shape, word as usize);
            if bits & !within != 0 {
                problem(CheckError::Bitmap { span });
            }
            self.bytes += u64::from((bits & within).count_ones()) * u64::from(shape.size);
            self.allocated.push(bits & within);
        }
    }

    /// Returns the shard's number.
    pub fn shard(&self) -> usize {
        self.shard
    }

    /// Returns the number of bytes in the shard's allocated blocks.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the word and the bit of the block that begins at `at`, and its capacity.
    #[inline]
    fn find(&self, at: Ptr) -> Option<(usize, u64, usize)> {
        let number = self.heap.geometry.span_of(at.raw())?;
        let own = (*self.spans.get(number as usize)?)?;
        let shape = &TABLE[own.class as usize];
        let index = shape.index((at.raw() - self.heap.geometry.span_at(number)) as u32)?;
        Some((own.bits as usize + index as usize / 64, 1 << (index % 64), shape.size as usize))
    }

    /// Records that something leads to the block at `at`.
    #[inline]
    pub fn reach(&mut self, at: Ptr) -> Reached {
        let Some((word, bit, capacity)) = self.find(at) else { return Reached::Nothing };
        if self.allocated[word] & bit == 0 {
            return Reached::Nothing;
        }
        if self.reached[word] & bit != 0 {
            return Reached::Again;
        }
        self.reached[word] |= bit;
        Reached::First(capacity)
    }

    /// Returns the size in bytes of the block at `at`, allocated or not; `None` if no block can
    /// begin there.
    pub fn block_size(&self, at: Ptr) -> Option<usize> {
        self.find(at).map(|(_, _, capacity)| capacity)
    }

    /// Returns the size in bytes of the allocated block at `at`; `None` if none begins there.
    pub fn capacity(&self, at: Ptr) -> Option<usize> {
        let (word, bit, capacity) = self.find(at)?;
        (self.allocated[word] & bit != 0).then_some(capacity)
    }

    /// Returns the allocated blocks that have not been reached, in the order of their places.
    pub fn unreached(&self) -> impl Iterator<Item = Block> + use<'_, 'h> {
        let spans = self.spans.iter().enumerate();
        let own = spans.filter_map(|(number, own)| Some((number as u32, (*own)?)));
        own.flat_map(move |(number, own)| {
            let shape = &TABLE[own.class as usize];
            let base = self.heap.geometry.span_at(number);
            let left = move |index: &u32| {
                let word = own.bits as usize + *index as usize / 64;
                self.allocated[word] & !self.reached[word] & 1 << (index % 64) != 0
            };
            (0..shape.count).filter(left).map(move |index| Block {
                ptr: Ptr::from_raw(base + u64::from(shape.offset(index))),
                capacity: shape.size as usize,
                shard: self.shard,
            })
        })
    }
}

/// Returns the bits of a word of a bitmap that represent a block.
fn within(shape: &Class, word: usize) -> u64 {
    match shape.count as usize - 64 * word {
        64.. => u64::MAX,
        count => (1 << count) - 1,
    }
}

impl Shard<'_> {
    /// Sets the bit of each block that the ledger has reached; returns for how many it was not set.
    /// Nothing may be staged.
    pub fn allocate_reached(&mut self, ledger: &Ledger<'_>) -> Result<u64, CommitError> {
        const AT_ONCE: usize = 256;
        let (mut blocks, mut staged) = (0, 0);
        for (number, own) in ledger.spans.iter().enumerate() {
            let Some(own) = own.filter(|own| own.class != WHOLE) else { continue };
            let bitmap = self.heap().geometry.span_at(number as u32) + BITMAP_AT;
            for word in 0..TABLE[own.class as usize].words() {
                let at = bitmap + 8 * word as u64;
                let old = self.heap().region.load(at);
                let added = ledger.reached[own.bits as usize + word] & !old;
                if added == 0 {
                    continue;
                }
                self.state.alloc.take_reached(number as u32, word, added);
                self.set(Ptr::from_raw(at), old | added);
                blocks += u64::from(added.count_ones());
                staged += 1;
                if staged % AT_ONCE == 0 {
                    self.commit()?;
                }
            }
        }
        self.commit()?;
        self.recount()?;
        Ok(blocks)
    }

    /// Sets the shard's count of allocated bytes to the sum of its blocks; returns true if it
    /// differed. Nothing may be staged.
    pub fn recount(&mut self) -> Result<bool, CommitError> {
        let found = Ledger::of(self, &mut |_| {}).bytes();
        let at = Ptr::from_raw(self.heap().area(self.id()).used());
        if self.heap().region.load(at.raw()) == found {
            return Ok(false);
        }
        self.state.used = found;
        self.set(at, found);
        self.commit()?;
        Ok(true)
    }
}
