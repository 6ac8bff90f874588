//! The media that can be emulated, as numbers, each with its source.
//!
//! `docs/emulated-media.md` has the same table, and tells which numbers were verified and which are
//! parameters.

use crate::lines::LINE;

/// A medium that can be emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// One Intel Optane DC module (100 series), App Direct, with ADR.
    Optane,
    /// An NVDIMM-N: DRAM that saves itself to flash when the power fails.
    NvdimmN,
    /// DRAM on a CXL link, treated as persistent.
    Cxl,
}

impl Media {
    /// Finds a model by its name: `optane`, `nvdimm-n`, `cxl`.
    pub fn named(name: &[u8]) -> Option<Media> {
        [Media::Optane, Media::NvdimmN, Media::Cxl]
            .into_iter()
            .find(|media| media.model().name.as_bytes() == name)
    }

    /// Returns its parameters.
    pub const fn model(self) -> Model {
        match self {
            // Izraelevitz, Yang et al., "Basic Performance Measurements of the Intel Optane DC
            // Persistent Memory Module" (2019), and Yang et al., "An Empirical Guide to the
            // Behavior and Use of Scalable Persistent Memory" (FAST '20).
            Media::Optane => Model {
                name: "optane",
                is_dram: false,
                random_ns: 305,
                sequential_ns: 169,
                block: 256,
                read_mb_s: 6600,
                write_ns: 94,
                write_mb_s: 2300,
            },
            // DRAM on the memory bus: nothing is added.
            Media::NvdimmN => Model {
                name: "nvdimm-n",
                is_dram: true,
                random_ns: 0,
                sequential_ns: 0,
                block: LINE,
                read_mb_s: 0,
                write_ns: 0,
                write_mb_s: 0,
            },
            // Sun et al., "Demystifying CXL Memory with Genuine CXL-Ready Systems and Devices"
            // (MICRO '23), and later studies: two to five times DRAM's latency. The values are
            // parameters within that range.
            Media::Cxl => Model {
                name: "cxl",
                is_dram: false,
                random_ns: 250,
                sequential_ns: 250,
                block: LINE,
                read_mb_s: 20_000,
                write_ns: 170,
                write_mb_s: 15_000,
            },
        }
    }
}

/// What DRAM takes in the study of Optane, in nanoseconds: a dependent read anywhere, a read that
/// follows, and a line through ADR. A medium is charged only for the time beyond that, since the
/// emulating memory takes that much by itself.
const DRAM_RANDOM_NS: u64 = 101;
const DRAM_SEQUENTIAL_NS: u64 = 81;
const DRAM_WRITE_NS: u64 = 86;

/// How many lines of one range are loaded at a time: the line-fill buffers of a core. A parameter:
/// ten to sixteen in the CPUs of these years.
const AT_ONCE: u64 = 10;

/// A medium as numbers. Zero means "as DRAM".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// It is DRAM: nothing is charged or looked up.
    pub is_dram: bool,
    /// Latency of a read that depends on the one before, anywhere, in nanoseconds.
    pub random_ns: u64,
    /// Latency of a read that follows it, in nanoseconds.
    pub sequential_ns: u64,
    /// Bytes that the medium reads and writes at a time, a power of two.
    pub block: u64,
    /// Read bandwidth, in MB (10^6 bytes) a second.
    pub read_mb_s: u64,
    /// From the store of a line to the end of the fence after its flush, in nanoseconds.
    pub write_ns: u64,
    /// Write bandwidth, in MB a second.
    pub write_mb_s: u64,
}

impl Model {
    /// A medium that counts and delays nothing, for tests.
    pub const COUNTING: Model = Model {
        name: "counting",
        is_dram: false,
        random_ns: 0,
        sequential_ns: 0,
        block: 256,
        read_mb_s: 0,
        write_ns: 0,
        write_mb_s: 0,
    };

    pub(super) fn read_line_ps(&self) -> u64 {
        (LINE * 1_000_000).checked_div(self.read_mb_s).unwrap_or(0)
    }

    pub(super) fn random_ps(&self) -> u64 {
        self.random_ns.saturating_sub(DRAM_RANDOM_NS) * 1000
    }

    /// As many lines as possible are loaded at a time, each with the sequential latency.
    pub(super) fn following_ps(&self) -> u64 {
        self.sequential_ns.saturating_sub(DRAM_SEQUENTIAL_NS) * 1000 / AT_ONCE
    }

    /// Returns the time to write a line. `flushes` tells whether the emulating memory must write it
    /// back too.
    pub(super) fn write_ps(&self, flushes: bool) -> u64 {
        self.write_ns.saturating_sub(if flushes { DRAM_WRITE_NS } else { 0 }) * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_takes_anyway_is_subtracted() {
        let optane = Media::Optane.model();
        assert_eq!((optane.random_ps(), optane.following_ps()), (204_000, 8_800));
        assert_eq!((optane.write_ps(true), optane.write_ps(false)), (8_000, 94_000));
        let nvdimm = Media::NvdimmN.model();
        assert_eq!((nvdimm.random_ps(), nvdimm.following_ps(), nvdimm.write_ps(false)), (0, 0, 0));
        assert_eq!(Media::named(b"cxl"), Some(Media::Cxl));
        assert_eq!(Media::named(b"disk"), None);
    }
}
