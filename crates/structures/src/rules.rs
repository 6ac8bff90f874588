//! The rules of this crate that crash tests show to be needed, by name: see the crate `pmem` on how one is left out.

heap::steps! { 160:
    /// Where a block grows, the checksum of its bytes changes with its length, in the same word.
    SumWithLength,
    /// A segment that was split is freed by the transaction that leads readers to its halves.
    FreeSplit,
    /// What goes into the free queue is unlinked by the same transaction.
    UnlinkQueued,
}
