//! What a comparison found, as it is written to `results.json` and read by whatever makes reports
//! from it.
//!
//! Only what was measured is stored: every run with its own figures. Medians, spreads and ratios
//! follow from the runs by the functions in [`summary`], so that nothing is there twice and can
//! disagree. A file is complete in itself: it names machine, media, versions and command lines,
//! what was left out and why, and whether anything is missing because the measurement ended early.
//! Times are in seconds unless a name says otherwise, sizes in bytes.

pub mod device;
mod file;
pub mod summary;

pub use device::{AppendCost, DeviceCosts, DeviceRow, DeviceStudy, Pattern};
pub use file::FileError;

use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of this format: a reader refuses any other.
pub const FORMAT: u32 = 1;

/// One comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// Where it was measured, and with what.
    pub machine: Machine,
    /// What was asked for.
    pub plan: Plan,
    /// What was compared, in the order in which it is shown.
    pub systems: Vec<System>,
    /// What each system was given to do, in the order in which it is shown.
    pub workloads: Vec<Workload>,
    /// One entry for each round of each system with each workload, in the order in which they ran.
    pub runs: Vec<Run>,
    /// One entry for each restart after kill -9.
    pub recovery: Vec<Recovery>,
    /// What the media can do by themselves. One entry for each medium.
    pub device: Vec<DeviceStudy>,
    /// What was asked for, or belongs to a whole comparison, and is not here.
    pub skipped: Vec<Skipped>,
    /// What the figures must be read with though nothing is missing: a second device that is the
    /// first one again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why it ended before its plan was done: `interrupted`, the text of an error. `None` when it
    /// is whole.
    pub partial: Option<String>,
}

/// What every number must be read with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's name, as it gives it.
    pub cpu: String,
    /// Cores that the tool may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// The kernel's name and version.
    pub kernel: String,
    /// The distribution, as `/etc/os-release` names it.
    pub distribution: String,
    /// Whether this is a virtual machine: the processor says so.
    pub virtual_machine: bool,
    /// Load average of one minute before the start: what else was running.
    pub load_before: f64,
    /// The directories in which systems kept their data.
    pub places: Vec<Place>,
    /// Programs with what they say of themselves.
    pub versions: Vec<Version>,
    /// The commit that the tool was built from, with `-dirty` when files differed from it. `None`
    /// outside of a repository.
    pub commit: Option<String>,
    /// How the tool was called.
    pub command_line: Vec<String>,
    /// When it began: UTC, as `2026-01-31T12:00:00Z`.
    pub began: String,
    /// How long it has taken so far.
    pub seconds: f64,
}

impl Machine {
    /// Returns what the figures must be read with if other programs ran when the measurement began:
    /// by the load average, half of the cores or more were in use.
    pub fn busy(&self) -> Option<String> {
        let (load, cores) = (self.load_before, self.cores);
        (load >= cores as f64 / 2.0 && load > 0.0).then(|| {
            format!(
                "the load average of the minute before the measurement was {load:.1} on {cores} cores: other programs \
                 ran, perhaps a build, perhaps still. Measure again when nothing else runs before you compare figures"
            )
        })
    }
}

/// A directory that systems wrote to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// The name by which systems refer to it: `disk`, `memory`, `second`, `dax`.
    pub id: String,
    /// Its path as it was given.
    pub path: String,
    /// The kind of file system: `ext4`, `tmpfs`.
    pub file_system: String,
    /// What the file system is on: `/dev/vda`.
    pub device: String,
    /// The medium in words: `virtual disk`, `SSD`, `hard disk`, `DRAM`, `persistent memory`.
    pub medium: String,
    /// Whether it is mapped without a page cache (DAX).
    pub dax: bool,
}

/// A program that took part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The program: `perdura-server`, `redis-server`, a peer's name.
    pub program: String,
    /// The first line that it prints when asked for its version.
    pub text: String,
}

/// The parameters of the whole comparison. Those of each workload are in [`Workload`]. Older
/// results have a limit of time here, too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `quick`, `default` or `full`.
    pub size: String,
    /// How often each system had its turn with each workload.
    pub rounds: u32,
    /// Seconds of each run.
    pub seconds: f64,
    /// The load generator: `builtin` or `memtier`.
    pub driver: String,
    /// Sizes of data sets for recovery, in bytes.
    pub recovery: Vec<u64>,
    /// Whether a server went on from round to round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_server: bool,
}

/// Who made a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Perdura with its keyspace in a pool.
    PerduraPmem,
    /// Perdura with its keyspace in a pool on a disk, and a journal.
    PerduraJournal,
    /// Perdura in DRAM with an append-only file.
    PerduraAof,
    /// Perdura in DRAM alone.
    PerduraVolatile,
    /// redis-server.
    Redis,
    /// A server given with `--peer`.
    Peer,
}

/// What has happened to a write when its reply leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// It is durable: `always`, or a pool.
    Always,
    /// It is durable a second or two later.
    EverySecond,
    /// It is durable when the kernel comes to it.
    Kernel,
    /// It never is.
    None,
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Durability::Always => "every write",
            Durability::EverySecond => "every second",
            Durability::Kernel => "when the kernel writes",
            Durability::None => "nothing",
        })
    }
}

/// One way to run a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// The name that runs refer to and `--systems` takes: `perdura-pmem`, `redis-always`,
    /// `redis-always@second`.
    pub id: String,
    /// The name that people read: `Perdura PMEM`.
    pub title: String,
    /// Who made it.
    pub family: Family,
    /// What its replies promise, on a medium that keeps its promises.
    pub durability: Durability,
    /// The [`Place`] of its data.
    pub place: String,
    /// The persistence domain that the server reports; `None` for a system without a pool.
    pub domain: Option<String>,
    /// What about it is emulated, in words that must are printed next to every figure of it. `None`
    /// when nothing is.
    pub emulated: Option<String>,
    /// Its program and arguments; port and directory are `PORT` and `DIR`.
    pub command: Vec<String>,
}

/// What a workload is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Many pipelined clients, values of 4 KiB.
    Throughput,
    /// One client that waits for each reply, values of 4 KiB.
    Latency,
    /// Many pipelined clients, values of a few bytes.
    Small,
    /// A mix of the Yahoo cloud serving benchmark.
    Ycsb,
    /// A mix of data types.
    Types,
    /// SET or GET by fifty clients.
    Strings,
    /// A command on one type.
    Type,
    /// Scripts, and a transaction.
    Scripts,
    /// Writes alone, of one command, by systems that keep them on a disk.
    Durable,
}

/// A load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The name that runs refer to and `--workloads` takes: `throughput-70`, `latency-100`,
    /// `ycsb-a`.
    pub id: String,
    /// The name that people read.
    pub title: String,
    /// What it is there to show.
    pub kind: WorkloadKind,
    /// The share of writes in percent of the operations.
    pub writes_percent: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Keys that are there before the clock starts.
    pub keys: u64,
    /// How keys are chosen: `uniform`, `Zipf 0.99`, `latest`.
    pub distribution: String,
    /// Connections, all threads together.
    pub clients: u32,
    /// Threads of the generator.
    pub threads: u32,
    /// Commands in flight on each connection.
    pub pipeline: u32,
    /// Cores of the server.
    pub server_cores: Vec<usize>,
    /// Cores of the generator.
    pub generator_cores: Vec<usize>,
}

/// One system with one workload, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The [`Workload`].
    pub workload: String,
    /// The [`System`].
    pub system: String,
    /// From 0. Runs of the same round and workload were next to each other in time: compare these.
    pub round: u32,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Operations that were answered.
    pub operations: u64,
    /// Of these, error replies.
    pub errors: u64,
    /// Latency of all operations.
    pub latency: Latency,
    /// Latency of the writes; `None` when there were none, or the driver does not tell.
    pub writes: Option<Latency>,
    /// Latency of the reads; `None` when there were none, or the driver does not tell.
    pub reads: Option<Latency>,
    /// CPU time of the server, user and system, for the whole run.
    pub server_cpu_seconds: f64,
    /// CPU time of the generator for the whole run, in shares of the cores it had: 1 is all of
    /// them.
    pub generator_busy: f64,
    /// Whether the generator, not the server, set the rate: compare CPU time then, not rates.
    pub saturated: bool,
    /// Bytes that the server gave to the disk, in whole pages, as the kernel counts them; `None`
    /// where the medium is not written through a page cache, or nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Bytes of memory that the server counted for the data that it was filled with; `None` where
    /// it was not, or in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// Bytes of memory that it counted after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Bytes of its files after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// Half are faster.
    pub p50: f64,
    /// 90 % are faster.
    pub p90: f64,
    /// 99 % are faster.
    pub p99: f64,
    /// 99.9 % are faster.
    pub p999: f64,
    /// 99.99 % are faster.
    pub p9999: f64,
    /// 99.999 % are faster.
    pub p99999: f64,
    /// The slowest.
    pub max: f64,
}

/// A data set, a kill -9 under load, and what came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// The [`System`].
    pub system: String,
    /// From 0.
    pub round: u32,
    /// The size that was asked for: keys and values of the data set.
    pub target_bytes: u64,
    /// Keys of the data set.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of the files that the restart had before it.
    pub stored_bytes: u64,
    /// From exec to the first GET that was answered with its value. `None` when the data did not
    /// come back.
    pub first_get_seconds: Option<f64>,
    /// From exec until 90 % of the rate before the kill was reached again; `None` when it was not
    /// within the time given.
    pub full_rate_seconds: Option<f64>,
    /// Operations per second before the kill.
    pub rate_before: f64,
    /// Operations per second after the restart, at the end of the measurement.
    pub rate_after: f64,
    /// Writes that were acknowledged: the data set's, and those under load until the kill.
    pub acknowledged: u64,
    /// Keys that were compared with what was acknowledged.
    pub keys_checked: u64,
    /// Keys that were missing, or held a value older than the last one that was acknowledged.
    pub keys_lost: u64,
    /// Keys that held something that was never written.
    pub keys_wrong: u64,
}

/// Something that is not in the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// What: a workload, a system, both, a size of data.
    pub what: String,
    /// Why.
    pub why: String,
}
