//! The span map of a shard: finds what the shard knows about a span by the span's number, with two
//! loads.
//!
//! The spans of a shard are scattered over the pool in clusters. So the map has two levels: a piece
//! for [`PIECE`] numbers is allocated when the first of them is entered.

const PIECE: usize = 1024;
const NOTHING: u32 = u32::MAX;

/// Maps the numbers of spans to their indexes in a list.
#[derive(Debug, Default)]
pub(crate) struct SpanMap {
    pieces: Vec<Option<Box<[u32; PIECE]>>>,
}

impl SpanMap {
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<u32> {
        let piece = self.pieces.get(number as usize / PIECE)?.as_ref()?;
        Some(piece[number as usize % PIECE]).filter(|&at| at != NOTHING)
    }

    pub(crate) fn insert(&mut self, number: u32, at: u32) {
        let piece = number as usize / PIECE;
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, || None);
        }
        let piece = self.pieces[piece].get_or_insert_with(|| Box::new([NOTHING; PIECE]));
        piece[number as usize % PIECE] = at;
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(Some(piece)) = self.pieces.get_mut(number as usize / PIECE) {
            piece[number as usize % PIECE] = NOTHING;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_from_its_entry_to_its_removal() {
        let mut table = SpanMap::default();
        let numbers = [0, 1, 1023, 1024, 70_000];
        for (at, number) in (0..).zip(numbers) {
            assert_eq!(table.get(number), None);
            table.insert(number, at);
        }
        for (at, number) in (0..).zip(numbers) {
            assert_eq!(table.get(number), Some(at));
            table.remove(number);
            assert_eq!(table.get(number), None);
        }
        assert_eq!(table.get(u32::MAX), None);
    }
}
