//! Growth: a full segment becomes two.
//!
//! The two are filled in memory, including the entry that found no space, and written to fresh
//! blocks; then the words that refer to the old segment are staged: readers see the old segment
//! until the commit, and the halves after it. A segment to which only one word refers gets a new
//! node instead, in which each half has 128 words.
//!
//! While a known number of entries is loaded, a segment splits into up to sixteen: each split needs
//! the hashes of its entries, that is, it reads all of them.
//!
//! An insert splits at most one segment, once. An entry that finds no space even then goes to an
//! overflow block.

use heap::{Full, Ptr};

use super::layout::*;
use super::overflow;
use super::path::SegmentPath;
use super::segment::{Cells, Image, mark_stashed, place};
use crate::Store;
use crate::fault_points::FaultPoint;

/// A segment with fewer entries than this, and yet no space for another, holds many entries of one
/// home bucket: a split would not help.
const WORTH_A_SPLIT: usize = SEGMENT_SLOTS / 2;

/// The maximum number of bits by which a segment's depth grows at once: it splits into up to
/// sixteen.
const MOST_BITS: u32 = 4;

/// The number of entries of a nearly full segment: with more on average, many would overflow.
const NEARLY_FULL: u64 = (SEGMENT_SLOTS * 9 / 10) as u64;

/// An entry to place: its hash, and the slot's word.
type Placed = (u64, u64);

/// Creates the first segment of an index.
pub(super) fn first_segment<S: Store>(store: &mut S, root: Ptr, slot: u64) -> Result<(), Full> {
    let mut image = Image::new(0, 0);
    place(&mut image, slot);
    let segment = write(store, &image)?;
    store.set(root, segment.raw());
    Ok(())
}

/// Adds an entry to the full segment at a place: splits it, or gives it an overflow block. If
/// segments of depth `wanted` will be needed, it splits into several at once.
pub(super) fn grow<S: Store>(
    store: &mut S,
    at: SegmentPath,
    (hash, slot): Placed,
    wanted: u32,
    rehash: impl Fn(&S, Ptr) -> u64,
) -> Result<(), Full> {
    match at.depth(store) {
        Some(depth) if depth < MAX_DEPTH && is_splittable(store, at.segment) => {
            let mut entries = entries(store, at.segment, rehash);
            entries.push((hash, slot));
            let bits = wanted.min(MAX_DEPTH).saturating_sub(depth);
            let most = if depth == at.covered { NODE_BITS } else { at.covered - depth };
            let bits = bits.clamp(1, most.min(MOST_BITS));
            split(store, at, prefix(hash, depth), depth, bits, &entries)
        }
        _ => overflow::insert(store, at.segment, slot),
    }
}

/// Returns the depth of segments that together hold this many entries and are nearly full.
pub(super) fn depth_for(entries: u64) -> u32 {
    let segments = entries.div_ceil(NEARLY_FULL).max(1);
    segments.next_power_of_two().trailing_zeros()
}

fn is_splittable<S: Store>(store: &S, segment: Ptr) -> bool {
    let slots = slots(store, segment).filter(|&slot| is_used(slot)).count();
    slots >= WORTH_A_SPLIT && overflow::blocks(store, segment).nth(overflow::SPLITTABLE).is_none()
}

fn slots<S: Store>(store: &S, segment: Ptr) -> impl Iterator<Item = u64> {
    (0..HOMES + STASH).flat_map(move |number| line(store, bucket_at(segment, number)))
}

/// Returns all entries of a segment with their hashes. The caller has limited the number of
/// overflow blocks.
pub(super) fn entries<S: Store>(
    store: &S,
    segment: Ptr,
    rehash: impl Fn(&S, Ptr) -> u64,
) -> Vec<Placed> {
    let mut entries = Vec::with_capacity(SEGMENT_SLOTS + 1);
    entries.extend(slots(store, segment).filter(|&slot| is_used(slot)).map(|slot| (0, slot)));
    overflow::search(store, segment, |_, slot| {
        entries.push((0, slot));
        None::<()>
    });
    for &(_, slot) in &entries {
        store.prefetch(entry_of(slot));
    }
    for (hash, slot) in &mut entries {
        *hash = rehash(store, entry_of(*slot));
    }
    entries
}

/// Splits a segment into `2^bits`.
fn split<S: Store>(
    store: &mut S,
    at: SegmentPath,
    hash: u64,
    depth: u32,
    bits: u32,
    entries: &[Placed],
) -> Result<(), Full> {
    let deeper = depth + bits;
    let part_of = |hash: u64| (hash << depth >> (64 - bits)) as usize;
    let mut new = [Ptr::NULL; 1 << MOST_BITS];
    let new = &mut new[..1 << bits];
    for (part, at) in new.iter_mut().enumerate() {
        let own = entries.iter().filter(|&&(hash, _)| part_of(hash) == part);
        let prefix = hash | (part as u64) << (64 - deeper);
        *at = build(store, prefix, deeper, own.map(|&(_, slot)| slot))?;
    }
    if depth == at.covered {
        let node = node(store, new)?;
        store.set(at.at, node.raw() | NODE_FLAG);
    } else {
        let run = at.run(depth);
        for i in 0..run.words {
            store.set(word_at(run.first, i), new[i * new.len() / run.words].raw());
        }
    }
    if FaultPoint::FreeSplit.is_enabled() {
        free(store, at.segment);
    }
    Ok(())
}

/// Writes a new segment with these slots.
pub(super) fn build<S: Store>(
    store: &mut S,
    prefix: u64,
    depth: u32,
    slots: impl Iterator<Item = u64>,
) -> Result<Ptr, Full> {
    let mut image = Image::new(prefix, depth);
    let rest: Vec<u64> = slots.filter(|&slot| !place(&mut image, slot)).collect();
    if !rest.is_empty() {
        rest.iter().for_each(|&slot| mark_stashed(&mut image, slot));
        let chain = overflow::build(store, &rest, Ptr::NULL)?;
        image.put(CHAIN, chain.raw());
    }
    write(store, &image)
}

fn write<S: Store>(store: &mut S, image: &Image) -> Result<Ptr, Full> {
    let fresh = store.reserve(SEGMENT)?;
    store.write(&fresh, 0, &bytes::<SEGMENT_WORDS, SEGMENT>(&image.0));
    Ok(store.publish(fresh, SEGMENT))
}

fn node<S: Store>(store: &mut S, parts: &[Ptr]) -> Result<Ptr, Full> {
    let part = |word: usize| parts[word * parts.len() / NODE_WORDS];
    let words: [u64; NODE_WORDS] = std::array::from_fn(|word| part(word).raw());
    let fresh = store.reserve(NODE)?;
    store.write(&fresh, 0, &bytes::<NODE_WORDS, NODE>(&words));
    Ok(store.publish(fresh, NODE))
}

/// Frees a segment and its overflow blocks, which are few.
pub(super) fn free<S: Store>(store: &mut S, segment: Ptr) {
    let chain: Vec<Ptr> = overflow::blocks(store, segment).collect();
    chain.into_iter().for_each(|block| store.free(block));
    store.free(segment);
}
