//! LZF: literal runs and references to earlier bytes, in whole bytes.
//!
//! A first byte below 32 begins a run of this many literals plus one; any other is a reference: its
//! upper three bits are the length less two (seven: a further byte is added), its lower five and
//! the last byte the distance less one.
//!
//! [`compress`] makes the same choices as Redis's compressor (a table of the last position of each
//! hash of three bytes, two more entries after a match), so that its output is the same, except
//! where Redis's compressor finds what an earlier string left in that table.

/// Entries of the table of positions, as a power of two.
const TABLE_BITS: u32 = 16;
/// Bytes of the longest run of literals.
pub const LONGEST_RUN: usize = 32;
/// Maximum number of bytes between a reference and what it refers to.
pub const FARTHEST: usize = 1 << 13;
/// Maximum number of bytes that one reference represents.
pub const LONGEST_MATCH: usize = 264;

/// Strings up to this many bytes are decompressed into memory that is allocated at once.
pub const SHORT: usize = 1 << 20;

/// Appends the `len` bytes that `packed` represents. If it represents another number of bytes, the
/// result is useless.
pub(crate) fn decompress(packed: &[u8], len: usize, into: &mut Vec<u8>) -> Option<()> {
    let begin = into.len();
    if len <= SHORT {
        into.resize(begin + len, 0);
        return fill(packed, &mut into[begin..]);
    }
    let mut rest = packed;
    while let Some((&control, mut more)) = rest.split_first() {
        if control < 32 {
            let (run, after) = more.split_at_checked(usize::from(control) + 1)?;
            into.extend_from_slice(run);
            rest = after;
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if count == 9 {
                let (&longer, after) = more.split_first()?;
                count += usize::from(longer);
                more = after;
            }
            let (&low, after) = more.split_first()?;
            let distance = (usize::from(control & 31) << 8 | usize::from(low)) + 1;
            let from = into.len().checked_sub(distance).filter(|&from| from >= begin)?;
            copy(into, from, count);
            rest = after;
        }
        if into.len() - begin > len {
            return None;
        }
    }
    (into.len() - begin == len).then_some(())
}

/// Fills `into` with the bytes that `packed` represents; `None` if their number differs.
fn fill(packed: &[u8], into: &mut [u8]) -> Option<()> {
    let (mut rest, mut at) = (packed, 0);
    while let Some((&control, mut more)) = rest.split_first() {
        if control < 32 {
            let (run, after) = more.split_at_checked(usize::from(control) + 1)?;
            into.get_mut(at..at + run.len())?.copy_from_slice(run);
            (rest, at) = (after, at + run.len());
            continue;
        }
        let mut count = usize::from(control >> 5) + 2;
        if count == 9 {
            let (&longer, after) = more.split_first()?;
            count += usize::from(longer);
            more = after;
        }
        let (&low, after) = more.split_first()?;
        let distance = (usize::from(control & 31) << 8 | usize::from(low)) + 1;
        let from = at.checked_sub(distance)?;
        let both = into.get_mut(from..at + count)?;
        match distance {
            1 => {
                let byte = both[0];
                both[1..].fill(byte);
            }
            _ if distance >= count => both.copy_within(..count, distance),
            _ => (0..count).for_each(|n| both[distance + n] = both[n]),
        }
        (rest, at) = (after, at + count);
    }
    (at == into.len()).then_some(())
}

/// Appends `count` bytes from `from` on, the last of which may be among those that it appends.
fn copy(into: &mut Vec<u8>, from: usize, count: usize) {
    let mut left = count;
    while left > 0 {
        let step = left.min(into.len() - from);
        into.extend_from_within(from..from + step);
        left -= step;
    }
}

/// The compressor's table of positions, reused from string to string: entries that are not above
/// `base` belong to an earlier one.
#[derive(Debug, Default)]
pub(crate) struct Table {
    places: Vec<u32>,
    base: u32,
}

impl Table {
    /// Starts an empty table for a string of this length, whose position 0 is never found.
    fn begin(&mut self, len: u32) -> u32 {
        let base = self.base;
        match base.checked_add(len) {
            Some(next) if !self.places.is_empty() => {
                self.base = next;
                base
            }
            _ => {
                self.places.clear();
                self.places.resize(1 << TABLE_BITS, 0);
                self.base = len;
                0
            }
        }
    }
}

/// The state of a compression.
struct Compressor<'b> {
    input: &'b [u8],
    most: usize,
    out: Vec<u8>,
    /// Literals of the open run, whose first byte is still to be written.
    run: usize,
    places: &'b mut [u32],
    base: u32,
}

/// Returns the bytes compressed to roughly fewer than `most` bytes, if that is possible; `None` if
/// Redis's compressor would give up.
pub(crate) fn compress(table: &mut Table, input: &[u8], most: usize) -> Option<Vec<u8>> {
    let len = u32::try_from(input.len()).ok().filter(|&len| len > 0 && most > 0)?;
    let base = table.begin(len);
    // The first byte is the head of the first run.
    let (out, places) = (vec![0], &mut table.places[..]);
    let mut compressor = Compressor { input, most, out, run: 0, places, base };
    let last = input.len().saturating_sub(2);
    let mut at = 0;
    while at < last {
        let before = compressor.replace(at);
        match compressor.matched(before, at) {
            Some(length) => {
                compressor.reference(at - before - 1, length)?;
                at += length;
                if at >= last {
                    break;
                }
                compressor.replace(at - 2);
                compressor.replace(at - 1);
            }
            None => {
                if compressor.out.len() >= most {
                    return None;
                }
                compressor.literal(at);
                at += 1;
            }
        }
    }
    compressor.finish(at)
}

impl Compressor<'_> {
    /// Enters a position under the hash of its three bytes. Returns the position that was there, or
    /// 0.
    fn replace(&mut self, at: usize) -> usize {
        let three = &self.input[at..at + 3];
        let value = u32::from(three[0]) << 16 | u32::from(three[1]) << 8 | u32::from(three[2]);
        let hash = (value >> (24 - TABLE_BITS)).wrapping_sub(value.wrapping_mul(5));
        let slot = &mut self.places[hash as usize & ((1 << TABLE_BITS) - 1)];
        std::mem::replace(slot, self.base + at as u32).saturating_sub(self.base) as usize
    }

    /// Returns the length of the match of `at` with `before`, if there is one. The very first
    /// position is never referred to.
    fn matched(&self, before: usize, at: usize) -> Option<usize> {
        let is_near = before > 0 && before < at && at - before - 1 < FARTHEST;
        if !is_near || self.input[before..before + 3] != self.input[at..at + 3] {
            return None;
        }
        // Redis's compressor compares 16 bytes at once if there are this many, and then one more.
        let most = match self.input.len() - at - 2 {
            most @ ..=16 => most.max(3),
            most => most.clamp(19, LONGEST_MATCH),
        };
        let (old, new) = (&self.input[before..], &self.input[at..]);
        Some(old.iter().zip(new).take(most).take_while(|(a, b)| a == b).count())
    }

    fn literal(&mut self, at: usize) {
        self.out.push(self.input[at]);
        self.run += 1;
        if self.run == LONGEST_RUN {
            self.end_run();
            self.out.push(0);
        }
    }

    /// Writes the first byte of the run.
    fn end_run(&mut self) {
        let head = self.out.len() - self.run - 1;
        self.out[head] = self.run as u8 - 1;
        self.run = 0;
    }

    fn reference(&mut self, distance: usize, length: usize) -> Option<()> {
        let is_empty = usize::from(self.run == 0);
        if self.out.len() - is_empty + 4 >= self.most {
            return None;
        }
        if self.run == 0 {
            self.out.pop();
        } else {
            self.end_run();
        }
        let (length, high) = (length - 2, (distance >> 8) as u8);
        if length < 7 {
            self.out.push((length as u8) << 5 | high);
        } else {
            self.out.extend([7 << 5 | high, (length - 7) as u8]);
        }
        self.out.extend([distance as u8, 0]);
        Some(())
    }

    fn finish(mut self, at: usize) -> Option<Vec<u8>> {
        if self.out.len() + 3 > self.most {
            return None;
        }
        (at..self.input.len()).for_each(|at| self.literal(at));
        if self.run == 0 {
            self.out.pop();
        } else {
            self.end_run();
        }
        Some(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(input: &[u8]) {
        let Some(packed) = compress(&mut Table::default(), input, input.len().saturating_sub(4))
        else {
            return;
        };
        assert!(packed.len() < input.len());
        let mut unpacked = b"before".to_vec();
        decompress(&packed, input.len(), &mut unpacked).expect("what was compressed");
        assert_eq!(&unpacked[6..], input);
    }

    #[test]
    fn what_repeats_becomes_short() {
        let packed = compress(&mut Table::default(), &[b'a'; 1000], 996).expect("it is smaller");
        assert!(packed.len() < 20, "{}", packed.len());
        check(&[b'a'; 1000]);
        check(&b"0123456789".repeat(1000));
    }

    #[test]
    fn references_before_the_beginning_are_refused() {
        let mut into = b"before".to_vec();
        assert_eq!(decompress(&[0, b'a', 0x20, 0], 4, &mut into), Some(()));
        assert_eq!(decompress(&[0, b'a', 0x20, 1], 4, &mut Vec::from(*b"before")), None);
        assert_eq!(decompress(&[5, b'a'], 6, &mut Vec::new()), None);
        assert_eq!(decompress(&[0, b'a', 0xe0], 100, &mut Vec::new()), None);
        assert_eq!(decompress(&[0, b'a', 0x20, 0], 3, &mut Vec::new()), None);
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(input in proptest::collection::vec(0u8..4, 0..2000)) {
            check(&input);
        }

        #[test]
        fn any_bytes_are_refused_or_unpacked(packed in proptest::collection::vec(any::<u8>(), 0..200)) {
            decompress(&packed, 100, &mut Vec::new());
        }
    }
}
