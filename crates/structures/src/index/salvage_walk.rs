//! Walks an index that may be damaged: shows everything that can be reached, and reports all
//! damage.
//!
//! Each block is shown before it is read, and read only if the visitor confirms that it belongs to
//! this shard and has not been seen: a flipped pointer leads nowhere twice, so that the walk ends
//! on any bytes. An entry is shown with what its place implies about its hash; the visitor compares
//! that with the entry's own hash, in any order.

use heap::{Ptr, View};

use super::Slot;
use super::layout::*;
use crate::Damaged;

/// What the walk finds.
#[derive(Clone, Copy, Debug)]
pub enum WalkItem {
    /// A block of the index, of this many bytes. The visitor returns whether to read it.
    Block(Ptr, usize),
    /// A slot in use.
    Entry(Slot, Near),
    /// Damage.
    Damage(Damaged),
}

/// What the place of a slot implies about its entry's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    prefix: u64,
    depth: u32,
    tag: u16,
}

impl Near {
    /// Returns true if an entry with this hash would have its slot there.
    pub fn fits(&self, hash: u64) -> bool {
        tag(hash) == self.tag && prefix(hash, self.depth) == self.prefix
    }

    /// Returns a hash that leads to the same slot of this index.
    pub fn hash(&self) -> u64 {
        self.prefix | u64::from(self.tag)
    }

    /// Returns how many bits of the hash are known.
    pub fn bits(&self) -> u32 {
        self.depth + 16
    }
}

/// Shows everything below the root word at `root`.
pub(super) fn salvage_walk<V: View>(view: &V, root: Ptr, visit: &mut dyn FnMut(WalkItem) -> bool) {
    if view.word(root) != 0 {
        SalvageWalk { view, visit }.run(Words { first: root, count: 1, covered: 0, prefix: 0 });
    }
}

/// Words that refer to nodes or segments: those of one node, or the root word.
struct Words {
    first: Ptr,
    count: usize,
    covered: u32,
    prefix: u64,
}

struct SalvageWalk<'s, V> {
    view: &'s V,
    visit: &'s mut dyn FnMut(WalkItem) -> bool,
}

impl<V: View> SalvageWalk<'_, V> {
    fn damage(&mut self, what: &'static str, at: Ptr, expected: u64, found: u64) {
        (self.visit)(WalkItem::Damage(Damaged { what, at: at.raw(), expected, found }));
    }

    fn unless_equal(&mut self, what: &'static str, at: Ptr, expected: u64, found: u64) {
        if expected != found {
            self.damage(what, at, expected, found);
        }
    }

    fn run(&mut self, words: Words) {
        let mut number = 0;
        while number < words.count {
            let at = word_at(words.first, number);
            let word = self.view.word(at);
            let shift = 64 - words.covered;
            let prefix = words.prefix | if shift < 64 { (number as u64) << shift } else { 0 };
            if word & NODE_FLAG != 0 {
                self.node(at, Ptr::from_raw(word & !NODE_FLAG), words.covered, prefix);
                number += 1;
            } else {
                number += self.segment(&words, number, Ptr::from_raw(word), prefix);
            }
        }
    }

    fn node(&mut self, at: Ptr, node: Ptr, covered: u32, prefix: u64) {
        if covered >= MAX_DEPTH || !(self.visit)(WalkItem::Block(node, NODE)) {
            return self.damage("index node", at, 0, node.raw());
        }
        let covered = covered + NODE_BITS;
        self.run(Words { first: node, count: NODE_WORDS, covered, prefix });
    }

    /// Shows a segment; returns how many words of the node refer to it.
    fn segment(&mut self, words: &Words, number: usize, segment: Ptr, prefix: u64) -> usize {
        let at = word_at(words.first, number);
        let same = (number..words.count)
            .take_while(|&i| self.view.word(word_at(words.first, i)) == segment.raw())
            .count();
        if segment.is_null() || !(self.visit)(WalkItem::Block(segment, SEGMENT)) {
            self.damage("index segment", at, 0, segment.raw());
            return same;
        }
        let found = self.view.word(word_at(segment, KIND));
        let lowest = words.covered.saturating_sub(NODE_BITS - 1);
        let depth = depth_of(found).filter(|depth| (lowest..=words.covered).contains(depth));
        let Some(depth) = depth else {
            self.damage("index segment header", segment, kind(words.covered), found);
            return same;
        };
        let run = 1 << (words.covered - depth);
        if number & (run - 1) != 0 {
            self.damage("index node", at, 0, segment.raw());
        }
        self.unless_equal("index node", at, run as u64, same as u64);
        self.header(segment, prefix);
        self.slots(segment, Near { prefix, depth, tag: 0 });
        same
    }

    fn header(&mut self, segment: Ptr, prefix: u64) {
        let at = word_at(segment, PREFIX);
        self.unless_equal("index segment prefix", at, prefix, self.view.word(at));
        for at in (CHAIN + 1..SLOTS).map(|word| word_at(segment, word)) {
            self.unless_equal("spare word of an index segment", at, 0, self.view.word(at));
        }
    }

    fn slots(&mut self, segment: Ptr, near: Near) {
        let stashed = self.view.word(word_at(segment, STASHED));
        for number in 0..HOMES + STASH {
            let bucket = bucket_at(segment, number);
            for (i, word) in line(self.view, bucket).into_iter().enumerate() {
                let home = home_of(word);
                let own = number == home || number == neighbour(home);
                let stash = number >= HOMES && stashed & 1 << home != 0;
                self.slot(segment, word_at(bucket, i), word, near, own || stash);
            }
        }
        let mut block = Ptr::from_raw(self.view.word(word_at(segment, CHAIN)));
        let mut first = true;
        while !block.is_null() {
            if !(self.visit)(WalkItem::Block(block, OVERFLOW)) {
                return self.damage("index overflow block", segment, 0, block.raw());
            }
            let mut empty = 0;
            for at in (1..OVERFLOW_WORDS).map(|word| word_at(block, word)) {
                let word = self.view.word(at);
                empty += u64::from(word == EMPTY);
                self.slot(segment, at, word, near, stashed & 1 << home_of(word) != 0);
            }
            let allowed = if first { OVERFLOW_WORDS as u64 - 2 } else { 0 };
            let what = "index overflow block with empty slots";
            self.unless_equal(what, block, empty.min(allowed), empty);
            first = false;
            block = Ptr::from_raw(self.view.word(block));
        }
    }

    fn slot(&mut self, segment: Ptr, at: Ptr, word: u64, near: Near, is_reached: bool) {
        if word == EMPTY {
            return;
        }
        if !is_used(word) {
            return self.damage("lost slot of an index", at, EMPTY, word);
        }
        if !is_reached {
            return self.damage("index slot outside of its home", at, 0, word);
        }
        let near = Near { tag: tag_of(word), ..near };
        (self.visit)(WalkItem::Entry(Slot { at, word, segment }, near));
    }
}
