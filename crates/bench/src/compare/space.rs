//! Room for what will be written: looked at before anything is, since a server on a full disk fails in its own way.

use super::plan::Shape;
use super::recovery::VALUE_BYTES;
use super::session::load_of;
use super::systems::{Candidate, Ground};
use rustix::fs::statvfs;
use std::path::Path;

/// Bytes that a server may append in a second: more than any did.
const PER_SECOND: f64 = 1.5e9;

/// Bytes that a log grows by in a second of the load that surrounds a kill.
const AROUND_A_KILL: f64 = 80e6;

/// Runs of writes alone that write as much as all workloads which a server does in a turn.
const IN_A_TURN: f64 = 2.0;

/// Bytes of values before the clock starts, and what surrounds them.
const FILLED: u64 = 200 << 20;

/// Free bytes below which a disk counts as full.
pub(super) const FULL: u64 = 16 << 20;

/// Bytes that may be written to the file system of a directory; `None` when it does not say.
pub(super) fn free(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.f_bavail * stat.f_frsize)
}

/// The bytes that a place needs at once: one server at a time writes to it.
pub(super) fn needed(shape: &Shape, in_memory: bool) -> u64 {
    // A log grows with every write. A pool does not when keys are written over, and what it frees it uses again.
    let run = match (shape.workloads.is_empty(), in_memory) {
        (true, _) => 0,
        (false, true) => FILLED * 2,
        (false, false) => FILLED + (shape.seconds * IN_A_TURN * PER_SECOND) as u64,
    };
    let largest = shape.recovery.iter().max().copied().unwrap_or(0);
    // Twice the data: what the writers add under load, and what surrounds values.
    let grows = if in_memory { 0.0 } else { load_of(shape).as_secs_f64() * 2.0 * AROUND_A_KILL };
    let recovery = largest * 2 + VALUE_BYTES as u64 * 100_000 + grows as u64;
    run.max(if largest == 0 { 0 } else { recovery })
}

/// Fails if a place has too little room.
pub(super) fn check(
    shape: &Shape,
    candidates: &[Candidate],
    grounds: &[Ground],
) -> Result<(), String> {
    for ground in grounds {
        let used = candidates.iter().any(|candidate| candidate.place == ground.path);
        let in_memory = matches!(ground.id, "memory" | "dax");
        let needed = needed(shape, in_memory);
        match free(&ground.path) {
            Some(free) if used && free < needed => {
                return Err(format!(
                    "{} has {} free, and {} are needed: choose a smaller --recovery or fewer --seconds, or another \
                     directory",
                    ground.path.display(),
                    mib(free),
                    mib(needed)
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Bytes in words.
pub(super) fn mib(bytes: u64) -> String {
    if bytes >= 10 << 30 { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::options::Options;

    #[test]
    fn the_largest_step_decides() {
        let shape = Shape::of(&Options { recovery: Some(vec![1 << 30]), ..Options::for_tests() });
        let longer = Shape { seconds: shape.seconds * 2.0, ..shape.clone() };
        assert!(needed(&longer, false) > needed(&shape, false));
        assert!(needed(&shape, true) >= 2 << 30);
        let nothing = Shape { workloads: Vec::new(), recovery: Vec::new(), ..shape };
        assert_eq!(needed(&nothing, false), 0);
    }

    #[test]
    fn a_place_without_room_is_named_with_what_it_needs() {
        let shape = Shape::of(&Options { recovery: Some(vec![1 << 45]), ..Options::for_tests() });
        let grounds = [Ground { id: "memory", path: "/dev/shm".into() }];
        let catalogue = super::super::systems::Catalogue::new(&Options::for_tests(), &grounds);
        let error = check(&shape, &catalogue.candidates, &grounds).expect_err("too little");
        assert!(error.starts_with("/dev/shm has ") && error.contains(" are needed"), "{error}");
    }
}
