//! The media that can be played, as numbers, each with its source.
//!
//! `docs/emulated-media.md` has the same table, with what was verified and what is a parameter.

use super::measure::Own;
use crate::lines::LINE;

/// A medium that can be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// One Intel Optane DC module (100 series), App Direct, behind ADR.
    Optane,
    /// An NVDIMM-N: DRAM that saves itself to flash when the power fails.
    NvdimmN,
    /// DRAM behind a CXL link, taken for persistent.
    Cxl,
}

impl Media {
    /// By its name: `optane`, `nvdimm-n`, `cxl`.
    pub fn named(name: &[u8]) -> Option<Media> {
        [Media::Optane, Media::NvdimmN, Media::Cxl]
            .into_iter()
            .find(|media| media.model().name.as_bytes() == name)
    }

    /// Its numbers.
    pub const fn model(self) -> Model {
        match self {
            // Izraelevitz, Yang et al., "Basic Performance Measurements of the Intel Optane DC Persistent Memory Module" (2019),
            // and Yang et al., "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory" (FAST '20).
            Media::Optane => Model {
                name: "optane",
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
                random_ns: 0,
                sequential_ns: 0,
                block: LINE,
                read_mb_s: 0,
                write_ns: 0,
                write_mb_s: 0,
            },
            // Sun et al., "Demystifying CXL Memory with Genuine CXL-Ready Systems and Devices" (MICRO '23), and later studies:
            // two to five times DRAM's latency. The values are parameters within that.
            Media::Cxl => Model {
                name: "cxl",
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

/// How many lines of one range are on their way at a time: the line-fill buffers of a core. A parameter: ten to sixteen in
/// the processors of these years.
const AT_ONCE: u64 = 10;

/// A medium as numbers. Zero stands for "as DRAM".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Latency of a read that depends on the one before, anywhere, in nanoseconds.
    pub random_ns: u64,
    /// Latency of one that follows it, in nanoseconds.
    pub sequential_ns: u64,
    /// Bytes that the medium reads and writes at a time, a power of two.
    pub block: u64,
    /// Read bandwidth, in MB (10^6 bytes) a second.
    pub read_mb_s: u64,
    /// From the store of a line to the end of the fence behind its flush, in nanoseconds.
    pub write_ns: u64,
    /// Write bandwidth, in MB a second.
    pub write_mb_s: u64,
}

impl Model {
    /// A medium that counts and delays nothing: for tests.
    pub const COUNTING: Model = Model {
        name: "counting",
        random_ns: 0,
        sequential_ns: 0,
        block: 256,
        read_mb_s: 0,
        write_ns: 0,
        write_mb_s: 0,
    };

    pub(super) fn delays(&self) -> bool {
        self.random_ns + self.read_mb_s + self.write_ns + self.write_mb_s > 0
    }

    pub(super) fn read_line_ps(&self) -> u64 {
        (LINE * 1_000_000).checked_div(self.read_mb_s).unwrap_or(0)
    }

    pub(super) fn random_ps(&self, own: &Own) -> u64 {
        self.random_ns.saturating_sub(own.read_ns) * 1000
    }

    /// As many lines as fit are on their way, each for the sequential latency; never faster than the bandwidth.
    pub(super) fn following_ps(&self, own: &Own) -> u64 {
        let latency = self.sequential_ns.saturating_sub(own.read_ns) * 1000 / AT_ONCE;
        latency.max(self.read_line_ps().saturating_sub(own.following_ps))
    }

    pub(super) fn write_ps(&self, own: &Own) -> u64 {
        self.write_ns.saturating_sub(own.write_ns) * 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_memory_takes_anyway_is_subtracted() {
        let own = Own { read_ns: 100, following_ps: 5000, write_ns: 90 };
        let optane = Media::Optane.model();
        assert_eq!(optane.random_ps(&own), 205_000);
        // 69 ns for each of ten at a time, or 9.7 ns of bandwidth less 5.
        assert_eq!(optane.following_ps(&own), 6900);
        assert_eq!(optane.write_ps(&own), 4000);
        let nvdimm = Media::NvdimmN.model();
        assert_eq!(
            (nvdimm.random_ps(&own), nvdimm.following_ps(&own), nvdimm.write_ps(&own)),
            (0, 0, 0)
        );
        assert_eq!(Media::named(b"cxl"), Some(Media::Cxl));
        assert_eq!(Media::named(b"disk"), None);
    }
}
