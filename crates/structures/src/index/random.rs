//! A random entry.
//!
//! Hashes are uniform, so a segment that covers a share of the hash range holds about that share of
//! the entries: a random hash chooses the segment, and a random draw among its entries the entry.

use heap::{Ptr, View};

use super::layout::*;
use super::overflow;
use super::path::SegmentPath;

/// The number of segments to look at before the index counts as too sparse.
const SEGMENTS: usize = 64;
/// The number of random draws before a segment's entries are counted.
const DRAWS: usize = 16;
/// The number of overflow blocks that take part.
const BLOCKS: usize = 16;

pub(super) fn random<V: View>(view: &V, root: Ptr, mut random: impl FnMut() -> u64) -> Option<Ptr> {
    for _ in 0..SEGMENTS {
        let segment = SegmentPath::of(view, root, random())?.segment;
        let slot = draw(view, segment, &mut random).or_else(|| count(view, segment, &mut random));
        if slot.is_some() {
            return slot.map(entry_of);
        }
    }
    None
}

fn draw<V: View>(view: &V, segment: Ptr, random: &mut impl FnMut() -> u64) -> Option<u64> {
    if view.word(word_at(segment, CHAIN)) != 0 {
        return None;
    }
    (0..DRAWS).find_map(|_| {
        let word = SLOTS + below(random(), SEGMENT_SLOTS);
        Some(view.word(word_at(segment, word))).filter(|&slot| is_used(slot))
    })
}

fn count<V: View>(view: &V, segment: Ptr, random: &mut impl FnMut() -> u64) -> Option<u64> {
    let slots = || {
        let own = (SLOTS..SEGMENT_WORDS).map(move |word| word_at(segment, word));
        let chain = overflow::blocks(view, segment).take(BLOCKS);
        let overflowed =
            chain.flat_map(|block| (1..OVERFLOW_WORDS).map(move |word| word_at(block, word)));
        own.chain(overflowed).map(|at| view.word(at)).filter(|&slot| is_used(slot))
    };
    match slots().count() {
        0 => None,
        entries => slots().nth(below(random(), entries)),
    }
}

/// Returns a number below `limit` from 64 random bits.
fn below(random: u64, limit: usize) -> usize {
    ((u128::from(random) * limit as u128) >> 64) as usize
}
