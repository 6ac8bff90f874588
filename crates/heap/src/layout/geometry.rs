//! The places of all parts of a pool.
//!
//! ```text
//! 0          header, copy A       4 KiB   see `header`
//! 4096       header, copy B       4 KiB
//! 8192       published zones      4 KiB   one word: how many zones are in use; from 64 on, a line
//!                                         in which the journal says how far it came
//! 12288      shard areas          2 KiB each: tail, fenced, counters, roots
//!            rings                one for each shard, each `ring_parts * ring_part` bytes
//!            zones                `zone_spans` spans of 64 KiB, at first the zone's span table
//! ```
//!
//! The geometry is fixed when the pool is created; only the number of zones grows.
//! `docs/format/pool.md` has the byte diagrams.

use std::ops::Range;

/// Bytes of a cache line, the unit of flushing.
pub(crate) const LINE: u64 = 64;
/// Bytes of a span: the unit that is cut into blocks of one size class, or is one large block.
pub(crate) const SPAN: u64 = 65536;
/// Number of words that each shard offers to the layer above as roots.
pub const ROOTS: usize = 128;
/// The largest block: a whole span.
pub const MAX_BLOCK: usize = SPAN as usize;

pub(crate) const HEADER_A: u64 = 0;
pub(crate) const HEADER_B: u64 = 4096;
pub(crate) const ZONES_WORD: u64 = 8192;
/// The line in which the journal records its progress (`pmem`).
pub(crate) const JOURNAL_PROGRESS: u64 = ZONES_WORD + LINE;
pub(crate) const SHARDS_AT: u64 = 12288;
const SHARD_AREA: u64 = 2048;
const MOST_SHARDS: usize = 1024;
/// A device whose bytes are zeros up to here is to hold a new pool. All shards' areas are before
/// it.
pub(crate) const DEVICE_BLANK: u64 = 4 << 20;
const ROOTS_IN_AREA: u64 = 1024;

const _: () = assert!(SHARDS_AT + MOST_SHARDS as u64 * SHARD_AREA <= DEVICE_BLANK);
const _: () = assert!(SPAN.is_multiple_of(LINE));
const _: () = assert!(ROOTS_IN_AREA + ROOTS as u64 * 8 == SHARD_AREA);

/// The sizes that are chosen when a pool is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Shards: independent locks and logs; 1 to 1024.
    pub shards: usize,
    /// Parts of each shard's ring; at least 3.
    pub ring_parts: usize,
    /// Bytes of a part; a multiple of 64, 512 to 65536. A record does not cross a part's end.
    pub ring_part: usize,
    /// Spans of 64 KiB in a zone, the step in which the pool grows; 8 to 16384.
    pub zone_spans: usize,
}

/// Spans of the smallest zone.
const LEAST_ZONE_SPANS: usize = 8;
/// Spans of the smallest zone that is chosen automatically (8 MiB): a smaller one is too small to
/// be of use.
const LEAST_FITTING_SPANS: usize = 128;
/// A pool with more zones than this uses the usual zone size: the rest that is lost is small.
const FEW_ZONES: u64 = 16;

impl Default for Geometry {
    /// 4 shards with a ring of 8 parts of 32 KiB each (1 MiB of rings in all), zones of 64 MiB.
    fn default() -> Geometry {
        Geometry { shards: 4, ring_parts: 8, ring_part: 32 * 1024, zone_spans: 1024 }
    }
}

impl Geometry {
    /// Returns the geometry for a machine with this many cores and a pool that may grow to `limit`
    /// bytes.
    ///
    /// Two shards for each core, so that threads seldom want the same one, and no more: a
    /// transaction over many keys writes a record for each shard that it touches. From 4 to 64
    /// shards, limited so that all rings take at most a 64th of the pool. A pool of few zones has
    /// zones of equal size, not above the usual one, so that they fill it; at least 8 MiB each.
    pub fn fitting(cores: usize, limit: u64) -> Geometry {
        let of_rings = limit / 64 / Geometry::default().ring_bytes();
        let most = 1 << of_rings.clamp(1, 64).ilog2();
        let wanted = cores.clamp(2, 32).next_power_of_two() * 2;
        let usual = Geometry { shards: wanted.min(most), ..Geometry::default() };
        let space = limit.saturating_sub(usual.zones_at()) / SPAN;
        let zones = space.div_ceil(usual.zone_spans as u64).max(1);
        let zone_spans = match zones {
            ..=FEW_ZONES => (space / zones) as usize,
            _ => usual.zone_spans,
        };
        Geometry { zone_spans: zone_spans.clamp(LEAST_FITTING_SPANS, usual.zone_spans), ..usual }
    }

    /// Returns true if every size is within its range.
    pub(crate) fn is_valid(&self) -> bool {
        (1..=MOST_SHARDS).contains(&self.shards)
            && (3..=64).contains(&self.ring_parts)
            && self.ring_part.is_multiple_of(LINE as usize)
            && (512..=65536).contains(&self.ring_part)
            && (LEAST_ZONE_SPANS..=16384).contains(&self.zone_spans)
    }

    pub(crate) fn ring_bytes(&self) -> u64 {
        (self.ring_parts * self.ring_part) as u64
    }

    pub(crate) fn shard_area(&self, shard: usize) -> ShardArea {
        ShardArea { at: SHARDS_AT + shard as u64 * SHARD_AREA }
    }

    fn rings_at(&self) -> u64 {
        (SHARDS_AT + self.shards as u64 * SHARD_AREA).next_multiple_of(4096)
    }

    pub(crate) fn ring_at(&self, shard: usize) -> u64 {
        self.rings_at() + shard as u64 * self.ring_bytes()
    }

    /// Returns the parts of a new pool that need their space at once: everything before the rings,
    /// the first shard's ring, and the first zone's span table.
    pub(crate) fn first_parts(&self) -> [Range<u64>; 2] {
        let zones_at = self.zones_at();
        let table = (self.zone_spans as u64 * 8).next_multiple_of(4096);
        [0..self.ring_at(1).next_multiple_of(4096), zones_at..zones_at + table]
    }

    /// Returns the offset of the first zone; a multiple of the span size.
    pub(crate) fn zones_at(&self) -> u64 {
        (self.rings_at() + self.shards as u64 * self.ring_bytes()).next_multiple_of(SPAN)
    }

    pub(crate) fn zone_bytes(&self) -> u64 {
        self.zone_spans as u64 * SPAN
    }

    /// Returns the pool's length with `zones` zones.
    pub(crate) fn pool_bytes(&self, zones: u64) -> u64 {
        self.zones_at() + zones * self.zone_bytes()
    }

    /// Returns how many whole zones fit into a pool of `bytes`.
    pub(crate) fn zones_in(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(self.zones_at()) / self.zone_bytes()
    }

    /// Returns how many spans at a zone's start hold its span table; they are never given out.
    pub(crate) fn table_spans(&self) -> u64 {
        (self.zone_spans as u64 * 8).div_ceil(SPAN)
    }

    /// Returns the offset of span number `span`.
    pub(crate) fn span_at(&self, span: u32) -> u64 {
        self.zones_at() + u64::from(span) * SPAN
    }

    /// Returns the word of the span table that describes span number `span`.
    pub(crate) fn span_word(&self, span: u32) -> u64 {
        let (zone, index) =
            (u64::from(span) / self.zone_spans as u64, u64::from(span) % self.zone_spans as u64);
        self.zones_at() + zone * self.zone_bytes() + index * 8
    }

    /// Returns the number of the span that contains the byte at `at`; `None` before the zones.
    pub(crate) fn span_of(&self, at: u64) -> Option<u32> {
        u32::try_from(at.checked_sub(self.zones_at())? / SPAN).ok()
    }

    /// Returns true if this span holds a part of its zone's span table.
    pub(crate) fn is_table(&self, span: u32) -> bool {
        u64::from(span) % (self.zone_spans as u64) < self.table_spans()
    }
}

/// The words of a shard outside its blocks; each group has its own lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShardArea {
    at: u64,
}

impl ShardArea {
    /// Returns the offset of the tail: the line of the ring where the log begins (16 bits) and the
    /// sequence number of the record there (48 bits).
    pub(crate) fn tail(self) -> u64 {
        self.at
    }

    /// Returns the offset of the newest sequence number whose fence has completed, as a
    /// `record::fenced_word`; it is stored lazily.
    pub(crate) fn fenced(self) -> u64 {
        self.at + LINE
    }

    /// Returns the offset of the number of bytes in the shard's allocated blocks; it is logged.
    pub(crate) fn used(self) -> u64 {
        self.at + 2 * LINE
    }

    pub(crate) fn root(self, n: usize) -> u64 {
        self.at + ROOTS_IN_AREA + n as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_follow_cores_and_the_size_of_the_pool() {
        const MIB: u64 = 1 << 20;
        let check = |cores, mib: u64, expect| {
            let geometry = Geometry::fitting(cores, mib * MIB);
            assert!(geometry.is_valid());
            assert_eq!(geometry.shards, expect, "{cores} cores, {mib} MiB");
        };
        check(1, 4096, 4);
        check(2, 4096, 4);
        check(3, 4096, 8);
        check(8, 4096, 16);
        check(200, 4096, 64);
        check(200, 512, 32);
        check(200, 100, 4);
        check(2, 64, 4);
        check(2, 40, 2);
        check(2, 1, 1);
    }

    #[test]
    fn the_zones_of_a_pool_take_all_of_it() {
        const MIB: u64 = 1 << 20;
        for mib in [9, 16, 17, 40, 63, 64, 65, 66, 100, 128, 200, 300, 1000, 1024, 1500, 4096] {
            for cores in [1, 2, 8, 200] {
                let (limit, geometry) = (mib * MIB, Geometry::fitting(cores, mib * MIB));
                let zones = geometry.zones_in(limit);
                assert!(
                    geometry.is_valid() && zones >= 1,
                    "{mib} MiB, {cores} cores: {geometry:?}"
                );
                let rest = limit - geometry.pool_bytes(zones);
                let is_usual = geometry.zone_spans == Geometry::default().zone_spans;
                let most = if is_usual { geometry.zone_bytes() } else { (zones + 1) * SPAN };
                assert!(rest < most, "{mib} MiB: {rest} bytes unused");
                assert_eq!(zones == 1, mib <= 65, "{mib} MiB: {geometry:?}");
                assert!(!is_usual || zones > FEW_ZONES || rest < SPAN, "{mib} MiB: {geometry:?}");
            }
        }
    }
}
