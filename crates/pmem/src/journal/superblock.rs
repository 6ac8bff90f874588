//! The superblock: to which pool the journal belongs, and where the batches begin that have not
//! been applied.
//!
//! Two copies are written one after the other, each synced before the other is touched, so that one
//! is always whole. A copy that a crash left half written has a wrong checksum, and the other one
//! is used. The space that a new tail frees is written only when both copies have that tail: if one
//! were damaged later, the other must not have an older tail.
//!
//! ```text
//! 0   magic "PERDURAJ"          8     48  incarnation                 8
//! 8   version u32               4     56  tail: position in the ring  8
//! 12  crc32c u32 of 8..12,      4     64  tail: sequence number       8
//!     then of 16..128
//! 16  uuid of the pool         16     72  bytes of the ring           8
//! 32  id of the journal         8     80  tail: oldest incarnation    8
//! 40  generation                8     88  first of the incarnation:   8
//!                                         its sequence number
//!                                     96  limit: no batch of this     8
//!                                         incarnation ends after it
//!                                    104  synced: sequence number    8
//!                                    112  checked from: sequence     8
//!                                         number
//!                                    120  zero                       8
//! ```

use super::batch::HeaderRules;
use super::layout::{BLOCK, SUPERBLOCKS, array, is_capacity, longest_batch};
use super::storage::Storage;
use crate::fault_points::FaultPoint;
use crate::lines::LINE;
use crc_fast::{CrcAlgorithm, Digest, checksum};
use std::io;

pub(crate) const MAGIC: [u8; 8] = *b"PERDURAJ";
/// The format that this code writes.
pub(crate) const VERSION: u32 = 5;
/// The oldest format that it reads, in which each batch began a block.
const OLDEST_VERSION: u32 = 1;
/// The first format whose batches have a check of their header.
const FIRST_CHECKED: u32 = 4;
/// The first format whose batches are of words, and whose superblock's checksum begins with the
/// version: no bit makes an older format of it.
const FIRST_OF_WORDS: u32 = 5;
/// Bytes of a copy, which is within one sector of any disk, so that no disk tears it in normal use.
pub(crate) const BYTES: usize = 128;
const RESERVED: usize = 120;
/// Start of the reserved bytes in earlier formats.
const RESERVED_BEFORE: usize = 104;
/// No counter gets this far, so none overflows.
const MOST_COUNTED: u64 = u64::MAX / 2;

/// The pool and the journal that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalId {
    /// The pool's own identifier.
    pub pool: [u8; 16],
    /// The number under which the pool names this journal; a new one each time that a journal is
    /// begun for the pool.
    pub journal: u64,
}

/// The content of the superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) id: JournalId,
    /// Counts writes of the superblock.
    pub(crate) generation: u64,
    /// Counts openings: distinguishes unsynced batches of earlier ones.
    pub(crate) incarnation: u64,
    /// Position of the oldest batch that has not been applied.
    pub(crate) tail: u64,
    /// Its sequence number.
    pub(crate) tail_sequence: u64,
    pub(crate) capacity: u64,
    /// The incarnation of the newest applied batch: no batch after it has an older one.
    pub(crate) tail_incarnation: u64,
    /// The sequence number with which this incarnation began: from there on batches of earlier ones
    /// are invalid, and all before it were synced. 0 in format 1, which does not record it.
    pub(crate) opened_at: u64,
    /// All batches that this incarnation wrote end before this position. 0 in formats 1 and 2,
    /// which do not record it: they may be anywhere in the ring.
    pub(crate) limit: u64,
    /// All batches before this sequence number were synced when this was written: if one is
    /// missing, the file has lost data. 0 in formats 1 to 3, which do not record it.
    pub(crate) synced: u64,
    /// Sequence number of the first batch whose header has a check. In formats 1 to 3 no header has
    /// one.
    pub(crate) checked_from: u64,
}

/// Why a copy is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuperblockError {
    /// Zeros: nothing has been written.
    Blank,
    Magic,
    Version {
        found: u32,
    },
    Damaged,
}

impl Superblock {
    pub(crate) fn encode(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(16, &self.id.pool);
        put(32, &self.id.journal.to_le_bytes());
        put(40, &self.generation.to_le_bytes());
        put(48, &self.incarnation.to_le_bytes());
        put(56, &self.tail.to_le_bytes());
        put(64, &self.tail_sequence.to_le_bytes());
        put(72, &self.capacity.to_le_bytes());
        put(80, &self.tail_incarnation.to_le_bytes());
        put(88, &self.opened_at.to_le_bytes());
        put(96, &self.limit.to_le_bytes());
        put(104, &self.synced.to_le_bytes());
        put(112, &self.checked_from.to_le_bytes());
        let crc = crc_of(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(crate) fn decode(raw: &[u8; BYTES]) -> Result<Superblock, SuperblockError> {
        let u64_at = |at: usize| u64::from_le_bytes(array(raw, at));
        let u32_at = |at: usize| u32::from_le_bytes(array(raw, at));
        if raw.iter().all(|byte| *byte == 0) {
            return Err(SuperblockError::Blank);
        }
        if raw[..8] != MAGIC {
            return Err(SuperblockError::Magic);
        }
        if !(OLDEST_VERSION..=VERSION).contains(&u32_at(8)) {
            return Err(SuperblockError::Version { found: u32_at(8) });
        }
        let superblock = Superblock {
            id: JournalId { pool: array(raw, 16), journal: u64_at(32) },
            generation: u64_at(40),
            incarnation: u64_at(48),
            tail: u64_at(56),
            tail_sequence: u64_at(64),
            capacity: u64_at(72),
            tail_incarnation: u64_at(80),
            opened_at: u64_at(88),
            limit: u64_at(96),
            synced: u64_at(104),
            checked_from: if u32_at(8) < FIRST_CHECKED { MOST_COUNTED } else { u64_at(112) },
        };
        let reserved = if u32_at(8) < FIRST_CHECKED { RESERVED_BEFORE } else { RESERVED };
        let is_whole = u32_at(12) == crc_of(raw) && raw[reserved..].iter().all(|b| *b == 0);
        let makes_sense = is_capacity(superblock.capacity)
            && superblock.tail.is_multiple_of(LINE)
            && superblock.counters().iter().all(|counter| *counter < MOST_COUNTED)
            && (superblock.checked_from < MOST_COUNTED || u32_at(8) < FIRST_CHECKED);
        match is_whole && makes_sense {
            true => Ok(superblock),
            false => Err(SuperblockError::Damaged),
        }
    }

    /// Returns the end of everything in the ring. The tail's block is not overwritten while it is
    /// the tail's.
    pub(crate) fn last(&self) -> u64 {
        self.tail / BLOCK * BLOCK + self.capacity
    }

    /// Returns the position before which all batches of this incarnation end.
    pub(crate) fn batches_end(&self) -> u64 {
        if self.limit == 0 { self.last() } else { self.limit.min(self.last()) }
    }

    /// Returns true if the pool's file records this journal's progress: in formats 1 to 3 it does
    /// not.
    pub(crate) fn is_said_by_pool(&self) -> bool {
        self.checked_from < MOST_COUNTED
    }

    /// Returns how to tell the headers of its batches from other bytes.
    pub(crate) fn header_rules(&self) -> HeaderRules {
        let Superblock { id, checked_from, capacity, .. } = *self;
        HeaderRules { number: id.journal, checked_from, longest: longest_batch(capacity) }
    }

    /// Returns the counters, which only grow.
    fn counters(&self) -> [u64; 8] {
        let Superblock { generation, incarnation, tail, limit, synced, .. } = *self;
        let Superblock { tail_sequence, tail_incarnation, opened_at, .. } = *self;
        [generation, incarnation, tail, tail_sequence, tail_incarnation, opened_at, limit, synced]
    }

    /// Reads both copies; returns the valid one with the higher generation, or why there is none.
    pub(crate) fn read(file: &dyn Storage) -> io::Result<Result<Superblock, SuperblockError>> {
        let (a, b) = (read_copy(file, SUPERBLOCKS[0])?, read_copy(file, SUPERBLOCKS[1])?);
        Ok(match (a, b) {
            (Ok(a), Ok(b)) => Ok(if a.generation >= b.generation { a } else { b }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(SuperblockError::Blank), Err(error)) | (Err(error), Err(_)) => Err(error),
        })
    }

    /// Writes both copies, one after the other, and calls `sync` after each. The copy that an
    /// interrupted write may have left half written is written first.
    pub(crate) fn write<E: From<io::Error>>(
        &mut self,
        file: &dyn Storage,
        mut sync: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let alternates = FaultPoint::AlternateSuperblocks.is_enabled();
        for _ in 0..2 {
            self.generation += 1;
            let copy = if alternates { (self.generation % 2) as usize } else { 0 };
            file.write_at(&self.encode(), SUPERBLOCKS[copy])?;
            sync()?;
        }
        Ok(())
    }
}

fn read_copy(file: &dyn Storage, at: u64) -> io::Result<Result<Superblock, SuperblockError>> {
    let mut raw = [0; BYTES];
    file.read_at(&mut raw, at)?;
    Ok(Superblock::decode(&raw))
}

/// Returns the CRC-32C of some bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

fn crc_of(raw: &[u8; BYTES]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    if u32::from_le_bytes(array(raw, 8)) >= FIRST_OF_WORDS {
        digest.update(&raw[8..12]);
    }
    digest.update(&raw[16..]);
    digest.finalize() as u32
}

const _: () = assert!(BYTES <= 512 && RESERVED == 112 + size_of::<u64>());

#[cfg(test)]
pub(crate) mod tests {
    use super::super::layout::DEFAULT_CAPACITY;
    use super::super::storage::tests::Memory;
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn sample() -> Superblock {
        Superblock {
            id: JournalId { pool: [7; 16], journal: 3 },
            generation: 4,
            incarnation: 2,
            tail: 5 * BLOCK,
            tail_sequence: 9,
            capacity: DEFAULT_CAPACITY,
            tail_incarnation: 1,
            opened_at: 0,
            limit: 5 * BLOCK,
            synced: 0,
            checked_from: 0,
        }
    }

    #[test]
    fn a_superblock_reads_back_as_it_was_written() {
        assert_eq!(Superblock::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..8 * BYTES {
            let mut raw = sample().encode();
            raw[bit / 8] ^= 1 << (bit % 8);
            let expected = match bit / 8 {
                0..8 => Err(SuperblockError::Magic),
                8..12 => match VERSION ^ 1 << (bit - 64) {
                    OLDEST_VERSION..VERSION => Err(SuperblockError::Damaged),
                    found => Err(SuperblockError::Version { found }),
                },
                _ => Err(SuperblockError::Damaged),
            };
            assert_eq!(Superblock::decode(&raw), expected, "bit {bit}");
        }
    }

    #[test]
    fn what_an_older_format_does_not_say_is_not_taken_from_it() {
        for version in OLDEST_VERSION..FIRST_CHECKED {
            let mut raw = sample().encode();
            raw[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = crc_of(&raw);
            raw[12..16].copy_from_slice(&crc.to_le_bytes());
            let superblock = Superblock::decode(&raw).unwrap();
            assert_eq!(superblock, Superblock { checked_from: MOST_COUNTED, ..sample() });
            raw[RESERVED_BEFORE] = 1;
            let crc = crc_of(&raw);
            raw[12..16].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Superblock::decode(&raw), Err(SuperblockError::Damaged));
        }
    }

    #[test]
    fn a_counter_that_nothing_counts_that_far_is_refused_though_it_has_its_checksum() {
        for at in [40, 48, 56, 64, 80, 88, 96, 104, 112] {
            let mut raw = sample().encode();
            raw[at..at + 8].copy_from_slice(&(u64::MAX << 12).to_le_bytes());
            let crc = crc_of(&raw);
            raw[12..16].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Superblock::decode(&raw), Err(SuperblockError::Damaged), "byte {at}");
        }
    }

    #[test]
    fn one_copy_is_whole_at_every_moment_of_a_write() {
        let file = Memory::new(2 * BLOCK as usize);
        assert_eq!(Superblock::read(&file).unwrap(), Err(SuperblockError::Blank));
        let mut superblock = Superblock { generation: 0, ..sample() };
        superblock.write(&file, || Ok::<(), io::Error>(())).unwrap();
        let mut next = Superblock { tail: 6 * BLOCK, ..superblock };
        let mut writes = 0;
        next.write(&file, || {
            // The copy that was just written may be torn: the other one is still valid.
            let torn = Memory::from(file.bytes());
            let other = if writes == 0 { superblock.tail } else { 6 * BLOCK };
            let written = SUPERBLOCKS[(superblock.generation as usize + 1 + writes) % 2];
            torn.write_at(&[0xff; 40], written + 40).unwrap();
            assert_eq!(Superblock::read(&torn).unwrap().unwrap().tail, other);
            writes += 1;
            Ok::<(), io::Error>(())
        })
        .unwrap();
        assert_eq!(writes, 2);
        assert_eq!(Superblock::read(&file).unwrap(), Ok(next));
    }

    proptest! {
        #[test]
        fn random_bytes_are_refused(raw in prop::collection::vec(any::<u8>(), BYTES)) {
            let raw: [u8; BYTES] = raw.try_into().unwrap();
            prop_assert!(Superblock::decode(&raw).is_err());
            let mut magic = raw;
            magic[..8].copy_from_slice(&MAGIC);
            magic[8..12].copy_from_slice(&VERSION.to_le_bytes());
            prop_assert!(Superblock::decode(&magic).is_err());
        }
    }
}
