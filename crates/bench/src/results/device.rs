//! The results of the device study: what a medium can do by itself.

use serde::{Deserialize, Serialize};

/// The study of one medium.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceStudy {
    /// The directory on the medium, as given.
    pub dir: String,
    /// The file system and its device: `tmpfs (DRAM)`, `ext4 on /dev/vda (virtual disk)`.
    pub medium: String,
    /// The detected persistence domain: `clwb`, `eadr`, `msync`, `process`.
    pub domain: String,
    /// Whether persistent memory is emulated there.
    pub emulated: bool,
    /// The failures that a write survives, in words that are printed next to the figures.
    pub note: String,
    /// The instruction that writes a cache line back: `clwb`, `clflushopt`.
    pub write_back: String,
    /// The size of the file that was read and written, in bytes.
    pub size: u64,
    /// The numbers of threads that were measured.
    pub threads: Vec<u32>,
    /// Seconds of each row.
    pub seconds: f64,
    /// The costs of single steps.
    pub costs: Option<DeviceCosts>,
    /// One entry for each combination of method, pattern, block size and threads.
    pub rows: Vec<DeviceRow>,
}

/// The costs of single steps, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCosts {
    /// A fence with nothing to wait for.
    pub fence_ns: f64,
    /// The flush of one line, as the difference between storing lines with and without flushes.
    pub flush_ns: f64,
    /// Reading the clock around an operation; this was subtracted from the times that the
    /// percentiles are based on. `None` in older results, where it was not subtracted and the mean
    /// was that of the timed operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ns: Option<f64>,
    /// Appends to a log.
    pub appends: Vec<AppendCost>,
}

/// The time to append one record to a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendCost {
    /// The method, as in [`DeviceRow::method`].
    pub method: String,
    /// Records that share one fence.
    pub batch: u32,
    /// Nanoseconds per record: the median of all rounds.
    pub ns_per_record: f64,
    /// The lowest round.
    pub low: f64,
    /// The highest round.
    pub high: f64,
}

/// The position of the next block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// After the previous block.
    #[default]
    Sequential,
    /// Anywhere.
    Random,
    /// Several interleaved streams, each with its own block size; in older results only.
    Composite,
}

/// The measurement of one way to access a medium.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRow {
    /// The method: `memcpy`, `memcpy + clwb + fence`, `non-temporal + fence`, `mmap + msync`,
    /// `pwrite + fdatasync`, `O_DIRECT`.
    pub method: String,
    /// Bytes of a block; 0 for the composite, whose streams have their own sizes.
    pub block: u64,
    /// The position of the next block.
    pub pattern: Pattern,
    /// The share of reads in percent: 0, 50, 65, 67 (the composite), 100.
    pub reads_percent: u32,
    /// The number of concurrent threads.
    pub threads: u32,
    /// Whether a block is durable on this medium when its operation ends.
    pub durable: bool,
    /// Whether this is DRAM instead of persistent memory.
    pub emulated: bool,
    /// Why this row has no figures: the medium refuses the method. `None` if it has figures.
    pub skipped: Option<String>,
    /// Operations of all threads.
    pub ops: u64,
    /// The planned duration in seconds.
    pub seconds: f64,
    /// Bytes per second of all threads.
    pub bytes_per_second: f64,
    /// Bytes per second in the slowest slice of the measurement.
    pub low: f64,
    /// Bytes per second in the fastest slice of the measurement.
    pub high: f64,
    /// Operations per second of all threads.
    pub iops: f64,
    /// Mean time of an operation in one thread, in nanoseconds, from the slices without individual
    /// timing: it agrees with [`iops`](DeviceRow::iops).
    pub mean_ns: f64,
    /// Median time of an operation in nanoseconds. This and the following figures are from
    /// operations that were timed one by one.
    pub p50_ns: u64,
    /// The 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// The 99.999th percentile, in nanoseconds.
    pub p99_999_ns: u64,
    /// The maximum, in nanoseconds.
    pub max_ns: u64,
}
