//! Bits are flipped anywhere in a pool: opening, checking and repairing it terminate, report
//! damage, and never make it worse.
//!
//! After a repair the pool is sound, and every key has the value that it had, or was reported as
//! removed, or is hidden by a flipped expiry time: the words that the log changes have no checksum.

use crate::common::{NOW, db, emulated, get, set, set_until, write};
use fastrand::Rng;
use keyspace::{
    CheckError, Content, Expire, FieldTime, Keyspace, Limits, Refusal, StreamDelivery, StreamId,
    StreamLimits, TimedField, Type,
};
use pmem::{DomainRequest, MapOptions, Region};
use std::fs;
use std::path::Path;

const KEYS: usize = 1200;

fn name(i: usize) -> String {
    format!("key:{i:05}")
}

fn value(i: usize) -> String {
    match i % 50 {
        0 => "long ".repeat(2000 + i),
        1 => "longer ".repeat(12_000),
        n => format!("the value of key {i} {}", "x".repeat(n)),
    }
}

/// Returns the fields of the keys that hold hashes or sorted sets, which are packed or tables.
fn fields(i: usize) -> Option<Vec<(String, String)>> {
    let count = match i % 50 {
        2..7 => 5,
        7 => 150,
        8 | 11 => 5,
        9 | 12 => 150,
        _ => return None,
    };
    Some((0..count).map(|n| (format!("field {n} of {i}"), format!("value {n} of {i}"))).collect())
}

/// Returns true if the fields of a key are the members of a sorted set, whose scores are their
/// numbers.
fn is_sorted(i: usize) -> bool {
    matches!(i % 50, 8 | 9)
}

/// Returns true if all but the first field of a hash have an expiry time.
fn is_timed(i: usize) -> bool {
    matches!(i % 50, 11 | 12)
}

fn time(n: usize) -> Option<u64> {
    (n > 0).then(|| NOW + 1_000_000 + (n as u64 * 7) % 50)
}

fn put_timed(ks: &Keyspace, key: &str, fields: &[(String, String)]) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let limits = Limits { entries: 100, value: 64 };
        for (n, (field, value)) in fields.iter().enumerate() {
            let time = time(n).map_or(FieldTime::Clear, FieldTime::At);
            let pair = [(field.as_bytes(), value.as_bytes())];
            txn.hashes().put_with_time(db(0), &key, pair, time, limits).expect("free memory");
        }
    });
}

fn put_sorted(ks: &Keyspace, key: &str, members: &[(String, String)]) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let limits = Limits { entries: 100, value: 64 };
        let mut edit = txn.sorted_sets().edit(db(0), &key, limits).expect("free memory");
        for ((member, _), score) in members.iter().zip(0..) {
            let done = edit.change(txn, member.as_bytes(), |_| Some(f64::from(score)));
            done.expect("free memory");
        }
        edit.finish(txn, db(0), &key).expect("free memory");
    });
}

fn put(ks: &Keyspace, key: &str, fields: &[(String, String)]) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let pairs = fields.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes()));
        let limits = Limits { entries: 100, value: 64 };
        txn.hashes().put(db(0), &key, pairs, limits).expect("free memory");
    });
}

/// Returns true if a key holds a stream with a group.
fn is_stream(i: usize) -> bool {
    i % 50 == 10
}

/// Creates a stream whose entries are each pending for one of two consumers.
fn put_stream(ks: &Keyspace, key: &str) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let done = txn.streams().edit(db(0), &key, |edit| {
            let made = edit.create_group(b"group", StreamId::MIN, Some(0))?;
            let group = made.expect("none has this name");
            for ms in 1..60 {
                let id = StreamId { ms, seq: ms };
                edit.append(id, &[b"field", b"a value"], StreamLimits::new(512, 100))?;
                let name: &[u8] = if ms % 2 == 0 { b"alice" } else { b"bob" };
                let (consumer, _) = edit.see_consumer(&group, name, ms, true)?;
                edit.deliver(&group, &consumer, id, StreamDelivery { at_ms: ms, count: 1 })?;
            }
            Ok(())
        });
        done.expect("free memory");
    });
}

fn holds_stream(ks: &Keyspace, now: u64, i: usize) -> bool {
    let name = name(i);
    let key = ks.key(name.as_bytes());
    let mut txn = ks.begin_one(key.shard(), now);
    let Some(entry) = txn.find(db(0), &key) else { return false };
    let Ok(stream) = txn.stream(&entry) else { return false };
    let (mut entries, mut pending) = (0, 0);
    let visited = stream.visit(StreamId::MIN..=StreamId::MAX, false, |entry| {
        entries += usize::from(entry.id().seq == entry.id().ms && entry.len() == 1);
        true
    });
    let Ok(Some(group)) = stream.group(b"group") else { return false };
    for (name, consumer) in stream.consumers(&group).unwrap_or_default() {
        let done = stream.visit_pending(&group, Some(&consumer), StreamId::MIN, |one| {
            let owner: &[u8] = if one.id.ms % 2 == 0 { b"alice" } else { b"bob" };
            pending += usize::from(one.delivered == one.id.ms && name == owner);
            true
        });
        if done.is_err() {
            return false;
        }
    }
    visited.is_ok() && (entries, pending) == (59, 59)
}

/// Returns true if a key holds the value that `make` gave it.
fn holds(ks: &Keyspace, now: u64, i: usize) -> bool {
    if is_stream(i) {
        return holds_stream(ks, now, i);
    }
    let Some(fields) = fields(i) else {
        return get(ks, now, 0, &name(i)).as_deref() == Some(&*value(i));
    };
    let name = name(i);
    let key = ks.key(name.as_bytes());
    let mut txn = ks.begin_one(key.shard(), now);
    let Some(entry) = txn.find(db(0), &key) else { return false };
    if is_timed(i) {
        let timed = |(n, (field, value)): (usize, (String, String))| TimedField {
            field: field.into_bytes(),
            value: value.into_bytes(),
            time: time(n),
        };
        let expected = Content::Fields(fields.into_iter().enumerate().map(timed).collect());
        return txn.content(&entry).is_ok_and(|found| found.sorted() == expected.sorted());
    }
    let elements: Vec<String> = if is_sorted(i) {
        let pair = |(score, (member, _)): (usize, (String, String))| [score.to_string(), member];
        fields.into_iter().enumerate().flat_map(pair).collect()
    } else {
        fields.into_iter().flat_map(|(field, value)| [field, value]).collect()
    };
    let what = if is_sorted(i) { Type::SortedSet } else { Type::Hash };
    let expected = Content::Elements(what, elements.into_iter().map(String::into_bytes).collect());
    txn.content(&entry).is_ok_and(|found| found.sorted() == expected.sorted())
}

fn make(path: &Path) -> Vec<u8> {
    let ks = emulated(path, 1);
    for i in 0..KEYS {
        if is_stream(i) {
            put_stream(&ks, &name(i));
        } else if let Some(fields) = fields(i) {
            let put = match () {
                () if is_sorted(i) => put_sorted,
                () if is_timed(i) => put_timed,
                () => put,
            };
            put(&ks, &name(i), &fields);
        } else if i % 7 == 0 {
            set_until(&ks, &name(i), &value(i), Expire::At(NOW + 1000));
        } else {
            set(&ks, &name(i), &value(i));
        }
    }
    ks.heap().close().expect("a clean close");
    drop(ks);
    fs::read(path).expect("the pool")
}

fn open(path: &Path) -> Option<Keyspace> {
    let mut options = MapOptions::new(256 << 20);
    options.domain = DomainRequest::Process;
    let region = Region::open(path, &options).expect("a mapping");
    let heap = heap::Heap::open(region, [0; 16]).ok()?.0;
    Some(Keyspace::new(heap, NOW))
}

fn problems(ks: &Keyspace) -> Vec<CheckError> {
    let mut problems: Vec<CheckError> =
        ks.heap().check_spans().into_iter().map(CheckError::Heap).collect();
    for shard in 0..ks.shards() {
        ks.inspect(shard, &|_| {}, &mut |problem| problems.push(problem));
    }
    problems
}

/// Counts of the outcomes of all rounds.
#[derive(Debug, Default)]
struct Tally {
    refused_to_open: usize,
    unnoticed: usize,
    refused: usize,
    repaired: usize,
    cut: usize,
}

fn one(path: &Path, sound: &[u8], rng: &mut Rng, flips: usize, tally: &mut Tally) {
    let used = sound.iter().rposition(|byte| *byte != 0).expect("a pool");
    let mut bytes = sound.to_vec();
    let places: Vec<usize> = (0..flips).map(|_| rng.usize(..=used)).collect();
    for at in &places {
        bytes[*at] ^= 1 << rng.u8(..8);
    }
    fs::write(path, &bytes).expect("the pool");
    let Some(ks) = open(path) else {
        tally.refused_to_open += 1;
        return;
    };
    let found = problems(&ks);
    let done = match ks.repair(&found) {
        Err(Refusal::Metadata(_)) => {
            tally.refused += 1;
            return;
        }
        Err(other) => panic!("{places:x?}: {other}"),
        Ok(done) => done,
    };
    let left = problems(&ks);
    assert!(left.is_empty(), "{places:x?}: {left:?} after {done:?} of {found:?}");
    tally.unnoticed += usize::from(found.is_empty());
    tally.repaired += usize::from(!found.is_empty());
    tally.cut += done.cut.len();
    let missing: Vec<usize> = (0..KEYS).filter(|&i| !holds(&ks, NOW, i)).collect();
    let count = ks.count(db(0)).0 as usize;
    assert!(missing.len() <= flips, "{places:x?}: {missing:?} of {found:?}, {done:?}");
    assert!(count + done.cut.len() >= KEYS, "{places:x?}: {count} keys, {done:?}");
    for i in missing {
        let named = |cut: &keyspace::DamagedKey| {
            cut.key.is_none() || cut.key.as_deref() == Some(name(i).as_bytes())
        };
        // An expiry time in the past hides a key; that word has no checksum.
        let hidden = holds(&ks, 0, i);
        assert!(hidden || done.cut.iter().any(named), "{places:x?}: key {i}, {found:?}, {done:?}");
    }
}

fn run(rounds: usize, seed: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let sound = make(&path);
    let mut rng = Rng::with_seed(seed);
    let mut tally = Tally::default();
    for round in 0..rounds {
        one(&path, &sound, &mut rng, 1 + round % 3, &mut tally);
    }
    println!("{tally:?}");
    assert!(tally.repaired > rounds / 4 && tally.cut > rounds / 4, "{tally:?}");
}

/// For a longer run, of minutes: `FLIP_ROUNDS=1500 FLIP_SEED=7 cargo test -p perdura-keyspace
/// --test it flips::`.
#[test]
fn bits_flipped_anywhere_are_survived() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    run(number("FLIP_ROUNDS").unwrap_or(60) as usize, number("FLIP_SEED").unwrap_or(1));
}
