//! The results of a comparison, as they are written to `results.json` and read to make reports.
//!
//! Only measurements are stored: every run with its own figures. Medians, spreads and ratios are
//! computed from the runs by the functions in [`summary`], so that no figure is stored twice and
//! could disagree. A file is self-contained: it names the machine, media, versions and command
//! lines, what was left out and why, and whether anything is missing because the measurement ended
//! early. Times are in seconds unless a name says otherwise, sizes in bytes.

pub mod device;
mod file;
pub mod summary;

pub use device::{AppendCost, DeviceCosts, DeviceRow, DeviceStudy, Pattern};
pub use file::FileError;
#[cfg(test)]
pub(crate) use file::sample;

use serde::{Deserialize, Serialize};
use std::fmt;

/// The version of this format; readers refuse any other.
pub const FORMAT: u32 = 1;

/// One comparison.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// The machine and programs used.
    pub machine: Machine,
    /// The parameters of the comparison.
    pub plan: Plan,
    /// The systems, in the order in which reports show them.
    pub systems: Vec<System>,
    /// The workloads, in the order in which reports show them.
    pub workloads: Vec<Workload>,
    /// One entry for each run, in the order in which they ran.
    pub runs: Vec<Run>,
    /// One entry for each restart after kill -9.
    pub recovery: Vec<Recovery>,
    /// The device studies: one entry for each medium.
    pub device: Vec<DeviceStudy>,
    /// Missing parts, which were requested or belong to a full comparison.
    pub skipped: Vec<Skipped>,
    /// Warnings about the figures, such as a second device that is the same as the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why the comparison ended early: `interrupted` or the text of an error. `None` if it is
    /// complete.
    pub partial: Option<String>,
}

/// The machine and programs, without which no figure can be interpreted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's model name.
    pub cpu: String,
    /// Cores that the tool may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// The kernel's name and version.
    pub kernel: String,
    /// The distribution, as `/etc/os-release` names it.
    pub distribution: String,
    /// Whether this is a virtual machine, according to the processor's flags.
    pub virtual_machine: bool,
    /// The load average of the minute before the start, which shows what else was running.
    pub load_before: f64,
    /// The directories in which systems kept their data.
    pub places: Vec<Place>,
    /// The programs and their versions.
    pub versions: Vec<Version>,
    /// The commit that the tool was built from, with `-dirty` if files differed from it. `None`
    /// outside of a repository.
    pub commit: Option<String>,
    /// The tool's command line.
    pub command_line: Vec<String>,
    /// When the comparison began, in UTC: `2026-01-31T12:00:00Z`.
    pub began: String,
    /// How long the comparison has taken so far, in seconds.
    pub seconds: f64,
}

impl Machine {
    /// Returns a warning if other programs ran when the measurement began: if by the load average
    /// at least half of the cores were in use.
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
    /// Its path, as given.
    pub path: String,
    /// The kind of file system: `ext4`, `tmpfs`.
    pub file_system: String,
    /// The device of the file system: `/dev/vda`.
    pub device: String,
    /// The kind of medium: `virtual disk`, `SSD`, `hard disk`, `DRAM`, `persistent memory`.
    pub medium: String,
    /// Whether its files are mapped without a page cache (DAX).
    pub dax: bool,
}

/// A program that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The program: `perdura-server`, `redis-server`, a peer's name.
    pub program: String,
    /// The first line of its `--version` output.
    pub text: String,
}

/// The parameters of the whole comparison. Those of each workload are in [`Workload`]. Older
/// results also have a time limit here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// `quick`, `default` or `full`.
    pub size: String,
    /// How often each workload ran on each system.
    pub rounds: u32,
    /// Seconds of each run.
    pub seconds: f64,
    /// The load generator: `builtin` or `memtier`.
    pub driver: String,
    /// The sizes of the data sets to recover, in bytes.
    pub recovery: Vec<u64>,
    /// Whether servers were kept from round to round.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub same_server: bool,
}

/// The kind of a system.
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

/// When a write becomes durable, relative to its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Before its reply: `always`, or a pool.
    Always,
    /// A second or two later.
    EverySecond,
    /// When the kernel writes it back.
    Kernel,
    /// Never.
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
    /// The name by which runs and `--systems` refer to it: `perdura-pmem`, `redis-always`,
    /// `redis-always@second`.
    pub id: String,
    /// The name for readers: `Perdura PMEM`.
    pub title: String,
    /// The kind of system.
    pub family: Family,
    /// The durability that its replies promise, provided that the medium keeps what it has
    /// acknowledged.
    pub durability: Durability,
    /// The [`Place`] of its data.
    pub place: String,
    /// The persistence domain that the server reports; `None` for a system without a pool.
    pub domain: Option<String>,
    /// The emulated part, in words that are printed next to every figure of the system; `None` if
    /// nothing is emulated.
    pub emulated: Option<String>,
    /// Its program and arguments, with the placeholders `PORT` and `DIR`.
    pub command: Vec<String>,
}

/// The purpose of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkloadKind {
    /// Many pipelined clients, values of 4 KiB.
    Throughput,
    /// One client that waits for each reply, values of 4 KiB.
    Latency,
    /// Many pipelined clients, values of a few bytes.
    Small,
    /// A mix of the Yahoo! Cloud Serving Benchmark.
    Ycsb,
    /// A mix of data types.
    Types,
    /// SET or GET by fifty clients.
    Strings,
    /// A command on one type.
    Type,
    /// Scripts, and a transaction.
    Scripts,
    /// Only writes, with one command, by systems that keep them on a disk.
    Durable,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The name by which runs and `--workloads` refer to it: `throughput-70`, `latency-100`,
    /// `ycsb-a`.
    pub id: String,
    /// The name for readers.
    pub title: String,
    /// The purpose of the workload.
    pub kind: WorkloadKind,
    /// Writes in percent of the operations.
    pub writes_percent: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The number of keys that the workload uses, or of elements of its one large value.
    pub keys: u64,
    /// How keys are chosen: `uniform`, `Zipf 0.99`, `latest`.
    pub distribution: String,
    /// Connections of all threads.
    pub clients: u32,
    /// Threads of the generator.
    pub threads: u32,
    /// Outstanding commands on each connection.
    pub pipeline: u32,
    /// Cores of the server.
    pub server_cores: Vec<usize>,
    /// Cores of the generator.
    pub generator_cores: Vec<usize>,
}

/// One run of a workload on a system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The id of the [`Workload`].
    pub workload: String,
    /// The [`System`].
    pub system: String,
    /// The round, counted from 0. Runs of the same round and workload ran close together in time:
    /// compare these.
    pub round: u32,
    /// The measured time in seconds.
    pub seconds: f64,
    /// Operations with a reply that was not an error.
    pub operations: u64,
    /// Error replies; they are not among the operations.
    pub errors: u64,
    /// Latency of all operations.
    pub latency: Latency,
    /// Latency of the writes; `None` if there were none, or if the driver does not report it.
    pub writes: Option<Latency>,
    /// Latency of the reads; `None` if there were none, or if the driver does not report it.
    pub reads: Option<Latency>,
    /// CPU time of the server, user and system, for the whole run.
    pub server_cpu_seconds: f64,
    /// CPU time of the generator during the run, as a share of its cores' time: 1 is all of it.
    pub generator_busy: f64,
    /// Whether the generator, not the server, limited the rate: compare CPU times then, not rates.
    pub saturated: bool,
    /// Bytes that the server caused to be written to the disk, in whole pages, as the kernel counts
    /// them; `None` if the data is not on a disk, or in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Bytes of memory that the server reported for the data with which it was filled; `None` if it
    /// was not filled, or in older results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_bytes: Option<u64>,
    /// Bytes of memory that the server reported after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// Bytes of the server's files after the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_bytes: Option<u64>,
}

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The 99.99th percentile.
    pub p9999: f64,
    /// The 99.999th percentile.
    pub p99999: f64,
    /// The maximum.
    pub max: f64,
}

/// One measurement of recovery: a data set, a kill -9 under load, and what the server recovered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// The [`System`].
    pub system: String,
    /// The round, counted from 0.
    pub round: u32,
    /// The requested size of the data set: keys and values.
    pub target_bytes: u64,
    /// Keys of the data set.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of the files on which the server was restarted.
    pub stored_bytes: u64,
    /// Time from exec to the first GET that returned a value; `None` if the data was not recovered.
    pub first_get_seconds: Option<f64>,
    /// Time from exec until 90 % of the rate before the kill was reached again; `None` if it was
    /// not reached in time.
    pub full_rate_seconds: Option<f64>,
    /// Operations per second before the kill.
    pub rate_before: f64,
    /// Operations per second after the restart, over the whole load.
    pub rate_after: f64,
    /// Acknowledged writes: those of the data set, and those under load until the kill.
    pub acknowledged: u64,
    /// Keys that were compared with the acknowledged writes.
    pub keys_checked: u64,
    /// Keys that were missing, or held an older value than the last acknowledged one.
    pub keys_lost: u64,
    /// Keys that held a value that was never written.
    pub keys_wrong: u64,
}

/// Something that is missing from the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Skipped {
    /// The missing part: a workload, a system, both, a size of data.
    pub what: String,
    /// Why.
    pub why: String,
}
