//! Spans and events of rare operations, with the feature `tracing`: opening and recovery, clearing,
//! purging, closing. Without the feature none of them is compiled; operations on keys have none in
//! any case.

use heap::{Heap, Recovery};

/// Enters a span until the end of the scope. Its fields are evaluated only with the feature.
#[cfg(feature = "tracing")]
macro_rules! span {
    ($($span:tt)*) => { tracing::info_span!(target: "perdura", $($span)*).entered() };
}

/// Enters no span.
#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($($span:tt)*) => {
        $crate::trace::NoSpan
    };
}

pub(crate) use span;

/// Takes the place of a span.
#[cfg(not(feature = "tracing"))]
pub(crate) struct NoSpan;

/// Reports how a pool was opened: what recovery found, or that it is new.
#[cfg(feature = "tracing")]
pub(crate) fn opened(heap: &Heap, recovery: Option<&Recovery>) {
    let domain = heap.region().domain();
    match recovery {
        None => tracing::info!(target: "perdura", %domain, "created"),
        Some(Recovery { clean, records, words, journal, .. }) => {
            let batches = journal.as_ref().map(|journal| journal.batches);
            tracing::info!(target: "perdura", %domain, clean, records, words, batches, "recovered");
        }
    }
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn opened(_: &Heap, _: Option<&Recovery>) {}
