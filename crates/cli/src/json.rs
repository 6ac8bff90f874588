//! The result of a check as one JSON object, for programs.

use keyspace::{CheckError, DamagedKey};
use pmem::JournalRecovery;
use serde_json::{Value, json};

use crate::Verdict;
use crate::arguments::Check;
use crate::check::{Findings, Outcome};
use crate::pool::PoolError;

pub(crate) fn findings(options: &Check, findings: &Findings) -> Value {
    let verdict = match findings.verdict {
        Verdict::Sound => "sound",
        Verdict::Repaired => "repaired",
        Verdict::Damaged | Verdict::Unchecked => "damaged",
    };
    let checked = findings.outcome.checked;
    json!({
        "pool": options.pool.display().to_string(),
        "verdict": verdict,
        "keys": checked.keys,
        "expiring": checked.expiring,
        "libraries": checked.libraries,
        "blocks": checked.blocks,
        "bytes": checked.bytes,
        "seconds": findings.outcome.took.as_secs_f64(),
        "stopped": findings.stopped,
        "recovered_records": findings.pool.recovery.records,
        "journal": findings.pool.recovery.journal.as_ref().map(journal),
        "problems": problems(&findings.outcome),
        "repair": repair(findings),
        "left": findings.left.as_ref().map(problems),
    })
}

fn journal(journal: &JournalRecovery) -> Value {
    json!({
        "batches": journal.batches,
        "bytes": journal.bytes,
        "first": journal.first,
        "tail": journal.tail,
        "head": journal.head,
        "ring": journal.capacity,
    })
}

pub(crate) fn failure(options: &Check, error: &PoolError) -> Value {
    json!({
        "pool": options.pool.display().to_string(),
        "verdict": if error.is_damage() { "damaged" } else { "unchecked" },
        "error": error.to_string(),
    })
}

fn problems(outcome: &Outcome) -> Value {
    let lost = outcome.lost.iter().map(|lost| {
        json!({ "kind": "media", "at": lost.at, "bytes": lost.len, "text": "media error: cannot be read" })
    });
    outcome.problems.iter().map(problem).chain(lost).collect()
}

fn problem(problem: &CheckError) -> Value {
    let text = problem.to_string();
    match problem {
        CheckError::Key(damaged) => key(damaged, &text),
        CheckError::Lost { at, bytes } => {
            json!({ "kind": "unreachable", "at": at, "bytes": bytes, "text": text })
        }
        CheckError::Unallocated { shard, at } => {
            json!({ "kind": "unallocated", "shard": shard, "at": at, "text": text })
        }
        CheckError::Index { shard, db, .. } => {
            json!({ "kind": "index", "shard": shard, "database": db, "text": text })
        }
        CheckError::Count { shard, db, .. } => {
            json!({ "kind": "count", "shard": shard, "database": db, "text": text })
        }
        CheckError::Expiry { shard, db, at, .. } => {
            json!({ "kind": "expiry", "shard": shard, "database": db, "at": at, "text": text })
        }
        CheckError::Heap(_) => json!({ "kind": "heap", "text": text }),
        _ => json!({ "kind": "other", "text": text }),
    }
}

pub(crate) fn key(damaged: &DamagedKey, text: &str) -> Value {
    let name = damaged.key.as_ref();
    json!({
        "kind": "key",
        "database": damaged.db,
        "key": name.map(|name| String::from_utf8_lossy(name).into_owned()),
        "key_hex": name.map(|name| name.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        "shard": damaged.shard,
        "entry": damaged.entry,
        "at": damaged.at,
        "what": damaged.what,
        "text": text,
    })
}

fn repair(findings: &Findings) -> Value {
    match &findings.repair {
        None => Value::Null,
        Some(Err(refusal)) => json!({ "refused": refusal.to_string() }),
        Some(Ok(done)) => json!({
            "cut": done.cut.iter().map(|cut| key(cut, &cut.to_string())).collect::<Value>(),
            "rebuilt": done.rebuilt.iter().map(|(shard, db)| json!({ "shard": shard, "database": db })).collect::<Value>(),
            "found": done.found,
            "allocated_blocks": done.allocated,
            "counts": done.counts,
            "queues": done.queues,
            "freed_blocks": done.freed,
            "freed_bytes": done.freed_bytes,
        }),
    }
}
