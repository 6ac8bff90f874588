//! The result of a salvage in words, or as one JSON object. In words: the list of all damage goes
//! to a file, its begin and the counts by kind to standard error, the figures to standard output.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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

/// Lines of the list that are shown on standard error.
const SHOWN: usize = 20;

/// Returns the file for the list of damage.
pub(super) fn list_of(options: &SalvageArguments) -> PathBuf {
    options.list.clone().unwrap_or_else(|| {
        let mut name = OsString::from(&options.to);
        name.push(".damage");
        name.into()
    })
}

/// Writes the whole list to a file that only its owner reads, as it names keys.
fn write_list(path: &Path, outcome: &Outcome) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut out = BufWriter::new(file);
    for note in outcome.pool.notes() {
        writeln!(out, "{note}")?;
    }
    for finding in &outcome.findings {
        writeln!(out, "{finding}")?;
    }
    out.into_inner()?.sync_all()
}

/// Shows the start of the list and the counts by kind, and writes the whole list.
fn show_findings(options: &SalvageArguments, outcome: &Outcome) {
    outcome.pool.notes().iter().for_each(|note| eprintln!("{note}"));
    let findings = &outcome.findings;
    if findings.is_empty() && outcome.pool.notes().is_empty() {
        return;
    }
    let list = list_of(options);
    let written = write_list(&list, outcome);
    if let Err(error) = &written {
        eprintln!("{}: {error}: all is shown here instead", list.display());
    }
    let shown = if written.is_ok() { SHOWN } else { findings.len() };
    findings.iter().take(shown).for_each(|finding| eprintln!("{finding}"));
    if findings.len() > shown {
        eprintln!("... and {} more", findings.len() - shown);
    }
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        *kinds.entry(kind(finding)).or_default() += 1;
    }
    let counts: Vec<String> = kinds.iter().map(|(kind, count)| format!("{kind}={count}")).collect();
    let counts = counts.join(" ");
    match written {
        Ok(()) => {
            eprintln!("damaged: {} ({counts}); the whole list: {}", findings.len(), list.display());
        }
        Err(_) => eprintln!("damaged: {} ({counts})", findings.len()),
    }
}

/// Returns the word for the kind of a finding.
fn kind(finding: &SalvageFinding) -> &'static str {
    match finding {
        SalvageFinding::Key(_) => "key",
        SalvageFinding::Missing { .. } => "missing",
        SalvageFinding::Unplaced { .. } => "unplaced",
        SalvageFinding::Twice { .. } => "twice",
        SalvageFinding::Index { .. } => "index",
        SalvageFinding::Count { .. } => "count",
        SalvageFinding::Roots { .. } => "roots",
        SalvageFinding::Queue { .. } => "queue",
        _ => "other",
    }
}

fn as_text(options: &SalvageArguments, outcome: &Outcome) {
    show_findings(options, outcome);
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
