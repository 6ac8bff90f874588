//! Gives free space of the pool that is not used back to the file system.

use std::time::{Duration, Instant};

use crate::shared::Shared;

/// How long unused free space is kept.
const REST: Duration = Duration::from_secs(10);
/// How long space is given back before the thread's other work.
const GIVE_BACK: Duration = Duration::from_millis(50);

/// The unused free space of the pool, and when it was last looked at.
pub(crate) struct FreeSpace {
    rested: Duration,
    warned: bool,
    /// Whether a purge is running.
    purges: bool,
}

impl FreeSpace {
    pub(crate) fn new(now: Duration) -> FreeSpace {
        FreeSpace { rested: now, warned: false, purges: false }
    }

    /// Gives some back, as long as there is time.
    pub(crate) fn give_back(&mut self, shared: &Shared, now: Duration) {
        let keyspace = shared.engine.keyspace();
        let heap = keyspace.heap();
        if now.saturating_sub(self.rested) >= REST {
            self.rested = now;
            heap.rest();
        }
        let before = heap.given_back();
        let until = Instant::now() + GIVE_BACK;
        while {
            self.purges |= heap.is_purging();
            keyspace.give_back_step()
        } && Instant::now() < until
            && !shared.shutdown.is_asked()
        {}
        if self.purges && !heap.is_purging() {
            self.purges = false;
            heap::trim_allocator();
        }
        let given = heap.given_back().saturating_sub(before);
        if given > 0 {
            tracing::debug!("Gave {given} bytes of free space in the pool back");
        }
        let may = !heap.region().is_device() && shared.journal.is_none();
        if !self.warned && may && !heap.gives_space_back() {
            self.warned = true;
            tracing::info!("The pool's file system makes no holes in files: free space is kept");
        }
    }
}
