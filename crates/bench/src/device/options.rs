//! The extent of a study of a medium.

use super::method::Method;
use super::pattern::Access;
use std::path::PathBuf;

const fn random(reads_percent: u32) -> Access {
    Access { random: true, reads_percent }
}

const fn sequential(reads_percent: u32) -> Access {
    Access { random: false, reads_percent }
}

/// The parameters of the study of one medium.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// A directory on the medium.
    pub(crate) dir: PathBuf,
    /// The size of the file in bytes.
    pub(crate) size: u64,
    pub(crate) blocks: &'static [u64],
    pub(crate) accesses: &'static [Access],
    /// The numbers of threads.
    pub(crate) threads: Vec<u32>,
    /// Seconds of each cell.
    pub(crate) seconds: f64,
}

impl Options {
    /// Returns the full study: the block sizes of the NVDIMM studies, with one thread and with as
    /// many as there are cores.
    pub(crate) fn new(dir: PathBuf) -> Options {
        const ALL: [Access; 8] = [
            random(100),
            sequential(100),
            random(0),
            sequential(0),
            random(50),
            sequential(50),
            random(65),
            sequential(65),
        ];
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let mut threads = vec![1, cores];
        threads.dedup();
        Options {
            dir,
            // Each thread's part has space for the largest blocks.
            size: (256 << 20).max(u64::from(cores) << 20),
            blocks: &[512, 4 << 10, 8 << 10, 512 << 10],
            accesses: &ALL,
            threads,
            seconds: 0.25,
        }
    }

    /// Returns a short study: one thread, three block sizes, reads and writes apart.
    pub(crate) fn quick(dir: PathBuf) -> Options {
        const FEW: [Access; 3] = [random(100), random(0), sequential(0)];
        Options {
            size: 64 << 20,
            blocks: &[512, 4 << 10, 512 << 10],
            accesses: &FEW,
            threads: vec![1],
            seconds: 0.05,
            ..Options::new(dir)
        }
    }

    /// Returns the cells of a method, which share one file.
    pub(crate) fn cells_of(&self, method: Method) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &threads in &self.threads {
            for &access in self.accesses {
                if access.reads_percent == 100 && !method.has_reads_of_its_own() {
                    continue;
                }
                cells.extend(self.blocks.iter().map(|&block| Cell { threads, access, block }));
            }
        }
        cells
    }
}

/// A combination of threads, access and block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) threads: u32,
    pub(crate) access: Access,
    pub(crate) block: u64,
}
