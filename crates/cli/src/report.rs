//! The result of a check in words: each problem on a line, then the repairs, then one line of
//! figures.

use keyspace::{CheckError, DatabaseName, Repaired};
use pmem::JournalRecovery;

use crate::Verdict;
use crate::arguments::Check;
use crate::check::{Findings, Outcome};
use crate::output::say;

/// The number of unreachable blocks beyond which only their number is reported.
const NAMED: usize = 8;

pub(crate) fn findings(options: &Check, findings: &Findings) {
    if let Some(journal) = &findings.pool.recovery.journal {
        say!("{}", read(journal));
    }
    if let Some(why) = &findings.stopped {
        say!("stopped: {why}: it takes no writes until it is repaired");
    }
    outcome(&findings.outcome);
    match &findings.repair {
        Some(Ok(done)) => repaired(done),
        Some(Err(refusal)) => say!("not repaired: {refusal}"),
        None => {}
    }
    if let Some(left) = findings.left.as_ref().filter(|left| !left.is_sound()) {
        say!("after the repair:");
        outcome(left);
    }
    let what = match findings.verdict {
        Verdict::Sound => "sound",
        Verdict::Repaired => "repaired",
        Verdict::Damaged | Verdict::Unchecked => "damaged",
    };
    say!("{}: {what}: {}", options.pool.display(), figures(findings));
}

/// Describes what was read from a journal.
fn read(journal: &JournalRecovery) -> String {
    let JournalRecovery { batches, bytes, first, tail, head, capacity, .. } = *journal;
    if batches == 0 {
        return "journal: it holds nothing that is not in the pool's file".to_owned();
    }
    format!(
        "journal: batches={batches} bytes={bytes} numbers={first}..{} positions={tail}..{head} \
         ring={capacity}: writes that are not in the pool's file alone",
        first + batches - 1,
    )
}

fn outcome(outcome: &Outcome) {
    let lost = |problem: &&CheckError| matches!(problem, CheckError::Lost { .. });
    let unreachable: Vec<&CheckError> = outcome.problems.iter().filter(lost).collect();
    for problem in outcome.problems.iter().filter(|problem| !lost(problem)) {
        say!("{problem}");
    }
    for problem in unreachable.iter().take(NAMED) {
        say!("{problem}");
    }
    if unreachable.len() > NAMED {
        say!("and {} more such blocks", unreachable.len() - NAMED);
    }
    for lost in &outcome.lost {
        say!("media error: {} bytes at offset {:#x} cannot be read", lost.len, lost.at);
    }
}

fn repaired(done: &Repaired) {
    for key in &done.cut {
        say!("cut out: {key}");
    }
    for (shard, db) in &done.rebuilt {
        say!("rebuilt: the indexes of {} in shard {shard}", DatabaseName(*db));
    }
    if done.allocated > 0 {
        say!("allocated again: {} blocks in use that looked free", done.allocated);
    }
    if done.found > 0 {
        say!("found again: {} keys that no index led to", done.found);
    }
    if done.queues > 0 {
        say!("given up: {} damaged free queues", done.queues);
    }
    if done.counts > 0 {
        say!("set right: {} counts", done.counts);
    }
    if done.freed > 0 {
        say!("freed: {} blocks of {} bytes that nothing led to", done.freed, done.freed_bytes);
    }
}

fn figures(findings: &Findings) -> String {
    let outcome = &findings.outcome;
    let seconds = outcome.took.as_secs_f64();
    let libraries = match outcome.checked.libraries {
        0 => String::new(),
        libraries => format!(" libraries={libraries}"),
    };
    format!(
        "keys={} expiring={}{libraries} blocks={} bytes={} problems={} recovered={} seconds={seconds:.3} rate={:.2}GB/s",
        outcome.checked.keys,
        outcome.checked.expiring,
        outcome.checked.blocks,
        outcome.checked.bytes,
        outcome.problems.len() + outcome.lost.len(),
        findings.pool.recovery.records,
        outcome.checked.bytes as f64 / 1e9 / seconds.max(1e-9),
    )
}
