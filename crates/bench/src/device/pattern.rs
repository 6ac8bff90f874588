//! The choice of the next block, and of reading or writing it.
//!
//! Random accesses pick any block of the file. Sequential reads walk through it, as do sequential
//! writes by themselves, and each starts over at the end.

use fastrand::Rng;

/// The order of blocks, and the share of reads among the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) random: bool,
    pub(crate) reads_percent: u32,
}

/// An operation on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) write: bool,
    pub(crate) offset: u64,
    pub(crate) len: usize,
}

/// Generates operations, always the same ones for the same seed.
pub(crate) struct Generator {
    rng: Rng,
    access: Access,
    block: u64,
    /// The number of blocks in the file.
    blocks: u64,
    /// The numbers of the next blocks that are read and written in sequence.
    next_read: u64,
    next_write: u64,
}

impl Generator {
    /// Returns a generator of operations on blocks of `block` bytes within a file of `file` bytes,
    /// which must hold one.
    pub(crate) fn new(access: Access, block: u64, file: u64, seed: u64) -> Generator {
        let mut rng = Rng::with_seed(seed);
        let blocks = (file / block).max(1);
        // Sequences start at random positions, so that threads do not move in step.
        let next_read = rng.u64(0..blocks);
        let next_write = rng.u64(0..blocks);
        Generator { rng, access, block, blocks, next_read, next_write }
    }

    /// Returns the next operation.
    #[inline]
    pub(crate) fn next(&mut self) -> Operation {
        let write = match self.access.reads_percent {
            0 => true,
            100 => false,
            reads => self.rng.u32(0..100) >= reads,
        };
        let number = if self.access.random {
            self.rng.u64(0..self.blocks)
        } else {
            let next = if write { &mut self.next_write } else { &mut self.next_read };
            let number = *next;
            *next = (number + 1) % self.blocks;
            number
        };
        Operation { write, offset: number * self.block, len: self.block as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 1 << 20;

    fn take(random: bool, reads_percent: u32, block: u64, count: usize) -> Vec<Operation> {
        let mut generator = Generator::new(Access { random, reads_percent }, block, FILE, 7);
        (0..count).map(|_| generator.next()).collect()
    }

    #[test]
    fn operations_stay_inside_and_aligned_to_their_block() {
        let check = |random, reads, block| {
            for op in take(random, reads, block, 5000) {
                assert!(op.offset + op.len as u64 <= FILE, "{op:?}");
                assert_eq!(op.offset % op.len as u64, 0, "{op:?}");
            }
        };
        check(true, 100, 512);
        check(true, 50, FILE);
        check(false, 0, 4096);
        check(false, 65, 512 << 10);
    }

    #[test]
    fn mixes_have_their_shares() {
        let check = |random, reads, share: f64| {
            let ops = take(random, reads, 512, 20_000);
            let writes = ops.iter().filter(|op| op.write).count() as f64 / 20_000.0;
            assert!((writes - share).abs() < 0.015, "{reads} %: {writes}");
        };
        check(true, 100, 0.0);
        check(true, 0, 1.0);
        check(true, 50, 0.5);
        check(false, 65, 0.35);
    }

    #[test]
    fn a_random_stream_comes_everywhere_and_a_sequence_one_by_one() {
        let ops = take(true, 0, FILE / 8, 400);
        let seen: std::collections::BTreeSet<_> = ops.iter().map(|op| op.offset).collect();
        assert_eq!(seen.len(), 8);
        let ops = take(false, 100, FILE / 8, 400);
        assert!(ops.windows(2).all(|two| two[1].offset == (two[0].offset + FILE / 8) % FILE));
    }
}
