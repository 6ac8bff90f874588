//! What a medium can do by itself: the rows of the device study.

use serde::{Deserialize, Serialize};

/// One medium.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceStudy {
    /// The directory whose medium this is, as it was given.
    pub dir: String,
    /// The medium in words: `tmpfs`, `ext4 on /dev/vda`.
    pub medium: String,
    /// The persistence domain that was found there: `clwb`, `eadr`, `msync`, `process`.
    pub domain: String,
    /// Whether persistent memory is emulated there.
    pub emulated: bool,
    /// What survives what, in words that are printed next to the figures.
    pub note: String,
    /// The instruction that writes a cache line back: `clwb`, `clflushopt`.
    pub write_back: String,
    /// Bytes of the file that was read and written.
    pub size: u64,
    /// The numbers of threads that were tried.
    pub threads: Vec<u32>,
    /// Seconds of each row.
    pub seconds: f64,
    /// Times of single operations.
    pub costs: Option<DeviceCosts>,
    /// One entry for each combination.
    pub rows: Vec<DeviceRow>,
}

/// Times of single operations, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCosts {
    /// A fence with one line flushed before it, less the flush.
    pub fence_ns: f64,
    /// The flush of one line.
    pub flush_ns: f64,
    /// Reading the clock around an operation: what was taken from the times of which percentiles
    /// are made. `None` in older results, where it was not, and where the mean was that of the
    /// timed operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ns: Option<f64>,
    /// Appends to a log.
    pub appends: Vec<AppendCost>,
}

/// The time of an append of one record to a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AppendCost {
    /// How, as in [`DeviceRow::method`].
    pub method: String,
    /// Records that share one fence.
    pub batch: u32,
    /// Nanoseconds of each record: the median of all rounds.
    pub ns_per_record: f64,
    /// The lowest round.
    pub low: f64,
    /// The highest round.
    pub high: f64,
}

/// Where the next block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// After the last one.
    Sequential,
    /// Anywhere.
    Random,
    /// Several streams at once, some sequential, some random, each with a block size of its own.
    Composite,
}

/// One way to access a medium, measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRow {
    /// How: `memcpy`, `memcpy + clwb + fence`, `non-temporal + fence`, `mmap + msync`, `pwrite +
    /// fdatasync`, `O_DIRECT`.
    pub method: String,
    /// Bytes of a block; 0 for the composite, whose streams have their own.
    pub block: u64,
    /// Where the next block is.
    pub pattern: Pattern,
    /// The share of reads in percent: 0, 50, 65, 100.
    pub reads_percent: u32,
    /// Threads that did it at once.
    pub threads: u32,
    /// Whether a block is durable, as far as the medium goes, when its operation ends.
    pub durable: bool,
    /// Whether this is DRAM in the place of persistent memory.
    pub emulated: bool,
    /// Why this row has no figures: the medium refuses the method. `None` when it has.
    pub skipped: Option<String>,
    /// Operations that were done, all threads together.
    pub ops: u64,
    /// Seconds that they took.
    pub seconds: f64,
    /// Bytes per second, all threads together.
    pub bytes_per_second: f64,
    /// Bytes per second in the slowest slice of the time.
    pub low: f64,
    /// Bytes per second in the fastest slice of the time.
    pub high: f64,
    /// Operations per second, all threads together.
    pub iops: f64,
    /// Mean time of a thread for an operation in nanoseconds, of those that were not timed one by
    /// one: it fits [`iops`](DeviceRow::iops).
    pub mean_ns: f64,
    /// Median time of an operation that is alone, in nanoseconds, as are the following: of
    /// those that were timed.
    pub p50_ns: u64,
    /// 99 % are faster; nanoseconds.
    pub p99_ns: u64,
    /// 99.999 % are faster; nanoseconds.
    pub p99_999_ns: u64,
    /// The slowest, in nanoseconds.
    pub max_ns: u64,
}
