//! `perdura rdb`: reads a whole dump of Redis or Valkey, and reports its content.
//!
//! Every checksum, length and packed encoding is verified. This is the first half of an import,
//! with nothing written. The memory used is that of the largest element, and of one packed value.
//! Duplicate keys, or elements of a value, are not searched for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rdb::{Error, Kind, Origin, Part, Reader, Record};
use serde_json::{Value, json};

use crate::Verdict;
use crate::arguments::Dump;
use crate::output::say;
use crate::progress;

/// Bytes that are read at once.
pub(crate) const BUFFER: usize = 1 << 20;
/// The longest string, and the longest packed value, that a dump of Redis can have.
pub(crate) const LONGEST: u64 = 4 << 30;

/// The counts of a type in a database.
#[derive(Clone, Copy, Default)]
struct Count {
    keys: u64,
    expiring: u64,
    elements: u64,
    bytes: u64,
}

/// The content of a dump.
#[derive(Default)]
struct Content {
    head: Option<(Origin, u16)>,
    aux: Vec<(String, String)>,
    functions: u64,
    /// By database and type.
    counts: BTreeMap<(u64, &'static str), Count>,
    /// The last key that was read.
    key: Option<(u64, Vec<u8>)>,
}

pub(crate) fn run(options: &Dump) -> Verdict {
    let began = Instant::now();
    let mut content = Content::default();
    let done = read(options, &mut content);
    let verdict = match &done {
        Ok(()) => Verdict::Sound,
        Err(
            Error::Io(_)
            | Error::Magic { .. }
            | Error::Version { .. }
            | Error::Type { .. }
            | Error::Module { .. },
        ) => Verdict::Unchecked,
        Err(_) => Verdict::Damaged,
    };
    if options.json {
        say!("{:#}", as_json(options, &content, &done, verdict));
    } else {
        report(options, &content, &done, began.elapsed());
    }
    verdict
}

fn read(options: &Dump, content: &mut Content) -> Result<(), Error> {
    let file = File::open(&options.file).map_err(Error::Io)?;
    let bar = progress::bar(file.metadata().map_or(0, |about| about.len()), options.quiet);
    bar.set_message("reading");
    let done = records(BufReader::with_capacity(BUFFER, file), content, &bar);
    bar.finish_and_clear();
    done
}

fn records(from: BufReader<File>, content: &mut Content, bar: &ProgressBar) -> Result<(), Error> {
    let mut reader = Reader::new(from, LONGEST)?;
    content.head = Some((reader.origin(), reader.version()));
    let mut database = 0;
    loop {
        match reader.next()? {
            Record::Aux(name, text) => content.aux.push((shown(&name), shown(&text))),
            Record::Function(_) => content.functions += 1,
            Record::Database(number) => database = number,
            Record::Key { key, kind, expires, .. } => {
                content.key = Some((database, key));
                let count = content.counts.entry((database, type_name(kind))).or_default();
                count.keys += 1;
                count.expiring += u64::from(expires.is_some());
                reader.value(|part| {
                    let (elements, bytes) = size(&part);
                    count.elements += elements;
                    count.bytes += bytes as u64;
                    Ok::<_, Error>(())
                })?;
                bar.set_position(reader.at());
            }
            Record::End => break,
            _ => {}
        }
    }
    content.key = None;
    Ok(())
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a type's name, as in TYPE's reply.
pub(crate) fn type_name(kind: Kind) -> &'static str {
    use Kind::*;
    match kind {
        String => "string",
        List | ListZiplist | ListQuicklist | ListQuicklist2 => "list",
        Set | SetIntset | SetListpack => "set",
        SortedSetText | SortedSet | SortedSetZiplist | SortedSetListpack => "zset",
        Stream | Stream2 | Stream3 => "stream",
        Module | ModuleOld => "module",
        _ => "hash",
    }
}

/// Returns how many elements a part of a value has, and their bytes.
fn size(part: &Part<'_>) -> (u64, usize) {
    match part {
        Part::String(word) | Part::Element(word) | Part::Member(word) => (1, word.len()),
        Part::Scored(member, _) => (1, member.len()),
        Part::Field(field, value, _) => (1, field.len() + value.len()),
        Part::Entry(_, words) => (1, words.iter().map(|word| word.len()).sum()),
        _ => (0, 0),
    }
}

fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Redis => "Redis",
        Origin::Valkey => "Valkey",
    }
}

fn report(options: &Dump, content: &Content, done: &Result<(), Error>, took: Duration) {
    for ((database, kind), count) in &content.counts {
        let Count { keys, expiring, elements, bytes } = count;
        say!(
            "database {database} {kind}: keys={keys} expiring={expiring} elements={elements} bytes={bytes}"
        );
    }
    let file = options.file.display();
    match (done, content.head) {
        (Ok(()), Some((program, version))) => say!(
            "{file}: whole: {} version {version}, keys={} seconds={:.3}",
            origin(program),
            content.counts.values().map(|count| count.keys).sum::<u64>(),
            took.as_secs_f64()
        ),
        (Err(error), _) => {
            if let Some((database, key)) = &content.key {
                say!("last key: {} in database {database}", key.escape_ascii());
            }
            say!("{file}: {error}");
        }
        (Ok(()), None) => {}
    }
}

fn as_json(options: &Dump, content: &Content, done: &Result<(), Error>, verdict: Verdict) -> Value {
    let verdict = match verdict {
        Verdict::Sound | Verdict::Repaired => "whole",
        Verdict::Damaged => "damaged",
        Verdict::Unchecked => "unchecked",
    };
    let counts = content.counts.iter().map(|((database, kind), count)| {
        json!({
            "database": database, "type": kind, "keys": count.keys, "expiring": count.expiring,
            "elements": count.elements, "bytes": count.bytes,
        })
    });
    json!({
        "file": options.file.display().to_string(),
        "verdict": verdict,
        "error": done.as_ref().err().map(Error::to_string),
        "last_key": content.key.as_ref().map(|(database, key)| {
            json!({ "database": database, "key": shown(key) })
        }),
        "origin": content.head.map(|(program, _)| origin(program)),
        "version": content.head.map(|(_, version)| version),
        "aux": content.aux.iter().cloned().collect::<BTreeMap<_, _>>(),
        "functions": content.functions,
        "types": counts.collect::<Value>(),
    })
}
