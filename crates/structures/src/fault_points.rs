//! The fault points of this crate: rules that crash tests show to be needed, by name. The crate
//! `pmem` tells how one is disabled.

heap::fault_points! { 160:
    /// Where a block grows, the checksum of its bytes changes with its length, in the same word.
    ChecksumWithLength,
    /// A segment that was split is freed by the transaction that leads readers to its halves.
    FreeSplit,
    /// What goes into the free queue is unlinked by the same transaction.
    UnlinkQueued,
}
