//! Reads a journal from its tail: which batches are valid, and whether one is missing.
//!
//! A batch is valid if it is whole, its sequence number is the next one, and its incarnation is not
//! older than that of the previous batch. After the end there may be batches of an earlier
//! incarnation that were written and never synced, with the very sequence numbers that are expected
//! next. Their incarnation is older than that of the batch that overwrote the first of them; if
//! that batch has been applied, the superblock has its incarnation.
//!
//! A batch that an opening found torn, and that is whole later, is not valid either: the batch
//! written over it may be torn too, and contain the very bytes that were missing. The superblock
//! has the sequence number with which the last opening began; from there on only batches of that
//! incarnation are valid.
//!
//! The first invalid batch is the end, unless something shows that it had been synced. Blocks of
//! several unsynced writes reach the medium in any order, so a whole batch after a torn one does
//! not mean damage by itself. Each batch records which ones had been synced when it was written: a
//! later batch that records the missing one as synced shows damage.

use super::batch::{BatchHeader, HEADER, has_checksum};
use super::error::JournalError;
use super::layout::{BLOCK, at_once};
use super::ring::Ring;
use super::superblock::Superblock;
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use std::io;

/// Number of bytes that are read at once: many batches, and few enough for a CPU cache.
fn window() -> u64 {
    at_once(256 << 10, 5 * BLOCK)
}

/// How far a journal has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// Position after the last valid batch.
    pub(crate) position: u64,
    /// Sequence number of the next batch.
    pub(crate) sequence: u64,
    /// Incarnation of the last batch that is valid, or was applied.
    pub(crate) incarnation: u64,
    /// All batches before this one are known to be durable, according to the batches themselves.
    pub(crate) synced: u64,
}

/// Reads batches one after the other.
pub(crate) struct Scan<'f> {
    ring: Ring<'f>,
    superblock: Superblock,
    end: ScanEnd,
    window: Window,
}

/// Bytes of the ring that were read ahead. A scan never looks at bytes that somebody may be writing
/// meanwhile.
#[derive(Default)]
struct Window {
    from: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns `len` bytes from a position on; reads ahead no further than `last`.
    fn read(&mut self, ring: &Ring<'_>, position: u64, len: usize, last: u64) -> io::Result<&[u8]> {
        let end = position + len as u64;
        if position < self.from || end > self.from + self.bytes.len() as u64 {
            let ahead = window().min(last.saturating_sub(position));
            self.bytes.resize(ahead.max(len as u64) as usize, 0);
            self.from = position;
            let read = ring.read(&mut self.bytes, position);
            // The bytes left by a failed read are invalid.
            read.inspect_err(|_| self.bytes.clear())?;
        }
        let at = (position - self.from) as usize;
        Ok(&self.bytes[at..at + len])
    }
}

impl<'f> Scan<'f> {
    /// Returns a scan that begins at the tail.
    pub(crate) fn new(ring: Ring<'f>, superblock: &Superblock) -> Scan<'f> {
        let end = ScanEnd {
            position: superblock.tail,
            sequence: superblock.tail_sequence,
            incarnation: superblock.tail_incarnation,
            synced: superblock.tail_sequence.max(superblock.opened_at),
        };
        Scan { ring, superblock: *superblock, end, window: Window::default() }
    }

    /// Returns a scan that continues from the end of another one.
    pub(crate) fn resume(ring: Ring<'f>, superblock: &Superblock, end: ScanEnd) -> Scan<'f> {
        Scan { end, ..Scan::new(ring, superblock) }
    }

    /// Returns how far the scan has read.
    pub(crate) fn end(&self) -> ScanEnd {
        self.end
    }

    /// Reads the next valid batch, if there is one: its position and its bytes, without the
    /// padding.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        // It follows the last one directly; or, if there was a sync in between, in the next block.
        let after = self.end.position;
        let found = match self.read_at(after)? {
            None if !after.is_multiple_of(BLOCK) && FaultPoint::ScanNextBlock.is_enabled() => {
                self.read_at(after.next_multiple_of(BLOCK))?
            }
            found => found,
        };
        let Some((position, header)) = found else { return Ok(None) };
        self.end = ScanEnd {
            position: position + header.space(),
            sequence: header.sequence + 1,
            incarnation: header.incarnation,
            synced: self.end.synced.max(header.synced.min(header.sequence)),
        };
        let bytes = self.window.read(&self.ring, position, header.len, self.superblock.last())?;
        Ok(Some((position, bytes)))
    }

    /// Reads the batch at a position, if there is a valid one.
    fn read_at(&mut self, position: u64) -> io::Result<Option<(u64, BatchHeader)>> {
        let last = self.superblock.last();
        if position >= last {
            return Ok(None);
        }
        let raw = self.window.read(&self.ring, position, HEADER, last)?;
        let raw = raw.first_chunk().copied().unwrap_or([0; HEADER]);
        let header = BatchHeader::parse(&raw, &self.superblock.header_rules());
        let fits = |header: &BatchHeader| position + header.space() <= last;
        let Some(header) = header.filter(|header| self.counts(header) && fits(header)) else {
            return Ok(None);
        };
        let batch = self.window.read(&self.ring, position, header.len, last)?;
        let is_whole = has_checksum(&self.superblock.id.pool, batch);
        Ok(is_whole.then_some((position, header)))
    }

    fn counts(&self, header: &BatchHeader) -> bool {
        let follows = header.sequence == self.end.sequence;
        (follows || !FaultPoint::CheckSequence.is_enabled())
            && (self.is_of_incarnation(header) || !FaultPoint::CheckIncarnation.is_enabled())
    }

    fn is_of_incarnation(&self, header: &BatchHeader) -> bool {
        let Superblock { opened_at, incarnation, .. } = self.superblock;
        let is_later =
            header.incarnation >= self.end.incarnation && header.incarnation <= incarnation;
        let is_given_up =
            opened_at > 0 && header.sequence >= opened_at && header.incarnation < incarnation;
        is_later && (!is_given_up || !FaultPoint::CheckOpening.is_enabled())
    }

    /// Refuses the journal if a batch before the superblock's limit shows that the one at the end
    /// had been synced.
    pub(crate) fn refuse_damage(&self) -> Result<(), JournalError> {
        if !FaultPoint::FindDamage.is_enabled() {
            return Ok(());
        }
        let missing = self.end.sequence;
        let synced = self.superblock.opened_at.max(self.superblock.synced);
        if missing < synced {
            return Err(JournalError::Damaged { expected: missing, found: synced });
        }
        let (last, rules) = (self.superblock.batches_end(), self.superblock.header_rules());
        let mut chunk = vec![0; window().min(self.superblock.capacity) as usize];
        let mut bytes = Vec::new();
        let mut position = self.end.position;
        while position < last {
            let len = (last - position).min(chunk.len() as u64) as usize;
            self.ring.read(&mut chunk[..len], position)?;
            for at in (0..len).step_by(LINE as usize) {
                let raw = chunk[at..].first_chunk::<HEADER>();
                let header = raw.and_then(|raw| BatchHeader::parse(raw, &rules));
                // A batch only names batches before it. So once none of an older format is left,
                // every batch that matters here has a check.
                let speaks = |header: &BatchHeader| {
                    header.synced > missing && header.synced <= header.sequence
                };
                let Some(header) = header.filter(speaks) else { continue };
                let pool = &self.superblock.id.pool;
                let at = position + at as u64;
                if self.ring.read_batch(pool, &rules, at, &mut bytes)?.is_some() {
                    let found = header.sequence;
                    return Err(JournalError::Damaged { expected: missing, found });
                }
            }
            position += len as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::tests::{ID, POOL, RULES, batch, header, with_id};
    use super::super::layout::{LEAST_CAPACITY, RING_AT};
    use super::super::storage::Storage;
    use super::super::storage::tests::Memory;
    use super::super::superblock::JournalId;
    use super::super::superblock::tests::sample;
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    const TAIL: u64 = 3 * LEAST_CAPACITY - 2 * BLOCK;

    fn superblock() -> Superblock {
        let capacity = LEAST_CAPACITY;
        Superblock { capacity, tail: TAIL, tail_sequence: 10, incarnation: 3, limit: 0, ..sample() }
    }

    /// Returns a journal whose batches follow each other from its tail on.
    fn journal(batches: &[Vec<u8>]) -> Memory {
        let file = Memory::new((RING_AT + LEAST_CAPACITY) as usize);
        let ring = Ring { file: &file, capacity: LEAST_CAPACITY };
        let mut position = TAIL;
        for batch in batches {
            ring.write(batch, position).unwrap();
            position += batch.len() as u64;
        }
        file
    }

    /// Returns the valid sequence numbers, where the scan ended, and whether the journal was
    /// refused.
    fn read(file: &Memory) -> (Vec<u64>, ScanEnd, Result<(), String>) {
        let superblock = superblock();
        let ring = Ring { file, capacity: superblock.capacity };
        let mut scan = Scan::new(ring, &superblock);
        let mut sequences = Vec::new();
        while let Some((_, bytes)) = scan.next().unwrap() {
            sequences.push(BatchHeader::parse(bytes.first_chunk().unwrap(), &RULES).unwrap());
        }
        let sequences = sequences.into_iter().map(|header| header.sequence).collect();
        let refused = scan.refuse_damage().map_err(|error| error.to_string());
        (sequences, scan.end(), refused)
    }

    #[test]
    fn what_shows_damage_is_looked_for_before_the_limit() {
        let mut batches = vec![torn(one(1, 10, 10)); 9];
        batches.push(one(1, 11, 11));
        let file = journal(&batches);
        let refused = |limit| {
            let superblock = Superblock { limit, ..superblock() };
            let ring = Ring { file: &file, capacity: superblock.capacity };
            let mut scan = Scan::new(ring, &superblock);
            assert!(scan.next().unwrap().is_none());
            scan.refuse_damage().is_err()
        };
        let found = [0, TAIL, TAIL + 9 * BLOCK, TAIL + 10 * BLOCK, u64::MAX / 4].map(refused);
        assert_eq!(found, [true, false, false, true, true]);
    }

    #[test]
    fn a_journal_that_lacks_what_was_synced_when_its_superblock_was_written_is_damaged() {
        let file = journal(&[one(1, 10, 10), one(1, 11, 10)]);
        let refused = |synced| {
            let superblock = Superblock { synced, ..superblock() };
            let ring = Ring { file: &file, capacity: superblock.capacity };
            let mut scan = Scan::new(ring, &superblock);
            while scan.next().unwrap().is_some() {}
            scan.refuse_damage().is_err()
        };
        assert_eq!([11, 12, 13].map(refused), [false, false, true]);
    }

    fn check(batches: &[Vec<u8>], expect: &[u64], refused: Option<&str>) {
        let (found, end, result) = read(&journal(batches));
        assert_eq!(found, expect);
        assert_eq!(end.sequence, 10 + expect.len() as u64);
        match refused {
            None => assert_eq!(result, Ok(())),
            Some(text) => {
                let error = result.unwrap_err();
                assert!(error.contains(text), "{error}");
            }
        }
    }

    fn one(incarnation: u64, sequence: u64, synced: u64) -> Vec<u8> {
        batch(header(incarnation, sequence, synced), &[(8 * sequence, 8, sequence as u8)])
    }

    fn torn(batch: Vec<u8>) -> Vec<u8> {
        let mut torn = batch;
        torn[100] ^= 1;
        torn
    }

    #[test]
    fn batches_count_while_each_is_the_next_one() {
        check(&[], &[], None);
        check(&[one(1, 10, 10), one(1, 11, 11)], &[10, 11], None);
        check(&[one(1, 11, 10)], &[], None);
        check(&[one(1, 9, 9), one(1, 10, 9)], &[], None);
        check(&[one(1, 10, 10), one(1, 12, 11)], &[10], None);
    }

    #[test]
    fn what_an_earlier_incarnation_left_after_the_end_does_not_count() {
        check(&[one(1, 10, 10), one(2, 11, 11), one(3, 12, 12)], &[10, 11, 12], None);
        check(&[one(1, 10, 10), one(2, 11, 11), one(1, 12, 11)], &[10, 11], None);
        check(&[one(0, 10, 10)], &[], None);
        // Nor is a batch valid that claims an incarnation that has not existed yet.
        check(&[one(1, 10, 10), one(4, 11, 11)], &[10], None);
    }

    #[test]
    fn a_torn_batch_is_the_end_unless_it_was_synced() {
        check(&[one(1, 10, 10), torn(one(1, 11, 10)), one(1, 12, 10)], &[10], None);
        check(&[one(1, 10, 10), torn(one(1, 11, 10)), one(1, 12, 11)], &[10], None);
        let damaged = "batch 11 is not whole, though it was synced before batch 12 was written";
        let batches = [one(1, 10, 10), torn(one(1, 11, 10)), one(1, 12, 12)];
        check(&batches, &[10], Some(damaged));
        let first = [torn(one(1, 10, 10)), one(1, 11, 10), torn(one(2, 12, 11)), one(2, 13, 11)];
        check(&first, &[], Some("batch 10 is not whole, though it was synced before batch 13"));
    }

    #[test]
    fn batches_that_share_a_block_are_read_and_then_those_of_the_next_one() {
        let file = Memory::new((RING_AT + LEAST_CAPACITY) as usize);
        let ring = Ring { file: &file, capacity: LEAST_CAPACITY };
        let put = |batch: Vec<u8>, at: u64| ring.write(&batch[..192], TAIL + at).unwrap();
        put(one(1, 10, 10), 0);
        put(one(1, 11, 10), 192);
        put(one(1, 12, 10), BLOCK);
        put(one(1, 13, 13), 2 * BLOCK);
        let sequences = |file: &Memory| read(file).0;
        assert_eq!(sequences(&file), [10, 11, 12, 13]);
        // A later batch of the same block, whole, after a torn one.
        put(one(1, 14, 13), 2 * BLOCK + 192);
        put(one(1, 15, 13), 2 * BLOCK + 384);
        ring.write(&[1], TAIL + 2 * BLOCK + 192 + 100).unwrap();
        assert_eq!(sequences(&file), [10, 11, 12, 13]);
        assert_eq!(read(&file).2, Ok(()));
        // Its place was taken by a batch of the next incarnation, in the next block.
        put(one(2, 14, 14), 3 * BLOCK);
        put(one(2, 15, 14), 3 * BLOCK + 192);
        assert_eq!(sequences(&file), [10, 11, 12, 13, 14, 15]);
        put(one(2, 16, 16), 4 * BLOCK);
        ring.write(&[1], TAIL + 3 * BLOCK + 192 + 100).unwrap();
        let refused = read(&file).2.unwrap_err();
        assert!(refused.contains("batch 15 is not whole, though it was synced before batch 16"));
    }

    #[test]
    fn a_full_ring_is_read_once_around() {
        let blocks = LEAST_CAPACITY / BLOCK;
        let batches: Vec<_> = (10..10 + blocks).map(|n| one(1, n, n)).collect();
        let (found, end, refused) = read(&journal(&batches));
        assert_eq!(found.len() as u64, blocks);
        assert_eq!(end.position, TAIL + LEAST_CAPACITY - BLOCK + 192);
        assert_eq!((end.synced, refused), (9 + blocks, Ok(())));
    }

    /// Returns how many batches of these incarnations are valid, after which opening, by the rules
    /// at the head of this file.
    fn valid(incarnations: &[u64], opened_at: u64) -> usize {
        let mut last = superblock().tail_incarnation;
        let own = superblock().incarnation;
        let is_valid = |(sequence, incarnation): &(u64, &u64)| {
            let is_in_order = (last..=own).contains(*incarnation);
            last = **incarnation;
            is_in_order && (opened_at == 0 || *sequence < opened_at || **incarnation == own)
        };
        (10..).zip(incarnations).take_while(is_valid).count()
    }

    proptest! {
        #[test]
        fn batches_count_by_their_incarnation_and_the_last_opening(
            incarnations in prop::collection::vec(0_u64..5, 1..6),
            opened_at in prop::sample::select(vec![0_u64, 9, 10, 11, 12, 13, 20]),
        ) {
            let batches = (10..).zip(&incarnations).map(|(n, one_of)| one(*one_of, n, 10));
            let file = journal(&batches.collect::<Vec<_>>());
            let superblock = Superblock { opened_at, ..superblock() };
            let ring = Ring { file: &file, capacity: superblock.capacity };
            let mut scan = Scan::new(ring, &superblock);
            let mut count = 0;
            while scan.next().unwrap().is_some() {
                count += 1;
            }
            prop_assert_eq!(count, valid(&incarnations, opened_at));
        }

        /// Whatever is done to the bytes, the valid batches are a prefix, each unchanged.
        #[test]
        fn of_a_damaged_journal_a_prefix_counts(
            lens in prop::collection::vec(1..90u64, 1..8),
            damage in prop::collection::vec((0..RING_AT + LEAST_CAPACITY, any::<u8>()), 0..6),
            cut in any::<prop::sample::Index>(),
        ) {
            let batches: Vec<_> = (10..)
                .zip(&lens)
                .map(|(n, lines)| batch(header(1, n, n), &[(n, 8 * *lines, n as u8)]))
                .collect();
            let file = journal(&batches);
            for (at, byte) in damage {
                file.write_at(&[byte], at).unwrap();
            }
            let superblock = superblock();
            let mut scan = Scan::new(Ring { file: &file, capacity: LEAST_CAPACITY }, &superblock);
            let mut count = 0;
            while let Some((_, bytes)) = scan.next().unwrap() {
                prop_assert_eq!(bytes, &batches[count][..bytes.len()]);
                count += 1;
            }
            prop_assert!(count <= batches.len());
            let _ = scan.refuse_damage();

            // A truncated file is an error, not a panic.
            let short = file.bytes()[..cut.index(RING_AT as usize)].to_vec();
            let short = Memory::from(short);
            let mut scan = Scan::new(Ring { file: &short, capacity: LEAST_CAPACITY }, &superblock);
            prop_assert!(scan.next().is_err());
        }

        #[test]
        fn random_blocks_hold_no_batch(blocks in prop::collection::vec(any::<[u8; 32]>(), 16)) {
            let file = Memory::new((RING_AT + LEAST_CAPACITY) as usize);
            for (n, block) in blocks.iter().enumerate() {
                file.write_at(block, RING_AT + n as u64 * BLOCK).unwrap();
                if block[0] % 2 == 0 {
                    file.write_at(&one(1, 10, 10)[..20], RING_AT + n as u64 * BLOCK).unwrap();
                }
            }
            let (found, end, refused) = read(&file);
            prop_assert_eq!((found.len(), end.position, refused), (0, TAIL, Ok(())));
        }
    }

    /// A file that counts the bytes that are read from it.
    struct Counted {
        file: Memory,
        read: AtomicU64,
    }

    impl Storage for Counted {
        fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
            self.read.fetch_add(bytes.len() as u64, Relaxed);
            self.file.read_at(bytes, at)
        }

        fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
            self.file.write_at(bytes, at)
        }

        fn sync(&self) -> io::Result<()> {
            self.file.sync()
        }

        fn size(&self) -> io::Result<u64> {
            self.file.size()
        }

        fn allocate(&self, from: u64, to: u64) -> io::Result<()> {
            self.file.allocate(from, to)
        }
    }

    /// A client's values may contain, in each of their lines, a fake header of a batch of maximum
    /// length: if it were accepted, the batch would be read.
    #[test]
    fn headers_that_a_client_made_up_are_read_once() {
        let line_of = |id: JournalId| {
            let batch = with_id(&id, header(1, 99, 98), &[(5, 1008, 0)]);
            *batch.first_chunk::<HEADER>().unwrap()
        };
        let read_with = |line: [u8; HEADER]| {
            let lines = line.repeat((LEAST_CAPACITY / LINE) as usize);
            let file = Memory::new((RING_AT + LEAST_CAPACITY) as usize);
            file.write_at(&lines, RING_AT).unwrap();
            let file = Counted { file, read: AtomicU64::new(0) };
            let superblock = Superblock { checked_from: 5, ..superblock() };
            let mut scan = Scan::new(Ring { file: &file, capacity: LEAST_CAPACITY }, &superblock);
            assert!(scan.next().unwrap().is_none());
            scan.refuse_damage().unwrap();
            file.read.load(Relaxed)
        };
        let rings = |read: u64| read / LEAST_CAPACITY;
        assert_eq!(rings(read_with(line_of(JournalId { journal: ID.journal + 1, ..ID }))), 1);
        // A fake of an older format, which has no check: sequence number, synced, check.
        let mut older = line_of(ID);
        older[24..32].fill(0);
        older[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        older[40..48].fill(0);
        assert_eq!(rings(read_with(older)), 1);
        // Somebody who knew the number could cause batches to be read.
        assert!(rings(read_with(line_of(ID))) > 100);
    }

    #[test]
    fn the_pool_is_part_of_every_checksum() {
        let file = journal(&[one(1, 10, 10)]);
        let mut other = superblock();
        other.id.pool = [8; 16];
        assert_ne!(other.id.pool, POOL);
        let mut scan = Scan::new(Ring { file: &file, capacity: LEAST_CAPACITY }, &other);
        assert!(scan.next().unwrap().is_none());
    }
}
