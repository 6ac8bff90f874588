//! The shapes of a salvaged pool's spans, from the span table or else from their own headers.
//!
//! A span that is cut into blocks records its class itself, with a checksum; only a span that is
//! one block is known from the table alone. So each of the two replaces the other. If a word of the
//! table is lost, a span without a header is taken for one block if something leads to its start.

use super::note::SalvageNote;
use crate::layout::size_class::{BITMAP_AT, CLASSES, MOST_BLOCKS, TABLE, WHOLE};
use crate::layout::span::{header, split_span_word};
use crate::layout::{Geometry, SPAN};
use pmem::Region;

/// The number of a block that is a whole span. It differs from the numbers of blocks that a span
/// may be cut into, since an unknown span may be either.
const WHOLE_NUMBER: u32 = MOST_BLOCKS as u32 - 1;

/// The shape of a span.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shape {
    /// The class of the blocks that the span is cut into.
    class: Option<u8>,
    /// Whether it may be one block.
    is_whole: bool,
    /// Whether it certainly is one block, and in use.
    in_use: bool,
}

impl Shape {
    /// Returns the number and the size of the block that begins `inside` bytes into the span.
    pub(super) fn block(&self, inside: u32) -> Option<(u32, usize)> {
        if inside == 0 {
            return self.is_whole.then_some((WHOLE_NUMBER, SPAN as usize));
        }
        let shape = &TABLE[usize::from(self.class?)];
        shape.index(inside).map(|number| (number, shape.size as usize))
    }

    /// Returns the places and sizes of the blocks in use in the span that begins at `base`.
    pub(super) fn allocated(
        self,
        region: &Region,
        base: u64,
    ) -> impl Iterator<Item = (u64, usize)> + '_ {
        let whole = self.in_use.then_some((base, SPAN as usize));
        let blocks = self.class.filter(|_| !self.in_use).into_iter().flat_map(move |class| {
            let shape = &TABLE[usize::from(class)];
            let is_set = move |number: &u32| {
                let word = region.load(base + BITMAP_AT + 8 * u64::from(number / 64));
                word & 1 << (number % 64) != 0
            };
            let place = move |number| base + u64::from(shape.offset(number));
            (0..shape.count).filter(is_set).map(move |n| (place(n), shape.size as usize))
        });
        whole.into_iter().chain(blocks)
    }
}

/// Returns the shapes of all spans of this many zones, by number; spans that hold the table have
/// none.
pub(super) fn read(
    region: &Region,
    geometry: &Geometry,
    zones: u64,
    notes: &mut Vec<SalvageNote>,
) -> Vec<Shape> {
    let (mut count, mut first) = (0, None);
    let spans = u32::try_from(zones.saturating_mul(geometry.zone_spans as u64)).unwrap_or(u32::MAX);
    let shapes = (0..spans).map_while(|span| {
        let base = geometry.span_at(span);
        if base >= region.len() {
            return None;
        }
        if geometry.is_table(span) {
            return Some(Shape::default());
        }
        let (shape, agrees) = shape(region, geometry, span);
        if !agrees {
            count += 1;
            first = first.or(Some(span));
        }
        Some(shape)
    });
    let shapes = shapes.collect();
    notes.extend(first.map(|first| SalvageNote::SpanTable { count, first }));
    shapes
}

/// Returns a span's shape, and whether the table and the span's header agree on it.
fn shape(region: &Region, geometry: &Geometry, span: u32) -> (Shape, bool) {
    let word = region.load(geometry.span_word(span));
    let said = split_span_word(word, geometry.shards).map(|(class, _)| class);
    let own = own_class(region, geometry.span_at(span));
    let cut = |class| Shape { class: Some(class), ..Shape::default() };
    match (said, own) {
        (Some(WHOLE), class) => (Shape { class, is_whole: true, in_use: true }, true),
        (Some(class), Some(own)) => (cut(own), class == own),
        (Some(class), None) => (Shape { is_whole: true, ..cut(class) }, false),
        (None, Some(own)) => {
            // A free span may have been cut earlier: then no bit is set.
            let shape = cut(own);
            let base = geometry.span_at(span);
            let is_free = word == 0 && shape.allocated(region, base).next().is_none();
            (shape, is_free)
        }
        (None, None) => (Shape { is_whole: true, ..Shape::default() }, word == 0),
    }
}

/// Returns the class in a span's own header, if the header is valid.
pub(super) fn own_class(region: &Region, base: u64) -> Option<u8> {
    let class = u8::try_from(region.load(base) & 0xffff_ffff).ok()?;
    let shape = TABLE.get(usize::from(class)).filter(|_| usize::from(class) < CLASSES - 1)?;
    let header = header(class, shape);
    let is_whole = header
        .chunks_exact(8)
        .enumerate()
        .all(|(i, bytes)| region.load(base + 8 * i as u64).to_le_bytes() == bytes);
    is_whole.then_some(class)
}
