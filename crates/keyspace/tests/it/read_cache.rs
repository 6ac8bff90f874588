//! The read cache: its contents, their lifetime, and its statistics.

use crate::common::{self, NOW, db, emulated, set, volatile, write};
use heap::ReadCacheStats;
use keyspace::{Defragmentation, Expire, Keyspace};

/// Reads a string through the cache, as GET does.
fn get(ks: &Keyspace, key: &str) -> Option<Vec<u8>> {
    get_at(ks, NOW, 0, key)
}

fn get_at(ks: &Keyspace, now: u64, number: usize, key: &str) -> Option<Vec<u8>> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), now);
    let entry = txn.find(db(number), &key)?;
    Some(txn.strings().read(&entry).and_then(|value| value.to_vec()).expect("a string"))
}

fn stats(ks: &Keyspace) -> ReadCacheStats {
    ks.heap().read_cache_stats()
}

/// Returns the hits and misses that `work` causes.
fn counted(ks: &Keyspace, work: impl FnOnce()) -> (u64, u64) {
    let before = stats(ks);
    work();
    let after = stats(ks);
    (after.hits - before.hits, after.misses - before.misses)
}

const VALUE: usize = 1000;

fn value(byte: char) -> String {
    byte.to_string().repeat(VALUE)
}

fn with_cache(bytes: u64) -> Keyspace {
    let ks = volatile(1, 64 << 20);
    ks.heap().set_read_cache(bytes);
    ks
}

/// Checks that after `change` the first GET of the key misses the cache and returns the new value.
fn check(change: impl FnOnce(&Keyspace), key: &str, expect: Option<&str>) {
    let ks = with_cache(1 << 20);
    set(&ks, "k", &value('a'));
    set(&ks, "other", &value('o'));
    assert_eq!(counted(&ks, || drop(get(&ks, "k"))), (0, 1));
    assert_eq!(counted(&ks, || drop(get(&ks, "k"))), (1, 0));
    change(&ks);
    let misses = u64::from(expect.is_some_and(|value| value.len() >= 256));
    assert_eq!(
        counted(&ks, || assert_eq!(get(&ks, key).as_deref(), expect.map(str::as_bytes))),
        (0, misses)
    );
}

#[test]
fn each_change_of_a_value_ends_its_copy() {
    let a = value('a');
    check(|ks| set(ks, "k", &value('b')), "k", Some(&value('b')));
    check(|ks| set(ks, "k", "short"), "k", Some("short"));
    check(|ks| set(ks, "k", "17"), "k", Some("17"));
    let appended = |ks: &Keyspace| {
        write(ks, &["k"], |txn| {
            let key = txn.key(b"k");
            txn.strings().append(db(0), &key, b"tail").expect("free memory");
        });
    };
    check(appended, "k", Some(&format!("{a}tail")));
    check(
        |ks| {
            // The first append makes space after the value, and the second writes there.
            appended(ks);
            drop(get(ks, "k"));
            appended(ks);
        },
        "k",
        Some(&format!("{a}tailtail")),
    );
    let overwritten = |ks: &Keyspace| {
        write(ks, &["k"], |txn| {
            let key = txn.key(b"k");
            txn.strings().set_range(db(0), &key, VALUE - 2, b"xyz").expect("free memory");
        });
    };
    check(overwritten, "k", Some(&format!("{}xyz", &a[2..])));
    let deleted = |ks: &Keyspace| {
        write(ks, &["k"], |txn| {
            let key = txn.key(b"k");
            txn.keys().delete(db(0), &key).expect("free memory");
        });
    };
    check(deleted, "k", None);
    let renamed = |ks: &Keyspace| {
        write(ks, &["k", "new"], |txn| {
            let (from, to) = (txn.key(b"k"), txn.key(b"new"));
            txn.keys().rename((db(0), &from), (db(0), &to)).expect("free memory");
        });
    };
    check(renamed, "new", Some(&a));
    check(renamed, "k", None);
    let copied = |ks: &Keyspace| {
        write(ks, &["k", "other"], |txn| {
            let (from, to) = (txn.key(b"other"), txn.key(b"k"));
            txn.keys().copy((db(0), &from), (db(0), &to)).expect("free memory");
        });
    };
    check(copied, "k", Some(&value('o')));
}

#[test]
fn a_longer_value_in_a_block_of_its_own_ends_with_each_change_too() {
    let ks = with_cache(1 << 20);
    let long = "l".repeat(10_000);
    set(&ks, "k", &long);
    let hit = |expect: &str| {
        drop(get(&ks, "k"));
        let again = counted(&ks, || assert_eq!(get(&ks, "k").as_deref(), Some(expect.as_bytes())));
        assert_eq!(again, (1, 0));
    };
    hit(&long);
    let append = |text: &str| {
        write(&ks, &["k"], |txn| {
            let key = txn.key(b"k");
            txn.strings().append(db(0), &key, text.as_bytes()).expect("free memory");
        });
    };
    append("1");
    hit(&format!("{long}1"));
    // This uses the space that the first append made.
    append("2");
    hit(&format!("{long}12"));
    write(&ks, &["k"], |txn| {
        let key = txn.key(b"k");
        txn.strings().set_range(db(0), &key, 0, b"L").expect("free memory");
    });
    hit(&format!("L{}12", &long[1..]));
    set(&ks, "k", &"m".repeat(10_000));
    hit(&"m".repeat(10_000));
    write(&ks, &["k", "new"], |txn| {
        let (from, to) = (txn.key(b"k"), txn.key(b"new"));
        txn.keys().rename((db(0), &from), (db(0), &to)).expect("free memory");
    });
    // The block has a new owner, but the same bytes.
    assert_eq!(counted(&ks, || drop(get(&ks, "new"))), (1, 0));
}

#[test]
fn names_and_databases_may_change_and_copies_follow_their_blocks() {
    let ks = with_cache(1 << 20);
    set(&ks, "k", &value('a'));
    drop(get(&ks, "k"));
    let mut txn = ks.begin_all(NOW);
    txn.databases().swap(db(0), db(1)).expect("free memory");
    txn.commit().expect("a commit");
    drop(txn);
    assert_eq!(get(&ks, "k"), None);
    let swapped = || assert_eq!(get_at(&ks, NOW, 1, "k"), Some(value('a').into_bytes()));
    assert_eq!(counted(&ks, swapped), (1, 0));
    let mut txn = ks.begin_all(NOW);
    txn.databases().flush(db(1)).expect("free memory");
    txn.commit().expect("a commit");
    drop(txn);
    assert_eq!(get_at(&ks, NOW, 1, "k"), None);
    while common::goes_on() && ks.reclaim_step(0, 100).expect("a commit").more {}
    assert_eq!(stats(&ks).entries, 0);
}

#[test]
fn an_expired_value_is_not_found_and_its_copy_goes_with_it() {
    let ks = with_cache(1 << 20);
    common::set_until(&ks, "k", &value('a'), Expire::At(NOW + 5));
    assert!(get(&ks, "k").is_some() && get(&ks, "k").is_some());
    assert_eq!((get_at(&ks, NOW + 5, 0, "k"), stats(&ks).entries), (None, 1));
    drop(ks.expire_step(0, 100, NOW + 5).expect("a commit"));
    assert_eq!(stats(&ks).entries, 0);
}

#[test]
fn a_moved_value_is_copied_again() {
    let ks = with_cache(1 << 20);
    let name = |n: usize| format!("k{n:03}");
    (0..300).for_each(|n| set(&ks, &name(n), &value('v')));
    write(&ks, &["k000"], |txn| {
        for n in (0..300).filter(|n| n % 30 != 0) {
            let name = name(n);
            let key = txn.key(name.as_bytes());
            txn.keys().delete(db(0), &key).expect("free memory");
        }
    });
    let read = || (0..300).step_by(30).for_each(|n| drop(get(&ks, &name(n))));
    read();
    assert_eq!(counted(&ks, read), (10, 0));
    let mut at = Some(Defragmentation::default());
    let mut moved = 0;
    while common::goes_on()
        && let Some(from) = at
    {
        at = ks.defragment_step(0, from, 100).expect("a commit");
        moved = at.map_or(moved, |at| at.moved);
    }
    assert!(moved > 0);
    set(&ks, "new", &value('n'));
    let all = || {
        let right = Some(value('v').into_bytes());
        (0..300).step_by(30).for_each(|n| assert_eq!(get(&ks, &name(n)), right));
    };
    let (hits, misses) = counted(&ks, all);
    assert_eq!((hits + misses, misses), (10, moved));
}

#[test]
fn what_a_transaction_changed_is_neither_served_nor_kept_before_its_commit() {
    let ks = with_cache(1 << 20);
    set(&ks, "k", &value('a'));
    set(&ks, "other", &value('o'));
    drop(get(&ks, "k"));
    let mut txn = ks.begin_all(NOW);
    let (key, other) = (txn.key(b"k"), txn.key(b"other"));
    let read = |txn: &mut keyspace::Txn<'_>, key: &keyspace::Key<'_>| {
        let entry = txn.find(db(0), key).expect("the key");
        txn.strings().read(&entry).and_then(|value| value.to_vec()).expect("a string")
    };
    let savepoint = txn.savepoint();
    txn.strings().append(db(0), &key, b"tail").expect("free memory");
    let staged = counted(&ks, || {
        assert_eq!(read(&mut txn, &key), format!("{}tail", value('a')).into_bytes());
        assert_eq!(read(&mut txn, &other), value('o').into_bytes());
    });
    assert_eq!((staged, stats(&ks).entries), ((0, 0), 1));
    txn.rollback_to(savepoint);
    let back = counted(&ks, || assert_eq!(read(&mut txn, &key), value('a').into_bytes()));
    assert_eq!(back, (1, 0));
    txn.strings().set(db(0), &key, value('b').as_bytes(), Expire::Clear).expect("free memory");
    assert_eq!(read(&mut txn, &key), value('b').into_bytes());
    drop(txn);
    assert_eq!(counted(&ks, || assert_eq!(get(&ks, "k"), Some(value('a').into_bytes()))), (1, 0));
}

#[test]
fn it_keeps_within_its_budget_and_goes_when_it_is_turned_off() {
    let ks = with_cache(100_000);
    let name = |n: usize| format!("k{n}");
    (0..300).for_each(|n| set(&ks, &name(n), &value('v')));
    for _ in 0..3 {
        (0..300).for_each(|n| drop(get(&ks, &name(n))));
        let now = stats(&ks);
        assert!(now.bytes <= 100_000 && now.entries > 60, "{now:?}");
        assert_eq!(now.bytes, now.entries * (VALUE as u64 + 96));
    }
    assert!(stats(&ks).evictions > 300);
    ks.heap().set_read_cache(0);
    let off = stats(&ks);
    assert_eq!((off.size, off.bytes, off.entries), (0, 0, 0));
    assert_eq!(counted(&ks, || drop(get(&ks, "k1"))), (0, 0));
}

#[test]
fn what_is_too_long_or_too_short_is_read_past_it() {
    let ks = with_cache(1 << 20);
    for len in [1, 255, 32 << 10, 100_000] {
        set(&ks, "k", &"v".repeat(len));
        let twice = || (0..2).for_each(|_| assert_eq!(get(&ks, "k").map(|v| v.len()), Some(len)));
        assert_eq!(counted(&ks, twice), (0, 0), "{len}");
    }
    for len in [256, 4096, 4097, (32 << 10) - 1] {
        set(&ks, "k", &"v".repeat(len));
        let twice = || (0..2).for_each(|_| assert_eq!(get(&ks, "k").map(|v| v.len()), Some(len)));
        assert_eq!(counted(&ks, twice), (1, 1), "{len}");
    }
    // A copy takes at most an eighth of a small budget.
    ks.heap().set_read_cache(16_000);
    assert_eq!(stats(&ks).longest, 2000 - 96);
    set(&ks, "k", &"v".repeat(1905));
    assert_eq!(counted(&ks, || drop((get(&ks, "k"), get(&ks, "k")))), (0, 0));
    set(&ks, "k", &"v".repeat(1904));
    assert_eq!(counted(&ks, || drop((get(&ks, "k"), get(&ks, "k")))), (1, 1));
}

#[test]
fn a_value_that_the_medium_falsified_is_refused_and_not_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 1);
    ks.heap().set_read_cache(1 << 20);
    set(&ks, "k", &value('a'));
    let mut txn = ks.begin_all(NOW);
    let key = txn.key(b"k");
    let entry = txn.find(db(0), &key).expect("the key");
    let text = format!("{entry:?}");
    drop(txn);
    let at = text.split("Ptr(").nth(1).and_then(|rest| rest.split(')').next());
    let at: u64 = at.and_then(|at| at.parse().ok()).expect("a place");
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(dir.path().join("pool"));
    file.expect("the pool").write_all_at(b"!", at + 500).expect("a byte");
    for _ in 0..2 {
        let mut txn = ks.begin_all(NOW);
        let entry = txn.find(db(0), &key).expect("the key");
        assert!(txn.strings().read(&entry).is_err());
    }
    assert_eq!(stats(&ks).entries, 0);
}
