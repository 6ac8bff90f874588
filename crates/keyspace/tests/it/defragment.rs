//! Defragmentation frees the spans that deletes left nearly empty, and changes nothing else.

use std::collections::BTreeMap;

use crate::common::{self, NOW, db, set, set_until, volatile, write};
use keyspace::{Compacted, Compaction, Defragmentation, Expire, Keyspace};

fn contents(ks: &Keyspace) -> BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)> {
    let txn = ks.begin_all(NOW);
    let mut all = BTreeMap::new();
    txn.database(db(0)).for_each(&mut |key, entry| {
        let value = txn.string(entry).and_then(|value| value.to_vec()).expect("a string");
        all.insert(key.to_vec(), (value, txn.properties(entry).expiry()));
    });
    all
}

/// Returns a keyspace in which about one in five of many keys, with every kind of string, is left.
fn sparse() -> Keyspace {
    let ks = volatile(2, 256 << 20);
    fill_sparsely(&ks);
    ks
}

fn name(i: usize) -> String {
    if i.is_multiple_of(500) { "k".repeat(40_000 + i) } else { format!("key:{i}") }
}

/// Deletes a key, if it exists.
fn remove(ks: &Keyspace, i: usize) {
    write(ks, &[&name(i)], |txn| {
        let name = name(i);
        let key = txn.key(name.as_bytes());
        txn.keys().delete(db(0), &key).expect("free memory");
    });
}

fn fill_sparsely(ks: &Keyspace) {
    let value = |i: usize| match i % 4 {
        0 => i.to_string(),
        1 => "x".repeat(20 + 40 * (i / 4 % 2)),
        2 => "y".repeat(3000),
        _ => "z".repeat(9000),
    };
    for i in 0..6000 {
        let expire = if i % 3 == 0 { Expire::At(NOW + 1000) } else { Expire::Clear };
        set_until(ks, &name(i), &value(i), expire);
    }
    (0..6000).filter(|i| i % 8 != 0 && i % 11 != 0).for_each(|i| remove(ks, i));
}

fn defragment(ks: &Keyspace, rounds: usize) -> u64 {
    let mut moved = 0;
    for shard in 0..ks.shards() {
        for _ in 0..rounds {
            let mut at = Some(Defragmentation::default());
            while common::goes_on()
                && let Some(from) = at
            {
                at = ks.defragment_step(shard, from, 16).expect("a commit");
                moved += at.map_or(0, |to| to.moved - from.moved);
            }
        }
    }
    moved
}

#[test]
fn everything_is_as_before_in_fewer_spans() {
    let ks = sparse();
    let before = contents(&ks);
    let moved = defragment(&ks, 3);
    assert!(moved > 100, "{moved} moved");
    assert_eq!(contents(&ks), before);
    ks.check().expect("an intact keyspace");
    assert!(defragment(&ks, 1) < moved / 10, "it comes to rest");
    for i in 0..2000 {
        set(&ks, &format!("other:{i}"), &"w".repeat(700));
    }
    ks.check().expect("an intact keyspace");
}

#[test]
fn space_of_one_size_serves_another_afterwards() {
    let fill = |ks: &Keyspace, prefix: &str, len: usize| {
        let value = vec![b'v'; len];
        let mut set = 0;
        loop {
            common::goes_on();
            let name = format!("{prefix}:{set}");
            let key = ks.key(name.as_bytes());
            let mut txn = ks.begin_one(0, NOW);
            if txn.strings().set(db(0), &key, &value, Expire::Clear).is_err() {
                return set;
            }
            txn.commit().expect("a commit");
            set += 1;
        }
    };
    let after_deletes = |defragmented: bool| {
        let ks = volatile(1, 1);
        let keys = fill(&ks, "small", 32);
        for i in (0..keys).filter(|i| i % 8 != 0) {
            let name = format!("small:{i}");
            write(&ks, &[&name], |txn| {
                let key = txn.key(name.as_bytes());
                txn.keys().delete(db(0), &key).expect("free memory");
            });
        }
        if defragmented {
            defragment(&ks, 3);
        }
        fill(&ks, "large", 3000)
    };
    let (without, with) = (after_deletes(false), after_deletes(true));
    assert!(with > 2 * without + 200, "{without} large values fit without, {with} with");
}

/// Compacts until nothing is left to do. Returns how many spans this freed.
fn compact(ks: &Keyspace) -> usize {
    let (mut at, mut freed) = (Compaction::default(), 0);
    loop {
        common::goes_on();
        match ks.compact_step(&mut at).expect("a step") {
            Compacted::Freed(spans) => freed += spans,
            Compacted::More => {}
            Compacted::Nothing => return freed,
        }
    }
}

#[test]
fn compaction_keeps_everything_in_fewer_spans_also_after_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pool");
    let mut ks = common::emulated(&file, 2);
    fill_sparsely(&ks);
    for reopened in [false, true] {
        if reopened {
            ks.heap().close().expect("a clean close");
            drop(ks);
            ks = common::emulated(&file, 2);
            for i in (0..6000).filter(|i| i % 5 != 0) {
                remove(&ks, i);
            }
        }
        let (before, taken) = (contents(&ks), ks.heap().available());
        let freed = compact(&ks);
        assert_eq!(contents(&ks), before);
        ks.check().expect("an intact keyspace");
        // Spans that the cursor of the free spans has not reached count as available.
        let gained = (ks.heap().available().saturating_sub(taken)) >> 16;
        let least = if reopened { 2 } else { 100 };
        assert!(freed > least && (reopened || gained > least as u64), "{freed} spans, {gained}");
        let more = compact(&ks);
        assert!(more <= 4, "it comes to rest, but {more} spans were left");
    }
}

#[test]
fn a_compaction_that_is_left_in_the_middle_hinders_nobody() {
    let ks = sparse();
    for steps in [1, 3, 10, 40] {
        let mut at = Compaction::default();
        for _ in 0..steps {
            ks.compact_step(&mut at).expect("a step");
        }
        for i in 0..300 {
            set(&ks, &format!("other:{steps}:{i}"), &"w".repeat(20 + i));
        }
        ks.check().expect("an intact keyspace");
    }
    let before = contents(&ks);
    compact(&ks);
    assert_eq!(contents(&ks), before);
    ks.check().expect("an intact keyspace");
}
