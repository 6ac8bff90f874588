//! A full store: the error of refused commands, and the reports in the server's log and INFO.

use crate::engine::Engine;
use crate::failure::{self, Failure};

/// How long a store is reported full after a command was refused, unless space became free.
const FULL_SECONDS: u64 = 60;
/// The percentage of the limit that is in use at least in a full store that is not fragmented.
const USED_WHEN_FULL: u64 = 85;

/// Whether the store is full, and what is reported of it.
#[derive(Clone, Copy)]
pub struct FullStore<'e> {
    engine: &'e Engine,
}

impl Engine {
    /// Returns whether the store is full, and what is reported of it.
    pub fn full_store(&self) -> FullStore<'_> {
        FullStore { engine: self }
    }
}

impl FullStore<'_> {
    /// Returns the text of a final failure. A store is full for one of two causes.
    pub(crate) fn text_of<'a>(&self, failure: &'a Failure) -> &'a [u8] {
        let is_fragmented = failure.is_out_of_memory() && self.is_fragmented();
        if is_fragmented { failure::FRAGMENTED.as_bytes() } else { failure.as_bytes() }
    }

    /// Returns true if a full store has much space in unused blocks.
    fn is_fragmented(&self) -> bool {
        let heap = self.engine.keyspace().heap();
        heap.is_at_limit() && heap.used() < heap.limit() / 100 * USED_WHEN_FULL
    }

    /// Returns why writes are refused now, if they are: for a reason that was set, or because the
    /// store is full and a command was refused for that a short time ago.
    pub fn why_no_writes(&self) -> Option<String> {
        self.engine.config().refusal().or_else(|| {
            let heap = self.engine.keyspace().heap();
            let ago = self.engine.refusals().last_refused_s(self.engine.clock().unix_ms());
            let is_full = ago.is_some_and(|ago| ago < FULL_SECONDS) && heap.has_no_space();
            is_full.then(|| {
                format!(
                    "the store is full: {} bytes of {} are in use (pool-size)",
                    heap.used(),
                    heap.largest_size()
                )
            })
        })
    }

    /// Counts a command that was refused because the store is full, and logs that once a minute.
    #[cold]
    pub fn record_refused(&self) {
        if !self.engine.refusals().record(self.engine.clock().unix_ms()) {
            return;
        }
        let heap = self.engine.keyspace().heap();
        let why = if self.is_fragmented() {
            "its free space is in blocks of other sizes, and is being made whole"
        } else if heap.is_at_limit() {
            "the heap has reached its limit"
        } else {
            "its file cannot grow: is the file system full?"
        };
        let (used, size, limit) = (heap.used(), heap.size(), heap.largest_size());
        if let Some(host) = self.engine.host() {
            host.log(&format!(
                "The store is full and refuses writes with OOM: {why} ({used} bytes are in use, \
                 {size} are taken, {limit} are the limit)"
            ));
        }
    }
}
