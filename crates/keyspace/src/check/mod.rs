//! Verifying a whole keyspace: every checksum, every count, and that the reachable blocks are
//! exactly the allocated ones.
//!
//! For `perdura check` and for tests. The time it takes grows with the size of the pool. It
//! verifies one shard at a time, and continues after each problem, so that one pass reports all of
//! them. Entries are read in the order of their places, which suits the medium best, and not in
//! that of the index.

mod bitmaps;
mod repair;

pub use repair::Repaired;

use crate::walk::Walk;
use crate::{CheckError, Checked, Keyspace};

impl Keyspace {
    /// Verifies everything, and returns the first problem. The keyspace must be at rest: no other
    /// thread writes.
    pub fn check(&self) -> Result<Checked, CheckError> {
        let mut checked = Checked::default();
        let mut problems: Vec<CheckError> =
            self.heap().check_spans().into_iter().map(CheckError::Heap).collect();
        for shard in 0..self.shards() {
            checked.add(self.inspect(shard, &|_| {}, &mut |problem| problems.push(problem)));
        }
        problems.into_iter().next().map_or(Ok(checked), Err)
    }

    /// Verifies one shard while holding its lock. Calls `problem` for each problem in it, and
    /// `read` with the number of bytes verified. [`heap::Heap::check_spans`] verifies the span
    /// table.
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
