//! Spans and events, with the feature `tracing`: those that the documentation promises, and none
//! for an operation on a key.
//!
//! A program of its own: for each place, `tracing` asks once in the whole process whether there are
//! subscribers, so that threads of other tests would make it decide that there are none.

#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex};

use perdura::prelude::*;
use perdura::{DomainRequest, Options, Perdura};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps the names of spans, and the texts of events.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

impl Kept {
    fn keep(&self, text: String) {
        self.0.lock().expect("no panic").push(text);
    }
}

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if ["message", "clean", "databases"].contains(&field.name()) {
            self.0 += &format!(" {value:?}");
        }
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "perdura"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut message = Message(span.metadata().name().to_owned());
        span.record(&mut message);
        self.keep(message.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message("event:".to_owned());
        event.record(&mut message);
        self.keep(message.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn what_happens_seldom_has_a_span_and_what_happens_often_has_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path().join("pool")).domain(DomainRequest::Process);
    let options = options.limit(64 << 20).background(false);
    let kept = Kept::default();
    tracing::subscriber::with_default(kept.clone(), || {
        let store = Perdura::open(options.clone()).expect("a store");
        store.set("a", "1").expect("space");
        store.transact(|tx| tx.increment("a", 1)).expect("space");
        store.get("a").expect("an intact store");
        assert_eq!(store.keys().count(), 1);
        store.clear().expect("an intact store");
        store.close().expect("a disk that does not fail");
        drop(Perdura::open(options).expect("a store"));
    });
    let kept = kept.0.lock().expect("no panic");
    assert_eq!(
        *kept,
        ["open", "event: created", "clear 1", "close", "open", "event: recovered true"]
    );
}
