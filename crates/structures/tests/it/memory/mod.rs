//! A store in plain memory that counts logged words and refuses every breach of the heap's rules.
//!
//! It panics if a structure writes to bytes that a reader may see, changes a word of a block that
//! is not allocated, frees twice, publishes bytes that it did not write, or reads as bytes what is
//! logged as words.

#![allow(dead_code, reason = "each test uses a part")]

mod blocks;
mod words;

use std::cell::Cell;
use std::collections::HashMap;

use blocks::{Block, Blocks};
use heap::{Full, MAX_BLOCK, Ptr, View};
use proptest::test_runner::Config;
use structures::{Fill, Store};
use words::Words;

/// Words below this offset belong to the test: roots.
const ROOTS: u64 = 4096;

/// The cost of the open transaction, or of the last committed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) words: usize,
    pub(crate) published: usize,
    pub(crate) blocks: usize,
    pub(crate) freed: usize,
}

pub(crate) struct Memory {
    bytes: Vec<u8>,
    blocks: Blocks,
    free: HashMap<usize, Vec<u64>>,
    staged: HashMap<u64, u64>,
    logged: Words,
    cost: Cost,
    /// Blocks that the open transaction reserved or freed.
    touched: Vec<u64>,
    /// The number of reservations before one is refused.
    pub(crate) reservations_left: usize,
    pub(crate) all_sparse: bool,
    reserve_in_use: bool,
    /// Words that were read since the last commit.
    reads: Cell<u64>,
}

/// No operation and no walk of a test reads this many words: a walk over a broken structure fails
/// here instead of hanging.
const MOST_READS: u64 = 100_000_000;

pub(crate) struct Reserved(u64);

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory {
            bytes: vec![0; ROOTS as usize],
            blocks: Blocks::default(),
            free: HashMap::new(),
            staged: HashMap::new(),
            logged: Words::default(),
            cost: Cost::default(),
            touched: Vec::new(),
            reservations_left: usize::MAX,
            all_sparse: false,
            reserve_in_use: false,
            reads: Cell::new(0),
        }
    }

    pub(crate) fn root(number: u64) -> Ptr {
        Ptr::from_raw(64 + 8 * number)
    }

    /// Commits the transaction; returns its cost.
    pub(crate) fn commit(&mut self) -> Cost {
        self.reads.set(0);
        let staged: Vec<(u64, u64)> = self.staged.drain().collect();
        for &(at, value) in &staged {
            self.store(at, value);
        }
        let mut cost = std::mem::take(&mut self.cost);
        cost.words = staged.len();
        for at in std::mem::take(&mut self.touched) {
            match self.blocks.get_mut(at) {
                Some(block) if block.freed || block.published.is_none() => self.forget(at),
                Some(block) => block.fresh = false,
                None => {}
            }
        }
        cost
    }

    pub(crate) fn rollback(&mut self) {
        self.staged.clear();
        self.cost = Cost::default();
        for at in std::mem::take(&mut self.touched) {
            match self.blocks.get_mut(at) {
                Some(block) if block.fresh => self.forget(at),
                Some(block) => block.freed = false,
                None => {}
            }
        }
    }

    /// Returns the allocated blocks.
    pub(crate) fn blocks(&self) -> Vec<Ptr> {
        self.blocks.iter().map(|(at, _)| Ptr::from_raw(at)).collect()
    }

    /// Returns the number of bytes in allocated blocks.
    pub(crate) fn used(&self) -> usize {
        self.blocks.iter().map(|(_, block)| block.capacity).sum()
    }

    /// Flips a bit, as a bad medium does.
    pub(crate) fn damage(&mut self, at: Ptr) {
        self.flip(at, 4);
    }

    /// Overwrites the word at a place, as a bad medium does.
    pub(crate) fn put(&mut self, at: Ptr, word: u64) {
        let at = at.raw() as usize;
        self.bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }

    /// Flips a bit of the word at a place.
    pub(crate) fn flip(&mut self, at: Ptr, bit: u32) {
        self.bytes[at.raw() as usize + bit as usize / 8] ^= 1 << (bit % 8);
    }

    fn forget(&mut self, at: u64) {
        let block = self.blocks.remove(at).expect("a block");
        let range = at as usize..at as usize + block.capacity;
        self.bytes[range.clone()].fill(0xdd);
        self.logged.remove_all(range.start as u64..range.end as u64);
        self.free.entry(block.capacity).or_default().push(at);
    }

    fn store(&mut self, at: u64, value: u64) {
        self.bytes[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    }

    fn write_range(&mut self, fresh: &Reserved, range: std::ops::Range<usize>) {
        let block = self.blocks.get_mut(fresh.0).expect("a reserved block");
        assert!(block.fresh && block.published.is_none(), "write to what is published");
        assert!(range.end <= block.capacity, "write past the block");
        block.written.push(range);
    }
}

/// Runs a property with this many cases. Failures are stored in `tests/proptest-regressions`, to be
/// committed.
pub(crate) fn cases(cases: u32) -> Config {
    Config::with_cases(if cfg!(miri) { 1 } else { cases })
}

/// Returns the number of steps of a test: this many, or a 50th under an interpreter.
pub(crate) const fn steps(steps: usize) -> usize {
    if cfg!(miri) { steps.div_ceil(50) + 1 } else { steps }
}

/// The heap's size classes, approximately: the measured bytes per key come from the heap itself.
fn class(len: usize) -> usize {
    match len {
        0..=1024 => len.next_multiple_of(16),
        1025..=2048 => 2048,
        2049..=4352 => 4352,
        4353..=16320 => 16320,
        16321..=32704 => 32704,
        _ => 65536,
    }
}

impl View for Memory {
    fn word(&self, at: Ptr) -> u64 {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() < MOST_READS, "a walk does not end");
        let at = at.raw();
        assert!(at.is_multiple_of(8));
        let readable =
            at < ROOTS || self.blocks.with(at).is_some_and(|(_, b)| b.published.is_some());
        assert!(readable, "a word of no block at {at:#x}");
        self.staged.get(&at).copied().unwrap_or_else(|| {
            u64::from_le_bytes(self.bytes[at as usize..at as usize + 8].try_into().expect("8"))
        })
    }

    fn bytes(&self, at: Ptr, len: usize) -> &[u8] {
        let at = at.raw();
        if len == 0 {
            return &[];
        }
        let (start, block) = self.blocks.with(at).expect("bytes of a block");
        let published = start + block.published.expect("bytes of a published block") as u64;
        assert!(at + len as u64 <= published, "bytes behind the published length");
        assert!(!self.logged.any(at & !7..at + len as u64), "logged as words");
        &self.bytes[at as usize..at as usize + len]
    }

    fn prefetch(&self, _: Ptr) {}
}

impl Fill for Memory {
    type Fresh = Reserved;

    fn reserve(&mut self, len: usize) -> Result<Reserved, Full> {
        assert!((1..=MAX_BLOCK).contains(&len));
        if !self.reserve_in_use {
            self.reservations_left = self.reservations_left.checked_sub(1).ok_or(Full)?;
        }
        let capacity = class(len);
        let at = self.free.get_mut(&capacity).and_then(Vec::pop).unwrap_or_else(|| {
            let at = self.bytes.len().next_multiple_of(64);
            self.bytes.resize(at + capacity, 0xdd);
            at as u64
        });
        self.touched.push(at);
        self.blocks.insert(at, Block { capacity, fresh: true, ..Block::default() });
        Ok(Reserved(at))
    }

    fn fresh_capacity(&self, fresh: &Reserved) -> usize {
        self.blocks.get(fresh.0).expect("a reserved block").capacity
    }

    fn write(&mut self, fresh: &Reserved, at: usize, bytes: &[u8]) {
        self.write_range(fresh, at..at + bytes.len());
        let from = fresh.0 as usize + at;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
    }

    fn write_word(&mut self, fresh: &Reserved, at: usize, value: u64) {
        assert!(at.is_multiple_of(8));
        self.write(fresh, at, &value.to_le_bytes());
    }

    fn publish(&mut self, fresh: Reserved, len: usize) -> Ptr {
        let block = self.blocks.get_mut(fresh.0).expect("a reserved block");
        let mut written = std::mem::take(&mut block.written);
        written.sort_by_key(|range| range.start);
        let upto = written
            .iter()
            .fold(0, |upto, range| if range.start <= upto { upto.max(range.end) } else { upto });
        assert!(upto >= len, "publishes {len} bytes of which {upto} are written");
        block.published = Some(len);
        self.cost.published += len;
        self.cost.blocks += 1;
        Ptr::from_raw(fresh.0)
    }
}

impl Store for Memory {
    fn set(&mut self, at: Ptr, value: u64) {
        let at = at.raw();
        assert!(at.is_multiple_of(8));
        if at < ROOTS {
            self.staged.insert(at, value);
            return;
        }
        let (start, block) = self.blocks.with(at).expect("a word of a block");
        assert!(!block.freed, "a word of a freed block");
        let published = block.published.expect("a word of a published block");
        assert!(at + 8 <= start + published as u64, "a word behind the published length");
        if block.fresh {
            self.store(at, value);
        } else {
            self.logged.insert(at);
            self.staged.insert(at, value);
        }
    }

    fn append(&mut self, block: Ptr, at: usize, bytes: &[u8]) {
        let entry = self.blocks.get_mut(block.raw()).expect("a block");
        assert!(!entry.freed);
        assert_eq!(entry.published, Some(at), "an append not at the end");
        assert!(at + bytes.len() <= entry.capacity, "an append past the block");
        entry.published = Some(at + bytes.len());
        self.cost.published += bytes.len();
        let from = block.raw() as usize + at;
        self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
    }

    fn capacity(&self, block: Ptr) -> usize {
        self.blocks.get(block.raw()).expect("a block").capacity
    }

    fn free(&mut self, block: Ptr) {
        self.touched.push(block.raw());
        let block = self.blocks.get_mut(block.raw()).expect("a block to free");
        assert!(block.published.is_some(), "freed before it was published");
        assert!(!block.freed, "freed twice");
        block.freed = true;
        self.cost.freed += 1;
    }

    fn is_sparse(&self, _: Ptr) -> bool {
        self.all_sparse
    }

    fn allow_reserve(&mut self, yes: bool) -> bool {
        std::mem::replace(&mut self.reserve_in_use, yes)
    }
}
