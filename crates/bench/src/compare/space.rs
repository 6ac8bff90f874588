//! Space for what will be written: looked at before anything is, since a server on a full disk
//! fails in its own way.

use super::plan::Shape;
use super::recovery::VALUE_BYTES;
use super::session::load_of;
use super::systems::{Candidate, Ground};
use super::workloads::{Job, Load, groups};
use crate::results::Family;
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

/// Bytes of a pool that holds nothing.
const EMPTY_POOL: u64 = 64 << 20;

/// Bytes of a journal.
const JOURNAL: u64 = 256 << 20;

/// Bytes that a log grows by in a second of the load that surrounds a kill.
const AROUND_A_KILL: f64 = 80e6;

/// Keys that writers under a kill may have in their hands next to the data.
const OTHER_KEYS: u64 = 100_000;

/// Free bytes below which a disk counts as full.
pub(super) const FULL: u64 = 16 << 20;

/// Bytes that may be written to the file system of a directory; `None` when it does not say.
pub(super) fn free(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// The bytes that a place must have at once, and what they are made of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    bytes: u64,
    what: String,
}

/// Returns what a place needs: one server at a time writes to it, so the largest step decides.
fn needed(shape: &Shape, jobs: &[Job], in_memory: bool) -> Option<Need> {
    let loads = groups(jobs).into_iter().map(|group| of_loads(&group, shape.seconds, in_memory));
    let largest = shape.recovery.iter().max();
    let recovery = largest.map(|bytes| of_recovery(shape, *bytes, in_memory));
    loads.chain(recovery).max_by_key(|need| need.bytes)
}

/// Returns the loads of one server over one data set.
fn of_loads(group: &[Job], seconds: f64, in_memory: bool) -> Need {
    let keys = group.iter().map(data).max().unwrap_or(0);
    let names: Vec<&str> = group.iter().map(|job| job.workload.id.as_str()).collect();
    let names = names.join(", ");
    // A log grows with every write. A pool does not when keys are written over, and what it frees
    // it uses again.
    if in_memory {
        let bytes = EMPTY_POOL + keys * 2;
        return Need { bytes, what: format!("{names}: twice the {} of the keys", amount(keys)) };
    }
    let log = group.iter().map(|job| log_per_second(job) * seconds).sum::<f64>() as u64;
    let what = format!(
        "{names}: {} of keys, and what a log may grow by in {seconds} s of each, {} together",
        amount(keys),
        amount(log)
    );
    Need { bytes: keys + log + FULL, what }
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

fn of_recovery(shape: &Shape, data: u64, in_memory: bool) -> Need {
    // Twice the data: what the writers add under load, and what surrounds values.
    let grows = if in_memory { 0.0 } else { load_of(shape).as_secs_f64() * 2.0 * AROUND_A_KILL };
    let added = VALUE_BYTES as u64 * OTHER_KEYS + grows as u64;
    let what = format!(
        "recovery of {}: twice that, and {} written under load",
        amount(data),
        amount(added)
    );
    Need { bytes: data * 2 + added, what }
}

/// Fails if a place has too little space.
pub(super) fn check(
    shape: &Shape,
    jobs: &[Job],
    candidates: &[Candidate],
    grounds: &[Ground],
) -> Result<(), String> {
    for ground in grounds {
        let used = candidates.iter().any(|candidate| candidate.place == ground.path);
        let in_memory = matches!(ground.id, "memory" | "dax");
        let Some(mut need) = needed(shape, jobs, in_memory).filter(|_| used) else { continue };
        let has_journal = |candidate: &Candidate| {
            let place = candidate.journal.as_ref().unwrap_or(&candidate.place);
            candidate.system.family == Family::PerduraJournal && *place == ground.path
        };
        if candidates.iter().any(has_journal) {
            need.bytes += JOURNAL;
            need.what += ", and a journal";
        }
        match free(&ground.path) {
            Some(free) if free < need.bytes => {
                return Err(format!(
                    "{} has {} free, and {} are needed for {}: choose a smaller --recovery, fewer --seconds, --keys or \
                     --workloads, or another directory",
                    ground.path.display(),
                    amount(free),
                    amount(need.bytes),
                    need.what
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::options::Options;
    use crate::compare::workloads::{self, Cores};

    fn jobs(names: &[&str], keys: u64) -> Vec<Job> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut jobs = workloads::all(&Cores::divide(&[0, 1]), Some(keys), &["string", "list"]);
        workloads::choose(&mut jobs, &names).expect("known");
        jobs
    }

    fn bytes(shape: &Shape, jobs: &[Job], in_memory: bool) -> u64 {
        needed(shape, jobs, in_memory).map_or(0, |need| need.bytes)
    }

    #[test]
    fn the_largest_step_decides() {
        let shape = Shape::of(&Options { recovery: Some(vec![1 << 30]), ..Options::for_tests() });
        let jobs = jobs(&["throughput", "latency"], 20_000);
        let longer = Shape { seconds: shape.seconds * 2.0, ..shape.clone() };
        assert!(bytes(&longer, &jobs, false) > bytes(&shape, &jobs, false));
        assert!(bytes(&shape, &jobs, true) >= 2 << 30);
        let nothing = Shape { recovery: Vec::new(), ..shape };
        assert_eq!(needed(&nothing, &[], false), None);
    }

    #[test]
    fn what_is_asked_for_says_what_is_needed() {
        let usual = Shape::of(&Options { recovery: Some(vec![0]), ..Options::for_tests() });
        let shape = Shape { seconds: 1.0, ..usual };
        let of = |names: &[&str], keys| bytes(&shape, &jobs(names, keys), false);
        // All shares of writes together are those of two loads of writes alone.
        let (all, writes) = (of(&["throughput"], 1), of(&["throughput-100"], 1));
        assert!((2.9e9..3.1e9).contains(&(all as f64)), "{all}");
        assert!((1.4e9..1.6e9).contains(&(writes as f64)), "{writes}");
        assert!(of(&["latency-100"], 1) < writes && of(&["small-100"], 1) < writes);
        assert!(of(&["throughput-0"], 1) < FULL + 8192, "reads let no log grow");
        assert!(of(&["throughput-0"], 100_000) > 100_000 * 4096);
        assert!(of(&["types"], 1000) > of(&["small-100"], 1000) / 100);
        let memory = |keys| bytes(&shape, &jobs(&["throughput"], keys), true);
        assert!(memory(200) < 80 << 20 && memory(20_000) > 160_000_000);
    }

    #[test]
    fn a_place_without_space_is_named_with_what_it_needs() {
        let shape = Shape::of(&Options { recovery: Some(vec![1 << 45]), ..Options::for_tests() });
        let grounds = [Ground { id: "memory", path: "/dev/shm".into() }];
        let catalogue = super::super::systems::Catalogue::new(&Options::for_tests(), &grounds);
        let error = check(&shape, &[], &catalogue.candidates, &grounds).expect_err("too little");
        let needed = "are needed for recovery of 32 TiB: twice that, and";
        assert!(error.starts_with("/dev/shm has ") && error.contains(needed), "{error}");
    }
}
