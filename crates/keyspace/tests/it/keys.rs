//! Keys are deleted, renamed, moved and copied, and changes are undone, within a shard and across
//! shards.

use crate::common::{NOW, check, db, get, set, set_until, volatile, write};
use keyspace::{Expire, Keyspace};

/// Keys of which some share a shard and some do not.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "{a}x", "{a}y"];

fn keyspace() -> Keyspace {
    volatile(3, 64 << 20)
}

fn rename(ks: &Keyspace, from: (usize, &str), to: (usize, &str)) -> bool {
    write(ks, &[from.1, to.1], |txn| {
        let (a, b) = (txn.key(from.1.as_bytes()), txn.key(to.1.as_bytes()));
        txn.keys().rename((db(from.0), &a), (db(to.0), &b)).expect("free memory")
    })
}

fn copy(ks: &Keyspace, from: (usize, &str), to: (usize, &str)) -> bool {
    write(ks, &[from.1, to.1], |txn| {
        let (a, b) = (txn.key(from.1.as_bytes()), txn.key(to.1.as_bytes()));
        txn.keys().copy((db(from.0), &a), (db(to.0), &b)).expect("free memory")
    })
}

fn expiry(ks: &Keyspace, number: usize, key: &str) -> Option<u64> {
    let key = ks.key(key.as_bytes());
    let txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.peek(db(number), &key).expect("the key");
    txn.properties(&entry).expiry()
}

fn values() -> [String; 4] {
    ["42".into(), "text".into(), "x".repeat(4000), "y".repeat(200_000)]
}

#[test]
fn a_renamed_key_keeps_value_and_expiry_time() {
    for value in values() {
        for from in KEYS {
            for to in KEYS {
                let ks = keyspace();
                set_until(&ks, to, "to be replaced", Expire::At(NOW + 5));
                set_until(&ks, from, &value, Expire::At(NOW + 7));
                assert!(rename(&ks, (0, from), (0, to)));
                check(&ks, to, Some(&value));
                assert_eq!(expiry(&ks, 0, to), Some(NOW + 7));
                assert_eq!(ks.count(db(0)), (1, 1), "{from} to {to}");
            }
        }
    }
}

#[test]
fn a_moved_key_is_in_the_other_database_only() {
    for value in values() {
        let ks = keyspace();
        set_until(&ks, "k", &value, Expire::At(NOW + 7));
        assert!(rename(&ks, (0, "k"), (9, "k")));
        check(&ks, "k", None);
        assert_eq!(get(&ks, NOW, 9, "k").as_ref(), Some(&value));
        assert_eq!(expiry(&ks, 9, "k"), Some(NOW + 7));
        assert_eq!((ks.count(db(0)), ks.count(db(9))), ((0, 0), (1, 1)));
    }
}

#[test]
fn a_copy_lives_on_without_its_source() {
    for value in values() {
        for to in KEYS {
            let ks = keyspace();
            set_until(&ks, "a", &value, Expire::At(NOW + 7));
            assert!(copy(&ks, (0, "a"), (1, to)));
            write(&ks, &["a"], |txn| {
                let key = txn.key(b"a");
                assert_eq!(txn.keys().delete(db(0), &key), Ok(true));
            });
            assert_eq!(get(&ks, NOW, 1, to).as_ref(), Some(&value));
            assert_eq!(expiry(&ks, 1, to), Some(NOW + 7));
        }
    }
}

#[test]
fn what_does_not_exist_is_not_renamed_or_copied() {
    let ks = keyspace();
    set(&ks, "b", "stays");
    assert!(!rename(&ks, (0, "a"), (0, "b")));
    assert!(!copy(&ks, (0, "a"), (0, "b")));
    check(&ks, "b", Some("stays"));
}

#[test]
fn expiry_times_come_and_go_without_the_value() {
    let ks = keyspace();
    set(&ks, "k", "v");
    let set_expiry = |at| {
        write(&ks, &["k"], |txn| {
            let key = txn.key(b"k");
            txn.keys().set_expiry(db(0), &key, at).expect("free memory")
        })
    };
    for (at, expiring) in [(Some(NOW + 1), 1), (Some(NOW + 2), 1), (None, 0), (None, 0)] {
        assert!(set_expiry(at));
        assert_eq!((expiry(&ks, 0, "k"), ks.count(db(0))), (at, (1, expiring)));
    }
    check(&ks, "k", Some("v"));
}

#[test]
fn a_rollback_undoes_what_followed_its_savepoint() {
    let ks = keyspace();
    set_until(&ks, "a", "before", Expire::At(NOW + 9));
    write(&ks, &KEYS, |txn| {
        let [a, b, c] = ["a", "b", "c"].map(|key| ks.key(key.as_bytes()));
        txn.strings().set(db(0), &b, b"kept", Expire::Clear).expect("free memory");
        let savepoint = txn.savepoint();
        txn.strings().set(db(0), &a, b"undone", Expire::Clear).expect("free memory");
        txn.strings().append(db(0), &b, b" not").expect("free memory");
        txn.keys().rename((db(0), &a), (db(0), &c)).expect("free memory");
        txn.rollback_to(savepoint);
        assert!(txn.peek(db(0), &c).is_none());
        let first = txn.savepoint();
        txn.keys().delete(db(0), &a).expect("free memory");
        txn.rollback_to(first);
    });
    check(&ks, "a", Some("before"));
    check(&ks, "b", Some("kept"));
    check(&ks, "c", None);
    assert_eq!((ks.count(db(0)), expiry(&ks, 0, "a")), ((2, 1), Some(NOW + 9)));
}

#[test]
fn what_was_just_found_is_not_found_after_it_changed() {
    let ks = keyspace();
    set(&ks, "a", "before");
    let [a, b] = ["a", "{a}b"].map(|key| ks.key(key.as_bytes()));
    let mut txn = ks.begin_one(a.shard(), NOW);
    assert!(txn.find(db(0), &a).is_some());
    let savepoint = txn.savepoint();
    txn.keys().delete(db(0), &a).expect("free memory");
    assert!(txn.find(db(0), &a).is_none());
    txn.strings().set(db(0), &a, b"again", Expire::Clear).expect("free memory");
    assert!(txn.find(db(0), &a).is_some());
    txn.keys().rename((db(0), &a), (db(0), &b)).expect("free memory");
    assert!(txn.find(db(0), &a).is_none() && txn.find(db(0), &b).is_some());
    txn.rollback_to(savepoint);
    assert!(txn.find(db(0), &b).is_none());
    let entry = txn.find(db(0), &a).expect("the key");
    assert_eq!(txn.string(&entry).expect("a string").to_vec().expect("sound"), b"before");
    txn.databases().flush(db(0)).expect("free memory");
    assert!(txn.find(db(0), &a).is_none());
}

#[test]
fn what_is_not_committed_never_was() {
    let ks = keyspace();
    set(&ks, "a", "before");
    {
        let a = ks.key(b"a");
        let mut txn = ks.begin_one(a.shard(), NOW);
        txn.strings().set(db(0), &a, b"after", Expire::Clear).expect("free memory");
        assert!(txn.is_dirty());
    }
    check(&ks, "a", Some("before"));
}

#[test]
fn reads_are_counted_as_hits_and_misses() {
    let ks = keyspace();
    set(&ks, "a", "1");
    check(&ks, "a", Some("1"));
    check(&ks, "b", None);
    let stats = ks.stats();
    assert_eq!((stats.hits, stats.misses), (1, 1));
    ks.reset_stats();
    assert_eq!(ks.stats(), keyspace::Stats::default());
}
