//! Entries that no split can separate: many equal hashes.
//!
//! A segment that is full although it holds few entries, or that cannot split further, keeps the
//! rest in a chain of overflow blocks. All blocks but the first are full, so that an insert looks
//! only at the first; a removal fills its gap from the first. A lookup of such a hash walks the
//! chain, as in any chained table. The hash is keyed, so that only chance, a test or a lost key
//! leads here.
//!
//! A segment with more than [`SPLITTABLE`] overflow blocks is not split any more, so that splits
//! stay bounded; the rest of the index is not affected.

use heap::{Full, Ptr, View};

use super::layout::*;
use super::segment::{Stored, mark_stashed};
use crate::Store;

/// The maximum number of overflow blocks of a segment that may be split.
pub(super) const SPLITTABLE: usize = 4;

/// The overflow blocks of a segment, in the order of their chain. A cyclic chain, which a damaged
/// pool may have, ends after some rounds.
pub(super) struct Blocks<'v, V> {
    view: &'v V,
    next: Ptr,
    /// A block that was passed, and after how many more a later one takes its place.
    passed: Ptr,
    left: u64,
    renewed: u64,
    /// Whether a block was reached again.
    pub(super) is_cyclic: bool,
}

/// Returns the overflow blocks of a segment.
pub(super) fn blocks<V: View>(view: &V, segment: Ptr) -> Blocks<'_, V> {
    let next = Ptr::from_raw(view.word(word_at(segment, CHAIN)));
    Blocks { view, next, passed: Ptr::NULL, left: 1, renewed: 1, is_cyclic: false }
}

impl<V: View> Iterator for Blocks<'_, V> {
    type Item = Ptr;

    fn next(&mut self) -> Option<Ptr> {
        let block = self.next;
        self.is_cyclic |= !block.is_null() && block == self.passed;
        if block.is_null() || self.is_cyclic {
            return None;
        }
        self.left -= 1;
        if self.left == 0 {
            self.renewed *= 2;
            (self.passed, self.left) = (block, self.renewed);
        }
        self.next = Ptr::from_raw(self.view.word(block));
        Some(block)
    }
}

/// Visits each overflow slot of a segment until `visit` returns a value.
pub(super) fn search<V: View, T>(
    view: &V,
    segment: Ptr,
    mut visit: impl FnMut(Ptr, u64) -> Option<T>,
) -> Option<T> {
    blocks(view, segment).find_map(|block| {
        (1..OVERFLOW_WORDS).find_map(|i| {
            let at = word_at(block, i);
            let slot = view.word(at);
            if is_used(slot) { visit(at, slot) } else { None }
        })
    })
}

/// Adds a slot's word to a segment's chain.
pub(super) fn insert<S: Store>(store: &mut S, segment: Ptr, slot: u64) -> Result<(), Full> {
    let head = blocks(store, segment).next();
    let vacant = head.and_then(|block| vacancy(store, block));
    match vacant {
        Some(at) => store.set(at, slot),
        None => {
            let first = build(store, &[slot], head.unwrap_or(Ptr::NULL))?;
            store.set(word_at(segment, CHAIN), first.raw());
        }
    }
    mark_stashed(&mut Stored { store, segment }, slot);
    Ok(())
}

/// Writes a chain of new blocks that holds these slots, in front of `next`; returns its first
/// block.
pub(super) fn build<S: Store>(store: &mut S, slots: &[u64], next: Ptr) -> Result<Ptr, Full> {
    let mut first = next;
    for some in slots.rchunks(OVERFLOW_WORDS - 1) {
        let mut words = [EMPTY; OVERFLOW_WORDS];
        words[0] = first.raw();
        words[1..=some.len()].copy_from_slice(some);
        let fresh = store.reserve(OVERFLOW)?;
        store.write(&fresh, 0, &bytes::<OVERFLOW_WORDS, OVERFLOW>(&words));
        first = store.publish(fresh, OVERFLOW);
    }
    Ok(first)
}

/// Empties an overflow slot: fills it from the first block, which is freed when it is empty.
pub(super) fn vacate<S: Store>(store: &mut S, segment: Ptr, at: Ptr) {
    let chain = word_at(segment, CHAIN);
    let head = Ptr::from_raw(store.word(chain));
    let mut taken =
        (1..OVERFLOW_WORDS).map(|i| word_at(head, i)).filter(|&p| is_used(store.word(p)));
    let (last, others) = (taken.next(), taken.next().is_some());
    let Some(last) = last else { return };
    if last != at {
        store.set(at, store.word(last));
    }
    if others {
        store.set(last, EMPTY);
    } else {
        store.set(chain, store.word(head));
        store.free(head);
    }
}

fn vacancy<V: View>(view: &V, block: Ptr) -> Option<Ptr> {
    (1..OVERFLOW_WORDS).map(|i| word_at(block, i)).find(|&at| view.word(at) == EMPTY)
}
