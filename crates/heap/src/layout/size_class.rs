//! Size classes of blocks, and the shape of a span that is cut into blocks of one class.
//!
//! Up to 256 bytes the classes are 8 or 16 bytes apart, so that small entries waste little; up to 1
//! KiB they are an eighth apart; above that a class is chosen so that a whole number of blocks, in
//! whole lines, fills a span with little waste. Blocks whose size is a multiple of 64 are aligned
//! to lines. The last class is the whole span: it has no header, and its word in the span table
//! says everything.
//!
//! ```text
//! span:  0   class u32 | count u32 | masked crc32c of these u32 | zero u32
//!        64  bitmap: one bit for each block, 1 = allocated (whole lines)
//!        ..  blocks
//! ```

use super::geometry::{LINE, SPAN};

/// The shape of the spans of one class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class {
    /// Bytes of a block.
    pub(crate) size: u32,
    /// Blocks in a span.
    pub(crate) count: u32,
    /// Offset of the first block in its span.
    pub(crate) first: u32,
    /// A little more than 2^32 / size.
    reciprocal: u32,
}

/// Offset of the bitmap in a span.
pub(crate) const BITMAP_AT: u64 = LINE;
/// Number of classes; the last one is the whole span.
pub(crate) const CLASSES: usize = SIZES.len();
/// More than the number of blocks in any span.
pub(crate) const MOST_BLOCKS: usize = 4096;
const _: () = assert!(shape(SIZES[0]).count < MOST_BLOCKS as u32 - 1);
/// The class of blocks that take a whole span.
pub(crate) const WHOLE: u8 = (CLASSES - 1) as u8;

const SIZES: [u32; 62] = [
    16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224,
    240, 256, 288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 832, 896, 960, 1024,
    1152, 1280, 1472, 1728, 2048, 2304, 2688, 3264, 3584, 4352, 4672, 5440, 5888, 6528, 7232, 8128,
    9344, 10880, 13056, 16320, 21760, 32704, 65536,
];

/// The classes, by size.
pub(crate) static TABLE: [Class; CLASSES] = table();

const fn table() -> [Class; CLASSES] {
    let mut table = [shape(SPAN as u32); CLASSES];
    let mut i = 0;
    while i < CLASSES {
        table[i] = shape(SIZES[i]);
        i += 1;
    }
    table
}

/// Returns the shape with as many blocks as fit after a bitmap of whole lines.
const fn shape(size: u32) -> Class {
    let reciprocal = ((1 << 32) / size as u64) as u32 + 1;
    if size as u64 == SPAN {
        return Class { size, count: 1, first: 0, reciprocal };
    }
    let mut count = (SPAN as u32 - LINE as u32) / size;
    loop {
        let bitmap = count.div_ceil(512) * LINE as u32;
        let first = LINE as u32 + bitmap;
        if first + count * size <= SPAN as u32 {
            return Class { size, count, first, reciprocal };
        }
        count -= 1;
    }
}

impl Class {
    /// Returns the number of the bitmap's words that hold bits.
    pub(crate) fn words(&self) -> usize {
        self.count.div_ceil(64) as usize
    }

    /// Returns the number of the block that begins `offset` bytes into the span, if there is one.
    #[inline]
    pub(crate) fn index(&self, offset: u32) -> Option<u32> {
        let from_first = offset.checked_sub(self.first)?;
        // A division by `size`: exact, since offsets and sizes have 16 bits.
        let index = ((u64::from(from_first) * u64::from(self.reciprocal)) >> 32) as u32;
        (index * self.size == from_first && index < self.count).then_some(index)
    }

    /// Returns the offset of block number `index` in the span.
    pub(crate) fn offset(&self, index: u32) -> u32 {
        self.first + index * self.size
    }
}

/// Returns the smallest class whose blocks hold `len` bytes; `None` if it is longer than a span.
#[inline]
pub(crate) fn for_len(len: usize) -> Option<u8> {
    if len <= 1024 {
        return Some(SMALL[len.div_ceil(8)]);
    }
    (len <= SPAN as usize).then(|| TABLE.partition_point(|c| (c.size as usize) < len) as u8)
}

/// The class for each length up to 1 KiB, in steps of 8 bytes.
static SMALL: [u8; 129] = small();

const fn small() -> [u8; 129] {
    let mut small = [0; 129];
    let (mut step, mut class) = (0, 0);
    while step < 129 {
        while (SIZES[class] as usize) < step * 8 {
            class += 1;
        }
        small[step] = class as u8;
        step += 1;
    }
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_in_steps_of_eight_bytes_and_fit_their_span() {
        for pair in TABLE.windows(2) {
            assert!(pair[0].size < pair[1].size);
        }
        for c in &TABLE {
            assert_eq!(c.size % 8, 0);
            assert!(u64::from(c.offset(c.count - 1) + c.size) <= SPAN);
            assert!(
                u64::from(c.first) >= BITMAP_AT + 8 * c.words() as u64 || c.size as u64 == SPAN
            );
        }
    }

    #[test]
    fn the_class_for_a_length_is_the_smallest_that_holds_it() {
        for len in 1..=SPAN as usize {
            let class = for_len(len).expect("up to a span") as usize;
            assert!(TABLE[class].size as usize >= len, "{len}");
            assert!(class == 0 || (TABLE[class - 1].size as usize) < len, "{len}");
        }
        assert_eq!(for_len(SPAN as usize + 1), None);
    }

    #[test]
    fn only_a_block_that_begins_there_has_an_index() {
        for c in &TABLE {
            for index in [0, c.count / 2, c.count - 1] {
                assert_eq!(c.index(c.offset(index)), Some(index));
                assert_eq!(c.index(c.offset(index) + 4), None);
            }
            for offset in c.first..SPAN as u32 {
                let (index, rest) = ((offset - c.first) / c.size, (offset - c.first) % c.size);
                let expect = (rest == 0 && index < c.count).then_some(index);
                assert_eq!(c.index(offset), expect, "{offset} in {c:?}");
            }
            assert_eq!(c.index(c.offset(c.count)), None);
        }
    }

    #[test]
    fn little_of_a_span_is_wasted_at_its_end() {
        for c in &TABLE {
            let end = u64::from(c.offset(c.count - 1) + c.size);
            assert!(SPAN - end < u64::from(c.size).max(64), "{c:?}");
        }
    }
}
