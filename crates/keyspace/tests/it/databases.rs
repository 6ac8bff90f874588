//! Operations on whole databases: they are counted, walked, emptied and swapped.

use std::collections::{HashMap, HashSet};

use crate::common::{self, NOW, check, db, get, set, set_until, volatile, write};
use keyspace::{Expire, Keyspace};

fn filled(keys: usize) -> Keyspace {
    let ks = volatile(4, 64 << 20);
    for i in 0..keys {
        set(&ks, &format!("key:{i}"), "v");
    }
    ks
}

fn scan(ks: &Keyspace, count: usize, mut between: impl FnMut(usize)) -> HashMap<String, usize> {
    let mut seen = HashMap::new();
    let (mut cursor, mut round) = (0, 0);
    loop {
        common::goes_on();
        let txn = ks.begin_one(ks.scan_shard(cursor), NOW);
        cursor = txn.database(db(0)).scan(cursor, count, &mut |key, _| {
            *seen.entry(String::from_utf8_lossy(key).into_owned()).or_default() += 1;
        });
        drop(txn);
        if cursor == 0 {
            return seen;
        }
        between(round);
        round += 1;
    }
}

#[test]
fn a_scan_meets_every_key_once_while_nothing_changes() {
    let ks = filled(1000);
    for count in [1, 10, 1000] {
        let seen = scan(&ks, count, |_| {});
        assert_eq!(seen.len(), 1000);
        assert!(seen.values().all(|&times| times == 1));
    }
}

#[test]
fn a_scan_meets_every_key_that_stays_while_others_come_and_go() {
    let ks = filled(1000);
    let seen = scan(&ks, 10, |round| {
        for i in 0..if round < 50 { 200 } else { 0 } {
            set(&ks, &format!("new:{round}:{i}"), "v");
        }
        if round < 100 {
            let gone = format!("new:{}:7", round / 2);
            write(&ks, &[&gone], |txn| {
                let key = txn.key(gone.as_bytes());
                txn.keys().delete(db(0), &key).expect("free memory");
            });
        }
    });
    assert!((0..1000).all(|i| seen.contains_key(&format!("key:{i}"))));
}

#[test]
fn a_cursor_that_no_scan_gave_ends_the_scan() {
    let ks = filled(10);
    for cursor in [u64::MAX, 1 << 63, 77 << 47] {
        let txn = ks.begin_one(ks.scan_shard(cursor), NOW);
        let mut visited = 0;
        txn.database(db(0)).scan(cursor, 10, &mut |_, _| visited += 1);
        assert!(visited <= 10);
    }
}

#[test]
fn every_key_is_walked_and_picked_unless_it_expired() {
    let ks = filled(200);
    for i in 0..100 {
        set_until(&ks, &format!("key:{i}"), "v", Expire::At(NOW));
    }
    let txn = ks.begin_all(NOW);
    let mut walked = HashSet::new();
    txn.database(db(0)).for_each(&mut |key, _| assert!(walked.insert(key.to_vec())));
    assert_eq!(
        (walked.len(), txn.database(db(0)).count(), txn.database(db(0)).count_expiring()),
        (100, 200, 100)
    );
    let mut random = fastrand::Rng::with_seed(7);
    let picked: HashSet<_> =
        (0..2000).filter_map(|_| txn.database(db(0)).random_key(&mut || random.u64(..))).collect();
    assert!(picked.len() > 90 && picked.is_subset(&walked), "{} picked", picked.len());
    assert_eq!(txn.database(db(1)).random_key(&mut || 5), None);
}

#[test]
fn the_last_key_is_picked_among_expired_ones() {
    let ks = volatile(4, 64 << 20);
    for i in 0..500 {
        set_until(&ks, &format!("gone:{i}"), "v", Expire::At(NOW));
    }
    set(&ks, "here", "v");
    let txn = ks.begin_all(NOW);
    let mut random = fastrand::Rng::with_seed(7);
    assert_eq!(txn.database(db(0)).random_key(&mut || random.u64(..)), Some(b"here".to_vec()));
}

#[test]
fn a_flushed_database_is_empty_at_once_and_its_memory_is_freed() {
    let ks = volatile(4, 64 << 20);
    let before = ks.heap().used();
    for i in 0..2000 {
        set_until(&ks, &format!("key:{i}"), "v", Expire::At(NOW + 1));
    }
    set(&ks, "large", &"x".repeat(1 << 20));
    let mut txn = ks.begin_all(NOW);
    assert_eq!(txn.databases().flush(db(0)), Ok(2001));
    txn.commit().expect("a commit");
    drop(txn);
    assert_eq!(ks.count(db(0)), (0, 0));
    check(&ks, "key:5", None);
    set(&ks, "key:5", "new");
    for shard in 0..ks.shards() {
        while common::goes_on() && ks.reclaim_step(shard, 64).expect("a commit").more {}
        assert!(!ks.has_garbage(shard));
    }
    check(&ks, "key:5", Some("new"));
    write(&ks, &["key:5"], |txn| {
        let key = txn.key(b"key:5");
        txn.keys().delete(db(0), &key).expect("free memory");
    });
    // The index of the new key, which has one segment, stays.
    assert!(ks.heap().used() - before <= 8192, "{} bytes", ks.heap().used() - before);
}

#[test]
fn swapped_databases_change_places_and_back() {
    let ks = filled(10);
    let swap = |a, b| {
        let mut txn = ks.begin_all(NOW);
        txn.databases().swap(db(a), db(b)).expect("free memory");
        txn.commit().expect("a commit");
    };
    swap(0, 3);
    assert_eq!((ks.count(db(0)).0, ks.count(db(3)).0), (0, 10));
    assert_eq!(get(&ks, NOW, 3, "key:1").as_deref(), Some("v"));
    swap(3, 15);
    assert_eq!(get(&ks, NOW, 15, "key:1").as_deref(), Some("v"));
    swap(15, 15);
    swap(0, 15);
    check(&ks, "key:1", Some("v"));
}

#[test]
fn a_swap_that_is_rolled_back_did_not_happen() {
    let ks = filled(10);
    let mut txn = ks.begin_all(NOW);
    let savepoint = txn.savepoint();
    txn.databases().swap(db(0), db(1)).expect("free memory");
    assert_eq!(txn.database(db(1)).count(), 10);
    txn.rollback_to(savepoint);
    assert_eq!(txn.database(db(1)).count(), 0);
    txn.commit().expect("a commit");
    drop(txn);
    check(&ks, "key:1", Some("v"));
}
