//! Space for a transaction where the store has none left in the sizes that it asks for.
//!
//! What deletes leave serves blocks of other sizes only after what is around it has moved. An
//! operation of one value is tried again after that. A transaction of the program is not: its
//! closure may have done anything. So space is made before it begins, where little is left, and by
//! the background thread long before that.

use keyspace::Compacted;

use crate::Perdura;

/// How often a value that finds no space is tried again.
const TRIES: usize = 16;
/// Steps of compaction at a time: each looks at 64 blocks.
const STEPS: usize = 1000;
/// The same before a transaction.
const STEPS_AHEAD: usize = 100;

impl Perdura {
    /// Makes space of sparsely used spans before a transaction that may find none: what a program
    /// does in one is not to be run twice.
    #[inline]
    pub(crate) fn make_space_ahead(&self) {
        let heap = self.keyspace.heap();
        // What is moved while a snapshot is open stays held by that.
        if heap.is_scarce() && !heap.snapshot_stats().is_taken {
            self.keyspace.compact_for(&self.compaction, 0, STEPS_AHEAD);
        }
    }

    /// Makes space for a value that found none: of what deletes left, else of sparsely used spans,
    /// else of larger blocks. Returns true if it is worth another try.
    #[cold]
    pub(crate) fn make_space(&self, bytes: usize, tries: usize) -> bool {
        if tries >= TRIES {
            return false;
        }
        // What others delete all the time may be of no use to this one.
        let freed = self.keyspace.reclaim_until(|| false);
        if freed && tries == 0 {
            return true;
        }
        let moved = self.keyspace.compact_for(&self.compaction, bytes, STEPS);
        moved != Compacted::Nothing || self.keyspace.heap().allow_larger_blocks() || freed
    }
}
