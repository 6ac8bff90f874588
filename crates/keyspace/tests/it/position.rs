//! The place of the data in a stream for replicas, which a clean end leaves, and which a replica
//! keeps: the next opening finds it, once, whoever opens the pool in between, and what it costs.
//! That it is true for the data after any crash is shown in the crate `sim`.

use std::path::Path;

use crate::common::{NOW, db, emulated};
use heap::Heap;
use keyspace::{Db, Expire, Keyspace, OwnPlace, StreamPosition};
use pmem::{DomainRequest, MapOptions, Region};

const SHARDS: usize = 2;

fn position(offset: u64) -> StreamPosition {
    let second = offset.is_multiple_of(2).then_some(([7; 20], offset / 2));
    StreamPosition {
        id: std::array::from_fn(|n| n as u8),
        offset,
        db: Some(3),
        second,
        is_replica: true,
    }
}

fn open(path: &Path) -> Heap {
    let map =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(256 << 20) };
    let region = Region::open(path, &map).expect("a mapping");
    Heap::open(region, [0; 16]).expect("the same pool").0
}

fn close(heap: &Heap) {
    heap.close().expect("it closes");
}

#[test]
fn a_position_is_found_until_data_is_changed_or_another_program_opens_the_pool() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    for offset in [0, 1, 2, (1 << 59) - 1, u64::MAX] {
        let ks = match path.exists() {
            true => Keyspace::new(open(&path), NOW),
            false => emulated(&path, SHARDS),
        };
        assert_eq!(ks.position().take(), None);
        let left = position(offset);
        let leave = |ks: &Keyspace| {
            ks.position().leave(|| Some(left), NOW).expect("a commit");
            close(ks.heap());
        };
        leave(&ks);
        drop(ks);
        // Crashes, or starts that are given up: nothing is closed.
        for _ in 0..2 {
            let ks = Keyspace::new(open(&path), NOW);
            assert_eq!(ks.position().take(), Some(left));
            assert_eq!(ks.position().take(), None);
        }
        let ks = Keyspace::new(open(&path), NOW);
        set(&ks, "key", None);
        drop(ks);
        let ks = Keyspace::new(open(&path), NOW);
        assert_eq!(ks.position().take(), None);
        leave(&ks);
        drop(ks);
        // A program that does not know positions.
        let heap = open(&path);
        close(&heap);
        drop(heap);
        let ks = Keyspace::new(open(&path), NOW);
        assert_eq!(ks.position().take(), None);
        close(ks.heap());
    }
}

#[test]
fn a_position_costs_one_fence_and_none_costs_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let ks = emulated(&path, SHARDS);
    let before = pmem::counters();
    ks.position().leave(|| Some(position(5)), NOW).expect("a commit");
    assert_eq!(pmem::counters().since(&before).fences, 1);
    close(ks.heap());
    drop(ks);
    let fences = [(); 2].map(|()| {
        let heap = open(&path);
        let before = pmem::counters();
        let ks = Keyspace::new(heap, NOW);
        let fences = pmem::counters().since(&before).fences;
        assert_eq!(ks.position().leave(|| None, NOW), Ok(None));
        close(ks.heap());
        fences
    });
    assert_eq!(fences, [1, 0]);
}

/// Sets a key: as what a primary has sent up to `offset`, if that is given.
fn set(ks: &Keyspace, name: &str, offset: Option<(u64, Db)>) {
    let mut txn = ks.begin_all(NOW);
    let key = txn.key(name.as_bytes());
    txn.strings().set(db(0), &key, b"value", Expire::Clear).expect("free memory");
    if let Some((offset, db)) = offset {
        txn.set_stream_position(offset, db);
    }
    txn.commit().expect("a commit");
}

/// Keeps a place from 70 on, does more, crashes, and returns what the next opening finds.
fn after(more: impl FnOnce(&Keyspace)) -> Option<(u64, Option<u8>)> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let ks = emulated(&path, SHARDS);
    assert!(ks.position().keep(|| Some(position(70)), NOW).expect("a commit"));
    assert!(ks.position().is_kept());
    more(&ks);
    drop(ks);
    let ks = Keyspace::new(open(&path), NOW);
    let found = ks.position().take();
    assert_eq!(ks.position().is_kept(), found.is_some(), "it is kept from the beginning");
    let found = found?;
    assert_eq!((found.id, found.second), (position(70).id, position(70).second));
    Some((found.offset, found.db))
}

#[test]
fn a_place_that_is_kept_is_that_of_the_last_commit() {
    assert_eq!(after(|_| {}), Some((70, Some(3))));
    assert_eq!(after(|ks| set(ks, "a", Some((71, db(15))))), Some((71, Some(15))));
    let many = |ks: &Keyspace| {
        (0..40).for_each(|n| set(ks, &format!("key:{n}"), Some((80 + n, db(n as usize % 16)))));
    };
    assert_eq!(after(many), Some((119, Some(7))));
    let most = (1 << 59) - 1;
    assert_eq!(after(|ks| set(ks, "a", Some((most, db(0))))), Some((most, Some(0))));
}

#[test]
fn a_change_that_is_in_no_stream_ends_the_place() {
    let own = |then: Option<(u64, Db)>| {
        after(|ks| {
            set(ks, "a", Some((71, db(0))));
            set(ks, "a", None);
            set(ks, "a", then);
            set(ks, "b", then);
        })
    };
    assert_eq!(own(None), None);
    assert_eq!(own(Some((72, db(0)))), None, "whatever comes afterwards");
    assert_eq!(after(|ks| set(ks, "a", Some((1 << 59, db(0))))), None, "no word can have it");
    assert_eq!(after(|ks| ks.position().forget(NOW).expect("a commit")), None);
    let syncs = |ks: &Keyspace| {
        ks.set_syncing(true, NOW).expect("a commit");
        ks.set_syncing(false, NOW).expect("a commit");
        set(ks, "a", Some((90, db(0))));
    };
    assert_eq!(after(syncs), None);
    let kept_anew = |ks: &Keyspace| {
        set(ks, "a", None);
        assert!(!ks.position().keep(|| Some(position(6)), NOW).expect("a commit"));
        set(ks, "a", Some((72, db(0))));
    };
    assert_eq!(after(kept_anew), None, "the link to the primary was only interrupted");
    let ended = |ks: &Keyspace| {
        assert!(!ks.position().keep(|| None, NOW).expect("a commit"));
        assert!(!ks.position().is_kept());
    };
    assert_eq!(after(ended), None);
    let all_replaced = |ks: &Keyspace| {
        set(ks, "a", None);
        ks.set_syncing(true, NOW).expect("a commit");
        ks.set_syncing(false, NOW).expect("a commit");
        assert!(ks.position().keep(|| Some(position(70)), NOW).expect("a commit"));
    };
    assert_eq!(after(all_replaced), Some((70, Some(3))));
}

#[test]
fn a_place_moves_behind_what_changed_no_data() {
    let advance = |ks: &Keyspace, offset, step| {
        let before = pmem::counters();
        ks.position().advance(offset, db(5), step, NOW).expect("a commit");
        pmem::counters().since(&before).fences
    };
    let found = after(|ks| {
        assert_eq!(advance(ks, 80, 10), 0, "not far enough");
        assert_eq!(advance(ks, 81, 10), 1);
        assert_eq!(advance(ks, 91, 10), 0);
        assert_eq!(advance(ks, 70, 10), 0, "it never goes back");
    });
    assert_eq!(found, Some((81, Some(5))));
    let found = after(|ks| {
        set(ks, "a", Some((90, db(1))));
        assert_eq!(advance(ks, 95, 5), 0);
        assert_eq!(advance(ks, 96, 5), 1);
        set(ks, "b", Some((97, db(2))));
    });
    assert_eq!(found, Some((97, Some(2))));
    let lost = after(|ks| {
        set(ks, "a", None);
        assert_eq!(advance(ks, 1000, 5), 0);
    });
    assert_eq!(lost, None);
}

#[test]
fn a_clean_end_leaves_no_place_of_data_that_was_changed_otherwise() {
    let end = StreamPosition { offset: 90, ..position(70) };
    let leave = |ks: &Keyspace| ks.position().leave(|| Some(end), NOW).expect("a commit");
    assert_eq!(after(|ks| assert!(leave(ks).is_some())), Some((90, Some(3))));
    let changed = |ks: &Keyspace| {
        set(ks, "a", None);
        assert_eq!(leave(ks), None);
    };
    assert_eq!(after(changed), None);
    let none = |ks: &Keyspace| assert_eq!(ks.position().leave(|| None, NOW), Ok(None));
    assert_eq!(after(none), None);
}

#[test]
fn a_place_that_is_kept_costs_no_fence() {
    let dir = tempfile::tempdir().expect("a directory");
    let ks = emulated(&dir.path().join("pool"), SHARDS);
    let cost = |offset| {
        let before = pmem::counters();
        set(&ks, "key", offset);
        let cost = pmem::counters().since(&before);
        (cost.fences, cost.lines)
    };
    let _ = [cost(None), cost(None)];
    let without = cost(None);
    assert!(ks.position().keep(|| Some(position(70)), NOW).expect("a commit"));
    let _ = cost(Some((80, db(0))));
    let with = cost(Some((90, db(0))));
    assert_eq!(with.0, without.0, "{with:?}, {without:?}");
    assert!(with.1 <= without.1 + 1, "{with:?}, {without:?}");
}

#[test]
fn a_primarys_own_place_says_which_commits_there_are() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("pool");
    let ks = emulated(&path, SHARDS);
    let set_in = |ks: &Keyspace, shard: usize, offset: Option<u64>| {
        let name =
            (0..).map(|n| format!("key:{n}")).find(|name| ks.key(name.as_bytes()).shard() == shard);
        set(ks, &name.expect("a key"), offset.map(|offset| (offset, db(0))));
    };
    set_in(&ks, 0, None);
    assert!(ks.position().keep_own(|| Some(position(70)), NOW).expect("a commit"));
    set_in(&ks, 1, Some(90));
    set_in(&ks, 0, Some(80));
    drop(ks);
    // A start that is given up changes nothing of it.
    for _ in 0..2 {
        let ks = Keyspace::new(open(&path), NOW);
        let (found, own) = ks.position().take_place().expect("a place");
        let expected = StreamPosition { offset: 90, db: Some(0), ..position(70) };
        assert_eq!(found, expected);
        assert_eq!(own, Some(OwnPlace { begun: 70, shards: vec![80, 90] }));
        assert_eq!(ks.position().kept_offset(), Some(90));
    }
    let ks = Keyspace::new(open(&path), NOW);
    set_in(&ks, 0, None);
    assert_eq!(ks.position().kept_offset(), None);
    assert!(!ks.position().keep_own(|| None, NOW).expect("no commit"));
    assert!(ks.position().keep_own(|| Some(position(100)), NOW).expect("a commit"));
    drop(ks);
    let ks = Keyspace::new(open(&path), NOW);
    let (found, own) = ks.position().take_place().expect("a place");
    assert_eq!(found, position(100));
    assert_eq!(own, Some(OwnPlace { begun: 100, shards: vec![0, 0] }));
}
