//! The choice of the next block, and of reading or writing it.
//!
//! A pattern consists of a few streams, each with its share of the operations: one for pure reads
//! or writes, two for a mix, six for the composite, which the NVDIMM studies derived from the
//! traffic of a real store. A sequential stream walks through the file and starts over at its end;
//! a random one picks any block of its size.

use crate::results::Pattern;
use fastrand::Rng;

/// One of the streams of a pattern.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stream {
    /// The share of this stream in a thousand operations.
    pub(crate) per_mille: u32,
    pub(crate) random: bool,
    pub(crate) write: bool,
    pub(crate) block: u64,
}

/// The share of reads in the composite, in percent.
pub(crate) const COMPOSITE_READS: u32 = 67;

/// Reads and writes of 0.5 to 64 KiB, as a store issues them.
const COMPOSITE: [Stream; 6] = [
    Stream { per_mille: 305, random: true, write: false, block: 64 << 10 },
    Stream { per_mille: 289, random: false, write: true, block: 512 },
    Stream { per_mille: 164, random: true, write: false, block: 8 << 10 },
    Stream { per_mille: 142, random: false, write: false, block: 8 << 10 },
    Stream { per_mille: 56, random: false, write: false, block: 64 << 10 },
    Stream { per_mille: 44, random: true, write: true, block: 8 << 10 },
];

/// Returns the streams of a pattern. The composite ignores the share of reads and the block size,
/// since it has its own.
pub(crate) fn streams(pattern: Pattern, reads_percent: u32, block: u64) -> Vec<Stream> {
    let random = match pattern {
        Pattern::Composite => return COMPOSITE.to_vec(),
        Pattern::Random => true,
        Pattern::Sequential => false,
    };
    let stream = |per_mille, write| Stream { per_mille, random, write, block };
    match reads_percent.min(100) * 10 {
        1000 => vec![stream(1000, false)],
        0 => vec![stream(1000, true)],
        reads => vec![stream(reads, false), stream(1000 - reads, true)],
    }
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
    /// Each stream with its number of blocks if it is random, with its next offset if it is
    /// sequential.
    streams: Vec<(Stream, u64)>,
    file: u64,
}

impl Generator {
    /// Returns a generator of operations within a file of `file` bytes, which must hold the largest
    /// block.
    pub(crate) fn new(streams: &[Stream], file: u64, seed: u64) -> Generator {
        let mut rng = Rng::with_seed(seed);
        let mut placed = Vec::with_capacity(streams.len());
        for stream in streams {
            let blocks = (file / stream.block).max(1);
            // Sequential streams start at random positions, so that threads and streams do not move
            // in step.
            let place = if stream.random { blocks } else { rng.u64(0..blocks) * stream.block };
            placed.push((*stream, place));
        }
        Generator { rng, streams: placed, file }
    }

    /// Returns the next operation.
    #[inline]
    pub(crate) fn next(&mut self) -> Operation {
        let at = self.choose();
        let (stream, place) = &mut self.streams[at];
        let offset = if stream.random {
            self.rng.u64(0..*place) * stream.block
        } else {
            if *place + stream.block > self.file {
                *place = 0;
            }
            let here = *place;
            *place += stream.block;
            here
        };
        Operation { write: stream.write, offset, len: stream.block as usize }
    }

    #[inline]
    fn choose(&mut self) -> usize {
        if self.streams.len() == 1 {
            return 0;
        }
        let mut lot = self.rng.u32(0..1000);
        for (at, (stream, _)) in self.streams.iter().enumerate() {
            match lot.checked_sub(stream.per_mille) {
                Some(rest) => lot = rest,
                None => return at,
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 1 << 20;

    fn take(pattern: Pattern, reads: u32, block: u64, count: usize) -> Vec<Operation> {
        let mut generator = Generator::new(&streams(pattern, reads, block), FILE, 7);
        (0..count).map(|_| generator.next()).collect()
    }

    #[test]
    fn the_composite_is_whole() {
        assert_eq!(COMPOSITE.iter().map(|stream| stream.per_mille).sum::<u32>(), 1000);
        let reads = COMPOSITE.iter().filter(|s| !s.write).map(|s| s.per_mille).sum::<u32>();
        assert_eq!((reads + 5) / 10, COMPOSITE_READS);
    }

    #[test]
    fn operations_stay_inside_and_aligned_to_their_block() {
        let check = |pattern, reads, block| {
            for op in take(pattern, reads, block, 5000) {
                assert!(op.offset + op.len as u64 <= FILE, "{op:?}");
                assert_eq!(op.offset % op.len as u64, 0, "{op:?}");
            }
        };
        check(Pattern::Random, 100, 512);
        check(Pattern::Random, 50, FILE);
        check(Pattern::Sequential, 0, 4096);
        check(Pattern::Sequential, 65, 512 << 10);
        check(Pattern::Composite, 67, 0);
    }

    #[test]
    fn mixes_have_their_shares() {
        let check = |pattern, reads, share: f64| {
            let ops = take(pattern, reads, 512, 20_000);
            let writes = ops.iter().filter(|op| op.write).count() as f64 / 20_000.0;
            assert!((writes - share).abs() < 0.015, "{reads} %: {writes}");
        };
        check(Pattern::Random, 100, 0.0);
        check(Pattern::Random, 0, 1.0);
        check(Pattern::Random, 50, 0.5);
        check(Pattern::Sequential, 65, 0.35);
        check(Pattern::Composite, 67, 0.333);
    }

    #[test]
    fn a_random_stream_comes_everywhere() {
        let ops = take(Pattern::Random, 0, FILE / 8, 400);
        let seen: std::collections::BTreeSet<_> = ops.iter().map(|op| op.offset).collect();
        assert_eq!(seen.len(), 8);
    }
}
