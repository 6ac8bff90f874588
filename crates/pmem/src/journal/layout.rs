//! The layout of a journal file, and the sizes on which writer and scan agree.
//!
//! The unit of alignment is a block of 4 KiB, not the 512 bytes that a disk may report as its
//! sector: a disk with longer physical sectors rewrites a whole one for each write, and a power
//! loss meanwhile may destroy the neighbouring bytes, which had been synced. So synced bytes never
//! share a block with later writes.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The alignment in bytes of superblocks, and of the first batch after a sync.
pub(crate) const BLOCK: u64 = 4096;

/// Offsets of the two copies of the superblock.
pub(crate) const SUPERBLOCKS: [u64; 2] = [0, BLOCK];

/// Offset of the ring.
pub(crate) const RING_AT: u64 = 2 * BLOCK;

/// Minimum length of a ring: several of the shortest batches.
pub(crate) const LEAST_CAPACITY: u64 = 16 * BLOCK;

/// Maximum length of a ring. Positions in it never wrap around.
pub(crate) const MOST_CAPACITY: u64 = 1 << 40;

/// Default size of a ring in bytes.
pub const DEFAULT_CAPACITY: u64 = 256 << 20;

/// Maximum length of a batch in any ring, including header and padding.
const LONGEST_BATCH: u64 = 1 << 20;

/// Whether the files of journals in this process are simulated. Not a constant of the build: a
/// server that is built together with simulations uses real files.
static ARE_SIMULATED: AtomicBool = AtomicBool::new(cfg!(test));

/// Notes that the files of journals in this process are simulated.
#[cfg(feature = "sim")]
pub(crate) fn simulate_files() {
    ARE_SIMULATED.store(true, Relaxed);
}

/// Returns how many bytes are handled at once. Simulated rings are small, but should still reach
/// the ends of such parts.
#[inline]
pub(crate) fn at_once(bytes: u64, simulated: u64) -> u64 {
    if cfg!(any(test, feature = "sim")) && ARE_SIMULATED.load(Relaxed) { simulated } else { bytes }
}

/// Returns the maximum length of a batch in a ring: several must fit.
pub(crate) const fn longest_batch(capacity: u64) -> u64 {
    let share = capacity / 8 / BLOCK * BLOCK;
    if share < LONGEST_BATCH { share } else { LONGEST_BATCH }
}

/// Returns true if a ring may have this length.
pub(crate) const fn is_capacity(capacity: u64) -> bool {
    capacity >= LEAST_CAPACITY && capacity <= MOST_CAPACITY && capacity.is_multiple_of(BLOCK)
}

/// Returns the length of a ring for a requested length.
pub(crate) fn capacity_for(wanted: u64) -> u64 {
    wanted.clamp(LEAST_CAPACITY, MOST_CAPACITY) / BLOCK * BLOCK
}

/// Returns the array at an offset of some bytes, which must be long enough.
pub(crate) fn array<const N: usize>(raw: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&raw[at..at + N]);
    out
}

const _: () = {
    assert!(RING_AT == SUPERBLOCKS[1] + BLOCK);
    assert!(is_capacity(DEFAULT_CAPACITY) && is_capacity(LEAST_CAPACITY));
    assert!(is_capacity(MOST_CAPACITY));
    assert!(longest_batch(LEAST_CAPACITY) == 2 * BLOCK);
    assert!(longest_batch(DEFAULT_CAPACITY) == LONGEST_BATCH);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_whole_blocks_and_its_batches_an_eighth_of_it_or_a_mebibyte() {
        for (wanted, expect) in [
            (0, LEAST_CAPACITY),
            (LEAST_CAPACITY - 1, LEAST_CAPACITY),
            (LEAST_CAPACITY + 1, LEAST_CAPACITY),
            (LEAST_CAPACITY + BLOCK - 1, LEAST_CAPACITY),
            (LEAST_CAPACITY + BLOCK, LEAST_CAPACITY + BLOCK),
            (MOST_CAPACITY - 1, MOST_CAPACITY - BLOCK),
            (MOST_CAPACITY, MOST_CAPACITY),
            (u64::MAX, MOST_CAPACITY),
        ] {
            assert_eq!(capacity_for(wanted), expect, "{wanted}");
            assert!(is_capacity(expect), "{wanted}");
        }
        for wrong in [LEAST_CAPACITY - BLOCK, LEAST_CAPACITY + 1, MOST_CAPACITY + BLOCK] {
            assert!(!is_capacity(wrong), "{wrong}");
        }
        let eighths = [0, BLOCK, 8 * BLOCK - 1, 8 * BLOCK].map(|more| LEAST_CAPACITY + more);
        assert_eq!(eighths.map(longest_batch), [2 * BLOCK, 2 * BLOCK, 2 * BLOCK, 3 * BLOCK]);
        let most = [8 * LONGEST_BATCH - BLOCK, 8 * LONGEST_BATCH, 8 * LONGEST_BATCH + BLOCK];
        let expect = [LONGEST_BATCH - BLOCK, LONGEST_BATCH, LONGEST_BATCH];
        assert_eq!(most.map(longest_batch), expect);
    }
}
