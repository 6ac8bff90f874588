//! The fault points of this crate: names for rules that crash tests show to be necessary. The crate
//! `pmem` explains how one is disabled.

heap::fault_points! { 160:
    /// When a block grows, the checksum of its bytes changes with its length, in the same word.
    ChecksumWithLength,
    /// A split segment is freed by the transaction that leads readers to its halves.
    FreeSplit,
    /// A structure is unlinked by the transaction that puts it onto the free queue.
    UnlinkQueued,
}
