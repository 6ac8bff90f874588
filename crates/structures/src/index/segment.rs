//! Places entries in one segment, and finds them there.
//!
//! An entry is in its home bucket, in the neighbour after it, in the stash, or in an overflow
//! block. An insert takes the emptier of the two buckets; if both are full, it displaces an entry
//! of either that has space in its own other bucket; otherwise it uses the stash, and sets the
//! home's bit in the word `STASHED`, so that only lookups of such homes look there. The bit may be
//! set unnecessarily, but is never clear when it is needed.
//!
//! The same code places entries in a segment of the pool, by staged words, and in the image of a
//! new segment.

use heap::{Ptr, View};

use super::layout::*;
use crate::Store;

/// The words of a segment that is being filled.
pub(super) trait Cells {
    fn get(&self, word: usize) -> u64;
    /// Returns the slots of a bucket.
    fn bucket(&self, number: usize) -> [u64; SLOTS];
    fn put(&mut self, word: usize, value: u64);
}

/// A segment in the pool.
pub(super) struct Stored<'s, S> {
    pub(super) store: &'s mut S,
    pub(super) segment: Ptr,
}

impl<S: Store> Cells for Stored<'_, S> {
    fn get(&self, word: usize) -> u64 {
        self.store.word(word_at(self.segment, word))
    }

    fn bucket(&self, number: usize) -> [u64; SLOTS] {
        line(self.store, bucket_at(self.segment, number))
    }

    fn put(&mut self, word: usize, value: u64) {
        self.store.set(word_at(self.segment, word), value);
    }
}

/// A segment that is not in the pool yet.
pub(super) struct Image(pub(super) [u64; SEGMENT_WORDS]);

impl Image {
    pub(super) fn new(prefix: u64, depth: u32) -> Image {
        let mut words = [EMPTY; SEGMENT_WORDS];
        words[..SLOTS].fill(0);
        words[KIND] = kind(depth);
        words[PREFIX] = prefix;
        Image(words)
    }
}

impl Cells for Image {
    fn get(&self, word: usize) -> u64 {
        self.0[word]
    }

    fn bucket(&self, number: usize) -> [u64; SLOTS] {
        std::array::from_fn(|i| self.0[bucket(number) + i])
    }

    fn put(&mut self, word: usize, value: u64) {
        self.0[word] = value;
    }
}

/// Puts a slot's word into a segment; `false` if its buckets and the stash are full.
pub(super) fn place(cells: &mut impl Cells, slot: u64) -> bool {
    let home = home_of(slot);
    let next = neighbour(home);
    let (in_home, in_next) = (vacancy(cells, home), vacancy(cells, next));
    let chosen = match (in_home, in_next) {
        (Some(h), Some(n)) if n.count > h.count => Some(n.word),
        (Some(h), _) => Some(h.word),
        (None, n) => n.map(|n| n.word),
    };
    if let Some(word) = chosen.or_else(|| displace(cells, home)) {
        cells.put(word, slot);
        return true;
    }
    stash(cells, slot)
}

struct Vacancy {
    word: usize,
    count: usize,
}

/// Returns the first empty slot of a bucket, and the number of empty slots.
fn vacancy(cells: &impl Cells, number: usize) -> Option<Vacancy> {
    let slots = cells.bucket(number);
    // From the last to the first, so that later shifts move each bit to its place.
    let empty = slots.iter().rev().fold(0u32, |bits, &slot| bits << 1 | u32::from(slot == EMPTY));
    let vacancy = |first: u32| Vacancy {
        word: bucket(number) + first as usize,
        count: empty.count_ones() as usize,
    };
    (empty != 0).then(|| vacancy(empty.trailing_zeros()))
}

/// Makes space in a full home bucket or its full neighbour by moving one entry to its own other
/// bucket.
fn displace(cells: &mut impl Cells, home: usize) -> Option<usize> {
    let next = neighbour(home);
    move_away(cells, next, next, neighbour(next))
        .or_else(|| move_away(cells, home, before(home), before(home)))
}

/// Moves an entry whose home is `of` from bucket `from` to bucket `to`, if there is such an entry
/// and space for it.
fn move_away(cells: &mut impl Cells, from: usize, of: usize, to: usize) -> Option<usize> {
    let vacant = vacancy(cells, to)?.word;
    let slots = cells.bucket(from);
    let leaving = slots.iter().position(|&slot| home_of(slot) == of)?;
    cells.put(vacant, slots[leaving]);
    Some(bucket(from) + leaving)
}

fn stash(cells: &mut impl Cells, slot: u64) -> bool {
    let vacant = (HOMES..HOMES + STASH).find_map(|number| vacancy(cells, number));
    let Some(Vacancy { word, .. }) = vacant else { return false };
    cells.put(word, slot);
    mark_stashed(cells, slot);
    true
}

/// Records that entries with this slot's home are in the stash or in overflow blocks.
pub(super) fn mark_stashed(cells: &mut impl Cells, slot: u64) {
    let stashed = cells.get(STASHED);
    let bit = 1 << home_of(slot);
    if stashed & bit == 0 {
        cells.put(STASHED, stashed | bit);
    }
}

/// Visits the place and content of each slot that may hold an entry of this home, until `visit`
/// returns a value: the two buckets, then the stash and the overflow blocks if the home has entries
/// there.
#[inline]
pub(super) fn search<V: View, T>(
    view: &V,
    segment: Ptr,
    home: usize,
    mut visit: impl FnMut(Ptr, u64) -> Option<T>,
) -> Option<T> {
    for number in [home, neighbour(home)] {
        let found = search_line(view, bucket_at(segment, number), &mut visit);
        if found.is_some() {
            return found;
        }
    }
    if view.word(word_at(segment, STASHED)) & 1 << home == 0 {
        return None;
    }
    for number in HOMES..HOMES + STASH {
        let found = search_line(view, bucket_at(segment, number), &mut visit);
        if found.is_some() {
            return found;
        }
    }
    super::overflow::search(view, segment, visit)
}

/// Returns the place and content of the slot with this tag whose entry `equal` accepts.
#[inline]
pub(super) fn find<V: View>(
    view: &V,
    segment: Ptr,
    tag: u16,
    mut equal: impl FnMut(Ptr) -> bool,
) -> Option<(Ptr, u64)> {
    let home = home(tag);
    for number in [home, neighbour(home)] {
        let mut slots = tagged(view, bucket_at(segment, number), tag);
        if let Some(found) = slots.find(|&(_, word)| equal(entry_of(word))) {
            return Some(found);
        }
    }
    if view.word(word_at(segment, STASHED)) & 1 << home == 0 {
        return None;
    }
    search(view, segment, home, |at, word| {
        (tag_of(word) == tag && equal(entry_of(word))).then_some((at, word))
    })
}

#[inline]
fn search_line<V: View, T>(
    view: &V,
    at: Ptr,
    visit: &mut impl FnMut(Ptr, u64) -> Option<T>,
) -> Option<T> {
    let line = line(view, at);
    (0..SLOTS).filter(|&i| is_used(line[i])).find_map(|i| visit(word_at(at, i), line[i]))
}

/// Visits the entries of one home bucket, each with its slot's place.
pub(super) fn visit_home<V: View>(
    view: &V,
    segment: Ptr,
    home: usize,
    mut visit: impl FnMut(Ptr, u64),
) {
    search(view, segment, home, |at, slot| {
        if home_of(slot) == home {
            visit(at, slot);
        }
        None::<()>
    });
}

/// Empties a slot of a home bucket or the stash.
pub(super) fn vacate<S: Store>(store: &mut S, segment: Ptr, at: Ptr, slot: u64) {
    store.set(at, EMPTY);
    if at < bucket_at(segment, HOMES) {
        return;
    }
    let home = home_of(slot);
    let word = |word| store.word(word_at(segment, word));
    let same_home = |slot: u64| is_used(slot) && home_of(slot) == home;
    let stays = word(CHAIN) != 0 || (bucket(HOMES)..SEGMENT_WORDS).any(|i| same_home(word(i)));
    if !stays {
        let stashed = word(STASHED) & !(1 << home);
        store.set(word_at(segment, STASHED), stashed);
    }
}
