//! The statistics of a store.

use std::time::Duration;

use perdura::prelude::*;
use perdura::{DomainRequest, Error, Options, Perdura, Statistics};

fn open(folder: &tempfile::TempDir, domain: DomainRequest) -> Perdura {
    let options = Options::new(folder.path().join("pool")).domain(domain).limit(64 << 20);
    Perdura::open(options.journal_size(8 << 20).background(false)).expect("a store")
}

#[test]
fn statistics_count_what_was_done_since_the_store_was_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, DomainRequest::Process);
    for n in 0..100 {
        store.set(format!("k{n}"), "v").expect("space");
    }
    store.close().expect("a disk that does not fail");

    let store = open(&folder, DomainRequest::Process);
    let before = store.statistics();
    assert_eq!((before.keys, before.commits, before.hits, before.misses), (100, 0, 0, 0));
    store.set_for("short", "v", Duration::from_secs(60)).expect("space");
    store.database(3).and_then(|other| other.set("other", "v")).expect("space");
    store.transact(|tx| tx.increment("a", 1).and_then(|_| tx.increment("b", 1))).expect("space");
    assert_eq!(store.get("k1"), Ok(Some(b"v".to_vec())));
    assert_eq!(store.get("absent"), Ok(None));
    assert_eq!(store.increment("k1", 1), Err(Error::NotAnInteger));

    let after = store.statistics();
    assert_eq!((after.keys, after.keys_with_ttl), (104, 1));
    assert_eq!(after.commits, 3, "reads and failures commit nothing");
    assert!(after.hits > 0 && after.misses > 0);
    assert!(after.usage.used > before.usage.used);
    assert_eq!((after.media_errors, after.damaged_keys, after.is_read_only), (0, 0, false));
    assert_eq!(after.journal, None);
}

/// Other tests of this process fence meanwhile, so that the totals are at least this test's.
#[test]
fn what_the_medium_was_asked_for_is_counted_over_all_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, DomainRequest::Process);
    let before = store.statistics().medium;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..50 {
                    store.set(format!("{thread}:{n}"), vec![7; 1000]).expect("space");
                }
            });
        }
    });
    let after = store.statistics().medium;
    assert!(after.fences - before.fences >= 200);
    assert!(after.bytes() - before.bytes() >= 200 * 1000);
}

#[test]
fn a_journal_has_the_times_of_its_syncs() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder, DomainRequest::Journal);
    let journal = |statistics: Statistics| statistics.journal.expect("a journal");
    let before = journal(store.statistics());
    for n in 0..20 {
        store.set("a", n.to_string()).expect("space");
    }
    let after = journal(store.statistics());
    assert!(after.sync_times.count() - before.sync_times.count() >= 20);
    assert!(after.batches - before.batches >= 20);
    assert!(after.bytes_written > before.bytes_written);
    assert_eq!((after.bytes_unsynced, after.full_waits), (0, 0));
    assert!(after.capacity >= 512 << 10 && after.bytes_unapplied <= after.capacity);

    // Each bound is between the time itself and twice the time.
    let most: Duration =
        after.sync_times.buckets().map(|(bound, count)| bound * count as u32).sum();
    let rounding = Duration::from_micros(2) * after.sync_times.count() as u32;
    assert!(after.sync_time <= most && most <= after.sync_time * 2 + rounding, "{after:?}");
    assert!(after.sync_times.quantile(1.0) >= after.sync_times.quantile(0.5));
}
