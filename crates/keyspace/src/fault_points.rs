//! The fault points of this crate: rules that crash tests show to be needed, by name. The crate
//! `pmem` tells how one is disabled.

heap::fault_points! { 176:
    /// Where a string in an entry grows, its checksum changes with its length, in the same word.
    ChecksumWithLength,
    /// What is moved is published without the space after it, which the next append writes.
    MoveWithoutSpace,
    /// The shards of a transaction are locked in ascending order.
    LockAscending,
    /// Whoever has shards locked never waits for one more.
    TryExtend,
    /// A shard that is locked later has its place in the order of the others.
    ExtendInOrder,
}
