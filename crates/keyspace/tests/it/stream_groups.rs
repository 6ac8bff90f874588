//! Consumer groups follow their streams: into copies, snapshots, other shards and spans, and into
//! the free queue.

use std::collections::BTreeMap;
use std::fs;

use crate::common::maintenance::{
    flip, maintain, reclaim_all, reclaim_in_steps, remove_the_damaged_key,
};
use crate::common::{self, NOW, db, emulated, volatile, write};
use keyspace::{Content, Error, Keyspace, StreamDelivery, StreamId, StreamLimits, StreamPart};

/// In a keyspace of two shards, the first and the third key are in one, the second and the last in
/// the other.
const KEYS: [&str; 4] = ["a", "b", "{a}1", "{b}1"];
const GROUPS: [&str; 3] = ["group", "group 2", "another"];
const CONSUMERS: [&str; 3] = ["alice", "alice in chains", "bob"];

fn id(ms: u64) -> StreamId {
    StreamId { ms, seq: 0 }
}

fn add(ks: &Keyspace, key: &str, ms: u64) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        let limits = StreamLimits::new(1024, 20);
        txn.streams().edit(db(0), &key, |edit| edit.append(id(ms), &[b"field", b"value"], limits))
    })
    .expect("free memory");
}

/// Delivers some IDs to a consumer of a group, and creates both if needed.
fn deliver(ks: &Keyspace, key: &str, group: &str, consumer: &str, ids: &[u64], now: u64) {
    write(ks, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        txn.streams().edit(db(0), &key, |edit| {
            edit.create_group(group.as_bytes(), id(1), None)?;
            let mut group = edit.read().group(group.as_bytes())?.expect("a group");
            group.last = group.last.max(id(now));
            group.read = Some(now);
            edit.save_group(&mut group);
            let (consumer, _) = edit.see_consumer(&group, consumer.as_bytes(), now, true)?;
            ids.iter().try_for_each(|ms| {
                edit.deliver(&group, &consumer, id(*ms), StreamDelivery { at_ms: now, count: 3 })
            })
        })
    })
    .expect("free memory");
}

fn content(ks: &Keyspace, key: &str) -> Option<Vec<StreamPart>> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.find(db(0), &key)?;
    assert!(txn.properties(&entry).memory() > 0);
    match txn.content(&entry) {
        Ok(Content::Stream(parts)) => Some(parts),
        other => panic!("{other:?}"),
    }
}

fn snapshot(ks: &Keyspace) -> BTreeMap<String, Vec<StreamPart>> {
    let mut walk = ks.snapshot(|| ()).expect("a cut").0.walk();
    let (mut items, mut taken) = (Vec::new(), BTreeMap::<String, Vec<StreamPart>>::new());
    while common::goes_on() && walk.next(&mut items).expect("it is held") {
        for item in items.drain(..) {
            let Content::Stream(more) = item.value else { panic!("a stream") };
            taken.entry(String::from_utf8(item.key).expect("text")).or_default().extend(more);
        }
    }
    taken
}

fn all(ks: &Keyspace) -> BTreeMap<String, Vec<StreamPart>> {
    let content = |key: &&str| Some((key.to_string(), content(ks, key)?));
    KEYS.iter().filter_map(content).collect()
}

fn step(ks: &Keyspace, random: &mut fastrand::Rng, now: u64) {
    let (key, other) = (KEYS[random.usize(0..4)], KEYS[random.usize(0..4)]);
    let group = GROUPS[random.usize(0..3)];
    let consumer = CONSUMERS[random.usize(0..3)];
    match random.u8(0..20) {
        0..4 => (0..random.u64(1..30)).for_each(|n| add(ks, key, 1000 * now + n)),
        4..13 => {
            let count = [1, 100][random.usize(0..2)];
            let ids: Vec<u64> = (0..count).map(|_| random.u64(1..900)).collect();
            deliver(ks, key, group, consumer, &ids, now);
        }
        13..16 if content(ks, key).is_some() => {
            let before = content(ks, key).map_or(0, |parts| pending(&parts));
            let gone = write(ks, &[key], |txn| {
                let key = txn.key(key.as_bytes());
                txn.streams().edit(db(0), &key, |edit| {
                    let Some(found) = edit.read().group(group.as_bytes())? else { return Ok(0) };
                    let gone = edit.drop_consumer(&found, consumer.as_bytes())?.unwrap_or(0);
                    (1..300).try_fold(gone as usize, |gone, ms| {
                        Ok(gone + usize::from(edit.acknowledge(&found, id(ms))?))
                    })
                })
            });
            let after = content(ks, key).map_or(0, |parts| pending(&parts));
            assert_eq!(gone, Ok(before - after));
        }
        16 if content(ks, key).is_some() => {
            let dropped = write(ks, &[key], |txn| {
                let key = txn.key(key.as_bytes());
                txn.streams().edit(db(0), &key, |edit| edit.drop_group(group.as_bytes()))
            });
            assert!(dropped.is_ok());
        }
        17 | 18 if key != other => {
            let source = content(ks, key);
            let renames = random.bool();
            write(ks, &[key, other], |txn| {
                let (k, o) = (txn.key(key.as_bytes()), txn.key(other.as_bytes()));
                txn.keys().delete(db(0), &o).expect("free memory");
                match renames {
                    true => txn.keys().rename((db(0), &k), (db(0), &o)).expect("free memory"),
                    false => txn.keys().copy((db(0), &k), (db(0), &o)).expect("free memory"),
                }
            });
            assert_eq!(content(ks, other), source);
        }
        19 => {
            write(ks, &[key], |txn| {
                let key = txn.key(key.as_bytes());
                txn.keys().delete(db(0), &key).expect("free memory");
            });
        }
        _ => drop(ks.reclaim_step(random.usize(0..ks.shards()), 9).expect("a step")),
    }
}

fn pending(parts: &[StreamPart]) -> usize {
    parts.iter().filter(|part| matches!(part, StreamPart::Pending { .. })).count()
}

fn lives(ks: &Keyspace, seed: u64, steps: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut most = 0;
    for n in 1..=steps {
        step(ks, &mut random, n);
        if n % 25 == 0 {
            let before = all(ks);
            most = most.max(before.values().map(|parts| pending(parts)).sum());
            maintain(ks);
            ks.check().expect("a sound pool");
            assert_eq!(all(ks), before);
            assert_eq!(snapshot(ks), before);
        }
    }
    assert!(most > 300, "{most}");
    write(ks, &KEYS, |txn| txn.databases().flush(db(0))).expect("free memory");
    reclaim_all(ks);
    ks.check().expect("a sound pool");
}

#[test]
fn groups_go_with_their_streams() {
    (0..3).for_each(|seed| lives(&volatile(2, 512 << 20), seed, 300));
}

#[test]
fn groups_go_with_their_streams_in_a_pool() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    lives(&emulated(&folder.path().join("pool"), 2), 9, 200);
}

#[test]
fn groups_are_there_when_a_pool_is_opened_again() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    let file = folder.path().join("pool");
    let ks = emulated(&file, 2);
    add(&ks, "a", 5);
    deliver(&ks, "a", "group", "alice", &(1..200).collect::<Vec<u64>>(), 7);
    let before = all(&ks);
    ks.heap().close().expect("a clean close");
    drop(ks);
    assert_eq!(all(&emulated(&file, 2)), before);
}

#[test]
fn a_stream_of_many_pending_entries_is_deleted_in_bounded_steps() {
    let ks = volatile(1, 256 << 20);
    for n in 0..40 {
        let ids: Vec<u64> = (1000 * n..1000 * (n + 1)).collect();
        deliver(&ks, "a", "group", CONSUMERS[n as usize % 3], &ids, 1);
    }
    write(&ks, &["a"], |txn| {
        let key = txn.key(b"a");
        txn.keys().delete(db(0), &key).expect("free memory");
    });
    let (steps, _) = reclaim_in_steps(&ks, 50, 40);
    assert!(steps > 400, "{steps}");
}

#[test]
fn a_damaged_group_costs_its_key_and_no_other() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    let file = folder.path().join("pool");
    for what in ["a consumer of harmed", "a group of harmed"] {
        fs::remove_file(&file).ok();
        let ks = emulated(&file, 1);
        for key in ["harmed", "whole"] {
            let (group, consumer) = (format!("a group of {key}"), format!("a consumer of {key}"));
            deliver(&ks, key, &group, &consumer, &[1, 2, 3], 7);
        }
        let ks = flip(ks, &file, what.as_bytes(), 12);
        let refused = write(&ks, &["harmed"], |txn| {
            let key = txn.key(b"harmed");
            let entry = txn.find(db(0), &key).expect("a key");
            let stream = txn.stream(&entry)?;
            for (_, group) in stream.groups()? {
                stream.consumers(&group)?;
            }
            Ok(())
        });
        assert!(matches!(refused, Err(Error::Damaged(_))), "{what}: {refused:?}");
        remove_the_damaged_key(&ks);
        assert_eq!(content(&ks, "harmed"), None);
        assert!(content(&ks, "whole").is_some());
    }
}
