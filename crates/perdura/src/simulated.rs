//! Stores over heaps that tests make: on simulated media, crashed and opened again. Only in builds
//! with the feature `sim`.

use std::sync::Arc;

use heap::Heap;
use keyspace::Keyspace;

use crate::Perdura;
use crate::wait::Waiting;

#[doc(hidden)]
impl Perdura {
    /// Returns a store over a heap, without a background thread and without a journal.
    pub fn over(heap: Heap, clock: fn() -> u64) -> Perdura {
        let keyspace = Arc::new(Keyspace::new(heap, clock()));
        let waiting = Waiting::new(keyspace.shards());
        let first_lsn = keyspace.heap().lsn();
        let compaction = Arc::default();
        Perdura {
            background: None,
            journaled: None,
            keyspace,
            waiting,
            first_lsn,
            clock,
            compaction,
        }
    }

    /// Verifies everything in the heap.
    pub fn verify(&self) -> Result<(), String> {
        self.keyspace.check().map_err(|error| error.to_string())?;
        match self.keyspace.heap().damaged() {
            0 => Ok(()),
            damaged => Err(format!("{damaged} damaged references")),
        }
    }

    /// Closes the heap, as before a planned restart.
    pub fn close_heap(&self) -> Result<(), String> {
        self.keyspace.heap().close().map_err(|error| error.to_string())
    }
}
