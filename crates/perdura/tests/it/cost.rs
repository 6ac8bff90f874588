//! The cost of calls, as stated in `docs/library.md`: fences, lines and bytes, counted over a file
//! with the instructions of persistent memory.
//!
//! Retiring of the log, which many commits share, is excluded by taking the minimum of several
//! runs.

use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Error, Options, Perdura, Table, WriteBatch};

fn emulated(folder: &tempfile::TempDir) -> Perdura {
    let options = Options::new(folder.path().join("pool")).domain(DomainRequest::Clwb);
    let options = options.emulate_pmem(true).limit(256 << 20).background(false);
    Perdura::open(options).expect("a store")
}

/// Checks that a call takes this many fences, and at most that many lines, at its best of 20 runs.
#[track_caller]
fn check(what: &str, fences: u64, lines: u64, mut call: impl FnMut(u32) -> Result<(), Error>) {
    let mut run = |n| {
        let before = pmem::counters();
        call(n).expect("space");
        let cost = pmem::counters().since(&before);
        (cost.fences, cost.lines + cost.streamed / 64)
    };
    let (best_fences, best_lines) = (0..20).map(&mut run).min().expect("runs");
    println!("{what}: {best_fences} fences, {best_lines} lines");
    assert_eq!(best_fences, fences, "{what}");
    assert!(best_lines <= lines, "{what}: {best_lines} lines");
}

/// Prints how many bytes of the pool each of 10,000 additions takes.
fn bytes(what: &str, store: &Perdura, most: u64, mut add: impl FnMut(u64) -> Result<(), Error>) {
    let before = store.usage().used;
    (0..10_000).for_each(|n| add(n).expect("space"));
    let each = (store.usage().used - before) / 10_000;
    println!("{what}: {each} bytes each");
    assert!(each <= most, "{what}: {each} bytes");
}

#[test]
fn calls_cost_what_the_guide_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = emulated(&folder);
    let (value, minute) = ([b'v'; 32], Duration::from_secs(60));
    let rows: Table<u64, [u8; 32]> = store.table("rows");
    for n in 0..10_000u64 {
        store.set(format!("k{n}"), value).expect("space");
        store.hash_set("hash", n.to_string(), value).expect("space");
        store.sorted_set_add("scores", n.to_string(), n as f64).expect("space");
        rows.insert(n * 7 % 10_007, &value).expect("space");
    }

    check("get", 0, 0, |n| store.get(format!("k{n}")).map(drop));
    check("keys, range", 0, 0, |_| {
        store.keys().take(100).try_for_each(|key| key.map(drop))?;
        rows.iter().take(100).try_for_each(|row| row.map(drop))
    });
    check("set, new", 1, 4, |n| store.set(format!("new{n}"), value));
    check("set, over another", 1, 4, |n| store.set(format!("k{n}"), value));
    check("set_for", 1, 4, |n| store.set_for(format!("short{n}"), value, minute));
    check("increment", 1, 1, |_| store.increment("count", 1).map(drop));
    check("compare_and_set", 1, 4, |n| {
        store.compare_and_set(format!("k{n}"), Some(&value), Some(&[b'w'; 32])).map(drop)
    });
    check("delete", 1, 3, |n| store.delete(format!("k{}", 5000 + n)).map(drop));
    check("hash_set", 1, 4, |n| store.hash_set("hash", format!("new{n}"), value).map(drop));
    check("push_back", 1, 4, |n| store.push_back("list", n.to_string()).map(drop));
    check("pop_front", 1, 3, |_| store.pop_front("list").map(drop));
    check("sorted_set_add", 1, 6, |n| {
        store.sorted_set_add("scores", format!("new{n}"), f64::from(n)).map(drop)
    });
    check("table insert, new", 1, 6, |n| rows.insert(u64::from(n) + 20_000, &value).map(drop));
    check("table insert, over another", 1, 6, |n| {
        rows.insert(u64::from(n), &[n as u8; 32]).map(drop)
    });
    check("table fetch_update", 1, 6, |n| {
        rows.fetch_update(u64::from(n) + 50, |_| Some([n as u8 + 150; 32])).map(drop)
    });
    check("table remove", 1, 5, |n| rows.remove(u64::from(n) + 100).map(drop));
    check("transact, two keys", 1, 5, |n| {
        store.transact(|tx| {
            tx.increment(format!("from{n}"), -1)?;
            tx.increment(format!("to{n}"), 1)?;
            Ok(())
        })
    });
    let mut batch = WriteBatch::new();
    for n in 0..100 {
        batch.set(format!("k{n}"), value);
    }
    check("write, 100 values", 1, 500, |_| store.write(&batch));
}

#[test]
fn what_is_stored_takes_the_bytes_that_the_guide_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = emulated(&folder);
    let value = [b'v'; 32];
    bytes("a string of 32 bytes under a key of 16", &store, 100, |n| {
        store.set(format!("key:{n:012}"), value)
    });
    bytes("a field of a hash", &store, 100, |n| {
        store.hash_set("hash", format!("key:{n:012}"), value).map(drop)
    });
    bytes("an element of a list", &store, 40, |_| store.push_back("list", value).map(drop));
    bytes("a member of a sorted set", &store, 100, |n| {
        store.sorted_set_add("set", format!("key:{n:012}"), n as f64).map(drop)
    });
    let rows: Table<u64, [u8; 32]> = store.table("rows");
    bytes("a row of a table", &store, 120, |n| rows.insert(n, &value).map(drop));
}
