//! What a study of a medium is to cover.

use super::method::Method;
use super::pattern::{COMPOSITE_READS, streams};
use super::target::ALIGNMENT;
use crate::results::Pattern;
use std::path::PathBuf;
use std::time::Duration;

/// Where blocks lie and how many of the operations are reads: what `--patterns` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) name: &'static str,
    pub(crate) pattern: Pattern,
    pub(crate) reads_percent: u32,
}

const fn access(name: &'static str, pattern: Pattern, reads_percent: u32) -> Access {
    Access { name, pattern, reads_percent }
}

/// All of them, named as fio names its own.
pub(crate) const ACCESSES: [Access; 9] = [
    access("randread", Pattern::Random, 100),
    access("read", Pattern::Sequential, 100),
    access("randwrite", Pattern::Random, 0),
    access("write", Pattern::Sequential, 0),
    access("randrw50", Pattern::Random, 50),
    access("rw50", Pattern::Sequential, 50),
    access("randrw65", Pattern::Random, 65),
    access("rw65", Pattern::Sequential, 65),
    access("composite", Pattern::Composite, COMPOSITE_READS),
];

/// The block sizes of the NVDIMM studies.
pub(crate) const BLOCKS: [u64; 4] = [512, 4 << 10, 8 << 10, 512 << 10];

/// What to measure on one medium.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// A directory on it.
    pub dir: PathBuf,
    /// Bytes of the file.
    pub size: u64,
    pub(crate) methods: Vec<Method>,
    pub(crate) blocks: Vec<u64>,
    pub(crate) accesses: Vec<Access>,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Seconds of each cell.
    pub seconds: f64,
}

impl Options {
    /// Measures everything, on a file of 256 MiB, with one thread and with as many as there are
    /// cores.
    pub(crate) fn new(dir: PathBuf) -> Options {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let mut threads = vec![1, cores];
        threads.dedup();
        Options {
            dir,
            size: 256 << 20,
            methods: Method::ALL.to_vec(),
            blocks: BLOCKS.to_vec(),
            accesses: ACCESSES.to_vec(),
            threads,
            seconds: 0.25,
        }
    }

    /// Returns a look: one thread, the two ends of the block sizes that stores use, reads and
    /// writes apart.
    pub(crate) fn quick(dir: PathBuf) -> Options {
        let few = ["randread", "randwrite", "write", "composite"];
        let accesses = ACCESSES.into_iter().filter(|access| few.contains(&access.name));
        Options {
            size: 64 << 20,
            blocks: vec![512, 4 << 10, 512 << 10],
            accesses: accesses.collect(),
            threads: vec![1],
            seconds: 0.05,
            ..Options::new(dir)
        }
    }

    /// As much as fits into a time: everything, or a look, with cells that are shorter where they
    /// have to be.
    pub(crate) fn within(dir: PathBuf, time: Duration) -> Options {
        let share = |options: &Options| time.as_secs_f64() / options.cells() as f64;
        let all = Options::new(dir.clone());
        let mut options = if share(&all) >= 0.1 { all } else { Options::quick(dir) };
        // A part of the time goes to making files.
        options.seconds = (share(&options) * 0.8).clamp(0.02, 2.0);
        options
    }

    /// Returns the combinations, method by method, so that each method's file is made once.
    pub(crate) fn plan(&self) -> Vec<(Method, Vec<Cell>)> {
        self.methods.iter().map(|method| (*method, self.cells_of(*method))).collect()
    }

    /// Returns how many there are.
    pub(crate) fn cells(&self) -> usize {
        self.plan().iter().map(|(_, cells)| cells.len()).sum()
    }

    /// Bytes of the smallest file with which a row can be measured: every thread needs a part with
    /// space for the largest block of the row, and parts begin at pages.
    pub(crate) fn least_size(&self) -> u64 {
        let least = |cell: Cell| {
            let streams = streams(cell.access.pattern, cell.access.reads_percent, cell.block);
            let page = ALIGNMENT as u64;
            streams.iter().map(|stream| stream.block.next_multiple_of(page)).max().unwrap_or(page)
        };
        let threads = self.threads.iter().copied().max().unwrap_or(1).max(1);
        let cells = self.plan().into_iter().flat_map(|(_, cells)| cells);
        cells.map(least).min().unwrap_or(0) * u64::from(threads)
    }

    fn cells_of(&self, method: Method) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &threads in &self.threads {
            for &access in &self.accesses {
                if access.reads_percent == 100 && !method.has_reads_of_its_own() {
                    continue;
                }
                match access.pattern {
                    Pattern::Composite => cells.push(Cell { threads, access, block: 0 }),
                    _ => {
                        let of = |&block| Cell { threads, access, block };
                        cells.extend(self.blocks.iter().map(of));
                    }
                }
            }
        }
        cells
    }
}

/// A combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) threads: u32,
    pub(crate) access: Access,
    /// 0 for the composite.
    pub(crate) block: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mappings_are_read_once() {
        let options = Options { threads: vec![1], ..Options::new("/tmp".into()) };
        let cells = |method| options.cells_of(method).len();
        assert_eq!(cells(Method::Memcpy), 8 * 4 + 1);
        assert_eq!(cells(Method::Clwb), 6 * 4 + 1);
        assert_eq!(options.cells(), 3 * 33 + 3 * 25);
    }

    #[test]
    fn the_least_file_has_a_part_with_a_block_for_each_thread() {
        let with = |blocks: &[u64], threads: &[u32]| {
            let (blocks, threads) = (blocks.to_vec(), threads.to_vec());
            let accesses = ACCESSES[..1].to_vec();
            Options { blocks, threads, accesses, ..Options::new("/tmp".into()) }.least_size()
        };
        assert_eq!(with(&[512, 64 << 10], &[1]), 4096);
        assert_eq!(with(&[64 << 10, 512 << 10], &[1, 3]), 3 * (64 << 10));
        let composite = Options { accesses: ACCESSES[8..].to_vec(), ..Options::new("/tmp".into()) };
        assert_eq!(Options { threads: vec![2], ..composite }.least_size(), 2 * (64 << 10));
    }

    #[test]
    fn a_time_is_kept() {
        let check = |seconds: u64| {
            let options = Options::within("/tmp".into(), Duration::from_secs(seconds));
            let takes = options.cells() as f64 * options.seconds;
            assert!(takes <= seconds as f64 && options.seconds >= 0.02, "{seconds}: {takes}");
        };
        check(5);
        check(20);
        check(90);
        check(600);
    }
}
