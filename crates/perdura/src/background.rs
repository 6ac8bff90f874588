//! The thread that maintains a store: it deletes expired keys, frees garbage of deletes, makes
//! space ahead of need, compacts sparsely used spans if space is short, and gives unused space
//! back.
//!
//! It works in the keyspace's bounded steps, so that no call of the program waits long for it, and
//! sleeps if there is nothing to do. It ends when the store is dropped.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use keyspace::{Compacted, Compaction, Keyspace};

/// Maximum number of keys or blocks per step.
const STEP: usize = 64;
const PAUSE: Duration = Duration::from_millis(100);
/// Pauses after which free space that stayed unused may be given back.
const REST: u32 = 100;

/// Takes one step in each shard. Returns true if there is more to do at once.
pub(crate) fn maintain(keyspace: &Keyspace, compaction: &Mutex<Compaction>, now: u64) -> bool {
    if keyspace.has_unresolved_losses() {
        keyspace.resolve_losses();
    }
    let mut more = keyspace.heap().grow_ahead();
    if keyspace.heap().region().is_nearly_full() {
        // A commit could find no space, and hold the lock of its shard.
        return false;
    }
    for shard in 0..keyspace.shards() {
        // A store that takes no more writes needs no maintenance.
        let Ok((_, expired)) = keyspace.expire_step(shard, STEP, now) else { return false };
        more |= expired.more;
        if keyspace.has_garbage(shard) {
            let Ok(freed) = keyspace.reclaim_step(shard, STEP) else { return false };
            more |= freed.more;
        }
    }
    let heap = keyspace.heap();
    if heap.is_short_of_spans() && !heap.snapshot_stats().is_taken {
        more |= keyspace.compact_ahead(compaction, STEP) != Compacted::Nothing;
    }
    more | keyspace.give_back_step()
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    wanted: Condvar,
}

impl Stop {
    /// Waits for the pause or the end. Returns true at the end.
    fn pause(&self) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.wanted.wait_timeout_while(asked, PAUSE, |asked| !*asked);
        *wait.unwrap_or_else(PoisonError::into_inner).0
    }

    fn ask(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wanted.notify_all();
    }
}

/// The running thread.
pub(crate) struct Background {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn start(
        keyspace: Arc<Keyspace>,
        compaction: Arc<Mutex<Compaction>>,
        clock: fn() -> u64,
    ) -> std::io::Result<Background> {
        let stop = Arc::new(Stop::default());
        let asked = Arc::clone(&stop);
        let run = move || {
            pmem::share_counters();
            let mut pauses = 0u32;
            let mut logs = heap::RestingLogs::default();
            while !asked.pause() {
                pauses = pauses.wrapping_add(1);
                if pauses.is_multiple_of(REST) {
                    keyspace.heap().rest();
                }
                // Bounded, so that the end is noticed.
                (0..100).any(|_| !maintain(&keyspace, &compaction, clock()));
                logs.look(keyspace.heap());
            }
        };
        let thread = std::thread::Builder::new().name("perdura".into()).spawn(run)?;
        Ok(Background { stop, thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            // Its panic, if any, was printed. The store is intact: staged changes were dropped.
            let _ = thread.join();
        }
    }
}
