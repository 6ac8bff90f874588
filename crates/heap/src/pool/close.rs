//! Closing a pool.

use super::journal;
use crate::transaction::heap::Heap;
use std::sync::atomic::Ordering;

impl Heap {
    /// Retires every log, syncs, and marks the pool as closed cleanly. It takes no writes
    /// afterwards. A poisoned heap is not closed: the next opening recovers it.
    pub fn close(&self) -> std::io::Result<()> {
        let mut shards: Vec<_> = (0..self.shards()).map(|shard| self.lock(shard)).collect();
        if self.volatile || self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if self.is_poisoned() {
            return Err(std::io::Error::other(
                "it had stopped taking writes after a failure; the next start recovers what was acknowledged",
            ));
        }
        for shard in &mut shards {
            shard.rollback();
            shard.state.ring.retire_all(&self.region);
        }
        self.region.fence();
        self.region.sync_flushed()?;
        // The kernel reports a lost page only once: an earlier sync may have had the report.
        if self.region.failed() {
            self.poison();
            return Err(std::io::Error::other("what was written could not be made durable"));
        }
        let mut header = self.header();
        journal::end(&self.region, &mut header).map_err(std::io::Error::other)?;
        header.clean = true;
        header.lsn = self.lsn();
        header.write(&self.region);
        self.region.sync_flushed()
    }
}
