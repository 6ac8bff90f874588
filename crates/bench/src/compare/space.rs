//! Checks the free space before anything is written, since each server fails in its own way on a
//! full disk. The growth of logs is not predicted: if a disk fills up, the comparison ends with
//! what was measured.

use super::plan::Shape;
use super::systems::{Candidate, Ground};
use super::workloads::Job;
use crate::units::amount;
use rustix::fs::statvfs;
use std::path::Path;

/// Overhead of a value in bytes: its command and key in a log, its entry and the unused rest of its
/// block in a pool.
const AROUND_A_VALUE: u64 = 128;

/// Bytes of an empty pool.
const EMPTY_POOL: u64 = 64 << 20;

/// Bytes of the pool's journal. None is counted for a DAX mount.
const JOURNAL: u64 = 256 << 20;

/// A disk with fewer free bytes than this counts as full.
pub(super) const FULL: u64 = 16 << 20;

/// Returns the free bytes of the file system of a directory; `None` if it cannot be asked.
pub(super) fn free(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// Returns the bytes of an empty server's files in a directory.
fn empty(ground: &Ground) -> u64 {
    EMPTY_POOL + if ground.id == "dax" { 0 } else { JOURNAL }
}

/// Fails if a directory has less space than twice the largest data set needs. Only one server
/// writes to it at a time, and overwritten data may exist twice.
pub(super) fn check(
    shape: &Shape,
    jobs: &[Job],
    candidates: &[Candidate],
    grounds: &[Ground],
) -> Result<(), String> {
    let data = |job: &Job| {
        let each = job.workload.value_bytes as u64 + AROUND_A_VALUE;
        (job.workload.keys.saturating_mul(each), job.workload.id.clone())
    };
    let recovery =
        shape.recovery.iter().map(|bytes| (*bytes, format!("recovery of {}", amount(*bytes))));
    let Some((bytes, what)) = recovery.chain(jobs.iter().map(data)).max() else { return Ok(()) };
    let is_used =
        |ground: &&Ground| candidates.iter().any(|candidate| candidate.place == ground.path);
    for ground in grounds.iter().filter(is_used) {
        let needed = bytes.saturating_mul(2).saturating_add(empty(ground));
        if let Some(free) = free(&ground.path).filter(|free| *free < needed) {
            return Err(format!(
                "{} has {} free, and {} are needed for {what}: choose a smaller --recovery, fewer --keys, or another \
                 directory",
                ground.path.display(),
                amount(free),
                amount(needed)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::options::Options;
    use crate::compare::systems::Catalogue;

    #[test]
    fn a_place_without_space_is_named_with_what_it_needs() {
        let options = Options::for_tests();
        let shape = Shape { recovery: vec![1 << 45], ..Shape::of(&options) };
        let grounds = [Ground { id: "memory", path: "/dev/shm".into() }];
        let catalogue = Catalogue::new(&options.programs, &options.variants, &grounds);
        let error = check(&shape, &[], &catalogue.candidates, &grounds).expect_err("too little");
        let needed = "are needed for recovery of 32 TiB";
        assert!(error.starts_with("/dev/shm has ") && error.contains(needed), "{error}");
    }

    #[test]
    fn persistent_memory_needs_no_journal() {
        let bytes = |id| empty(&Ground { id, path: "/dev/shm".into() });
        assert_eq!(bytes("memory") - bytes("dax"), JOURNAL);
    }
}
