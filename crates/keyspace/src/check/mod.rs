//! Verifying a whole keyspace: every checksum, every count, and that what is reachable is what is
//! allocated.
//!
//! For `perdura check` and for tests: it takes as long as the pool is large, a shard at a time, and
//! goes on after whatever is wrong, so that one pass names it all. Entries are read in the order
//! of their places, as the medium likes it best, not in that of the index.

mod bitmaps;
mod repair;

pub use repair::Repaired;

use crate::walk::Walk;
use crate::{CheckError, Checked, Keyspace};

impl Keyspace {
    /// Verifies everything, and answers the first thing that is wrong. The keyspace must be at
    /// rest: no other thread writes.
    pub fn check(&self) -> Result<Checked, CheckError> {
        let mut checked = Checked::default();
        let mut problems: Vec<CheckError> =
            self.heap().check_spans().into_iter().map(CheckError::Heap).collect();
        for shard in 0..self.shards() {
            checked.add(self.inspect(shard, &|_| {}, &mut |problem| problems.push(problem)));
        }
        problems.into_iter().next().map_or(Ok(checked), Err)
    }

    /// Verifies one shard while holding its lock; `problem` hears of everything that is wrong
    /// there, `read` of bytes as they were verified. [`heap::Heap::check_spans`] says the rest.
    pub fn inspect(
        &self,
        shard: usize,
        read: &dyn Fn(u64),
        problem: &mut dyn FnMut(CheckError),
    ) -> Checked {
        let shard = self.heap().lock(shard);
        Walk::new(&self.shared, &shard, read, problem).run()
    }
}
