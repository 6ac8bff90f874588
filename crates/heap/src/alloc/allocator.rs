//! A shard's free blocks, in DRAM.
//!
//! The persistent bitmap of a span is authoritative; the record that publishes or frees a block
//! changes it. This module keeps a copy in which reserved blocks count as taken too. The copy of a
//! span is made when the span is first needed.
//!
//! A span is *published* once its word in the span table names its owner. One that was cut into
//! blocks but has no published block yet belongs to nobody after a crash.

#![allow(
    unsafe_code,
    reason = "headers and bitmaps of spans that are not published are written here"
)]

use super::evacuation::Evacuation;
use super::free_block_cache::FreeBlockCache;
use super::place::BlockPlace;
use super::span_map::SpanMap;
use super::spans::{SpanAllocator, Taken};
use crate::layout::size_class::{self, BITMAP_AT, CLASSES, Class, WHOLE};
use crate::layout::span::{header, split_span_word};
use crate::layout::{Geometry, SPAN};
use pmem::Region;

/// A span of this shard that is cut into blocks.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) number: u32,
    /// Its offset in the pool.
    pub(crate) base: u64,
    pub(crate) class: u8,
    /// Whether the span table says that it belongs to this shard.
    pub(crate) published: bool,
    /// Whether it is in the list of spans with free blocks. An entry of that list whose span is not
    /// `listed` is stale: it belongs to a span that is gone, or to an earlier one with the same
    /// index.
    pub(super) listed: bool,
    /// Whether its blocks are to move elsewhere ([`super::evacuate`]): none of its free blocks is
    /// given out.
    pub(super) evacuated: bool,
    pub(crate) free: u32,
    hint: usize,
    busy: Vec<u64>,
}

impl Span {
    /// Returns block number `index`, which is at `at`. This span is number `span` of the list.
    #[inline(always)]
    fn place(&self, span: u32, at: u64, index: u32) -> BlockPlace {
        BlockPlace {
            at,
            bitmap: self.base + BITMAP_AT + u64::from(index / 64) * 8,
            span,
            index: index as u16,
            class: self.class,
            published: self.published,
        }
    }
}

#[derive(Debug)]
pub(crate) struct BlockAllocator {
    geometry: Geometry,
    /// `geometry.zones_at()`.
    zones_at: u64,
    pub(super) shard: usize,
    pub(super) spans: Vec<Option<Span>>,
    vacant: Vec<u32>,
    span_map: SpanMap,
    pub(super) current: [Option<u32>; CLASSES],
    pub(super) partial: Vec<Vec<u32>>,
    pub(super) unvisited: Vec<Vec<u32>>,
    /// Spans of an earlier incarnation that have been found so far.
    pub(super) found: u64,
    pub(super) evacuation: Evacuation,
    /// Bytes of the blocks that were freed in this incarnation.
    pub(crate) freed: u64,
    /// Free spans of this shard; the one freed last is taken first.
    free_spans: Vec<u32>,
    /// How many of the first entries of `free_spans` nobody has taken since the last check.
    rested: usize,
    /// Spans whose last block was freed: the next commit may release them.
    pub(crate) emptied: Vec<u32>,
    free_blocks: FreeBlockCache,
}

impl BlockAllocator {
    pub(crate) fn new(geometry: Geometry, shard: usize) -> BlockAllocator {
        BlockAllocator {
            geometry,
            zones_at: geometry.zones_at(),
            shard,
            spans: Vec::new(),
            vacant: Vec::new(),
            span_map: SpanMap::default(),
            current: [None; CLASSES],
            partial: vec![Vec::new(); CLASSES],
            unvisited: vec![Vec::new(); CLASSES],
            found: 0,
            evacuation: Evacuation::default(),
            freed: 0,
            free_spans: Vec::new(),
            rested: 0,
            emptied: Vec::new(),
            free_blocks: FreeBlockCache::new(),
        }
    }

    /// The fast path of a reservation: takes a cached block of `class`, or one from the span that
    /// is being filled; `None` if that span is full.
    #[inline(always)]
    pub(crate) fn reserve_fast(&mut self, class: u8) -> Option<BlockPlace> {
        if let Some(block) = self.free_blocks.take(class) {
            return Some(block);
        }
        self.take_block(self.current[class as usize]?)
    }

    /// Takes a block of `class`. Returns `None` if there is no space.
    pub(crate) fn reserve(
        &mut self,
        region: &Region,
        spans: &SpanAllocator,
        class: u8,
        may_use_reserve: bool,
    ) -> Option<BlockPlace> {
        if let Some(block) = self.reserve_fast(class) {
            return Some(block);
        }
        if class == WHOLE {
            let number = self.take_span(region, spans, class, may_use_reserve)?;
            return Some(BlockPlace::whole(self.geometry.span_at(number)));
        }
        loop {
            let span = self.next_span(region, spans, class, may_use_reserve)?;
            self.current[class as usize] = Some(span);
            if let Some(block) = self.take_block(span) {
                return Some(block);
            }
        }
    }

    /// Takes a block of a larger class, from a span that is already known. Used when no block of
    /// `class` is left.
    pub(crate) fn reserve_larger(&mut self, region: &Region, class: u8) -> Option<BlockPlace> {
        (class + 1..WHOLE).find_map(|class| {
            if let Some(block) = self.reserve_fast(class) {
                return Some(block);
            }
            let span = self.known_span(region, class)?;
            self.current[class as usize] = Some(span);
            self.take_block(span)
        })
    }

    /// Returns a block that was reserved, or that was freed and may be used again.
    #[inline]
    pub(crate) fn release(&mut self, block: BlockPlace) {
        pmem::panic_point();
        if block.class == WHOLE {
            return self.free_spans.extend(self.number_at(block.at));
        }
        let is_current = self.current[block.class as usize] == Some(block.span);
        let Some(span) = &mut self.spans[block.span as usize] else { return };
        let busy = &mut span.busy[block.word()];
        if *busy >> block.bit() & 1 == 0 {
            return;
        }
        *busy ^= 1 << block.bit();
        span.free += 1;
        span.hint = span.hint.min(block.word());
        if !span.listed && !is_current && !span.evacuated {
            span.listed = true;
            self.partial[block.class as usize].push(block.span);
        }
        if span.free == size_class::TABLE[block.class as usize].count {
            self.emptied.push(block.span);
        }
    }

    /// Makes the blocks that a transaction freed usable again. The transaction reserved `reserved`
    /// blocks; that many freed ones are cached for the next one. If it freed more than that, the
    /// cached blocks are returned too.
    pub(crate) fn reuse(&mut self, freed: impl Iterator<Item = BlockPlace>, reserved: usize) {
        for (n, block) in freed.enumerate() {
            if n >= reserved {
                self.empty_cache(block.class);
            } else if block.class != WHOLE
                && (self.free_blocks.has(&block)
                    || self.is_worth_caching(block) && self.free_blocks.keep(block))
            {
                continue;
            }
            self.release(block);
        }
    }

    /// Returns true if a block's span is going to stay: it is being filled, or not mostly empty.
    #[inline]
    fn is_worth_caching(&self, block: BlockPlace) -> bool {
        let class = block.class as usize;
        let is_full =
            |span: &Span| !span.evacuated && span.free * 2 <= size_class::TABLE[class].count;
        self.current[class] == Some(block.span) || self.span(block.span).is_some_and(is_full)
    }

    /// Returns the cached blocks of a class to their spans.
    #[inline]
    fn empty_cache(&mut self, class: u8) {
        while let Some(kept) = self.free_blocks.take(class) {
            self.release(kept);
        }
    }

    /// Returns all cached blocks to their spans.
    pub(crate) fn empty_caches(&mut self) {
        (0..WHOLE).for_each(|class| self.empty_cache(class));
    }

    /// Returns the taken block that begins at `at`, if there is one and this shard knows its span.
    #[inline(always)]
    pub(crate) fn taken_if_known(&self, at: u64) -> Option<BlockPlace> {
        self.taken_in(self.span_map.get(self.number_at(at)?)?, at)
    }

    /// Returns the taken block of this shard that begins at `at`, if there is one. Visits its span
    /// if necessary; from then on the span is known.
    pub(crate) fn taken(&mut self, region: &Region, at: u64) -> Option<BlockPlace> {
        let number = self.number_at(at)?;
        match self.span_map.get(number).or_else(|| self.visit(region, number)) {
            Some(known) => self.taken_in(known, at),
            None => self.taken_whole(region, number, at),
        }
    }

    #[inline(always)]
    fn taken_in(&self, known: u32, at: u64) -> Option<BlockPlace> {
        let span = self.spans[known as usize].as_ref()?;
        let offset = (at - span.base) as u32;
        let index = size_class::TABLE[span.class as usize].index(offset)?;
        let place = span.place(known, at, index);
        (span.busy[place.word()] >> place.bit() & 1 != 0).then_some(place)
    }

    fn taken_whole(&self, region: &Region, number: u32, at: u64) -> Option<BlockPlace> {
        let word = region.load(self.geometry.span_word(number));
        let whole = split_span_word(word, self.geometry.shards) == Some((WHOLE, self.shard));
        (whole && self.geometry.span_at(number) == at).then(|| BlockPlace::whole(at))
    }

    /// Marks blocks as taken that turned out to be in use, given by a word of their bitmap.
    pub(crate) fn take_reached(&mut self, number: u32, word: usize, bits: u64) {
        let Some(at) = self.span_map.get(number) else { return };
        let Some(span) = &mut self.spans[at as usize] else { return };
        span.free -= (bits & !span.busy[word]).count_ones();
        span.busy[word] |= bits;
    }

    /// Returns the number of the span that contains `at`.
    #[inline]
    fn number_at(&self, at: u64) -> Option<u32> {
        u32::try_from(at.checked_sub(self.zones_at)? / SPAN).ok()
    }

    /// Returns the span with this number, if it is known.
    fn known(&self, number: u32) -> Option<(u32, &Span)> {
        let at = self.span_map.get(number)?;
        Some((at, self.spans[at as usize].as_ref()?))
    }

    /// Returns the index in the list of the span that contains `at`, if it is known.
    pub(super) fn index_at(&self, at: u64) -> Option<u32> {
        self.span_map.get(self.number_at(at)?)
    }

    /// Returns true if the span with this number is known.
    pub(super) fn knows(&self, number: u32) -> bool {
        self.span_map.get(number).is_some()
    }

    /// Returns the class of the block at `at`, if this shard has one there.
    pub(crate) fn class_at(&self, region: &Region, at: u64) -> Option<u8> {
        let number = self.number_at(at)?;
        if let Some((_, span)) = self.known(number) {
            return Some(span.class);
        }
        let word = region.load(self.geometry.span_word(number));
        match split_span_word(word, self.geometry.shards) {
            Some((class, shard)) if shard == self.shard => Some(class),
            Some(_) => None,
            // A whole span that was reserved and is not published yet.
            None => Some(WHOLE),
        }
    }

    #[inline]
    pub(crate) fn span(&self, at: u32) -> Option<&Span> {
        self.spans.get(at as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn span_mut(&mut self, at: u32) -> Option<&mut Span> {
        self.spans.get_mut(at as usize)?.as_mut()
    }

    /// Returns the start of the block that contains `at`, if this shard knows the span.
    pub(crate) fn block_start(&self, at: u64) -> Option<u64> {
        self.block_with(at).map(|block| block.at)
    }

    /// Returns the block that contains `at`. A span that this shard does not know is treated as one
    /// whole block.
    #[inline]
    pub(crate) fn block_with(&self, at: u64) -> Option<BlockPlace> {
        let number = self.number_at(at)?;
        let Some((known, span)) = self.known(number) else {
            return Some(BlockPlace::whole(self.geometry.span_at(number)));
        };
        let class = &size_class::TABLE[span.class as usize];
        let index = ((at - span.base) as u32).checked_sub(class.first)? / class.size;
        Some(span.place(known, span.base + u64::from(class.offset(index)), index))
    }

    /// Returns true if the block should move elsewhere. During an evacuation: its span is being
    /// evacuated. Otherwise: most blocks of its span are free, and the span is not the one being
    /// filled.
    pub(crate) fn is_sparse(&self, region: &Region, at: u64) -> bool {
        let (Some(class), Some(number)) = (self.class_at(region, at), self.number_at(at)) else {
            return false;
        };
        if self.evacuation.is_under_way() {
            return self.known(number).is_some_and(|(_, span)| span.evacuated);
        }
        let shape = &size_class::TABLE[class as usize];
        let (free, filling) = match self.known(number) {
            Some((known, span)) => (span.free, self.current[class as usize] == Some(known)),
            None if class == WHOLE => return false,
            None => {
                let bitmap = self.geometry.span_at(number) + BITMAP_AT;
                let words = 0..shape.words() as u64;
                let taken: u32 = words.map(|i| region.load(bitmap + i * 8).count_ones()).sum();
                (shape.count.saturating_sub(taken), false)
            }
        };
        free * 2 > shape.count && !filling
    }

    /// Takes at most `most` spans that a commit may release: empty, published, and not being
    /// filled.
    pub(crate) fn releasable(&mut self, most: usize) -> Vec<u32> {
        let from = self.emptied.len().saturating_sub(most);
        let mut emptied = self.emptied.split_off(from);
        emptied.retain(|&at| {
            self.span(at).is_some_and(|s| {
                s.published
                    && s.free == size_class::TABLE[s.class as usize].count
                    && self.current[s.class as usize] != Some(at)
            })
        });
        emptied.sort_unstable();
        emptied.dedup();
        emptied
    }

    /// Forgets an empty span whose release is durable; it can then be used for any class.
    pub(crate) fn forget(&mut self, at: u32) {
        pmem::panic_point();
        let Some(span) = self.spans[at as usize].take() else { return };
        self.span_map.remove(span.number);
        self.evacuation.count_out(span.evacuated);
        // The list of spans with free blocks may still contain it, or the next span at the same
        // index: code that takes a span from there checks `listed`.
        self.vacant.push(at);
        self.free_spans.push(span.number);
    }

    pub(crate) fn give_span(&mut self, number: u32) {
        pmem::panic_point();
        self.free_spans.push(number);
    }

    /// Stops filling the spans that are empty, so that they are released too.
    pub(crate) fn stop_filling_empty(&mut self) {
        self.empty_caches();
        for class in 0..CLASSES {
            let Some(at) = self.current[class] else { continue };
            if self.span(at).is_some_and(|s| s.free == size_class::TABLE[class].count) {
                self.current[class] = None;
                if self.span(at).is_some_and(|s| s.published) {
                    self.emptied.push(at);
                } else {
                    self.forget(at);
                }
            }
        }
    }

    /// Takes all free spans, for other shards.
    pub(crate) fn release_free_spans(&mut self) -> Vec<u32> {
        self.rested = 0;
        std::mem::take(&mut self.free_spans)
    }

    /// Takes the free spans that were not needed since the previous call, if there are at least
    /// `least`.
    pub(crate) fn release_rested_spans(&mut self, least: usize) -> Vec<u32> {
        let rested = Some(self.rested).filter(|rested| *rested >= least).unwrap_or(0);
        let spans = self.free_spans.drain(..rested).collect();
        self.rested = self.free_spans.len();
        spans
    }

    /// Returns a free span for this shard, for any use.
    pub(crate) fn take_span(
        &mut self,
        region: &Region,
        spans: &SpanAllocator,
        class: u8,
        may_use_reserve: bool,
    ) -> Option<u32> {
        loop {
            if let Some(number) = self.free_spans.pop() {
                self.rested = self.rested.min(self.free_spans.len());
                return Some(number);
            }
            match spans.take(region, self.shard, may_use_reserve) {
                Taken::Free(number) => return Some(number),
                Taken::Nothing => return None,
                Taken::Found(found) => {
                    let useful = found.iter().any(|&(_, c)| c == class && c != WHOLE);
                    self.keep_found(found);
                    if useful {
                        return None;
                    }
                }
            }
        }
    }

    /// Returns a span with a free block: a partly used one, one of an earlier incarnation, or a new
    /// one.
    fn next_span(
        &mut self,
        region: &Region,
        spans: &SpanAllocator,
        class: u8,
        may_use_reserve: bool,
    ) -> Option<u32> {
        let c = class as usize;
        loop {
            if let Some(at) = self.known_span(region, class) {
                return Some(at);
            }
            match self.take_span(region, spans, class, may_use_reserve) {
                Some(number) => return Some(self.cut(region, number, class)),
                None if self.unvisited[c].is_empty() => return self.keep_evacuee(class),
                None => {}
            }
        }
    }

    /// Returns a span with a free block that already belongs to the shard.
    fn known_span(&mut self, region: &Region, class: u8) -> Option<u32> {
        let c = class as usize;
        self.current[c] = None;
        loop {
            while let Some(at) = self.partial[c].pop() {
                if let Some(span) = self.span_mut(at)
                    && span.class == class
                    && std::mem::take(&mut span.listed)
                    && span.free > 0
                {
                    return Some(at);
                }
            }
            let number = self.unvisited[c].pop()?;
            if !self.knows(number) {
                self.visit(region, number);
            }
        }
    }

    /// Returns the first free block of a span.
    #[inline(always)]
    fn take_block(&mut self, at: u32) -> Option<BlockPlace> {
        let span = self.spans[at as usize].as_mut()?;
        if span.free == 0 {
            return None;
        }
        let word = (span.hint..span.busy.len()).find(|&w| span.busy[w] != u64::MAX)?;
        let bit = span.busy[word].trailing_ones();
        span.busy[word] |= 1 << bit;
        span.hint = word;
        span.free -= 1;
        let index = word as u32 * 64 + bit;
        let offset = size_class::TABLE[span.class as usize].offset(index);
        Some(span.place(at, span.base + u64::from(offset), index))
    }

    /// Cuts a free span into blocks of `class`. Writes its header but does not flush it: the commit
    /// that first publishes one of its blocks publishes the header too.
    fn cut(&mut self, region: &Region, number: u32, class: u8) -> u32 {
        let shape = &size_class::TABLE[class as usize];
        let base = self.geometry.span_at(number);
        // SAFETY: the span is free: no reader follows a pointer into it.
        unsafe { region.write(base, &header(class, shape)) };
        self.clear_bitmap(region, number, shape);
        self.enter(Span {
            number,
            base,
            class,
            published: false,
            listed: false,
            evacuated: false,
            free: shape.count,
            hint: 0,
            busy: blank(shape),
        })
    }

    /// Writes an empty bitmap into a span that is not published.
    pub(crate) fn clear_bitmap(&self, region: &Region, number: u32, shape: &Class) {
        let base = self.geometry.span_at(number);
        let zeros = [0; 1024];
        // SAFETY: as for the header: nobody reads an unpublished span.
        unsafe {
            region.write(base + BITMAP_AT, &zeros[..shape.first as usize - BITMAP_AT as usize])
        };
    }

    /// Visits a span of an earlier incarnation: copies its bitmap, and lists the span if it has
    /// free blocks.
    #[cold]
    pub(super) fn visit(&mut self, region: &Region, number: u32) -> Option<u32> {
        let word = region.load(self.geometry.span_word(number));
        let (class, shard) = split_span_word(word, self.geometry.shards)?;
        if shard != self.shard || class == WHOLE {
            return None;
        }
        let shape = &size_class::TABLE[class as usize];
        let base = self.geometry.span_at(number);
        let mut busy = blank(shape);
        for (i, word) in busy.iter_mut().enumerate() {
            *word |= region.load(base + BITMAP_AT + i as u64 * 8);
        }
        let taken: u32 = busy.iter().map(|w| w.count_ones()).sum();
        let free = busy.len() as u32 * 64 - taken;
        let at = self.enter(Span {
            number,
            base,
            class,
            published: true,
            listed: free > 0,
            evacuated: false,
            free,
            hint: 0,
            busy,
        });
        if free > 0 {
            self.partial[class as usize].push(at);
        }
        if free == shape.count {
            self.emptied.push(at);
        }
        Some(at)
    }

    fn enter(&mut self, span: Span) -> u32 {
        pmem::panic_point();
        let number = span.number;
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.spans.push(None);
            self.spans.len() as u32 - 1
        });
        self.spans[at as usize] = Some(span);
        self.span_map.insert(number, at);
        at
    }
}

/// Returns a bitmap in which only the bits after the last block are taken.
fn blank(shape: &Class) -> Vec<u64> {
    let mut busy = vec![0; shape.words()];
    if let (Some(last), rest @ 1..) = (busy.last_mut(), shape.count % 64) {
        *last = u64::MAX << rest;
    }
    busy
}
