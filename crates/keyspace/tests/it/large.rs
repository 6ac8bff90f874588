//! Large strings are written before their shard is locked, and read after it is unlocked. A
//! prepared string that is not set takes no space.

use crate::common::{self, NOW, check, db, emulated, set, volatile};
use keyspace::{Error, Expire, Keyspace};

fn set_prepared(ks: &Keyspace, key: &str, value: &str) {
    let key = ks.key(key.as_bytes());
    let prepared = ks.prepare(&key, value.as_bytes()).expect("free memory");
    let mut txn = ks.begin_one(key.shard(), NOW);
    txn.strings().set_prepared(db(0), &key, prepared, Expire::Clear).expect("free memory");
    txn.commit().expect("a commit");
}

fn text(byte: u8, len: usize) -> String {
    (0..len).map(|i| char::from(b'a' + (byte as usize + i / 1000) as u8 % 26)).collect()
}

#[test]
fn a_prepared_string_is_set_as_any_other() {
    let ks = volatile(2, 64 << 20);
    for len in [4097, 32 << 10, 65_536, 70_000, 3 << 20] {
        for key in ["new", "over"] {
            set(&ks, "over", &text(1, 100_000));
            set_prepared(&ks, key, &text(2, len));
            check(&ks, key, Some(&text(2, len)));
        }
    }
    ks.check().expect("an intact keyspace");
}

#[test]
fn what_was_prepared_and_not_set_takes_no_space() {
    let ks = volatile(2, 64 << 20);
    set(&ks, "k", "v");
    let used = ks.heap().used();
    let value = text(1, 1 << 20);
    let key = ks.key(b"k");
    drop(ks.prepare(&key, value.as_bytes()).expect("free memory"));
    let attach = |commit: bool| {
        let prepared = ks.prepare(&key, value.as_bytes()).expect("free memory");
        let mut txn = ks.begin_one(key.shard(), NOW);
        let savepoint = txn.savepoint();
        txn.strings().set_prepared(db(0), &key, prepared, Expire::Clear).expect("free memory");
        if commit {
            txn.rollback_to(savepoint);
            txn.commit().expect("a commit");
        }
    };
    attach(false);
    attach(true);
    assert_eq!(ks.heap().used(), used);
    check(&ks, "k", Some("v"));
    ks.check().expect("an intact keyspace");
    set_prepared(&ks, "k", &value);
    check(&ks, "k", Some(&value));
}

#[test]
fn a_string_that_fits_nowhere_is_refused_before_the_lock() {
    let ks = volatile(1, 1);
    let key = ks.key(b"k");
    let huge = text(1, 256 << 20);
    assert_eq!(ks.prepare(&key, huge.as_bytes()).err(), Some(Error::Full));
    set(&ks, "k", &text(2, 1 << 20));
    ks.check().expect("an intact keyspace");
}

#[test]
fn a_pinned_string_reads_as_it_was() {
    let ks = volatile(1, 64 << 20);
    let value = text(1, 500_000);
    set(&ks, "k", &value);
    let pinned = {
        let key = ks.key(b"k");
        let mut txn = ks.begin_one(0, NOW);
        let entry = txn.find(db(0), &key).expect("the key");
        txn.strings().pin(&entry).expect("a string")
    };
    for round in 0..20 {
        set_prepared(&ks, "k", &text(round, 400_000));
        set(&ks, "other", &text(round, 300_000));
        while common::goes_on() && ks.reclaim_step(0, 100).expect("a commit").more {}
    }
    let mut read = Vec::new();
    pinned.append_to(&mut read);
    assert!(read == value.as_bytes(), "the pinned string changed");
}

#[test]
fn a_prepared_string_costs_two_fences() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 1);
    let value = text(1, 200_000);
    set_prepared(&ks, "k", &value);
    let before = pmem::counters();
    set_prepared(&ks, "k", &value);
    assert_eq!(pmem::counters().since(&before).fences, 2);
}

#[test]
fn values_that_are_freed_in_the_background_are_counted_once_they_are() {
    let ks = volatile(1, 64 << 20);
    let counted = || (ks.stats().lazy_free_pending, ks.stats().lazily_freed);
    for key in ["a", "b", "c"] {
        set(&ks, key, &text(1, 3 << 20));
    }
    set(&ks, "small", "v");
    let delete = |key: &str, commit: bool| {
        let key = ks.key(key.as_bytes());
        let mut txn = ks.begin_one(0, NOW);
        let savepoint = txn.savepoint();
        txn.keys().delete(db(0), &key).expect("free memory");
        if !commit {
            txn.rollback_to(savepoint);
        }
        txn.commit().expect("a commit");
    };
    delete("a", false);
    delete("small", true);
    assert_eq!(counted(), (0, 0));
    delete("a", true);
    // A replaced value counts too.
    set(&ks, "b", "v");
    assert_eq!(counted(), (2, 0));
    while common::goes_on() && ks.reclaim_step(0, 100).expect("a commit").more {
        assert_eq!(counted().1, 0);
    }
    assert_eq!(counted(), (0, 2));
    let mut txn = ks.begin_all(NOW);
    txn.databases().flush(db(0)).expect("free memory");
    txn.commit().expect("a commit");
    drop(txn);
    assert_eq!(counted(), (2, 2));
    while common::goes_on() && ks.reclaim_step(0, 100).expect("a commit").more {}
    assert_eq!(counted(), (0, 4));
    ks.reset_stats();
    assert_eq!(counted(), (0, 0));
}
