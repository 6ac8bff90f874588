//! Statistics as metrics, with the feature `metrics`.

#![cfg(feature = "metrics")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura};

/// Keeps the values of counters, and the bits of gauges.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Kept {
    fn value(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        Arc::clone(self.0.lock().expect("no panic").entry(name).or_default())
    }

    #[track_caller]
    fn get(&self, name: &str) -> u64 {
        let values = self.0.lock().expect("no panic");
        values.get(name).unwrap_or_else(|| panic!("no {name}")).load(Ordering::SeqCst)
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.value(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.value(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn statistics_are_recorded_under_the_names_of_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path().join("pool")).domain(DomainRequest::Journal);
    let options = options.limit(64 << 20).journal_size(8 << 20).background(false);
    let store = Perdura::open(options).expect("a store");
    for n in 0..7 {
        store.set(format!("k{n}"), "v").expect("space");
    }
    let kept = Kept::default();
    let statistics = store.statistics();
    metrics::with_local_recorder(&kept, || statistics.record());
    assert_eq!(f64::from_bits(kept.get("perdura_keys")), 7.0);
    assert_eq!(f64::from_bits(kept.get("perdura_writes_stopped")), 0.0);
    assert_eq!(kept.get("perdura_commits_total"), 7);
    assert!(kept.get("perdura_heap_fences_total") >= 7);
    let syncs = statistics.journal.expect("a journal").sync_times.count();
    assert!(syncs >= 7);
    assert_eq!(kept.get("perdura_journal_syncs_total"), syncs);
    assert_eq!(kept.get("perdura_journal_sync_seconds_bucket le=8.388608"), syncs);
}
