//! Fields of hashes with expiry times of their own, packed and in tables, through all operations on
//! keys.

use std::collections::BTreeMap;

use crate::common::{self, NOW, db, emulated, volatile, write_at};
use keyspace::{
    Content, Defragmentation, Encoding, Event, Expire, FieldChange, FieldTime, Keyspace, Limits,
    Scrub, Snapshot, SnapshotWalk, Type,
};

const LIMITS: Limits = Limits { entries: 16, value: 20 };
const KEYS: [&str; 3] = ["a", "{a}1", "b"];

/// Fields with values and expiry times.
type Fields = BTreeMap<String, (String, Option<u64>)>;
/// Hashes with the expiry times of their keys.
type Model = BTreeMap<&'static str, (Fields, Option<u64>)>;

fn put(ks: &Keyspace, now: u64, key: &str, pairs: &[(String, String)], time: FieldTime) -> usize {
    write_at(ks, now, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let pairs = pairs.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes()));
        txn.hashes().put_with_time(db(0), &k, pairs, time, LIMITS).expect("free memory")
    })
}

/// Applies `change` to fields. Returns the expiry times that were shown.
fn change(
    ks: &Keyspace,
    now: u64,
    key: &str,
    fields: &[&str],
    change: FieldChange,
) -> Vec<Option<Option<u64>>> {
    write_at(ks, now, &[key], |txn| {
        let (k, mut shown) = (txn.key(key.as_bytes()), Vec::new());
        let names = fields.iter().map(|field| field.as_bytes());
        let done = txn.hashes().change(db(0), &k, names, |_, time| {
            shown.push(time);
            change
        });
        done.expect("free memory");
        shown
    })
}

/// Returns what a key holds at a time, after comparing all ways of reading it.
fn read(ks: &Keyspace, now: u64, key: &str) -> Option<Fields> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), now);
    let entry = txn.find(db(0), &key)?;
    let members = txn.members(&entry, Type::Hash).expect("members");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut fields = Fields::new();
    let visited = members.visit(|field, value| {
        fields.insert(text(field), (text(value), None));
    });
    visited.expect("sound members");
    assert_eq!(fields.len() as u64, members.len());
    for (field, (value, time)) in &mut fields {
        let found = members.get(field.as_bytes()).expect("sound").expect("a field");
        assert_eq!(text(found.as_ref()), *value);
        *time = members.time(field.as_bytes()).expect("sound").expect("a field");
    }
    let mut random = fastrand::Rng::with_seed(fields.len() as u64);
    let picked = members.random(|| random.u64(..)).expect("sound").expect("one of them");
    assert!(fields.contains_key(&text(picked.0.as_ref())));
    assert!(members.time(b"never there").expect("sound").is_none());
    assert!(txn.properties(&entry).memory() > 0);
    Some(fields)
}

/// Removes what has expired from the model.
fn expire(model: &mut Model, now: u64) {
    for (fields, _) in model.values_mut() {
        fields.retain(|_, (_, time)| time.is_none_or(|time| time > now));
    }
    model.retain(|_, (fields, until)| !fields.is_empty() && until.is_none_or(|until| until > now));
}

fn step(ks: &Keyspace, model: &mut Model, now: u64, random: &mut fastrand::Rng) {
    let key = KEYS[random.usize(0..KEYS.len())];
    let count = [1, 2, 5, 40][random.usize(0..4)];
    let name = |random: &mut fastrand::Rng| format!("field{}", random.u8(0..90));
    let names: Vec<String> = (0..count).map(|_| name(random)).collect();
    let fields: Vec<&str> = names.iter().map(String::as_str).collect();
    let at = now + random.u64(1..60);
    match random.u8(0..12) {
        0..5 => {
            let time = [FieldTime::Clear, FieldTime::Keep, FieldTime::At(at)][random.usize(0..3)];
            let len = [1, 5, 30, 9000][random.usize(0..4).min(random.usize(0..30))];
            let pairs: Vec<_> = names.iter().map(|name| (name.clone(), "v".repeat(len))).collect();
            let held = &mut model.entry(key).or_default().0;
            let before = held.len();
            for (field, value) in &pairs {
                let old = held.get(field).and_then(|(_, time)| *time);
                let time = match time {
                    FieldTime::Clear => None,
                    FieldTime::Keep => old,
                    FieldTime::At(at) => Some(at),
                };
                held.insert(field.clone(), (value.clone(), time));
            }
            let new = held.len() - before;
            assert_eq!(put(ks, now, key, &pairs, time), new);
        }
        5..9 => {
            let time = Some(at).filter(|_| random.u8(0..3) > 0);
            let shown = change(ks, now, key, &fields, FieldChange::Time(time));
            for (field, shown) in names.iter().zip(shown) {
                let held = model.get_mut(key).and_then(|held| held.0.get_mut(field));
                assert_eq!(shown, held.as_ref().map(|(_, time)| *time), "{key} {field}");
                if let Some(held) = held {
                    held.1 = time;
                }
            }
        }
        9 => {
            change(ks, now, key, &fields, FieldChange::Delete);
            if let Some((held, _)) = model.get_mut(key) {
                names.iter().for_each(|name| drop(held.remove(name)));
            }
        }
        10 => {
            let other = KEYS[random.usize(0..KEYS.len())];
            let copies = random.bool();
            let done = write_at(ks, now, &[key, other], |txn| {
                let (from, to) = (txn.key(key.as_bytes()), txn.key(other.as_bytes()));
                let (from, to) = ((db(0), &from), (db(0), &to));
                if copies { txn.keys().copy(from, to) } else { txn.keys().rename(from, to) }
                    .expect("free memory")
            });
            assert_eq!(done, model.contains_key(key));
            if done && key != other {
                let held = if copies { model.get(key).cloned() } else { model.remove(key) };
                model.insert(other, held.expect("it was there"));
            }
        }
        _ => {
            let until = Some(now + 80).filter(|_| random.bool());
            let done = write_at(ks, now, &[key], |txn| {
                let k = txn.key(key.as_bytes());
                txn.keys().set_expiry(db(0), &k, until).expect("free memory")
            });
            assert_eq!(done, model.contains_key(key));
            if let Some(held) = model.get_mut(key) {
                held.1 = until;
            }
        }
    }
    model.retain(|_, (fields, _)| !fields.is_empty());
}

fn compare(ks: &Keyspace, model: &Model, now: u64) {
    for key in KEYS {
        let expected = model.get(key).map(|(fields, _)| fields.clone());
        assert_eq!(read(ks, now, key), expected, "{key} at {now}");
    }
    ks.check().expect("an intact keyspace");
}

/// Runs active expiry until nothing is left to do. Returns how much it deleted.
fn expire_all(ks: &Keyspace, now: u64) -> usize {
    let mut done = 0;
    for shard in 0..ks.shards() {
        for _ in 0..200 {
            done += ks.expire_step(shard, 20, now).expect("a commit").1.done;
        }
    }
    done
}

fn counted(ks: &Keyspace) -> (u64, u64) {
    let txn = ks.begin_all(0);
    (txn.database(db(0)).count_expiring(), txn.database(db(0)).count_with_times())
}

#[test]
fn fields_go_when_their_time_comes_and_no_sooner() {
    for seed in 0..6 {
        let (mut random, mut now) = (fastrand::Rng::with_seed(seed), NOW);
        let (ks, mut model) = (volatile(2, 64 << 20), Model::new());
        for n in 0..600 {
            step(&ks, &mut model, now, &mut random);
            if n % 3 == 0 {
                now += random.u64(0..20);
                expire(&mut model, now);
            }
            if n % 40 == 0 {
                expire_all(&ks, now);
                let without_ttl = model.values().filter(|(_, until)| until.is_some()).count();
                let timed = |fields: &Fields| fields.values().any(|(_, time)| time.is_some());
                let timed = model.values().filter(|(fields, _)| timed(fields)).count();
                assert_eq!(counted(&ks), (without_ttl as u64, timed as u64));
            }
            if n % 10 == 0 {
                compare(&ks, &model, now);
            }
        }
        compare(&ks, &model, now);
        expire_all(&ks, now + 1000);
        expire(&mut model, now + 1000);
        compare(&ks, &model, now + 1000);
        assert_eq!(counted(&ks), (0, 0));
    }
}

/// Creates a hash of this many fields, all of which but the first expire one after the other;
/// `long` makes it a table.
fn filled(ks: &Keyspace, key: &str, count: usize, long: bool) {
    let pad = if long { "long".repeat(300) } else { String::new() };
    put(ks, NOW, key, &[("field0".into(), format!("0{pad}"))], FieldTime::Clear);
    for n in 1..count {
        let pair = [(format!("field{n}"), format!("{n}"))];
        put(ks, NOW, key, &pair, FieldTime::At(NOW + n as u64));
    }
}

fn encoding(ks: &Keyspace, key: &str) -> Encoding {
    let key = ks.key(key.as_bytes());
    let txn = ks.begin_one(key.shard(), NOW);
    txn.properties(&txn.peek(db(0), &key).expect("a key")).encoding()
}

#[test]
fn the_encoding_reports_that_there_was_a_time() {
    let ks = volatile(2, 64 << 20);
    put(&ks, NOW, "h", &[("f".into(), "v".into())], FieldTime::Clear);
    assert_eq!(encoding(&ks, "h"), Encoding::Listpack);
    change(&ks, NOW, "h", &["f"], FieldChange::Time(Some(NOW + 5)));
    assert_eq!(encoding(&ks, "h"), Encoding::ListpackEx);
    change(&ks, NOW, "h", &["f"], FieldChange::Time(None));
    assert_eq!((encoding(&ks, "h"), counted(&ks)), (Encoding::ListpackEx, (0, 0)));
    filled(&ks, "t", 30, false);
    assert_eq!((encoding(&ks, "t"), counted(&ks)), (Encoding::Hashtable, (0, 1)));
}

#[test]
fn many_expired_fields_go_in_bounded_steps_and_are_listed() {
    let ks = volatile(1, 64 << 20);
    filled(&ks, "h", 3000, true);
    let (mut gone, mut steps) = (0, 0);
    while common::goes_on() && gone < 2000 {
        let (txn, progress) = ks.expire_step(0, 20, NOW + 2000).expect("a commit");
        assert!(progress.done <= 64 && progress.more, "{progress:?}");
        for change in txn.changes() {
            assert_eq!((change.event, change.key), (Event::FieldExpired, &b"h"[..]));
            assert!(change.field.starts_with(b"field"));
        }
        gone += progress.done;
        steps += 1;
    }
    assert_eq!((gone, ks.stats().expired_fields), (2000, 2000));
    assert!(steps < 40, "{steps}");
    assert_eq!(read(&ks, NOW + 2000, "h").map(|fields| fields.len()), Some(1000));
    assert_eq!(ks.expire_step(0, 20, NOW + 2000).expect("a commit").1.done, 0);
}

#[test]
fn a_hash_whose_fields_have_all_expired_is_gone() {
    for long in [false, true] {
        let ks = volatile(1, 64 << 20);
        filled(&ks, "h", 10, long);
        change(&ks, NOW, "h", &["field0"], FieldChange::Delete);
        assert!(read(&ks, NOW + 8, "h").is_some());
        assert_eq!(read(&ks, NOW + 9, "h"), None);
        let (txn, progress) = ks.expire_step(0, 20, NOW + 9).expect("a commit");
        let events: Vec<Event> = txn.changes().map(|change| change.event).collect();
        assert_eq!((progress.done, events), (1, vec![Event::Expired]));
        drop(txn);
        assert_eq!((ks.count(db(0)), counted(&ks), ks.stats().expired_fields), ((0, 0), (0, 0), 9));
        ks.check().expect("an intact keyspace");
    }
}

#[test]
fn what_takes_the_place_of_a_hash_has_no_fields() {
    let ks = volatile(1, 64 << 20);
    filled(&ks, "h", 5, false);
    write_at(&ks, NOW, &["h"], |txn| {
        let key = txn.key(b"h");
        txn.strings().set(db(0), &key, b"a string", Expire::Keep).expect("free memory");
    });
    assert_eq!((ks.count(db(0)), counted(&ks)), ((1, 0), (0, 0)));
    filled(&ks, "g", 5, true);
    write_at(&ks, NOW, &["g"], |txn| assert_eq!(txn.databases().flush(db(0)), Ok(2)));
    assert_eq!(counted(&ks), (0, 0));
    while common::goes_on() && ks.reclaim_step(0, 1000).expect("a commit").more {}
    ks.check().expect("an intact keyspace");
}

fn snapshot_of(ks: &Keyspace, walk: &mut SnapshotWalk<Snapshot>, key: &str) -> Fields {
    let (mut fields, mut items) = (Fields::new(), Vec::new());
    while common::goes_on() && walk.next(&mut items).expect("it is held") {
        for item in items.drain(..).filter(|item| item.key == key.as_bytes()) {
            let Content::Fields(more) = item.value else { panic!("fields") };
            for one in more {
                let text = |bytes| String::from_utf8(bytes).expect("text");
                fields.insert(text(one.field), (text(one.value), one.time));
            }
        }
    }
    ks.check().expect("an intact keyspace");
    fields
}

#[test]
fn a_pool_keeps_times_through_all_that_is_done_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pool");
    let ks = emulated(&file, 2);
    filled(&ks, "packed", 9, false);
    filled(&ks, "table", 500, true);
    let expected = ["packed", "table"].map(|key| read(&ks, NOW, key).expect("a hash"));
    let mut walk = ks.snapshot(|| ()).expect("nobody else reads").0.walk();
    change(&ks, NOW, "table", &["field7"], FieldChange::Delete);
    assert_eq!(snapshot_of(&ks, &mut walk, "table"), expected[1]);
    drop(walk);
    put(&ks, NOW, "table", &[("field7".into(), "7".into())], FieldTime::At(NOW + 7));
    for shard in 0..ks.shards() {
        let mut scrub = Scrub::default();
        while common::goes_on()
            && let (next, true) = ks.scrub_step(shard, scrub).expect("a commit")
        {
            scrub = next;
            assert_eq!(scrub.found, 0);
        }
        let mut at = Some(Defragmentation::default());
        while common::goes_on()
            && let Some(from) = at
        {
            at = ks.defragment_step(shard, from, 16).expect("a commit");
        }
    }
    drop(ks);
    let ks = emulated(&file, 2);
    ks.check().expect("an intact keyspace");
    for (key, expected) in ["packed", "table"].into_iter().zip(expected) {
        assert_eq!(read(&ks, NOW, key), Some(expected));
    }
    assert_eq!(counted(&ks), (0, 2));
}
