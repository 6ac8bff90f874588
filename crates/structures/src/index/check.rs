//! Verifies an index: every invariant of its format, and that each entry is where its hash leads.
//!
//! It visits each block and each entry once, so that the caller can compare the reachable blocks
//! with the allocated ones. It is for a pool at rest: its time grows with the size of the index.

use heap::{Ptr, View};

use super::layout::*;
use super::overflow;
use super::path::{Node, Nodes, SegmentPath};
use super::scan::{Position, locate};
use super::segment::visit_home;
use crate::Damaged;

/// Something reachable in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A block of the index itself.
    Block(Ptr),
    /// An entry of the caller.
    Entry(Ptr),
}

/// Verifies the index from a position on; everything before it counts as freed.
pub(super) fn check<V: View>(
    view: &V,
    root: Ptr,
    cursor: u64,
    rehash: &mut dyn FnMut(Ptr) -> u64,
    visit: &mut dyn FnMut(Part),
) -> Result<(), Damaged> {
    if view.word(root) == 0 {
        return Ok(());
    }
    let mut known: Vec<Node> = Vec::new();
    let mut from = Some(Position::from_cursor(cursor));
    while let Some(position) = from {
        let nodes: Vec<Node> = Nodes::of(view, root, position.prefix).iter().collect();
        for node in nodes.iter().filter(|node| !known.contains(node)) {
            visit(Part::Block(node.at));
        }
        known = nodes;
        let Some((place, position)) = locate(view, root, position) else {
            return Err(no_segment(view, root));
        };
        check_segment(view, &place, position, rehash, visit)?;
        from = position.next_segment();
    }
    Ok(())
}

/// Verifies segments without reading their entries, from one position of a scan to another (0: to
/// the end).
pub(super) fn check_step<V: View>(view: &V, root: Ptr, from: u64, to: u64) -> Result<(), Damaged> {
    let end = (to != 0).then(|| Position::from_cursor(to));
    let is_before = |position: &Position| end.is_none_or(|end| position.prefix < end.prefix);
    let mut from = Some(Position::from_cursor(from));
    while let Some(position) = from.filter(|from| is_before(from) && view.word(root) != 0) {
        let Some((place, position)) = locate(view, root, position) else {
            return Err(no_segment(view, root));
        };
        check_header(view, &place, position)?;
        for at in (SLOTS..SEGMENT_WORDS).map(|word| word_at(place.segment, word)) {
            let word = view.word(at);
            Damaged::unless_equal("lost slot of an index", at, word.max(EMPTY), word)?;
        }
        from = position.next_segment();
    }
    Ok(())
}

fn no_segment<V: View>(view: &V, root: Ptr) -> Damaged {
    Damaged { what: "index trie", at: root.raw(), expected: 0, found: view.word(root) }
}

fn check_segment<V: View>(
    view: &V,
    place: &SegmentPath,
    position: Position,
    rehash: &mut dyn FnMut(Ptr) -> u64,
    visit: &mut dyn FnMut(Part),
) -> Result<(), Damaged> {
    let segment = place.segment;
    check_header(view, place, position)?;
    visit(Part::Block(segment));
    check_overflow(view, segment, visit)?;
    check_slots(view, segment, position, rehash, visit)
}

/// Verifies the words that refer to a segment, and the segment's header.
fn check_header<V: View>(view: &V, place: &SegmentPath, position: Position) -> Result<(), Damaged> {
    let segment = place.segment;
    let run = place.run(position.depth);
    for at in (0..run.words).map(|i| word_at(run.first, i)) {
        Damaged::unless_equal("index node", at, segment.raw(), view.word(at))?;
    }
    let header = [
        (KIND, kind(position.depth), "index segment header"),
        (PREFIX, position.prefix, "index segment prefix"),
    ];
    let spare = (CHAIN + 1..SLOTS).map(|word| (word, 0, "spare word of an index segment"));
    for (word, expected, what) in header.into_iter().chain(spare) {
        let at = word_at(segment, word);
        Damaged::unless_equal(what, at, expected, view.word(at))?;
    }
    Ok(())
}

fn check_overflow<V: View>(
    view: &V,
    segment: Ptr,
    visit: &mut dyn FnMut(Part),
) -> Result<(), Damaged> {
    let mut blocks = overflow::blocks(view, segment);
    for (number, block) in blocks.by_ref().enumerate() {
        visit(Part::Block(block));
        let words = (1..OVERFLOW_WORDS).map(|word| view.word(word_at(block, word)));
        let empty = words.filter(|&word| word == EMPTY).count();
        let allowed = if number == 0 { OVERFLOW_WORDS - 2 } else { 0 };
        let what = "index overflow block with empty slots";
        Damaged::unless_equal(what, block, empty.min(allowed) as u64, empty as u64)?;
    }
    Damaged::unless_equal("index overflow chain", segment, 0, u64::from(blocks.is_cyclic))
}

/// Verifies that every slot in use is reached through its home, and that its entry's hash leads
/// there.
fn check_slots<V: View>(
    view: &V,
    segment: Ptr,
    position: Position,
    rehash: &mut dyn FnMut(Ptr) -> u64,
    visit: &mut dyn FnMut(Part),
) -> Result<(), Damaged> {
    let mut reached = 0;
    let mut gone = 0;
    for home in 0..HOMES {
        let mut slots = Vec::new();
        visit_home(view, segment, home, |at, slot| slots.push((at, slot)));
        if home < position.home {
            gone += slots.len() as u64;
            continue;
        }
        reached += slots.len() as u64;
        for (at, slot) in slots {
            let hash = rehash(entry_of(slot));
            let (tag, own) = (u64::from(tag_of(slot)), u64::from(tag(hash)));
            Damaged::unless_equal("index slot's tag", at, own, tag)?;
            let own = prefix(hash, position.depth);
            Damaged::unless_equal("index entry's prefix", at, own, position.prefix)?;
            visit(Part::Entry(entry_of(slot)));
        }
    }
    let words = (SLOTS..SEGMENT_WORDS).map(|word| view.word(word_at(segment, word)));
    let mut used = words.filter(|&slot| slot != EMPTY).count() as u64;
    overflow::search(view, segment, |_, _| {
        used += 1;
        None::<()>
    });
    Damaged::unless_equal("index segment's entries", segment, used, reached + gone)
}
