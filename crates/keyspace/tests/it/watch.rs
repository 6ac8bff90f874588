//! A watch breaks when its key changes, and only then; the cases are Redis's.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::common::{NOW, db, get, set, set_until, volatile, write, write_at};
use keyspace::{Expire, Keyspace, Watch};

fn watch_at(ks: &Keyspace, now: u64, number: usize, key: &str) -> Watch {
    let key = ks.key(key.as_bytes());
    let flag = Arc::new(AtomicBool::new(false));
    ks.begin_one(key.shard(), now).watch(db(number), &key, &flag).expect("a new watch")
}

fn watch(ks: &Keyspace, key: &str) -> Watch {
    watch_at(ks, NOW, 0, key)
}

fn has_expired(ks: &Keyspace, now: u64, watch: &Watch) -> bool {
    let key = ks.key(watch.key());
    ks.begin_one(key.shard(), now).has_expired(watch)
}

fn delete(ks: &Keyspace, now: u64, key: &str) {
    write_at(ks, now, &[key], |txn| {
        let key = txn.key(key.as_bytes());
        txn.keys().delete(db(0), &key).expect("free memory");
    });
}

fn all(ks: &Keyspace, work: impl FnOnce(&mut keyspace::Txn<'_>)) {
    let mut txn = ks.begin_all(NOW);
    work(&mut txn);
    txn.commit().expect("a commit");
}

#[test]
fn a_write_breaks_the_watches_of_its_key_only() {
    let ks = volatile(4, 32 << 20);
    let (hit, also, missed) = (watch(&ks, "k"), watch(&ks, "k"), watch(&ks, "other"));
    let elsewhere = watch_at(&ks, NOW, 1, "k");
    assert_eq!(get(&ks, NOW, 0, "k"), None);
    assert!(!hit.is_broken());
    set(&ks, "k", "v");
    assert!(hit.is_broken() && also.is_broken());
    assert!(!missed.is_broken() && !elsewhere.is_broken());
    ks.unwatch(hit);
    ks.unwatch(also);
}

#[test]
fn what_is_rolled_back_or_dropped_breaks_nothing() {
    let ks = volatile(4, 32 << 20);
    let watched = watch(&ks, "k");
    write(&ks, &["k"], |txn| {
        let key = txn.key(b"k");
        let savepoint = txn.savepoint();
        txn.strings().set(db(0), &key, b"v", Expire::Clear).expect("free memory");
        txn.rollback_to(savepoint);
    });
    let key = ks.key(b"k");
    ks.begin_one(key.shard(), NOW)
        .strings()
        .set(db(0), &key, b"v", Expire::Clear)
        .expect("free memory");
    assert!(!watched.is_broken());
}

#[test]
fn a_key_that_expires_while_watched_breaks_the_watch() {
    let ks = volatile(4, 32 << 20);
    set_until(&ks, "k", "v", Expire::At(NOW + 5));
    let watched = watch(&ks, "k");
    assert!(!has_expired(&ks, NOW + 4, &watched) && has_expired(&ks, NOW + 5, &watched));
    delete(&ks, NOW + 5, "k");
    assert!(watched.is_broken());
}

#[test]
fn a_key_that_had_expired_may_be_deleted_but_not_written() {
    let ks = volatile(4, 32 << 20);
    set_until(&ks, "k", "v", Expire::At(NOW + 5));
    let watched = watch_at(&ks, NOW + 6, 0, "k");
    assert!(!has_expired(&ks, NOW + 6, &watched));
    delete(&ks, NOW + 6, "k");
    assert!(!watched.is_broken() && !has_expired(&ks, NOW + 6, &watched));
    set(&ks, "k", "v");
    assert!(watched.is_broken());
}

#[test]
fn active_expiry_breaks_a_watch() {
    let ks = volatile(1, 32 << 20);
    set_until(&ks, "k", "v", Expire::At(NOW + 5));
    let watched = watch(&ks, "k");
    let (txn, progress) = ks.expire_step(0, 100, NOW + 5).expect("a commit");
    assert_eq!((txn.changes().count(), progress.done), (1, 1));
    assert!(watched.is_broken());
}

#[test]
fn emptying_a_database_breaks_the_watches_of_keys_that_were_there() {
    let ks = volatile(4, 32 << 20);
    set(&ks, "here", "v");
    let (here, absent) = (watch(&ks, "here"), watch(&ks, "absent"));
    all(&ks, |txn| {
        txn.databases().flush(db(0)).expect("free memory");
    });
    assert!(here.is_broken() && !absent.is_broken());
}

#[test]
fn a_swap_breaks_the_watches_of_keys_on_either_side() {
    let ks = volatile(4, 32 << 20);
    set(&ks, "here", "v");
    let (here, there) = (watch(&ks, "here"), watch_at(&ks, NOW, 1, "here"));
    let (absent, elsewhere) = (watch(&ks, "absent"), watch_at(&ks, NOW, 2, "here"));
    all(&ks, |txn| txn.databases().swap(db(0), db(1)).expect("free memory"));
    assert!(here.is_broken() && there.is_broken());
    assert!(!absent.is_broken() && !elsewhere.is_broken());
}

#[test]
fn an_unwatched_key_may_change() {
    let ks = volatile(4, 32 << 20);
    let flag = Arc::new(AtomicBool::new(false));
    let key = ks.key(b"k");
    let watched = ks.begin_one(key.shard(), NOW).watch(db(0), &key, &flag).expect("a new watch");
    assert!(ks.begin_one(key.shard(), NOW).watch(db(0), &key, &flag).is_none());
    ks.unwatch(watched);
    set(&ks, "k", "v");
    assert!(!flag.load(std::sync::atomic::Ordering::Relaxed));
}
