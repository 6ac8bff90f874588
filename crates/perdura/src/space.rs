//! Making space for a transaction if the store has no block left of the sizes that it needs.
//!
//! Blocks that deletes free serve other sizes only after their surroundings have been moved. An
//! operation on one value is tried again after that. A transaction of the program is not, since its
//! closure may have done anything. So space is made before it begins, if little is left, and by the
//! background thread long before that.

use keyspace::Compacted;

use crate::Perdura;

/// How often an operation that finds no space is tried again.
const TRIES: usize = 16;
/// Steps of compaction at a time: each looks at 64 blocks.
const STEPS: usize = 1000;
/// The same, before a transaction.
const STEPS_AHEAD: usize = 100;

impl Perdura {
    /// Compacts sparsely used spans before a transaction that may find no space, since the
    /// program's closure must not run twice.
    #[inline]
    pub(crate) fn make_space_ahead(&self) {
        let heap = self.keyspace.heap();
        // While a snapshot is open, moved blocks stay held by it.
        if heap.is_scarce() && !heap.snapshot_stats().is_taken {
            self.keyspace.compact_for(&self.compaction, 0, STEPS_AHEAD);
        }
    }

    /// Makes space for a value that found none: from garbage of deletes, else from sparsely used
    /// spans, else from larger blocks. Returns true if another try is worthwhile.
    #[cold]
    pub(crate) fn make_space(&self, bytes: usize, tries: usize) -> bool {
        if tries >= TRIES {
            return false;
        }
        // Space that others keep freeing may be of no use to this one.
        let freed = self.keyspace.reclaim_until(|| false);
        if freed && tries == 0 {
            return true;
        }
        let moved = self.keyspace.compact_for(&self.compaction, bytes, STEPS);
        moved != Compacted::Nothing || self.keyspace.heap().allow_larger_blocks() || freed
    }
}
