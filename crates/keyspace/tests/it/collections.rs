//! Sets and hashes of every form hold what was put into them, through all operations on keys.

use std::collections::BTreeMap;

use crate::common::maintenance::{
    flip, maintain, reclaim_all, reclaim_in_steps, remove_the_damaged_key,
};
use crate::common::{NOW, db, emulated, volatile, write};
use keyspace::{CheckError, Content, Encoding, Error, Expire, Keyspace, Limits, Type};

const LIMITS: Limits = Limits { entries: 16, value: 20 };
const KEYS: [&str; 4] = ["a", "b", "{a}1", "{b}1"];

/// Fields with values; the values of a set's members are empty.
type Fields = BTreeMap<String, String>;

#[derive(Clone, Debug, Default)]
struct Model(BTreeMap<(usize, &'static str), (Option<Type>, Fields)>);

fn put(ks: &Keyspace, key: &str, what: Type, pairs: &[(&str, &str)]) -> Result<usize, Error> {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let pairs = pairs.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes()));
        match what {
            Type::Set => txn.sets().add(db(0), &k, pairs.map(|(member, _)| member), LIMITS),
            _ => txn.hashes().put(db(0), &k, pairs, LIMITS),
        }
    })
}

fn remove(ks: &Keyspace, key: &str, what: Type, fields: &[&str]) -> Result<(usize, bool), Error> {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let fields = fields.iter().map(|field| field.as_bytes());
        match what {
            Type::Set => txn.sets().remove(db(0), &k, fields),
            _ => txn.hashes().remove(db(0), &k, fields),
        }
    })
}

fn encoding(ks: &Keyspace, key: &str) -> Encoding {
    let key = ks.key(key.as_bytes());
    let txn = ks.begin_one(key.shard(), NOW);
    txn.properties(&txn.peek(db(0), &key).expect("a key")).encoding()
}

/// Returns what a key holds, after comparing all ways of reading it.
fn read(ks: &Keyspace, number: usize, key: &str) -> Option<(Type, Fields)> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.find(db(number), &key)?;
    let what = txn.properties(&entry).value_type();
    let members = txn.members(&entry, what).expect("members");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut fields = Fields::new();
    let visited = members.visit(|field, value| {
        assert!(fields.insert(text(field), text(value)).is_none(), "a field came twice");
    });
    visited.expect("sound members");
    assert_eq!(fields.len() as u64, members.len());
    for (field, value) in &fields {
        let found = members.get(field.as_bytes()).expect("sound").expect("a field");
        assert_eq!(text(found.as_ref()), *value);
    }
    assert!(members.get(b"never there").expect("sound").is_none());
    let mut random = fastrand::Rng::with_seed(fields.len() as u64);
    let picked = members.random(|| random.u64(..)).expect("sound").expect("one of them");
    assert_eq!(fields.get(&text(picked.0.as_ref())), Some(&text(picked.1.as_ref())));
    let Content::Elements(kind, elements) = txn.content(&entry).expect("content") else {
        panic!("a string")
    };
    assert_eq!(
        (kind, elements.len()),
        (what, fields.len() * if what == Type::Set { 1 } else { 2 })
    );
    assert!(txn.properties(&entry).memory() > 0);
    Some((what, fields))
}

fn text(random: &mut fastrand::Rng) -> String {
    match random.u8(0..40) {
        0..16 => random.i64(-40..40).to_string(),
        16..36 => "word".repeat(random.usize(0..4)) + &random.u8(0..60).to_string(),
        36..39 => "long".repeat(random.usize(5..200)),
        _ => "very long".repeat(random.usize(1000..9000)),
    }
}

/// Does the same to a key in the keyspace and in the model, and compares the results.
fn step(ks: &Keyspace, model: &mut Model, random: &mut fastrand::Rng) {
    let key = KEYS[random.usize(0..KEYS.len())];
    let other = KEYS[random.usize(0..KEYS.len())];
    let what = if random.bool() { Type::Set } else { Type::Hash };
    let count = [1, 1, 2, 5, 70][random.usize(0..5)];
    let names: Vec<String> = (0..count).map(|_| text(random)).collect();
    let at = (0, key);
    let is = model.0.get(&at).and_then(|held| held.0);
    let wrong = is.is_some_and(|is| is != what);
    match random.u8(0..12) {
        0..6 => {
            let values: Vec<String> = names
                .iter()
                .map(|_| if what == Type::Set { String::new() } else { text(random) })
                .collect();
            let pairs: Vec<(&str, &str)> =
                names.iter().zip(&values).map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let done = put(ks, key, what, &pairs);
            if wrong {
                assert_eq!(done, Err(Error::WrongType));
                return;
            }
            let held = model.0.entry(at).or_default();
            held.0 = Some(what);
            let before = held.1.len();
            held.1.extend(pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())));
            assert_eq!(done, Ok(held.1.len() - before));
        }
        6..9 => {
            let mut fields: Vec<&str> = names.iter().map(String::as_str).collect();
            let own = model.0.get(&at).map(|held| held.1.keys().cloned().collect::<Vec<_>>());
            let own = own.unwrap_or_default();
            fields.extend(own.iter().take(count).map(String::as_str));
            let done = remove(ks, key, what, &fields);
            if wrong {
                assert_eq!(done, Err(Error::WrongType));
                return;
            }
            let Some(held) = model.0.get_mut(&at) else {
                assert_eq!(done, Ok((0, true)));
                return;
            };
            let before = held.1.len();
            fields.iter().for_each(|field| _ = held.1.remove(*field));
            assert_eq!(done, Ok((before - held.1.len(), held.1.is_empty())));
            if held.1.is_empty() {
                model.0.remove(&at);
            }
        }
        9 => {
            write(ks, &[key, other], |txn| {
                let (k, o) = (txn.key(key.as_bytes()), txn.key(other.as_bytes()));
                txn.keys().rename((db(0), &k), (db(0), &o)).expect("free memory");
            });
            if let Some(held) = model.0.remove(&at) {
                model.0.insert((0, other), held);
            }
        }
        10 => {
            let to = random.usize(0..2);
            write(ks, &[key, other], |txn| {
                let (k, o) = (txn.key(key.as_bytes()), txn.key(other.as_bytes()));
                txn.keys().copy((db(0), &k), (db(to), &o)).expect("free memory");
            });
            if let Some(held) = model.0.get(&at).cloned() {
                model.0.insert((to, other), held);
            }
        }
        _ => {
            write(ks, &[key], |txn| {
                let k = txn.key(key.as_bytes());
                match random.bool() {
                    true => txn.keys().delete(db(0), &k).map(|_| ()),
                    false => txn.strings().set(db(0), &k, b"a string", Expire::Clear),
                }
                .and_then(|()| txn.keys().delete(db(0), &k))
                .expect("free memory")
            });
            model.0.remove(&at);
        }
    }
}

fn compare(ks: &Keyspace, model: &Model) {
    ks.check().expect("a sound pool");
    for number in 0..2 {
        for key in KEYS {
            let expected = model.0.get(&(number, key)).cloned();
            let expected = expected.map(|(what, fields)| (what.expect("a type"), fields));
            let found = read(ks, number, key);
            assert!(found == expected, "{number}:{key}");
        }
    }
}

fn lives(ks: &Keyspace, seed: u64, steps: usize) {
    let (mut model, mut random) = (Model::default(), fastrand::Rng::with_seed(seed));
    for n in 0..steps {
        step(ks, &mut model, &mut random);
        if n % 40 == 39 {
            maintain(ks);
            compare(ks, &model);
        }
    }
    let _ = write(ks, &KEYS, |txn| txn.databases().flush(db(0)));
    reclaim_all(ks);
    ks.check().expect("a sound pool");
}

#[test]
fn sets_and_hashes_are_those_of_a_model_in_memory() {
    (0..3).for_each(|seed| lives(&volatile(2, 512 << 20), seed, 800));
}

#[test]
fn sets_and_hashes_are_those_of_a_model_in_a_pool() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    lives(&emulated(&folder.path().join("pool"), 2), 9, 600);
}

#[test]
fn encodings_follow_from_the_limits() {
    let ks = volatile(1, 64 << 20);
    let check = |key: &str, what, fields: &[(&str, &str)], expect| {
        put(&ks, key, what, fields).expect("free memory");
        assert_eq!(encoding(&ks, key), expect, "{key} {fields:?}");
    };
    check("ints", Type::Set, &[("1", ""), ("-5", "")], Encoding::Intset);
    check("ints", Type::Set, &[("+1", "")], Encoding::Hashtable);
    remove(&ks, "ints", Type::Set, &["+1"]).expect("free memory");
    assert_eq!(encoding(&ks, "ints"), Encoding::Hashtable, "it stays what it has become");
    let names: Vec<String> = (0..17).map(|n| n.to_string()).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "")).collect();
    check("sixteen", Type::Set, &many[..16], Encoding::Intset);
    check("seventeen", Type::Set, &many, Encoding::Hashtable);
    check("sixteen fields", Type::Hash, &many[..16], Encoding::Listpack);
    check("seventeen fields", Type::Hash, &many, Encoding::Hashtable);
    check("short", Type::Hash, &[("f", "12345678901234567890")], Encoding::Listpack);
    check("long value", Type::Hash, &[("f", "123456789012345678901")], Encoding::Hashtable);
    check("long field", Type::Hash, &[("123456789012345678901", "")], Encoding::Hashtable);
}

#[test]
fn integers_come_in_ascending_order_and_fields_in_that_of_their_coming() {
    let ks = volatile(1, 64 << 20);
    let order = |key: &str, what| {
        let k = ks.key(key.as_bytes());
        let mut txn = ks.begin_one(0, NOW);
        let entry = txn.find(db(0), &k).expect("a key");
        let mut order = Vec::new();
        let members = txn.members(&entry, what).expect("members");
        members
            .visit(|field, _| order.push(String::from_utf8_lossy(field).into_owned()))
            .expect("sound");
        order.join(" ")
    };
    let pairs = [("5", ""), ("-7", ""), ("300", ""), ("1", "")];
    put(&ks, "s", Type::Set, &pairs).expect("free memory");
    put(&ks, "h", Type::Hash, &pairs).expect("free memory");
    put(&ks, "h", Type::Hash, &[("-7", "new")]).expect("free memory");
    assert_eq!(order("s", Type::Set), "-7 1 5 300");
    assert_eq!(order("h", Type::Hash), "5 -7 300 1");
}

#[test]
fn a_damaged_member_costs_its_key_and_no_other() {
    for fields in [3, 500] {
        let folder = tempfile::tempdir().expect("a scratch directory");
        let file = folder.path().join("pool");
        let ks = emulated(&file, 1);
        let names: Vec<String> = (0..fields).map(|n| format!("field number {n}")).collect();
        for key in ["harmed", "whole"] {
            let value = format!("a value of {key}");
            let pairs: Vec<(&str, &str)> =
                names.iter().map(|name| (name.as_str(), value.as_str())).collect();
            put(&ks, key, Type::Hash, &pairs).expect("free memory");
        }
        let ks = flip(ks, &file, b"a value of harmed", 0);
        let refused = write(&ks, &["harmed"], |txn| {
            let key = txn.key(b"harmed");
            let entry = txn.find(db(0), &key).expect("a key");
            let members = txn.members(&entry, Type::Hash);
            members.and_then(|members| members.visit(|_, _| {}))
        });
        assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
        let others = remove_the_damaged_key(&ks);
        let lost = |problem: &CheckError| matches!(problem, CheckError::Lost { .. });
        assert!(others.iter().all(lost), "{others:?}");
        assert_eq!(read(&ks, 0, "harmed"), None);
        assert_eq!(read(&ks, 0, "whole").expect("a key").1.len(), fields);
    }
}

#[test]
fn a_large_hash_goes_at_once_and_is_freed_in_bounded_steps() {
    const FIELDS: usize = 20_000;
    const BUDGET: usize = 64;
    let ks = volatile(1, 64 << 20);
    let names: Vec<String> = (0..FIELDS).map(|n| format!("field number {n}")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "value")).collect();
    put(&ks, "large", Type::Hash, &pairs).expect("free memory");
    let full = ks.heap().used();
    write(&ks, &["large"], |txn| {
        let key = txn.key(b"large");
        assert_eq!(txn.keys().delete(db(0), &key), Ok(true));
    });
    assert!(full - ks.heap().used() < 1024, "the entry and the header alone go at once");
    // A home bucket is freed as a whole, which may exceed the budget.
    let (steps, freed) = reclaim_in_steps(&ks, BUDGET, 32);
    assert!(freed > FIELDS && steps > FIELDS / (BUDGET + 32), "{freed} blocks in {steps} steps");
    assert!(ks.heap().used() < full / 20);
}

/// A table whose count passed for 0 would lose its key with the next member that is removed.
#[test]
fn a_table_whose_number_of_members_cannot_be_read_is_not_changed() {
    for what in [Type::Hash, Type::Set] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        let fields: Vec<String> = (0..4321).map(|n| format!("field {n}")).collect();
        let ks = emulated(&path, 1);
        for field in &fields {
            put(&ks, "big", what, &[(field, "")]).expect("free memory");
        }
        let count = structures::self_checksummed::encode(4321).to_le_bytes();
        // The log, which precedes the blocks, may contain this word too.
        let ks = flip(ks, &path, &count, 1);
        let removed = remove(&ks, "big", what, &["field 7"]);
        assert!(matches!(removed, Err(Error::Damaged(_))), "{removed:?}");
        let added = put(&ks, "big", what, &[("another", "")]);
        assert!(matches!(added, Err(Error::Damaged(_))), "{added:?}");
        assert_eq!(ks.begin_all(NOW).database(db(0)).count(), 1, "the key is there");
    }
}
