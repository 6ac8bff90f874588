//! A salvage copies each key of a damaged pool as it was, or reports that it is lost.
//!
//! Pools with values of every type in two databases, cleanly closed or as a killed process leaves
//! them, are damaged in every region: a bit, a cache line, a page, or the end of the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::common::{NOW, db, emulated, geometry, set_until, write};
use fastrand::Rng;
use heap::{CreateOptions, Heap, OpenError, Salvage, SalvageError};
use keyspace::{
    Content, Db, Expire, FieldTime, Keyspace, Limits, NodeLimits, SalvageFinding, SalvageOptions,
    Salvaged, Side, StreamId, StreamLimits,
};
use pmem::{MapOptions, Region};

const KEYS: usize = 400;
const SHARDS: usize = 2;
const BOOT: [u8; 16] = [0; 16];

/// The content and the expiry time of each key, by database and name.
type Model = BTreeMap<(usize, Vec<u8>), (Content, Option<u64>)>;

fn name(i: usize) -> String {
    format!("key:{i:04}")
}

fn database(i: usize) -> Db {
    db(if i % 10 == 9 { 3 } else { 0 })
}

fn expiry(i: usize) -> Option<u64> {
    i.is_multiple_of(7).then_some(NOW + 1_000_000 + i as u64)
}

const SMALL: Limits = Limits { entries: 100, value: 64 };

/// Writes key number `i`; the keys have values of every type and form.
fn put(ks: &Keyspace, i: usize) {
    let (name, at) = (name(i), database(i));
    let text = |n: usize| format!("element {n} of {i}").into_bytes();
    let count = if i.is_multiple_of(3) { 150 } else { 5 };
    let texts: Vec<Vec<u8>> = (0..count).map(text).collect();
    write(ks, &[&name], |txn| {
        let key = txn.key(name.as_bytes());
        match i % 20 {
            0 => txn.strings().set(at, &key, &vec![i as u8; 9000], Expire::Clear),
            1 => txn.strings().set(at, &key, &vec![i as u8; 150_000], Expire::Clear),
            2 => txn.strings().set(at, &key, i.to_string().as_bytes(), Expire::Clear),
            3 | 4 => {
                let pairs = texts.iter().map(|text| (&text[..], name.as_bytes()));
                txn.hashes().put(at, &key, pairs, SMALL).map(drop)
            }
            5 | 6 => {
                let members = texts.iter().map(|text| &text[..]);
                txn.sets().add(at, &key, members, SMALL).map(drop)
            }
            7 | 8 => {
                let limits = NodeLimits::new(512, 16);
                let elements = texts.iter().map(Vec::as_slice);
                txn.lists().push(at, &key, Side::Tail, elements, limits).map(drop)
            }
            9 | 10 => {
                let mut edit = txn.sorted_sets().edit(at, &key, SMALL).expect("free memory");
                for (n, member) in texts.iter().enumerate() {
                    edit.change(txn, member, |_| Some(n as f64 / 3.0)).expect("free memory");
                }
                edit.finish(txn, at, &key).map(drop)
            }
            11 | 12 => texts.iter().enumerate().try_for_each(|(n, field)| {
                let time = if n % 2 == 0 { FieldTime::Clear } else { FieldTime::At(NOW + 9999) };
                txn.hashes()
                    .put_with_time(at, &key, [(&field[..], &b"v"[..])], time, SMALL)
                    .map(drop)
            }),
            13 => txn.streams().edit(at, &key, put_stream),
            _ => txn.strings().set(
                at,
                &key,
                format!("the value of key {i}").as_bytes(),
                Expire::Clear,
            ),
        }
        .expect("free memory");
        if expiry(i).is_some() {
            txn.keys().set_expiry(at, &key, expiry(i)).expect("free memory");
        }
    });
}

fn put_stream(edit: &mut keyspace::StreamEdit<'_, '_>) -> Result<(), keyspace::Error> {
    let group = edit.create_group(b"group", StreamId::MIN, Some(3))?.expect("a new group");
    edit.create_consumer(&group, b"carol", NOW - 5, None)?;
    for ms in 1..60 {
        let id = StreamId { ms, seq: ms };
        edit.append(id, &[b"field", b"a value"], StreamLimits::new(512, 100))?;
        let name: &[u8] = if ms % 2 == 0 { b"alice" } else { b"bob" };
        let (consumer, _) = edit.see_consumer(&group, name, ms, true)?;
        edit.deliver(&group, &consumer, id, keyspace::StreamDelivery { at_ms: ms, count: 2 })?;
    }
    Ok(())
}

/// Returns the bytes of a pool, cleanly closed or as a killed process leaves it.
fn make(path: &Path, closed: bool) -> Vec<u8> {
    let ks = emulated(path, SHARDS);
    // Freed blocks keep the bytes of older entries.
    (0..KEYS).for_each(|i| set_until(&ks, &name(i), "an older value", Expire::Clear));
    for i in 0..KEYS {
        let name = name(i);
        write(&ks, &[&name], |txn| {
            let key = txn.key(name.as_bytes());
            txn.keys().delete(db(0), &key).expect("free memory")
        });
        put(&ks, i);
    }
    if closed {
        ks.heap().close().expect("a clean close");
    }
    drop(ks);
    fs::read(path).expect("the pool")
}

fn model(ks: &Keyspace) -> Model {
    let mut walk = ks.snapshot(|| ()).expect("a snapshot").0.walk();
    let mut names = Vec::new();
    let mut items = Vec::new();
    while walk.next(&mut items).expect("it is held") {
        names.extend(items.iter().map(|item| (item.db, item.key.clone())));
    }
    drop(walk);
    let read = |(at, name): (Db, Vec<u8>)| {
        let key = ks.key(&name);
        let mut txn = ks.begin_one(key.shard(), NOW);
        let entry = txn.find(at, &key).expect("it is in the snapshot");
        let content = txn.content(&entry).expect("a sound value").sorted();
        let expiry = txn.properties(&entry).expiry();
        ((at.number(), name), (content, expiry))
    };
    names.into_iter().map(read).collect()
}

/// The outcome of a salvage.
struct Outcome {
    copied: Salvaged,
    findings: Vec<SalvageFinding>,
    notes: Vec<String>,
    costs: bool,
    model: Model,
}

fn salvage_with(path: &Path, unplaced: Option<Db>) -> Result<Outcome, SalvageError> {
    salvage_at(path, unplaced, NOW)
}

fn salvage_at(path: &Path, unplaced: Option<Db>, now: u64) -> Result<Outcome, SalvageError> {
    let pool = Salvage::open(Region::inspect(path).expect("a mapping"), BOOT)?;
    let options = CreateOptions { geometry: geometry(SHARDS), ..CreateOptions::default() };
    let to = Keyspace::new(Heap::volatile(256 << 20, &options).expect("memory"), NOW);
    let mut findings = Vec::new();
    let how = SalvageOptions { now, unplaced };
    let copied = to
        .take_from(&pool, how, &|_| {}, &mut |finding| findings.push(finding))
        .expect("free memory");
    let costs = copied.lost > 0
        || findings.iter().any(SalvageFinding::costs)
        || pool.notes().iter().any(heap::SalvageNote::costs);
    let notes = pool.notes().iter().map(ToString::to_string).collect();
    Ok(Outcome { copied, findings, notes, costs, model: model(&to) })
}

fn salvage(path: &Path) -> Outcome {
    salvage_with(path, None).expect("a pool")
}

struct Pools {
    _folder: tempfile::TempDir,
    path: std::path::PathBuf,
    /// The pool as a killed process left it, and the closed pool.
    bytes: [Vec<u8>; 2],
    sound: Model,
}

impl Pools {
    fn new() -> Pools {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let bytes = [false, true].map(|closed| {
            fs::remove_file(&path).ok();
            make(&path, closed)
        });
        let map = MapOptions { domain: pmem::DomainRequest::Process, ..MapOptions::new(256 << 20) };
        let region = Region::open(&path, &map).expect("a mapping");
        let ks = Keyspace::new(Heap::open(region, BOOT).expect("a pool").0, NOW);
        let sound = model(&ks);
        assert_eq!(sound.len(), KEYS);
        drop(ks);
        Pools { _folder: folder, path, bytes, sound }
    }

    fn damaged(&self, closed: bool, damage: impl FnOnce(&mut Vec<u8>)) -> &Path {
        let mut bytes = self.bytes[usize::from(closed)].clone();
        damage(&mut bytes);
        fs::write(&self.path, &bytes).expect("the pool");
        &self.path
    }

    /// Checks that every key is as it was, or is absent and reported.
    #[track_caller]
    fn check(&self, what: &str, found: &Outcome) {
        let Outcome { copied, findings, notes, costs, model } = found;
        let describe = || format!("{what}: {copied:?} {findings:#?} {notes:?}");
        for (key, value) in model {
            let expected = self.sound.get(key);
            let name = String::from_utf8_lossy(&key.1);
            assert!(expected.is_some(), "{name} was not there: {}", describe());
            let is_doubtful = findings
                .iter()
                .any(|f| matches!(f, SalvageFinding::Time { key: k, .. } if *k == key.1));
            let (content, expiry) = expected.expect("it was there");
            assert!(*content == value.0, "{name} is another: {}", describe());
            assert!(*expiry == value.1 || is_doubtful, "{name} expires else: {}", describe());
        }
        let missing = (self.sound.len() - model.len()) as u64;
        assert!(missing <= copied.lost || *costs, "{missing} missing: {}", describe());
        assert!(missing == 0 || *costs, "{missing} missing: {}", describe());
        assert_eq!(copied.keys as usize, model.len(), "{}", describe());
    }

    /// Checks that all keys are there, and that nothing is reported as lost.
    #[track_caller]
    fn check_whole(&self, what: &str, found: &Outcome) {
        self.check(what, found);
        assert_eq!(found.model.len(), self.sound.len(), "{what}: {:#?}", found.findings);
        assert!(!found.costs, "{what}: {:#?} {:?}", found.findings, found.notes);
    }
}

/// The offsets of the parts of these pools.
mod at {
    pub(crate) const AREAS: usize = 12288;
    pub(crate) const RINGS: usize = 16384;
    pub(crate) const RING: usize = 8 * 32768;
    pub(crate) const ZONES: usize = (RINGS + 2 * RING).next_multiple_of(65536);

    pub(crate) fn root(shard: usize, n: usize) -> usize {
        AREAS + 2048 * shard + 1024 + 8 * n
    }
}

#[test]
fn a_sound_pool_is_copied_as_it_is() {
    let pools = Pools::new();
    for closed in [false, true] {
        let path = pools.damaged(closed, |_| {});
        let found = salvage(path);
        pools.check_whole("sound", &found);
        assert!(found.findings.is_empty() && found.notes.is_empty(), "{:?}", found.findings);
        assert!(pools.bytes[usize::from(closed)] == fs::read(path).expect("the pool"), "changed");
    }
}

#[test]
fn what_is_written_twice_or_found_elsewhere_costs_nothing() {
    let pools = Pools::new();
    let zero = |from: usize, to: usize| move |bytes: &mut Vec<u8>| bytes[from..to].fill(0);
    for closed in [false, true] {
        for (what, from, to) in [
            ("a copy of the header", 0, 4096),
            ("the other one", 4096, 8192),
            ("lines of both", 64, 128),
            ("the number of zones", 8192, 12288),
            ("the hint", at::AREAS + 64, at::AREAS + 128),
            ("the counters", at::AREAS + 128, at::AREAS + 192),
            ("the span table", at::ZONES, at::ZONES + 4096),
            ("a bitmap", at::ZONES + 65536 + 64, at::ZONES + 65536 + 128),
        ] {
            pools.check_whole(what, &salvage(pools.damaged(closed, zero(from, to))));
        }
        let both = |bytes: &mut Vec<u8>| {
            bytes[0..64].fill(0);
            bytes[4096 + 128..4096 + 192].fill(0);
        };
        pools.check_whole("lines of both headers", &salvage(pools.damaged(closed, both)));
        let both = |bytes: &mut Vec<u8>| {
            bytes[77] ^= 4;
            bytes[4096 + 121] ^= 1;
        };
        pools.check_whole("bits of both headers", &salvage(pools.damaged(closed, both)));
    }
}

#[test]
fn a_lost_log_of_a_process_that_ended_costs_nothing_that_was_acknowledged() {
    let pools = Pools::new();
    for shard in 0..SHARDS {
        let (tail, ring) = (at::AREAS + 2048 * shard, at::RINGS + at::RING * shard);
        for (what, from, to) in [
            ("a tail", tail, tail + 8),
            ("a ring", ring, ring + at::RING),
            ("both", tail, tail + 8),
        ] {
            for closed in [false, true] {
                let path = pools.damaged(closed, |bytes| {
                    bytes[from..to].fill(if what == "a tail" { 0xff } else { 0 });
                    if what == "both" {
                        bytes[ring..ring + at::RING].fill(0);
                    }
                });
                let found = salvage(path);
                pools.check(what, &found);
                assert_eq!(found.model.len(), KEYS, "{what}: {:#?}", found.findings);
                assert!(!closed || !found.costs, "{what}: {:?}", found.notes);
            }
        }
    }
}

#[test]
fn a_lost_index_costs_nothing_where_one_database_misses_keys() {
    let pools = Pools::new();
    for closed in [false, true] {
        for shard in 0..SHARDS {
            for number in [0, 3] {
                let root = at::root(shard, number);
                let found = salvage(pools.damaged(closed, |bytes| bytes[root..root + 8].fill(0)));
                pools.check_whole("a root", &found);
                assert!(found.copied.found > 0);
                let word = pools.bytes[usize::from(closed)][root..root + 8].try_into();
                let block = (u64::from_le_bytes(word.expect("8 bytes")) & !1) as usize;
                let found =
                    salvage(pools.damaged(closed, |bytes| bytes[block..block + 2048].fill(0)));
                pools.check_whole("the block behind a root", &found);
                assert!(found.copied.found > 0);
            }
        }
    }
}

#[test]
fn keys_whose_database_is_not_known_are_named_and_go_where_the_caller_says() {
    let pools = Pools::new();
    let area = at::AREAS + 2048 + 1024;
    for (what, to) in [("the roots of both databases", area + 64), ("all roots", area + 1024)] {
        let path = pools.damaged(true, |bytes| bytes[area..to].fill(0));
        let found = salvage(path);
        pools.check(what, &found);
        let unplaced =
            |f: &&SalvageFinding| matches!(f, SalvageFinding::Unplaced { put: None, .. });
        let named = found.findings.iter().filter(unplaced).count();
        assert_eq!(named, KEYS - found.model.len(), "{what}: {:#?}", found.findings);
        assert!(named > KEYS / 4);
        let put = salvage_with(path, Db::new(7)).expect("a pool");
        assert_eq!((put.model.len(), put.copied.lost), (KEYS, 0), "{what}: {:#?}", put.findings);
        let elsewhere = |(at, name): &(usize, Vec<u8>)| {
            *at == 7 || pools.sound.contains_key(&(*at, name.clone()))
        };
        assert!(put.model.keys().all(elsewhere) && put.costs);
    }
}

#[test]
fn a_key_that_is_found_and_has_expired_is_not_counted_as_found() {
    let pools = Pools::new();
    // The index of one database, or those of all, whose keys are put into another one.
    for (roots, database) in [(1, 0), (8, 7)] {
        let path = pools.damaged(true, |bytes| {
            for root in (0..SHARDS).map(|shard| at::root(shard, 0)) {
                bytes[root..root + 8 * roots].fill(0);
            }
        });
        for (now, expire) in [(NOW, false), (NOW + 2_000_000, true)] {
            let done = salvage_at(path, Db::new(database), now).expect("a pool");
            let found = done.model.keys().filter(|(at, _)| *at == database).count();
            assert_eq!(done.copied.found as usize, found, "{:?}", done.copied);
            assert_eq!(done.copied.expired > 0, expire, "{:?}", done.copied);
            let is_put =
                |f: &&SalvageFinding| matches!(f, SalvageFinding::Unplaced { put: Some(_), .. });
            let put = done.findings.iter().filter(is_put).count();
            assert_eq!(put, if database == 7 { found } else { 0 });
        }
    }
}

#[test]
fn a_lost_header_is_guessed_from_the_spans() {
    let pools = Pools::new();
    for (what, seed) in [("zeros", false), ("all but the key of the hash", true)] {
        let path = pools.damaged(true, |bytes| {
            for copy in [0, 4096] {
                let until = if seed { 120 } else { 512 };
                bytes[copy..copy + until].fill(0);
            }
        });
        let found = salvage(path);
        pools.check(what, &found);
        assert_eq!(found.model.len(), KEYS, "{what}: {:#?}", found.findings);
        assert!(found.costs && found.notes[0].contains("the header is lost"), "{:?}", found.notes);
        let unhashed = found.findings.iter().any(|f| matches!(f, SalvageFinding::Unhashed));
        assert_eq!(unhashed, !seed, "{what}: {:?}", found.findings);
    }
}

#[test]
fn what_is_no_pool_is_refused() {
    let pools = Pools::new();
    let check = |damage: &dyn Fn(&mut Vec<u8>), is_expected: &dyn Fn(&SalvageError) -> bool| {
        let refused = salvage_with(pools.damaged(true, damage), None).err().expect("refused");
        assert!(is_expected(&refused), "{refused}");
    };
    check(&|bytes| bytes.fill(0), &|error| matches!(error, SalvageError::Blank));
    check(&|bytes| bytes.clear(), &|error| matches!(error, SalvageError::Blank));
    check(&|bytes| bytes.fill(b'x'), &|error| {
        matches!(error, SalvageError::NoPool(OpenError::Magic { .. }))
    });
    let newer = |bytes: &mut Vec<u8>| {
        bytes[8] = 77;
        bytes[4096 + 8] = 77;
    };
    check(&newer, &|error| {
        matches!(error, SalvageError::Foreign(OpenError::Version { found: 77, .. }))
    });
}

/// The file ends at a random place.
#[test]
fn a_pool_that_was_cut_short_gives_what_is_before_the_cut() {
    let pools = Pools::new();
    let used = pools.bytes[0].iter().rposition(|byte| *byte != 0).expect("a pool");
    let mut rng = Rng::with_seed(5);
    let (mut some, mut most) = (0, 0);
    for round in 0..30 {
        let from = if round % 3 == 0 { 0 } else { at::ZONES };
        let len = rng.usize(from..used);
        let path = pools.damaged(round % 2 == 0, |bytes| bytes.truncate(len));
        match salvage_with(path, None) {
            Ok(found) => {
                pools.check(&format!("cut to {len:#x}"), &found);
                most = most.max(found.model.len());
                some += usize::from(!found.model.is_empty());
            }
            Err(error) => assert!(len < at::ZONES, "cut to {len:#x}: {error}"),
        }
    }
    assert!(some > 5 && most > KEYS / 4, "{some}, {most}");
}

/// Draws a region of the pool, and an offset in it.
fn anywhere(rng: &mut Rng, used: usize) -> (&'static str, usize) {
    let (what, from, to) = match rng.usize(..10) {
        0 => ("header", 0, 8192),
        1 => ("zones", 8192, 8200),
        2 => ("area", at::AREAS, at::AREAS + 4096),
        3 => ("rings", at::RINGS, at::RINGS + 2 * at::RING),
        4 => ("span table", at::ZONES, at::ZONES + 512),
        5 => {
            let span = rng.usize(1..(used - at::ZONES) / 65536);
            let base = at::ZONES + span * 65536;
            ("span header and bitmap", base, base + 640)
        }
        _ => ("blocks", at::ZONES + 65536, used),
    };
    (what, rng.usize(from..to))
}

fn fuzz(rounds: usize, seed: u64) {
    let pools = Pools::new();
    let used = pools.bytes[0].iter().rposition(|byte| *byte != 0).expect("a pool");
    let mut rng = Rng::with_seed(seed);
    let (mut whole, mut costly, mut refused) = (0, 0, 0);
    for round in 0..rounds {
        let closed = round % 2 == 0;
        let (region, place) = anywhere(&mut rng, used);
        let kind = rng.usize(..3);
        let what = format!("seed {seed}, round {round}: {region} at {place:#x}, kind {kind}");
        let flipped = 1 << rng.u8(..8);
        let path = pools.damaged(closed, |bytes| match kind {
            0 => bytes[place] ^= flipped,
            1 => bytes[place & !63..(place & !63) + 64].fill(0),
            _ => bytes[place & !4095..(place & !4095) + 4096].fill(0),
        });
        let found = salvage(path);
        if kind != 0 || !hits_unguarded(&pools, &found) {
            pools.check(&what, &found);
        }
        whole += usize::from(!found.costs);
        costly += usize::from(found.costs);
        let map = pmem::Region::inspect(path).expect("a mapping");
        match Heap::open(map, BOOT) {
            Ok(_) => {}
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("perdura salvage"), "{what}: {error}");
            }
        }
    }
    println!("whole {whole}, costly {costly}, refused {refused}");
    assert!(whole > rounds / 8 && costly > rounds / 8 && refused > 0, "{whole} {costly} {refused}");
}

/// Returns true if exactly one key differs, and only in its expiry time or by being another
/// integer: these words have no checksum.
fn hits_unguarded(pools: &Pools, found: &Outcome) -> bool {
    let differ: Vec<_> =
        pools.sound.iter().filter(|(key, value)| found.model.get(*key) != Some(*value)).collect();
    let [(key, (content, expiry))] = differ.as_slice() else { return false };
    match found.model.get(*key) {
        Some((other, time)) if time == expiry => {
            let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
            let is_int = |content: &Content| match content {
                Content::String(text) => text.iter().all(is_digit),
                _ => false,
            };
            is_int(content) && is_int(other)
        }
        Some((other, _)) => other == content,
        None => expiry.is_some() && found.copied.expired == 1,
    }
}

/// For a longer run, of minutes: `SALVAGE_ROUNDS=5000 SALVAGE_SEED=7 cargo test -p perdura-keyspace
/// --test it salvage::`.
#[test]
fn damage_anywhere_is_survived() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    fuzz(number("SALVAGE_ROUNDS").unwrap_or(80) as usize, number("SALVAGE_SEED").unwrap_or(1));
}
