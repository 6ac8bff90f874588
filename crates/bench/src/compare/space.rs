//! Space for what will be written: looked at before anything is, since a server on a full disk
//! fails in its own way.
//!
//! One server at a time writes to a place, so the largest step decides: the keys of a load and what
//! a log may grow by, or twice the data to be recovered.

use super::plan::Shape;
use super::systems::{Candidate, Ground};
use super::workloads::{Job, Load, groups};
use crate::units::amount;
use rustix::fs::statvfs;
use std::path::Path;

/// Bytes that a server may append in a second: more than any did.
const PER_SECOND: f64 = 1.5e9;

/// Writes that one client, and many with pipelines, may have answered in a second: more than any
/// had.
const ALONE_PER_SECOND: f64 = 2e5;
const MANY_PER_SECOND: f64 = 3e6;

/// Bytes that surround a value: in a log its command and key, in a pool its entry and what its
/// block has too much.
const AROUND_A_VALUE: u64 = 128;

/// Bytes of a pool that holds nothing, and what writers add around a kill.
const EMPTY_POOL: u64 = 64 << 20;

/// Bytes of its journal, where there is no persistent memory.
const JOURNAL: u64 = 256 << 20;

/// The ways to persist that a place is used for.
#[derive(Clone, Copy)]
enum Kind {
    /// Pools alone.
    PersistentMemory,
    /// Pools with a journal, and no logs.
    Memory,
    /// Logs, and pools with a journal.
    Disk,
}

impl Kind {
    fn of(ground: &Ground) -> Kind {
        match ground.id {
            "dax" => Kind::PersistentMemory,
            "memory" => Kind::Memory,
            _ => Kind::Disk,
        }
    }

    /// Bytes of the files of a server without data.
    fn empty(self) -> u64 {
        match self {
            Kind::PersistentMemory => EMPTY_POOL,
            Kind::Memory | Kind::Disk => EMPTY_POOL + JOURNAL,
        }
    }
}

/// Free bytes below which a disk counts as full.
pub(super) const FULL: u64 = 16 << 20;

/// Bytes that may be written to the file system of a directory; `None` when it does not say.
pub(super) fn free(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// Returns the bytes that a place must have at once, and what for.
fn needed(shape: &Shape, jobs: &[Job], kind: Kind) -> Option<(u64, String)> {
    let loads = groups(jobs).into_iter().map(|group| {
        let keys = group.iter().map(data).max().unwrap_or(0);
        let log = group.iter().map(|job| log_per_second(job) * shape.seconds).sum::<f64>() as u64;
        // A pool does not grow when keys are written over, and what it frees it uses again.
        let grows = if matches!(kind, Kind::Disk) { log } else { keys };
        let names: Vec<&str> = group.iter().map(|job| job.workload.id.as_str()).collect();
        (keys + grows + kind.empty(), names.join(", "))
    });
    let largest = shape.recovery.iter().max();
    let recovery =
        largest.map(|data| (data * 2 + kind.empty(), format!("recovery of {}", amount(*data))));
    loads.chain(recovery).max_by_key(|(bytes, _)| *bytes)
}

/// Bytes of the data set of a load. Of a mix of types every command may have a key of its own.
fn data(job: &Job) -> u64 {
    let values = match &job.load {
        Load::Commands(lines) => lines.len() as u64,
        Load::Mix | Load::Ycsb(_) => 1,
    };
    let each = job.workload.value_bytes as u64 + AROUND_A_VALUE;
    job.workload.keys.saturating_mul(values).saturating_mul(each)
}

/// Bytes by which a log may grow in a second of a load.
fn log_per_second(job: &Job) -> f64 {
    let load = &job.workload;
    let most = if load.clients == 1 { ALONE_PER_SECOND } else { MANY_PER_SECOND };
    let each = (load.value_bytes as u64 + AROUND_A_VALUE) as f64;
    f64::from(load.writes_percent) / 100.0 * (most * each).min(PER_SECOND)
}

/// Fails if a place has too little space.
pub(super) fn check(
    shape: &Shape,
    jobs: &[Job],
    candidates: &[Candidate],
    grounds: &[Ground],
) -> Result<(), String> {
    let is_used =
        |ground: &&Ground| candidates.iter().any(|candidate| candidate.place == ground.path);
    for ground in grounds.iter().filter(is_used) {
        let Some((bytes, what)) = needed(shape, jobs, Kind::of(ground)) else { continue };
        if let Some(free) = free(&ground.path).filter(|free| *free < bytes) {
            return Err(format!(
                "{} has {} free, and {} are needed for {what}: choose a smaller --recovery, fewer --seconds, --keys or \
                 --workloads, or another directory",
                ground.path.display(),
                amount(free),
                amount(bytes)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::options::Options;
    use crate::compare::workloads::{self, Cores};

    #[test]
    fn what_is_asked_for_says_what_is_needed() {
        let usual = Shape::of(&Options { recovery: Some(vec![0]), ..Options::for_tests() });
        let shape = Shape { seconds: 1.0, ..usual };
        let of = |name: &str, keys, kind| {
            let mut jobs = workloads::all(&Cores::divide(&[0, 1]), Some(keys));
            workloads::choose(&mut jobs, &[name.to_owned()]).expect("known");
            needed(&shape, &jobs, kind).map_or(0, |(bytes, _)| bytes)
        };
        // All shares of writes together are those of two loads of writes alone.
        let (all, writes) = (of("throughput", 1, Kind::Disk), of("throughput-100", 1, Kind::Disk));
        assert!((1.4e9..1.6e9).contains(&((all - writes) as f64)), "{all} {writes}");
        assert!(
            of("latency-100", 1, Kind::Disk) < writes && of("small-100", 1, Kind::Disk) < writes
        );
        assert!(
            of("throughput-0", 1, Kind::Disk) < Kind::Disk.empty() + 8192,
            "reads let no log grow"
        );
        assert!(of("throughput-0", 100_000, Kind::Disk) > 100_000 * 4096);
        assert!(of("throughput", 20_000, Kind::Memory) > 160_000_000);
        let journal = of("small-100", 1, Kind::Memory) - of("small-100", 1, Kind::PersistentMemory);
        assert_eq!(journal, JOURNAL, "persistent memory needs none");
    }

    #[test]
    fn a_place_without_space_is_named_with_what_it_needs() {
        let shape = Shape::of(&Options { recovery: Some(vec![1 << 45]), ..Options::for_tests() });
        let grounds = [Ground { id: "memory", path: "/dev/shm".into() }];
        let catalogue = super::super::systems::Catalogue::new(&Options::for_tests(), &grounds);
        let error = check(&shape, &[], &catalogue.candidates, &grounds).expect_err("too little");
        let needed = "are needed for recovery of 32 TiB";
        assert!(error.starts_with("/dev/shm has ") && error.contains(needed), "{error}");
    }
}
