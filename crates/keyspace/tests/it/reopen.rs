//! A reopened pool holds what was committed, whether or not it was closed, and nothing else.

use crate::common::{self, NOW, check, db, emulated, get, set, set_until, write};
use keyspace::{Expire, Keyspace};

fn fill(ks: &Keyspace) {
    for i in 0..500 {
        set_until(ks, &format!("key:{i}"), &format!("value {i}"), Expire::At(NOW + 1000 + i));
    }
    set(ks, "number", "12345");
    set(ks, "large", &"x".repeat(300_000));
    set(ks, "gone", "x");
    write(ks, &["gone"], |txn| {
        let key = txn.key(b"gone");
        txn.keys().delete(db(0), &key).expect("free memory");
    });
    let mut txn = ks.begin_all(NOW);
    txn.databases().swap(db(0), db(7)).expect("free memory");
    txn.commit().expect("a commit");
    drop(txn);
    let key = ks.key(b"never committed");
    ks.begin_one(key.shard(), NOW)
        .strings()
        .set(db(7), &key, b"v", Expire::Clear)
        .expect("free memory");
}

fn verify(ks: &Keyspace) {
    for i in 0..500 {
        let value = get(ks, NOW, 7, &format!("key:{i}"));
        assert_eq!(value, Some(format!("value {i}")));
    }
    assert_eq!(get(ks, NOW + 1000, 7, "key:0"), None);
    assert_eq!(get(ks, NOW + 1000, 7, "key:1").as_deref(), Some("value 1"));
    assert_eq!(get(ks, NOW, 7, "number").as_deref(), Some("12345"));
    assert_eq!(get(ks, NOW, 7, "large").map(|v| v.len()), Some(300_000));
    assert_eq!(get(ks, NOW, 7, "gone"), None);
    assert_eq!(get(ks, NOW, 7, "never committed"), None);
    assert_eq!((ks.count(db(7)), ks.count(db(0))), ((502, 500), (0, 0)));
    assert_eq!(ks.check().expect("an intact keyspace").keys, 502);
}

#[test]
fn a_pool_that_was_closed_opens_with_all_it_had() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pool");
    let ks = emulated(&file, 4);
    fill(&ks);
    verify(&ks);
    ks.into_heap().close().expect("a clean close");
    verify(&emulated(&file, 4));
}

#[test]
fn a_pool_that_was_dropped_opens_with_all_it_had_committed() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pool");
    fill(&emulated(&file, 4));
    for _ in 0..3 {
        verify(&emulated(&file, 4));
    }
    let ks = emulated(&file, 4);
    let mut txn = ks.begin_all(NOW);
    assert_eq!(txn.databases().flush(db(7)), Ok(502));
    txn.commit().expect("a commit");
    drop(txn);
    ks.reclaim_step(0, 10).expect("a commit");
    drop(ks);
    let ks = emulated(&file, 4);
    check(&ks, "number", None);
    for shard in 0..ks.shards() {
        while common::goes_on() && ks.reclaim_step(shard, 100).expect("a commit").more {}
    }
    assert_eq!(ks.check().expect("an intact keyspace").blocks, 0);
    assert_eq!(ks.heap().used(), 0);
}
