//! Frees, in steps, a whole index that nothing refers to any more.
//!
//! It follows the order of a scan. The cursor tells what has been freed: all entries before it, and
//! all segments and nodes whose range ends before it. Words that refer to freed blocks stay as they
//! are, since nobody follows them again.

use heap::{Full, Ptr};

use super::layout::*;
use super::overflow;
use super::path::Nodes;
use super::scan::{Position, locate};
use super::segment::visit_home;
use crate::Store;

/// The result of a step.
pub(crate) struct Drained {
    /// Where the next step continues; `None` if everything is freed and the root word is 0.
    pub(crate) cursor: Option<u64>,
    /// The number of freed blocks, including those that the callback counted.
    pub(crate) freed: usize,
}

/// Frees about `budget` blocks of the index whose root word is at `root`.
pub(crate) fn drain<S: Store>(
    store: &mut S,
    root: Ptr,
    cursor: u64,
    budget: usize,
    mut free_entry: impl FnMut(&mut S, Ptr) -> Result<usize, Full>,
) -> Result<Drained, Full> {
    let mut freed = 0;
    let mut from = Position::from_cursor(cursor);
    while let Some((place, mut position)) = locate(store, root, from) {
        while position.home < HOMES {
            if freed >= budget {
                return Ok(Drained { cursor: Some(position.cursor()), freed });
            }
            let chained = drain_overflow(store, place.segment, &mut free_entry)?;
            freed += chained;
            if chained == 0 {
                freed += drain_home(store, place.segment, position.home, &mut free_entry)?;
                position.home += 1;
            }
        }
        let next = position.next_segment();
        freed += leave(store, root, place.segment, position, next);
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    store.set(root, 0);
    Ok(Drained { cursor: None, freed })
}

/// Frees the first overflow block of a segment and its entries; returns 0 if there is none.
fn drain_overflow<S: Store>(
    store: &mut S,
    segment: Ptr,
    free_entry: &mut impl FnMut(&mut S, Ptr) -> Result<usize, Full>,
) -> Result<usize, Full> {
    let Some(block) = overflow::blocks(store, segment).next() else { return Ok(0) };
    let mut freed = 1;
    for word in 1..OVERFLOW_WORDS {
        let slot = store.word(word_at(block, word));
        if is_used(slot) {
            freed += free_entry(store, entry_of(slot))?.max(1);
        }
    }
    let next = store.word(block);
    store.set(word_at(segment, CHAIN), next);
    store.free(block);
    Ok(freed)
}

fn drain_home<S: Store>(
    store: &mut S,
    segment: Ptr,
    home: usize,
    free_entry: &mut impl FnMut(&mut S, Ptr) -> Result<usize, Full>,
) -> Result<usize, Full> {
    let mut entries = Vec::new();
    visit_home(store, segment, home, |_, slot| entries.push(entry_of(slot)));
    entries.into_iter().try_fold(0, |freed, entry| Ok(freed + free_entry(store, entry)?.max(1)))
}

/// Frees a segment whose entries are gone, and the nodes that it was the last part of.
fn leave<S: Store>(
    store: &mut S,
    root: Ptr,
    segment: Ptr,
    position: Position,
    next: Option<Position>,
) -> usize {
    store.free(segment);
    let nodes = Nodes::of(store, root, position.prefix);
    let left = |covered| {
        next.is_none_or(|next| prefix(next.prefix, covered) != prefix(position.prefix, covered))
    };
    let mut freed = 1;
    for node in nodes.iter().filter(|node| left(node.covered)) {
        store.free(node.at);
        freed += 1;
    }
    freed
}
