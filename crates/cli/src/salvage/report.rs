//! A salvage in words, or as one JSON object: what is damaged on standard error, the figures on
//! standard output.

use heap::SalvageNote;
use keyspace::SalvageFinding;
use serde_json::{Value, json};

use super::{Failure, Outcome};
use crate::arguments::SalvageArguments;
use crate::json::key;
use crate::output::say;

pub(super) fn print(options: &SalvageArguments, done: &Result<Outcome, Failure>) {
    match done {
        Ok(outcome) if options.json => say!("{}", as_json(options, outcome)),
        Ok(outcome) => as_text(options, outcome),
        Err(failure) if options.json => say!(
            "{}",
            json!({
                "pool": options.pool.display().to_string(),
                "verdict": "failed",
                "error": failure.to_string(),
            })
        ),
        Err(failure) => eprintln!("perdura salvage: {failure}"),
    }
}

fn as_text(options: &SalvageArguments, outcome: &Outcome) {
    outcome.pool.notes().iter().for_each(|note| eprintln!("{note}"));
    outcome.findings.iter().for_each(|finding| eprintln!("{finding}"));
    let is_doubtful =
        |finding: &SalvageFinding| matches!(finding, SalvageFinding::Unplaced { put: None, .. });
    if outcome.findings.iter().any(is_doubtful) {
        eprintln!(
            "keys in doubt were left out: --unplaced N puts those whose database is not known \
             into database N"
        );
    }
    let copied = outcome.copied;
    let libraries = match copied.libraries {
        0 => String::new(),
        libraries => format!(" libraries={libraries}"),
    };
    say!(
        "{}: {}: keys={} expiring={}{libraries} found={} expired={} lost={} seconds={:.3}",
        options.to.display(),
        word(outcome),
        copied.keys,
        copied.expiring,
        copied.found,
        copied.expired,
        copied.lost,
        outcome.took.as_secs_f64(),
    );
}

fn word(outcome: &Outcome) -> &'static str {
    match (outcome.copied.lost, outcome.costs()) {
        (0, false) => "everything was copied",
        (0, true) => "every key that was found was copied, but more may be lost",
        _ => "something is lost",
    }
}

fn as_json(options: &SalvageArguments, outcome: &Outcome) -> Value {
    let copied = outcome.copied;
    json!({
        "pool": options.pool.display().to_string(),
        "to": options.to.display().to_string(),
        "verdict": if outcome.costs() { "lost" } else { "sound" },
        "keys": copied.keys,
        "expiring": copied.expiring,
        "libraries": copied.libraries,
        "found": copied.found,
        "expired": copied.expired,
        "lost": copied.lost,
        "seconds": outcome.took.as_secs_f64(),
        "notes": outcome.pool.notes().iter().map(note).collect::<Value>(),
        "findings": outcome.findings.iter().map(finding).collect::<Value>(),
    })
}

fn note(note: &SalvageNote) -> Value {
    json!({ "text": note.to_string(), "costs": note.costs() })
}

fn finding(finding: &SalvageFinding) -> Value {
    let text = finding.to_string();
    let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    let mut value = match finding {
        SalvageFinding::Key(damaged) => key(damaged, &text),
        SalvageFinding::Missing { shard, db, keys } => {
            json!({ "kind": "missing", "shard": shard, "database": db, "keys": keys, "text": text })
        }
        SalvageFinding::Unplaced { shard, key, at, put } => json!({
            "kind": "unplaced", "shard": shard, "key": name(key), "entry": at, "put_into": put,
            "text": text,
        }),
        SalvageFinding::Twice { db, key, at } => {
            json!({ "kind": "twice", "database": db, "key": name(key), "entry": at, "text": text })
        }
        SalvageFinding::Index { shard, db, .. } => {
            json!({ "kind": "index", "shard": shard, "database": db, "text": text })
        }
        SalvageFinding::Count { shard, db, .. } => {
            json!({ "kind": "count", "shard": shard, "database": db, "text": text })
        }
        SalvageFinding::Roots { shard, .. } => {
            json!({ "kind": "roots", "shard": shard, "text": text })
        }
        SalvageFinding::Queue { shard, .. } => {
            json!({ "kind": "queue", "shard": shard, "text": text })
        }
        _ => json!({ "kind": "other", "text": text }),
    };
    value["costs"] = finding.costs().into();
    value
}
