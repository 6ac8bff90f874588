//! Returns space while the store is in use: moves entries, segments and nodes out of sparse spans,
//! and merges halves that have become nearly empty.
//!
//! A step has its own cursor, in the scan's order, and handles at most one segment's block and some
//! of its entries. Merging needs no hashes: the home buckets of two halves are the same.

use heap::{Full, Ptr};

use super::layout::*;
use super::path::{Nodes, SegmentPath};
use super::scan::{Position, locate};
use super::segment::visit_home;
use super::split;
use crate::Store;

/// Two halves with at most this many entries are merged into one segment, which then has space for
/// as many again.
const WORTH_A_MERGE: usize = SEGMENT_SLOTS * 2 / 5;

pub(super) fn defragment<S: Store>(
    store: &mut S,
    root: Ptr,
    cursor: u64,
    count: usize,
    mut relocate: impl FnMut(&mut S, Ptr) -> Result<Option<Ptr>, Full>,
) -> Result<u64, Full> {
    let from = Position::from_cursor(cursor);
    if from.home == 0 {
        tidy_segment(store, root, from)?;
    }
    let Some((place, mut position)) = locate(store, root, from) else { return Ok(0) };
    let mut entries = 0;
    while position.home < HOMES && entries < count.max(1) {
        let mut slots = Vec::new();
        visit_home(store, place.segment, position.home, |at, slot| slots.push((at, slot)));
        entries += slots.len();
        for (at, old) in slots {
            if let Some(new) = relocate(store, entry_of(old))? {
                store.set(at, slot(tag_of(old), new));
            }
        }
        position.home += 1;
    }
    if position.home < HOMES {
        return Ok(position.cursor());
    }
    Ok(position.next_segment().map_or(0, Position::cursor))
}

/// Returns the cursor of the entries that follow the work on the segment itself at `cursor`; `None`
/// if only entries are left.
pub(super) fn past(cursor: u64) -> Option<u64> {
    let at = Position::from_cursor(cursor);
    (at.home == 0).then(|| Position { home: 1, ..at }.cursor())
}

/// Merges the segment at a position with its other half, or moves it or a node that begins there.
fn tidy_segment<S: Store>(store: &mut S, root: Ptr, from: Position) -> Result<(), Full> {
    let Some((place, position)) = locate(store, root, from) else { return Ok(()) };
    if let Some(other) = other_half(store, root, position) {
        let slots: Vec<u64> = slots(store, place.segment).chain(slots(store, other)).collect();
        if slots.len() <= WORTH_A_MERGE {
            return merge(store, root, position, [place.segment, other], slots);
        }
    }
    if store.is_sparse(place.segment) {
        return move_segment(store, place, position);
    }
    move_node(store, root, position)
}

/// Returns the right half that belongs to a left one, if neither has overflow blocks.
fn other_half<S: Store>(store: &S, root: Ptr, left: Position) -> Option<Ptr> {
    if left.depth == 0 || next_bit(left.prefix, left.depth - 1) == 1 {
        return None;
    }
    let left_segment = SegmentPath::of(store, root, left.prefix)?.segment;
    let right = SegmentPath::of(store, root, left.next_segment()?.prefix)?;
    let same_depth = right.depth(store) == Some(left.depth);
    let overflowed =
        [left_segment, right.segment].iter().any(|&s| store.word(word_at(s, CHAIN)) != 0);
    (same_depth && !overflowed).then_some(right.segment)
}

fn slots<S: Store>(store: &S, segment: Ptr) -> impl Iterator<Item = u64> {
    (0..HOMES + STASH)
        .flat_map(move |number| line(store, bucket_at(segment, number)))
        .filter(|&slot| is_used(slot))
}

/// Replaces two halves with one segment; frees the node if that was all it had.
fn merge<S: Store>(
    store: &mut S,
    root: Ptr,
    left: Position,
    halves: [Ptr; 2],
    slots: Vec<u64>,
) -> Result<(), Full> {
    let depth = left.depth - 1;
    let segment = split::build(store, left.prefix, depth, slots.into_iter())?;
    let Some(place) = SegmentPath::of(store, root, left.prefix) else { return Ok(()) };
    let node = Nodes::of(store, root, left.prefix).last();
    match node.filter(|node| node.covered == depth) {
        Some(node) => {
            store.set(node.parent, segment.raw());
            store.free(node.at);
        }
        None => refer(store, place, depth, segment),
    }
    halves.into_iter().for_each(|half| store.free(half));
    Ok(())
}

/// Makes all words of a place refer to a segment of this depth.
fn refer<S: Store>(store: &mut S, place: SegmentPath, depth: u32, segment: Ptr) {
    let run = place.run(depth);
    for i in 0..run.words {
        store.set(word_at(run.first, i), segment.raw());
    }
}

fn move_segment<S: Store>(
    store: &mut S,
    place: SegmentPath,
    position: Position,
) -> Result<(), Full> {
    let words: [u64; SEGMENT_WORDS] =
        std::array::from_fn(|i| store.word(word_at(place.segment, i)));
    let fresh = store.reserve(SEGMENT)?;
    store.write(&fresh, 0, &bytes::<SEGMENT_WORDS, SEGMENT>(&words));
    let segment = store.publish(fresh, SEGMENT);
    refer(store, place, position.depth, segment);
    store.free(place.segment);
    Ok(())
}

/// Moves a node that begins at this position.
fn move_node<S: Store>(store: &mut S, root: Ptr, position: Position) -> Result<(), Full> {
    let first_and_sparse = |node: &super::path::Node| {
        prefix(position.prefix, node.covered) == position.prefix && store.is_sparse(node.at)
    };
    let Some(node) = Nodes::of(store, root, position.prefix).iter().find(first_and_sparse) else {
        return Ok(());
    };
    let words: [u64; NODE_WORDS] = std::array::from_fn(|i| store.word(word_at(node.at, i)));
    let fresh = store.reserve(NODE)?;
    store.write(&fresh, 0, &bytes::<NODE_WORDS, NODE>(&words));
    let moved = store.publish(fresh, NODE);
    store.set(node.parent, moved.raw() | NODE_FLAG);
    store.free(node.at);
    Ok(())
}
