//! Each adapter does what the measurements take for granted: it stores and returns what it was
//! given, and what was opened durable is there again after it was closed.

#![forbid(unsafe_code)]

use perdura_embedded::data::{Key, key, value};
use perdura_embedded::store::Store;
use perdura_embedded::systems::System;

fn read(store: &dyn Store, n: u64) -> Option<Vec<u8>> {
    let mut found = None;
    let is_there = store.get(&key(n), &mut |value| found = Some(value.to_vec())).expect("a read");
    assert_eq!(is_there, found.is_some());
    found
}

/// Sets values number `numbers` in one batch.
fn put_all(store: &dyn Store, numbers: std::ops::Range<u64>) {
    let values: Vec<_> = numbers.clone().map(|n| value(n, 4096)).collect();
    let entries: Vec<(Key, &[u8])> =
        numbers.zip(&values).map(|(n, value)| (key(n), value.as_slice())).collect();
    store.put_all(&entries).expect("a batch");
}

#[test]
fn every_adapter_returns_what_it_was_given() {
    for system in System::all() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = (system.open)(folder.path()).expect("a store");
        let store = store.as_ref();
        assert_eq!(read(store, 1), None, "{}", system.id());
        store.put(&key(1), &value(1, 100)).expect("a write");
        assert_eq!(read(store, 1), Some(value(1, 100)), "{}", system.id());
        store.put(&key(1), &value(2, 4096)).expect("a write");
        assert_eq!(read(store, 1), Some(value(2, 4096)), "{}", system.id());
        put_all(store, 10..110);
        for n in 10..110 {
            assert_eq!(read(store, n), Some(value(n, 4096)), "{}", system.id());
        }
        assert_eq!(read(store, 110), None, "{}", system.id());
    }
}

#[test]
fn every_adapter_reads_rows_in_order_and_what_it_has_of_snapshots() {
    for system in System::all() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = (system.open)(folder.path()).expect("a store");
        let store = store.as_ref();
        let mut rows: Vec<(Key, Vec<u8>)> = (0..200).map(|n| (key(n), value(n, 100))).collect();
        let entries: Vec<(Key, &[u8])> =
            rows.iter().map(|(key, value)| (*key, value.as_slice())).collect();
        store.put_rows(&entries).expect("a batch");
        rows.sort();
        let range = |from: &Key, count| {
            let mut shown = Vec::new();
            let look = &mut |value: &[u8]| shown.push(value.to_vec());
            let counted = store.range(from, count, look).expect("a range");
            assert_eq!(counted, shown.len() as u64);
            shown
        };
        let values = |rows: &[(Key, Vec<u8>)]| -> Vec<Vec<u8>> {
            rows.iter().map(|(_, value)| value.clone()).collect()
        };
        assert!(range(&Key::default(), usize::MAX) == values(&rows), "{}", system.id());
        assert!(range(&rows[50].0, 100) == values(&rows[50..150]), "{}", system.id());
        store.put(&key(1), &value(1, 100)).expect("a write");
        let snapshot = store.snapshot().expect("a snapshot, or none");
        assert_eq!(snapshot.is_none(), system.name == "sled");
        store.put(&key(1), &value(2, 100)).expect("a write");
        if let Some(snapshot) = snapshot {
            let mut found = Vec::new();
            let look = &mut |value: &[u8]| found = value.to_vec();
            assert!(snapshot.get(&key(1), look).expect("a read"));
            assert!(found == value(1, 100), "{} shows another moment", system.id());
        }
        assert_eq!(read(store, 1), Some(value(2, 100)), "{}", system.id());
    }
}

#[test]
fn what_was_durable_is_there_again() {
    let durable: Vec<_> = System::all().into_iter().filter(|s| s.class.is_durable).collect();
    assert!(durable.iter().any(System::is_ours) && durable.len() >= 11);
    for system in durable {
        let folder = tempfile::tempdir().expect("a folder");
        let store = (system.open)(folder.path()).expect("a store");
        store.put(&key(1), &value(1, 100)).expect("a write");
        put_all(store.as_ref(), 10..110);
        drop(store);
        let store = (system.open)(folder.path()).expect("the store again");
        assert_eq!(read(store.as_ref(), 1), Some(value(1, 100)), "{}", system.id());
        for n in 10..110 {
            assert_eq!(read(store.as_ref(), n), Some(value(n, 4096)), "{}", system.id());
        }
    }
}

#[test]
fn every_system_has_a_name_of_its_own() {
    for system in System::all() {
        let found = System::find(&system.id()).expect("the system");
        assert_eq!((found.name, found.class), (system.name, system.class));
    }
}
