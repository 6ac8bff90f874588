//! Finds the blocks that the open transaction reserved, by their places.
//!
//! A transaction that fills an index reserves millions of blocks, and checks for each word that it
//! changes whether the word is in one of them. So the table follows the order of the blocks: a
//! piece of it is for the 64 blocks of one word of a bitmap. Blocks are reserved one after the
//! other in a span, so most of them go to the piece that was used last, and a structure that is
//! filled in order uses pieces that are in the CPU cache. A table by the address of each block was
//! larger than any cache.
//!
//! A transaction of few blocks, which are searched one by one, does not use the table.

use crate::alloc::place::BlockPlace;
use rustc_hash::FxHashMap;

/// Blocks of a piece.
const PIECE: usize = 64;
/// Pieces whose memory is kept for the next transaction.
const KEPT: usize = 1024;

/// Maps the places of blocks to their indexes in the list of reserved ones.
#[derive(Debug, Default)]
pub(crate) struct ReservedTable {
    /// Index of the piece for each bitmap word; for a whole span, by the span's place.
    by_word: FxHashMap<u64, u32>,
    /// For each block of a word, its index + 1, or 0.
    pieces: Vec<[u32; PIECE]>,
    /// The two pieces that were used last, the latest first, with their keys: filling a structure
    /// changes its newest block and its header in turns.
    last: [Option<(u64, u32)>; 2],
    /// How many blocks of the list have been entered.
    entered: usize,
}

impl ReservedTable {
    /// Returns the index of a block in a list that has only grown since the previous call; given
    /// are its length and the place of each block.
    pub(crate) fn find(
        &mut self,
        len: usize,
        place_of: impl Fn(usize) -> BlockPlace,
        place: &BlockPlace,
    ) -> Option<usize> {
        for index in self.entered..len {
            *self.enter(&place_of(index)) = index as u32 + 1;
        }
        self.entered = len;
        let (piece, bit) = (self.piece(word_of(place))?, place.bit() as usize);
        (self.pieces[piece as usize][bit] as usize).checked_sub(1)
    }

    /// Removes the last block of the list.
    pub(crate) fn forget_last(&mut self, index: usize, place: &BlockPlace) {
        if index < self.entered {
            self.entered = index;
            *self.enter(place) = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.by_word.clear();
        self.by_word.shrink_to(KEPT);
        self.pieces.clear();
        self.pieces.shrink_to(KEPT);
        (self.last, self.entered) = ([None; 2], 0);
    }

    /// Returns the entry of a block; adds the piece if there is none.
    fn enter(&mut self, place: &BlockPlace) -> &mut u32 {
        let word = word_of(place);
        let piece = self.piece(word).unwrap_or_else(|| {
            let new = self.pieces.len() as u32;
            self.pieces.push([0; PIECE]);
            self.by_word.insert(word, new);
            self.last = [Some((word, new)), self.last[0]];
            new
        });
        &mut self.pieces[piece as usize][place.bit() as usize]
    }

    #[inline]
    fn piece(&mut self, word: u64) -> Option<u32> {
        if let Some((_, piece)) = self.last.into_iter().flatten().find(|(last, _)| *last == word) {
            return Some(piece);
        }
        let piece = *self.by_word.get(&word)?;
        self.last = [Some((word, piece)), self.last[0]];
        Some(piece)
    }
}

/// Returns the key of a block's piece.
#[inline]
fn word_of(place: &BlockPlace) -> u64 {
    if place.bitmap == 0 { place.at } else { place.bitmap }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Block number `index` of a span at `span`, of blocks of 16 bytes.
    fn block(span: u64, index: u16) -> BlockPlace {
        let at = span + 576 + u64::from(index) * 16;
        let bitmap = span + 64 + u64::from(index / 64) * 8;
        BlockPlace { at, bitmap, span: 0, index, class: 0, published: true }
    }

    /// Compares the table with the list, over random reservations and returns.
    #[test]
    fn each_reserved_block_is_found_where_it_is_in_the_list_and_no_other_is() {
        let spans = [1 << 16, 7 << 16, 300 << 16];
        let mut all: Vec<BlockPlace> =
            spans.iter().flat_map(|&span| (0..500).map(move |index| block(span, index))).collect();
        all.extend([8, 9].map(|number| BlockPlace::whole(number << 16)));
        let (mut table, mut list) = (ReservedTable::default(), Vec::<BlockPlace>::new());
        let mut random = 7u64;
        for round in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (choice, number) = ((random >> 33) % 100, (random >> 40) as usize);
            let place = all[number % all.len()];
            let known = list.iter().position(|reserved| *reserved == place);
            match choice {
                0..60 if known.is_none() => list.push(place),
                0..95 => {
                    let found = table.find(list.len(), |index| list[index], &place);
                    assert_eq!(found, known, "round {round}");
                }
                95..99 => {
                    let kept = list.len().saturating_sub(number % 20);
                    while list.len() > kept {
                        let Some(last) = list.pop() else { break };
                        table.forget_last(list.len(), &last);
                    }
                }
                _ if list.len() > 1000 => {
                    list.clear();
                    table.clear();
                }
                _ => {}
            }
        }
    }
}
