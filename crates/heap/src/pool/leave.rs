//! Leaving a journal while the pool stays open, since its file will not be found again.

use super::journal;
use crate::transaction::heap::Heap;

impl Heap {
    /// Applies everything in the journal, and ends its use: the pool's file alone then has
    /// everything that was committed, and names no journal. Later commits are written to it and
    /// synced one by one; the next opening begins another journal.
    pub fn leave_journal(&self) -> std::io::Result<()> {
        let _shards: Vec<_> = (0..self.shards()).map(|shard| self.lock(shard)).collect();
        let mut header = self.header();
        journal::end(&self.region, &mut header).map_err(std::io::Error::other)?;
        header.write_both(&self.region);
        if self.region.failed() {
            self.poison();
            return Err(std::io::Error::other("the pool's file could not be written"));
        }
        Ok(())
    }
}
