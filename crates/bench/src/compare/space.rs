//! Checks the free space before anything is written, since each server fails in its own way on a
//! full disk. The growth of logs is not predicted: if a disk fills up, the comparison ends with
//! what was measured.

use super::systems::{Candidate, Ground};
use super::workloads::{Job, groups};
use crate::machine::free_space;
use crate::results::{Family, Plan};
use crate::units::amount;
use std::path::Path;

/// Overhead of a value in bytes: its command and key in a log, its entry and the unused rest of its
/// block in a pool.
const AROUND_A_VALUE: u64 = 128;

/// Bytes of an empty pool.
const EMPTY_POOL: u64 = 64 << 20;

/// Bytes of a journal.
const JOURNAL: u64 = 256 << 20;

/// A disk with fewer free bytes than this counts as full.
const FULL: u64 = 16 << 20;

/// Returns true if a directory is known to have no space left.
pub(super) fn is_full(place: &Path) -> bool {
    free_space(place).is_ok_and(|free| free < FULL)
}

/// Returns the bytes that a server needs in a directory with this much data. Overwritten data may
/// exist twice.
fn of_server(candidate: &Candidate, place: &Path, data: u64) -> u64 {
    let family = candidate.system.family;
    let journal = candidate.journal.as_ref().unwrap_or(&candidate.place);
    let mut bytes: u64 = 0;
    if candidate.place == place {
        bytes = data.saturating_mul(2);
        if matches!(family, Family::PerduraPmem | Family::PerduraJournal) {
            bytes = bytes.saturating_add(EMPTY_POOL);
        }
    }
    if family == Family::PerduraJournal && journal == place {
        bytes = bytes.saturating_add(JOURNAL);
    }
    bytes
}

/// Returns the bytes that are needed at once in a directory, and what for: by the largest server,
/// since only one of them writes at a time, and by all servers that are kept from round to round.
fn needed(plan: &Plan, jobs: &[Job], candidates: &[Candidate], place: &Path) -> (u64, String) {
    let groups = groups(jobs);
    let mut kept: u64 = 0;
    let mut single: Vec<(u64, String)> = Vec::new();
    for candidate in candidates {
        let loads = groups.iter().filter_map(|group| {
            let job = group.iter().find(|job| job.is_for(&candidate.system))?;
            let each = job.workload.value_bytes as u64 + AROUND_A_VALUE;
            let data = job.workload.keys.saturating_mul(each);
            Some((of_server(candidate, place, data), job.workload.id.clone()))
        });
        if plan.same_server {
            kept = loads.fold(kept, |sum, (bytes, _)| sum.saturating_add(bytes));
        } else {
            single.extend(loads);
        }
        for size in &plan.recovery {
            let what = format!("recovery of {}", amount(*size));
            single.push((of_server(candidate, place, *size), what));
        }
    }
    let (largest, what) = single.into_iter().max().unwrap_or_default();
    let what = if kept > 0 { "all servers, which are kept".into() } else { what };
    (kept.saturating_add(largest), what)
}

/// Fails if a directory has less space than is needed there.
pub(super) fn check(
    plan: &Plan,
    jobs: &[Job],
    candidates: &[Candidate],
    grounds: &[Ground],
) -> Result<(), String> {
    for Ground { path, .. } in grounds {
        let (needed, what) = needed(plan, jobs, candidates, path);
        if let Some(free) = free_space(path).ok().filter(|free| *free < needed) {
            return Err(format!(
                "{} has {} free, and {} are needed for {what}: choose a smaller --recovery, fewer --keys, or another \
                 directory",
                path.display(),
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
    use crate::compare::workloads::{Cores, all};

    fn grounds() -> [Ground; 2] {
        [("disk", "/tmp"), ("dax", "/mnt")].map(|(id, path)| Ground { id, path: path.into() })
    }

    fn candidates(wanted: &str) -> Vec<Candidate> {
        let Options { programs, variants, .. } = Options::for_tests();
        let mut catalogue = Catalogue::new(&programs, &variants, &grounds());
        catalogue.choose(&[wanted.to_owned()]).expect("it is there");
        catalogue.candidates
    }

    #[test]
    fn a_place_without_space_is_named_with_what_it_needs() {
        let plan = Plan { recovery: vec![1 << 45], ..Plan::default() };
        let found = check(&plan, &[], &candidates("perdura-aof-no"), &grounds()[..1]);
        let error = found.expect_err("too little");
        let needed = "64 TiB are needed for recovery of 32 TiB";
        assert!(error.starts_with("/tmp has ") && error.contains(needed), "{error}");
    }

    #[test]
    fn servers_that_are_kept_need_their_space_together() {
        let plan = Plan { recovery: vec![1000], ..Plan::default() };
        // The four loads of throughput are a group, and the first of latency is another.
        let jobs = &all(&Cores::divide(&[]), Some(1))[..5];
        let candidates = candidates("perdura-aof-always");
        let each = 2 * (4096 + AROUND_A_VALUE);
        let needed = |plan: &Plan| super::needed(plan, jobs, &candidates, Path::new("/tmp"));
        assert_eq!(needed(&plan), (each, "throughput-0".into()));
        let kept = Plan { same_server: true, ..plan };
        assert_eq!(needed(&kept), (2 * each + 2000, "all servers, which are kept".into()));
    }

    #[test]
    fn a_journal_needs_its_space_where_it_is() {
        let check = |system: &str, disk: u64, dax: u64| {
            let candidate = &candidates(system)[0];
            let bytes = grounds().map(|ground| of_server(candidate, &ground.path, 1000));
            assert_eq!(bytes, [disk, dax], "{system}");
        };
        check("perdura-journal-always", 2000 + EMPTY_POOL + JOURNAL, 0);
        check("perdura-journal-tail", 2000 + EMPTY_POOL, JOURNAL);
        check("perdura-pmem", 0, 2000 + EMPTY_POOL);
        check("perdura-aof-always", 2000, 0);
    }
}
