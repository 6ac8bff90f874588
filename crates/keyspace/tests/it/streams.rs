//! Streams hold what was put into them, through all operations on keys.

use std::collections::BTreeMap;

use crate::common::maintenance::{
    flip, maintain, reclaim_all, reclaim_in_steps, remove_the_damaged_key,
};
use crate::common::{self, NOW, db, emulated, volatile, write};
use keyspace::{
    Content, Encoding, Error, Expire, Keyspace, StreamBound, StreamId, StreamLimits, StreamPart,
    StreamTrim, Type,
};

const KEYS: [&str; 4] = ["a", "b", "{a}1", "{b}1"];

type Model = BTreeMap<&'static str, BTreeMap<StreamId, String>>;

fn limits() -> StreamLimits {
    StreamLimits::new(1024, 20)
}

fn id(ms: u64) -> StreamId {
    StreamId { ms, seq: 0 }
}

fn add(ks: &Keyspace, key: &str, ms: u64, value: &str) -> Result<(), Error> {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        txn.streams()
            .edit(db(0), &k, |edit| edit.append(id(ms), &[b"field", value.as_bytes()], limits()))
    })
}

/// Returns what a key holds, after comparing all ways of reading it.
fn read(ks: &Keyspace, key: &str) -> Option<BTreeMap<StreamId, String>> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.find(db(0), &key)?;
    let properties = txn.properties(&entry);
    assert_eq!((properties.value_type(), properties.encoding()), (Type::Stream, Encoding::Stream));
    let stream = txn.stream(&entry).expect("a stream");
    let mut found = BTreeMap::new();
    for reversed in [false, true] {
        let mut count = 0;
        let all = StreamId::MIN..=StreamId::MAX;
        let done = stream.visit(all, reversed, |entry| {
            let (_, value) = entry.pairs().next().expect("a field");
            let value = String::from_utf8(value.as_ref().to_vec()).expect("text");
            let before = found.insert(entry.id(), value.clone());
            assert!(!reversed || before == Some(value));
            count += 1;
            true
        });
        done.expect("sound");
        assert_eq!((count, found.len() as u64), (stream.head().len, count));
    }
    assert!(properties.memory() > 0);
    let Content::Stream(parts) = txn.content(&entry).expect("sound") else { panic!("a stream") };
    assert_eq!(entries(&parts), found);
    Some(found)
}

fn entries(parts: &[StreamPart]) -> BTreeMap<StreamId, String> {
    let entry = |part: &StreamPart| match part {
        StreamPart::Entry(id, words) => {
            Some((*id, String::from_utf8(words[1].clone()).expect("text")))
        }
        _ => None,
    };
    parts.iter().filter_map(entry).collect()
}

fn value(random: &mut fastrand::Rng) -> String {
    match random.u8(0..40) {
        0..16 => random.i64(-4000..4000).to_string(),
        16..38 => "word".repeat(random.usize(0..30)),
        _ => "very long".repeat(random.usize(1000..9000)),
    }
}

/// Does the same to a key in the keyspace and in the model, and compares the results.
fn step(ks: &Keyspace, model: &mut Model, random: &mut fastrand::Rng, now: &mut u64) {
    let key = KEYS[random.usize(0..KEYS.len())];
    let other = KEYS[random.usize(0..KEYS.len())];
    match random.u8(0..20) {
        0..12 => {
            for _ in 0..[1, 5, 70][random.usize(0..3)] {
                *now += 1;
                let value = value(random);
                add(ks, key, *now, &value).expect("free memory");
                model.entry(key).or_default().insert(id(*now), value);
            }
        }
        12..16 => {
            let Some(held) = model.get_mut(key) else { return };
            let some: Vec<StreamId> =
                held.keys().copied().filter(|_| random.u8(0..6) == 0).collect();
            let deleted = write(ks, &[key], |txn| {
                let k = txn.key(key.as_bytes());
                txn.streams().edit(db(0), &k, |edit| Ok(edit.delete(&some)? as usize))
            });
            assert_eq!(deleted, Ok(some.len()));
            held.retain(|id, _| !some.contains(id));
        }
        16 => {
            let Some(held) = model.get_mut(key) else { return };
            let left = random.usize(0..=held.len());
            let trim =
                StreamTrim { bound: StreamBound::Len(left as u64), whole_nodes: false, most: 0 };
            let gone = write(ks, &[key], |txn| {
                let k = txn.key(key.as_bytes());
                txn.streams().edit(db(0), &k, |edit| edit.trim(trim))
            });
            assert_eq!(gone, Ok((held.len() - left) as u64));
            (0..held.len() - left).for_each(|_| drop(held.pop_first()));
        }
        17 | 18 if key != other => {
            write(ks, &[key, other], |txn| {
                let (k, o) = (txn.key(key.as_bytes()), txn.key(other.as_bytes()));
                txn.keys().delete(db(0), &o).expect("free memory");
                txn.keys().copy((db(0), &k), (db(0), &o)).expect("free memory");
            });
            match model.get(key).cloned() {
                Some(held) => model.insert(other, held),
                None => model.remove(other),
            };
        }
        _ => {
            model.remove(key);
            write(ks, &[key], |txn| {
                let k = txn.key(key.as_bytes());
                txn.strings().set(db(0), &k, b"a string", Expire::Clear).expect("free memory");
                let refused = txn.streams().edit(db(0), &k, |_| Ok(()));
                assert_eq!(refused, Err(Error::WrongType));
                txn.keys().delete(db(0), &k).expect("free memory");
            });
        }
    }
}

fn compare(ks: &Keyspace, model: &Model) {
    ks.check().expect("a sound pool");
    let mut walk = ks.snapshot(|| ()).expect("a cut").0.walk();
    let (mut items, mut taken) = (Vec::new(), BTreeMap::<Vec<u8>, Vec<StreamPart>>::new());
    while common::goes_on() && walk.next(&mut items).expect("it is held") {
        for item in items.drain(..) {
            let Content::Stream(more) = item.value else { panic!("a stream") };
            taken.entry(item.key).or_default().extend(more);
        }
    }
    for key in KEYS {
        assert!(read(ks, key).as_ref() == model.get(key), "{key}");
        let taken = taken.get(key.as_bytes()).map(|parts| entries(parts));
        assert!(taken.as_ref() == model.get(key), "{key} in a snapshot");
    }
}

fn lives(ks: &Keyspace, seed: u64, steps: usize) {
    let (mut model, mut random, mut now) = (Model::new(), fastrand::Rng::with_seed(seed), 1);
    for n in 0..steps {
        step(ks, &mut model, &mut random, &mut now);
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
fn streams_are_those_of_a_model_in_memory() {
    (0..3).for_each(|seed| lives(&volatile(2, 512 << 20), seed, 400));
}

#[test]
fn streams_are_those_of_a_model_in_a_pool() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    lives(&emulated(&folder.path().join("pool"), 2), 9, 300);
}

#[test]
fn a_damaged_entry_costs_its_key_and_no_other() {
    for count in [3, 2000] {
        let folder = tempfile::tempdir().expect("a scratch directory");
        let file = folder.path().join("pool");
        let ks = emulated(&file, 1);
        for key in ["harmed", "whole"] {
            (1..=count)
                .for_each(|n| add(&ks, key, n, &format!("{n} of {key}")).expect("free memory"));
        }
        let wanted = format!("{} of harmed", count / 2);
        let ks = flip(ks, &file, wanted.as_bytes(), 0);
        let refused = write(&ks, &["harmed"], |txn| {
            let key = txn.key(b"harmed");
            let entry = txn.find(db(0), &key).expect("a key");
            let all = StreamId::MIN..=StreamId::MAX;
            txn.stream(&entry).and_then(|stream| stream.visit(all, false, |_| true))
        });
        assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
        remove_the_damaged_key(&ks);
        assert_eq!(read(&ks, "harmed"), None);
        assert_eq!(read(&ks, "whole").expect("a key").len() as u64, count);
    }
}

#[test]
fn a_long_stream_is_deleted_in_bounded_steps() {
    let ks = volatile(1, 256 << 20);
    (1..=30_000).for_each(|n| add(&ks, "a", n, "an entry of some length").expect("free memory"));
    write(&ks, &["a"], |txn| {
        let key = txn.key(b"a");
        txn.keys().delete(db(0), &key).expect("free memory");
    });
    assert_eq!(read(&ks, "a"), None);
    let (steps, _) = reclaim_in_steps(&ks, 50, 40);
    assert!(steps > 15, "{steps}");
}
