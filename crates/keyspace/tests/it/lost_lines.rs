//! Cache lines are lost anywhere in the blocks of keys: afterwards each key is intact or reported
//! as damaged. It is never absent, never empty, and never holds anything that was not written to
//! it.
//!
//! A line is lost in one of two ways. *Signalled*: the access raises the signal that persistent
//! memory raises, here because the file is truncated under its mapping (a page at a time), and the
//! keyspace finds out what the bytes belonged to. *Silently*: the line reads as zeros without a
//! signal, as after a loss whose page was repaired before the process ended; a scrub must find it.
//! In either case the process may end afterwards, with or without a clean close, and start again.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{self, NOW, db, emulated, set, set_until, write};
use fastrand::Rng;
use keyspace::{
    Content, Expire, FieldTime, Keyspace, Limits, NodeLimits, Scrub, Side, StreamDelivery,
    StreamId, StreamLimits,
};

const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// The number of keys of each kind.
const EACH: usize = 12;

/// The result of reading a key: its content, or the text of its damage.
type Read = Result<Option<Content>, String>;

fn text(kind: &str, i: usize, len: usize) -> String {
    format!("{kind} {i} ").repeat(len / (kind.len() + 2) + 1)
}

/// Writes keys of every type and form.
fn fill(ks: &Keyspace) {
    for i in 0..EACH {
        set(ks, &format!("short:{i}"), &text("short", i, i * 9));
        set(ks, &format!("integer:{i}"), &format!("{}", i * 7919));
        // The long name puts the cell into another line than the value word.
        set(ks, &format!("integer of a longer name{}:{i}", "-".repeat(60)), "12345");
        set(ks, &format!("block:{i}"), &text("block", i, 5000 * (1 + i)));
        set(ks, &format!("{}{i}", "long name ".repeat(4000)), &text("named", i, 100));
        let until = Expire::At(NOW + 1_000_000);
        set_until(ks, &format!("timed:{i}"), &text("timed", i, 50), until);
        hash(ks, &format!("hash:{i}"), 3 + i, 20, FieldTime::Clear);
        hash(ks, &format!("table:{i}"), 120 + 20 * i, 20, FieldTime::Clear);
        hash(ks, &format!("fields:{i}"), 3 + 60 * (i % 2), 20, FieldTime::At(NOW + 5_000_000));
        sorted(ks, &format!("sorted:{i}"), if i % 2 == 0 { 10 } else { 100 + 70 * i });
        list(ks, &format!("list:{i}"), if i % 2 == 0 { 5 } else { 200 * i });
        stream(ks, &format!("stream:{i}"), 40 + 20 * i as u64);
    }
    for i in 0..3 {
        set(ks, &format!("chunks:{i}"), &text("chunks", i, 150_000 + 70_000 * i));
        write(ks, &[&format!("sparse:{i}")], |txn| {
            let key = format!("sparse:{i}");
            let key = txn.key(key.as_bytes());
            txn.strings().set_range(db(0), &key, 17_000_000, b"far").expect("free memory");
        });
        hash(ks, &format!("large fields:{i}"), 4, 70_000, FieldTime::Clear);
        let large = text("element", i, 90_000);
        write(ks, &[&format!("list:{i}")], |txn| {
            let key = format!("list:{i}");
            let key = txn.key(key.as_bytes());
            let limits = NodeLimits::new(1024, 60);
            txn.lists()
                .push(db(0), &key, Side::Tail, [large.as_bytes()], limits)
                .expect("free memory");
        });
    }
}

fn hash(ks: &Keyspace, key: &str, fields: usize, len: usize, time: FieldTime) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let limits = Limits { entries: 100, value: 64 };
        for n in 0..fields {
            let (field, value) = (format!("field {n}"), text("value", n, len));
            let pair = [(field.as_bytes(), value.as_bytes())];
            txn.hashes().put_with_time(db(0), &key, pair, time, limits).expect("free memory");
        }
    });
}

fn sorted(ks: &Keyspace, key: &str, members: usize) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let limits = Limits { entries: 100, value: 64 };
        let mut edit = txn.sorted_sets().edit(db(0), &key, limits).expect("free memory");
        for n in 0..members {
            let score = |_| Some(n as f64);
            edit.change(txn, format!("member {n}").as_bytes(), score).expect("free memory");
        }
        edit.finish(txn, db(0), &key).expect("free memory");
    });
}

fn list(ks: &Keyspace, key: &str, elements: usize) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let elements: Vec<String> = (0..elements).map(|n| format!("element {n}")).collect();
        let elements = elements.iter().map(|element| element.as_bytes());
        txn.lists()
            .push(db(0), &key, Side::Tail, elements, NodeLimits::new(1024, 60))
            .expect("free memory");
    });
}

fn stream(ks: &Keyspace, key: &str, entries: u64) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let done = txn.streams().edit(db(0), &key, |edit| {
            let group = edit.create_group(b"a group", StreamId::MIN, Some(0))?;
            let group = group.expect("none has this name");
            for ms in 1..=entries {
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

/// Reads a key as a server does: retries a read during which bytes were lost.
fn read(ks: &Keyspace, key: &[u8]) -> Read {
    loop {
        common::goes_on();
        let losses = ks.losses();
        let key = ks.key(key);
        if ks.has_media_errors()
            && let Some(key_damage) = ks.key_damage(db(0), &key)
        {
            return Err(format!("{key_damage:?}"));
        }
        let mut txn = ks.begin_one(key.shard(), NOW);
        let found = txn.find(db(0), &key);
        let content = found.map(|entry| txn.content(&entry).map(Content::sorted)).transpose();
        drop(txn);
        if !ks.has_lost_since(losses) {
            return content.map_err(|error| error.to_string());
        }
        ks.resolve_losses();
    }
}

/// Scrubs the whole keyspace once.
fn scrub(ks: &Keyspace) {
    for shard in 0..ks.shards() {
        let mut at = Scrub::default();
        loop {
            common::goes_on();
            match ks.scrub_step(shard, at) {
                Ok((next, true)) => at = next,
                Ok((_, false)) => break,
                // The store is stopped: every key is refused.
                Err(_) => return,
            }
        }
        ks.resolve_losses();
    }
}

/// A sound pool, and the contents of its keys.
struct Sound {
    bytes: Vec<u8>,
    content: BTreeMap<Vec<u8>, Content>,
    /// The lines of blocks that are not all zeros, by the size of their block: almost every kind of
    /// block has a size of its own.
    lines: BTreeMap<usize, Vec<u64>>,
}

impl Sound {
    fn new(path: &Path, close: bool) -> Sound {
        let ks = emulated(path, 1);
        fill(&ks);
        let mut content = BTreeMap::new();
        {
            let txn = ks.begin_one(0, NOW);
            txn.database(db(0)).for_each(&mut |key, entry| {
                let value = txn.content(entry).expect("sound").sorted();
                content.insert(key.to_vec(), value);
            });
        }
        let blocks = ks.heap().allocated().expect("sound");
        if close {
            ks.heap().close().expect("a clean close");
        }
        drop(ks);
        let bytes = fs::read(path).expect("the pool");
        let mut lines: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for block in blocks {
            let (from, to) = (block.ptr.raw(), block.ptr.raw() + block.capacity as u64);
            for at in (from & !(LINE - 1)..to).step_by(LINE as usize) {
                let line = &bytes[at as usize..(at + LINE) as usize];
                if line.iter().any(|byte| *byte != 0) {
                    lines.entry(block.capacity).or_default().push(at);
                }
            }
        }
        Sound { bytes, content, lines }
    }

    /// Draws a line, with the same probability for each size of block.
    fn choose(&self, rng: &mut Rng) -> (usize, u64) {
        let (size, lines) = self.lines.iter().nth(rng.usize(..self.lines.len())).expect("blocks");
        (*size, lines[rng.usize(..lines.len())])
    }

    /// Compares all keys with what they held. Returns how many are reported as damaged.
    fn check(&self, ks: &Keyspace, what: &str) -> usize {
        let mut named = 0;
        for (key, expected) in &self.content {
            match read(ks, key) {
                Ok(Some(found)) if found == *expected => {}
                Err(_) => named += 1,
                Ok(found) => {
                    let key = String::from_utf8_lossy(&key[..key.len().min(40)]).into_owned();
                    let found = found.map(|found| format!("{found:?}"));
                    let found = found.map(|text| text.chars().take(60).collect::<String>());
                    panic!("{key} is neither intact nor named: {found:?}\n  {what}");
                }
            }
        }
        named
    }

    /// Checks, before any scrub, that each long string has its old length or is refused.
    fn check_lengths(&self, ks: &Keyspace, what: &str) {
        for (key, expected) in &self.content {
            if let (Content::String(expected), Ok(Some(Content::String(found)))) =
                (expected, read(ks, key))
            {
                assert_eq!(found.len(), expected.len(), "{}: {what}", String::from_utf8_lossy(key));
            }
        }
    }
}

/// The number of rounds, and of those with a damaged key, by the size of the block that was hit.
type Tally = HashMap<usize, (usize, usize)>;

fn silently(path: &Path, sound: &Sound, rng: &mut Rng, tally: &mut Tally) {
    let (size, at) = sound.choose(rng);
    let what = format!("silently lost: line {at:#x}, in a block of {size}");
    let mut bytes = sound.bytes.clone();
    bytes[at as usize..(at + LINE) as usize].fill(0);
    fs::write(path, &bytes).expect("the pool");
    let mut ks = emulated(path, 1);
    if rng.bool() {
        sound.check_lengths(&ks, &what);
    }
    scrub(&ks);
    let mut named = sound.check(&ks, &what);
    if rng.bool() {
        drop(ks);
        ks = emulated(path, 1);
        scrub(&ks);
        named = sound.check(&ks, &format!("{what}, and another start"));
    }
    let counts = tally.entry(size).or_default();
    *counts = (counts.0 + 1, counts.1 + usize::from(named > 0));
}

fn signalled(path: &Path, sound: &Sound, rng: &mut Rng, tally: &mut Tally) {
    let (size, at) = sound.choose(rng);
    let page = at & !(PAGE - 1);
    let what = format!("signalled: page {page:#x}, in a block of {size}");
    fs::write(path, &sound.bytes).expect("the pool");
    let mut ks = emulated(path, 1);
    let file = OpenOptions::new().write(true).open(path).expect("the pool");
    let next_page = (page + PAGE) as usize;
    file.set_len(page).expect("a shorter file");
    ks.heap().region().load(page);
    file.write_all_at(&sound.bytes[next_page..], next_page as u64).expect("what follows");
    if rng.bool() {
        ks.resolve_losses();
    }
    let mut named = sound.check(&ks, &what);
    if rng.bool() && ks.stopped().is_none() {
        drop(ks);
        ks = emulated(path, 1);
        scrub(&ks);
        named = sound.check(&ks, &format!("{what}, and another start"));
    }
    let counts = tally.entry(size).or_default();
    *counts = (counts.0 + 1, counts.1 + usize::from(named > 0));
}

fn search(rounds: u64, seed: u64, lose: fn(&Path, &Sound, &mut Rng, &mut Tally)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let sound = [true, false].map(|close| {
        let _ = fs::remove_file(&path);
        Sound::new(&path, close)
    });
    let (mut rng, mut tally) = (Rng::with_seed(seed), Tally::new());
    for round in 0..rounds {
        lose(&path, &sound[round as usize % 2], &mut rng, &mut tally);
    }
    println!("size of the block: rounds, those with a damaged key: {tally:?}");
    let named: usize = tally.values().map(|counts| counts.1).sum();
    assert!(named as u64 > rounds / 4, "too few lines mattered: {tally:?}");
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// For a longer run: `LINE_ROUNDS=1000 LINE_SEED=7 cargo test -p perdura-keyspace --test it
/// lost_lines::`.
#[test]
fn a_key_whose_line_reads_as_zeros_is_intact_or_named() {
    search(number("LINE_ROUNDS", 30), number("LINE_SEED", 1), silently);
}

#[test]
fn a_key_whose_page_the_medium_lost_is_intact_or_named() {
    search(number("LINE_ROUNDS", 30), number("LINE_SEED", 1), signalled);
}

/// Zeroes each line of each inner node of a stream's trees: if the scrub does not report the
/// stream, all of its entries must still be found.
#[test]
fn a_zeroed_line_of_an_inner_node_of_a_streams_tree_is_found_by_the_scrub() {
    const ENTRIES: u64 = 1500;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    let ks = emulated(&path, 1);
    stream(&ks, "a stream", ENTRIES);
    let blocks = ks.heap().allocated().expect("sound");
    ks.heap().close().expect("a clean close");
    drop(ks);
    let bytes = fs::read(&path).expect("the pool");
    let is_inner = |at: usize| bytes[at] > 0 && bytes[at + 1..at + 4] == *b"tre";
    let nodes: Vec<usize> =
        blocks.iter().map(|block| block.ptr.raw() as usize).filter(|at| is_inner(*at)).collect();
    assert!(nodes.len() >= 4, "{nodes:x?}");
    let mut named = 0;
    for (node, line) in nodes.iter().flat_map(|node| (0..16).map(move |line| (node, line))) {
        let at = node + line * LINE as usize;
        let mut damaged = bytes.clone();
        damaged[at..at + LINE as usize].fill(0);
        fs::write(&path, &damaged).expect("the pool");
        let ks = emulated(&path, 1);
        scrub(&ks);
        if read(&ks, b"a stream").is_err() {
            named += 1;
            continue;
        }
        let key = ks.key(b"a stream");
        let mut txn = ks.begin_one(key.shard(), NOW);
        let entry = txn.find(db(0), &key).expect("the stream");
        let stream = txn.stream(&entry).expect("a stream");
        let group = stream.group(b"a group").expect("sound").expect("the group");
        for ms in 1..=ENTRIES {
            let id = StreamId { ms, seq: ms };
            let what = format!("line {line} of the node at {node:#x}, entry {ms}");
            assert_eq!(stream.contains(id), Ok(true), "{what}");
            let pending = stream.pending(&group, id).expect("sound");
            assert!(pending.is_some_and(|one| one.delivered == ms), "{what}: not pending");
        }
    }
    assert!(named > nodes.len() * 4, "{named} of {} nodes", nodes.len());
}
