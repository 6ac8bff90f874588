//! The fault points of this crate: rules that crash tests show to be needed, by name. The crate
//! `pmem` tells how one is disabled.

heap::fault_points! { 176:
    /// Where a string in an entry grows, its checksum changes with its length, in the same word.
    ChecksumWithLength,
    /// What is moved is published without the space after it, which the next append writes.
    MoveWithoutSpace,
    /// The shards of a transaction are locked in ascending order.
    LockAscending,
}
