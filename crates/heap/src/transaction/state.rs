//! The state of a shard in DRAM, under its lock: the open transaction, the log's state, the free
//! blocks.

use super::held_blocks::HeldBlocks;
use super::overlay::Overlay;
use super::pins::Pin;
use super::read_cache::ReadCache;
use super::reserved_table::ReservedTable;
use super::snapshot_memory::Cut;
use super::staged::Staged;
use crate::alloc::allocator::BlockAllocator;
use crate::alloc::place::BlockPlace;
use crate::checksum::{crc32c_append, crc32c_combine};
use crate::fault_points::FaultPoint;
use crate::layout::{Geometry, SPAN};
use crate::log::record::{FreshRange, HEADER_WORDS, RecordKind, Word};
use crate::log::ring::Ring;
use pmem::Region;
use std::sync::Arc;

/// Up to this many reserved blocks are searched one by one.
pub(crate) const FEW: usize = 8;

/// A block that the open transaction reserved.
#[derive(Debug, Clone)]
pub(crate) struct Reserved {
    pub(crate) place: BlockPlace,
    /// The length that becomes part of the transaction, once the block is published.
    pub(crate) published: Option<u32>,
    /// The range of bytes that went through the cache and must be flushed: start, end.
    pub(crate) cached: (u32, u32),
    /// The number of bytes from the start that `crc` covers, if they were written in order.
    pub(crate) checksummed: Option<u32>,
    pub(crate) crc: u32,
    /// Whether the bytes had a fence of their own.
    pub(crate) fenced: bool,
}

impl Reserved {
    #[inline]
    pub(crate) fn new(place: BlockPlace) -> Reserved {
        Reserved {
            place,
            published: None,
            cached: (u32::MAX, 0),
            checksummed: Some(0),
            crc: 0,
            fenced: false,
        }
    }

    /// Returns true if a byte at `at` belongs to the block.
    #[inline]
    pub(crate) fn holds(&self, at: u64) -> bool {
        at.wrapping_sub(self.place.at) < u64::from(self.place.size())
    }

    /// Records that `bytes` were written at `from`, through the cache or past it.
    #[inline]
    pub(crate) fn wrote(&mut self, from: u32, bytes: &[u8], cached: bool) {
        self.wrote_by(from, bytes, cached, |crc| crc32c_append(crc, bytes));
    }

    /// Like [`Reserved::wrote`], for bytes with this checksum.
    #[inline]
    pub(crate) fn wrote_checksummed(
        &mut self,
        from: u32,
        bytes: &[u8],
        checksum: u32,
        cached: bool,
    ) {
        self.wrote_by(from, bytes, cached, |crc| crc32c_combine(crc, bytes, checksum));
    }

    #[inline(always)]
    fn wrote_by(&mut self, from: u32, bytes: &[u8], cached: bool, append: impl FnOnce(u32) -> u32) {
        let to = from + bytes.len() as u32;
        // These bytes have only the record's fence: recovery must verify that they arrived.
        self.fenced = false;
        if cached {
            self.cached = (self.cached.0.min(from), self.cached.1.max(to));
        }
        match self.checksummed {
            Some(checksummed) if checksummed == from => {
                self.crc = append(self.crc);
                self.checksummed = Some(to);
            }
            _ => self.checksummed = None,
        }
    }
}

/// A block that the open transaction frees.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freed {
    pub(crate) place: BlockPlace,
    /// Whether this transaction reserved it.
    pub(crate) own: bool,
}

/// The open transaction of a shard.
#[derive(Debug, Default)]
pub(crate) struct Tx {
    pub(crate) staged: Staged,
    pub(crate) reserved: Vec<Reserved>,
    /// Finds the index of a block in `reserved`, if there are many.
    pub(crate) reserved_table: ReservedTable,
    /// One bit for each of 64 groups of spans: no block is reserved in a group whose bit is 0.
    pub(crate) reserved_in: u64,
    pub(crate) appended: Vec<FreshRange>,
    pub(crate) freed: Vec<Freed>,
    /// Old values of words that were changed in reserved blocks after a savepoint.
    pub(crate) undo: Vec<(u64, u64)>,
    /// Words that were changed in place, in the order of the changes, with their previous values.
    pub(crate) replaced: Vec<(u64, u64)>,
    /// Published lengths of reserved blocks before a change after a savepoint, by index.
    pub(crate) unpublished: Vec<(usize, Option<u32>)>,
    pub(crate) has_savepoint: bool,
    pub(crate) may_use_reserve: bool,
}

/// Returns the group of the span that contains `at`, as a bit.
#[inline]
pub(crate) fn span_group(at: u64) -> u64 {
    1 << (at / SPAN % 64)
}

impl Tx {
    /// Returns true if there is nothing that could be dropped.
    #[inline]
    pub(crate) fn is_blank(&self) -> bool {
        self.reserved.is_empty()
            && self.staged.is_empty()
            && self.replaced.is_empty()
            && self.freed.is_empty()
            && self.appended.is_empty()
            && !self.may_use_reserve
            && !self.has_savepoint
    }

    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        !self.staged.is_empty()
            || !self.replaced.is_empty()
            || !self.freed.is_empty()
            || !self.appended.is_empty()
            || self.reserved.iter().any(|r| r.published.is_some())
    }

    /// Returns the index of the reserved block at this place.
    pub(crate) fn reserved_at(&mut self, place: &BlockPlace) -> Option<usize> {
        if self.reserved.len() <= FEW {
            return self.reserved.iter().rposition(|block| block.place.at == place.at);
        }
        let reserved = &self.reserved;
        self.reserved_table.find(reserved.len(), |index| reserved[index].place, place)
    }

    /// Makes this many bytes of a reserved block part of the transaction.
    pub(crate) fn publish(&mut self, index: usize, len: u32) {
        let before = self.reserved[index].published.replace(len);
        if self.has_savepoint {
            self.unpublished.push((index, before));
        }
    }

    /// Drops old values, and their memory if there are very many.
    pub(crate) fn forget_replaced(&mut self) {
        const KEPT: usize = 1 << 16;
        self.replaced.clear();
        self.replaced.shrink_to(KEPT);
    }

    pub(crate) fn clear(&mut self) {
        self.staged.clear();
        self.reserved.clear();
        self.reserved_table.clear();
        self.reserved_in = 0;
        self.appended.clear();
        self.freed.clear();
        self.undo.clear();
        self.forget_replaced();
        self.unpublished.clear();
        self.has_savepoint = false;
        self.may_use_reserve = false;
    }
}

/// The plan of a commit, made before anything is written.
///
/// As soon as an entry is known it is written in the form of the record, and also added to `words`,
/// from which its word is stored: reading the record again would cost more than writing both.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Header and link, blank until the record is checksummed, and the entries.
    pub(crate) record: Vec<u64>,
    pub(crate) kind: RecordKind,
    /// The record that goes into the ring if `record` is too long for it.
    pub(crate) long: Vec<u64>,
    /// The changed words, in the form in which they are stored.
    pub(crate) words: Vec<Word>,
    /// Spans that this commit publishes or releases, by their indexes in the allocator.
    pub(crate) publishing: Vec<u32>,
    pub(crate) releasing: Vec<u32>,
}

impl Plan {
    /// Begins the plan of a transaction whose record is of this kind.
    #[inline]
    pub(crate) fn begin(&mut self, kind: RecordKind) {
        self.kind = kind;
        self.record.clear();
        self.record.extend_from_slice(&[0; HEADER_WORDS]);
        self.record.extend(kind.linked.then_some(0));
        self.words.clear();
        self.publishing.clear();
        self.releasing.clear();
    }
}

/// The part of a snapshot that a shard keeps while the snapshot is read.
#[derive(Debug)]
pub(crate) struct SnapshotPart {
    pub(crate) cut: Arc<Cut>,
    /// Old values of the words that changed since the cut.
    pub(crate) overlay: Overlay,
    /// Holds the blocks that have been freed since.
    pub(crate) _pin: Pin,
}

/// A shard.
#[derive(Debug)]
pub(crate) struct ShardState {
    pub(crate) tx: Tx,
    pub(crate) plan: Plan,
    pub(crate) ring: Ring,
    pub(crate) alloc: BlockAllocator,
    /// Freed blocks that a reader may still look at.
    pub(crate) held: HeldBlocks,
    pub(crate) used: u64,
    /// Copies of bytes that are read often.
    pub(crate) cache: Option<Box<ReadCache>>,
    /// The shard's parts of the present snapshots, the oldest first.
    pub(crate) snapshots: Vec<SnapshotPart>,
    /// The index of the part through which the open transaction reads; `None` if it may write.
    pub(crate) as_of: Option<usize>,
    /// Set during a commit: a panic then leaves the shard half changed.
    pub(crate) committing: bool,
}

impl ShardState {
    /// Creates the state of a shard whose log continues at `line` with sequence number `seq`.
    pub(crate) fn new(
        region: &Region,
        geometry: &Geometry,
        shard: usize,
        line: u64,
        seq: u64,
    ) -> ShardState {
        ShardState {
            tx: Tx::default(),
            plan: Plan::default(),
            ring: Ring::new(geometry, shard, line, seq),
            alloc: BlockAllocator::new(*geometry, shard),
            held: HeldBlocks::default(),
            used: region.load(geometry.shard_area(shard).used()),
            cache: None,
            snapshots: Vec::new(),
            as_of: None,
            committing: false,
        }
    }

    /// Returns true if a snapshot is reading this shard.
    #[inline]
    pub(crate) fn is_in_snapshot(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Returns true if a word of a volatile heap may be changed in place: nobody reads its old
    /// value, and no value is staged that a commit would store over the new one.
    #[inline]
    pub(crate) fn changes_at_once(&self) -> bool {
        self.snapshots.is_empty() && self.tx.staged.is_empty()
    }

    /// Returns the shard's part of a snapshot; `None` if it was released.
    pub(crate) fn part_of(&self, cut: u64) -> Option<&SnapshotPart> {
        self.snapshots.iter().find(|part| part.cut.number == cut)
    }

    /// Returns the saved words through which the open transaction reads, if it reads the past.
    #[inline]
    pub(crate) fn saved_words(&self) -> Option<&Overlay> {
        self.as_of.and_then(|part| self.words_of(part))
    }

    #[cold]
    fn words_of(&self, part: usize) -> Option<&Overlay> {
        let part = if FaultPoint::ReadOwnCut.is_enabled() { part } else { 0 };
        self.snapshots.get(part).map(|part| &part.overlay)
    }
}
