//! The cost of each kind of write until its reply may be sent: one fence, the cache lines of its
//! new bytes, and two lines for the log record.
//!
//! Counted on a file with the instructions of persistent memory. The minimum of several runs
//! excludes the amortised cost of retiring log records.

use crate::common::{self, NOW, db, emulated};
use keyspace::{Expire, Keyspace, Txn};
use pmem::Counters;

/// Returns the minimum cost of `work` in ten runs, each after `prepare`.
fn cost(
    ks: &Keyspace,
    keys: &[&str],
    prepare: impl Fn(&mut Txn<'_>),
    work: impl Fn(&mut Txn<'_>),
) -> Counters {
    let shards: Vec<usize> = keys.iter().map(|key| ks.key(key.as_bytes()).shard()).collect();
    let run = || {
        let mut txn = ks.begin(&shards, NOW);
        prepare(&mut txn);
        txn.commit().expect("a commit");
        drop(txn);
        let before = pmem::counters();
        let mut txn = ks.begin(&shards, NOW);
        work(&mut txn);
        txn.commit().expect("a commit");
        pmem::counters().since(&before)
    };
    (0..10).map(|_| run()).min_by_key(|c| (c.fences, c.lines + c.streamed / 64)).expect("ten runs")
}

/// Returns the maximum number of cache lines that `bytes` new bytes touch, wherever they begin.
fn lines(bytes: usize) -> u64 {
    (bytes + 7).div_ceil(64) as u64 + 1
}

fn check(what: &str, cost: Counters, most_fences: u64, most_lines: u64) {
    let lines = cost.lines + cost.streamed / 64;
    println!("{what}: {} fences, {lines} lines (at most {most_lines})", cost.fences);
    assert!(cost.fences <= most_fences, "{what}: {} fences, not {most_fences}", cost.fences);
    assert!(lines <= most_lines, "{what}: {lines} lines, not {most_lines}");
}

const KEY: &str = "key:000000000001";

fn set(txn: &mut Txn<'_>, key: &str, value: &[u8], expire: Expire) {
    let key = txn.key(key.as_bytes());
    txn.strings().set(db(0), &key, value, expire).expect("free memory");
}

fn delete(txn: &mut Txn<'_>, key: &str) {
    let key = txn.key(key.as_bytes());
    txn.keys().delete(db(0), &key).expect("free memory");
}

#[test]
fn writes_keep_within_their_budget() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 4);
    let value = [b'v'; 32];
    let entry = lines(8 + KEY.len() + value.len()) - 1;
    let timed_entry = lines(16 + KEY.len() + value.len()) - 1;
    let until = Expire::At(NOW + 1000);

    let fresh = |txn: &mut Txn<'_>| delete(txn, KEY);
    let there = |txn: &mut Txn<'_>| set(txn, KEY, &value, Expire::Clear);
    let expiring = |txn: &mut Txn<'_>| set(txn, KEY, &value, until);
    let number = |txn: &mut Txn<'_>| set(txn, KEY, b"1", Expire::Clear);

    let c = cost(&ks, &[KEY], fresh, |txn| set(txn, KEY, &value, Expire::Clear));
    check("SET of a new key", c, 1, entry + 2);
    let c = cost(&ks, &[KEY], there, |txn| set(txn, KEY, &value, Expire::Clear));
    check("SET over a value", c, 1, entry + 2);
    let c = cost(&ks, &[KEY], fresh, |txn| set(txn, KEY, &value, until));
    check("SET EX of a new key", c, 1, timed_entry + 2);
    let c = cost(&ks, &[KEY], expiring, |txn| set(txn, KEY, &value, until));
    check("SET EX over a value with a time", c, 1, timed_entry + 2);
    let c = cost(&ks, &[KEY], number, |txn| set(txn, KEY, b"2", Expire::Keep));
    check("INCR", c, 1, 1);
    let c = cost(&ks, &[KEY], there, |txn| {
        let key = txn.key(KEY.as_bytes());
        txn.keys().set_expiry(db(0), &key, Some(NOW + 5)).expect("free memory");
    });
    check("EXPIRE of an entry without a time", c, 1, timed_entry + 2);
    let c = cost(&ks, &[KEY], expiring, |txn| {
        let key = txn.key(KEY.as_bytes());
        txn.keys().set_expiry(db(0), &key, Some(NOW + 5)).expect("free memory");
    });
    check("EXPIRE of an entry with a time", c, 1, 2);
    let c = cost(&ks, &[KEY], expiring, |txn| {
        let key = txn.key(KEY.as_bytes());
        txn.keys().set_expiry(db(0), &key, None).expect("free memory");
    });
    check("PERSIST", c, 1, 2);
    let c = cost(&ks, &[KEY], there, |txn| delete(txn, KEY));
    check("DEL", c, 1, 2);
    let c = cost(&ks, &[KEY], expiring, |txn| delete(txn, KEY));
    check("DEL of a key with a time", c, 1, 2);
    let large = vec![b'v'; 1 << 20];
    let c = cost(&ks, &[KEY], |txn| set(txn, KEY, &large, Expire::Clear), |txn| delete(txn, KEY));
    check("DEL of 1 MiB", c, 1, 3);
    for shard in 0..ks.shards() {
        while common::goes_on() && ks.reclaim_step(shard, 100).expect("a commit").more {}
    }
    let page = vec![b'v'; 4096];
    let c = cost(&ks, &[KEY], there, |txn| set(txn, KEY, &page, Expire::Clear));
    check("SET of 4 KiB", c, 1, lines(8 + KEY.len() + page.len()) + 2);
    let long = vec![b'v'; 40_000];
    let c = cost(&ks, &[KEY], there, |txn| set(txn, KEY, &long, Expire::Clear));
    check("SET of 40 KB", c, 1, lines(24 + KEY.len() + 8) + lines(long.len()) + 2 + 2);
}

#[test]
fn an_append_with_space_costs_its_bytes() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 4);
    let append = |txn: &mut Txn<'_>, bytes: &[u8]| {
        let key = txn.key(KEY.as_bytes());
        txn.strings().append(db(0), &key, bytes).expect("free memory");
    };
    let c = cost(
        &ks,
        &[KEY],
        |txn| {
            delete(txn, KEY);
            set(txn, KEY, &[b'v'; 100], Expire::Clear);
            append(txn, &[b'v'; 100]);
        },
        |txn| append(txn, b"0123456789"),
    );
    check("APPEND of 10 bytes", c, 1, lines(10) + 2);
}

#[test]
fn several_shards_cost_one_fence_however_many_they_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 4);
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let distinct: std::collections::HashSet<_> =
        keys.iter().map(|key| ks.key(key.as_bytes()).shard()).collect();
    assert!(distinct.len() > 1);
    let c = cost(
        &ks,
        &keys,
        |_| {},
        |txn| {
            keys.iter().for_each(|key| set(txn, key, b"value", Expire::Clear));
        },
    );
    check("MSET of 8 keys", c, 1, 8 * 2 + 4 * 4 + 8);
    let c = cost(&ks, &keys, |_| {}, |txn| set(txn, "a", b"value", Expire::Clear));
    check("one write in EXEC over many keys", c, 1, 4);
}

#[test]
fn reads_cost_nothing_even_of_an_expired_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 4);
    let c = cost(
        &ks,
        &[KEY],
        |txn| set(txn, KEY, b"v", Expire::At(NOW)),
        |txn| {
            let key = txn.key(KEY.as_bytes());
            assert!(txn.find(db(0), &key).is_none());
        },
    );
    check("GET", c, 0, 0);
}

#[test]
fn swapping_databases_is_one_word() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), 4);
    let before = pmem::counters();
    let mut txn = ks.begin_all(NOW);
    txn.databases().swap(db(0), db(1)).expect("free memory");
    txn.commit().expect("a commit");
    check("SWAPDB", pmem::counters().since(&before), 1, 1);
}
