//! The fault points of this crate: rules whose necessity the crash tests show, by name. The crate
//! `pmem` documents how to disable one.

heap::fault_points! { 176:
    /// When a string in an entry grows, its checksum changes together with its length, in the same
    /// word.
    ChecksumWithLength,
    /// A block that is moved is published without the space after its contents, which the next
    /// append writes.
    MoveWithoutSpace,
    /// The shards of a transaction are locked in ascending order.
    LockAscending,
    /// A shard of a snapshot is released when the last of its entries has been read.
    ReleaseAfterRead,
    /// A transaction that has shards locked never waits for one more.
    TryExtend,
    /// A shard that is locked later is inserted among the others in ascending order.
    ExtendInOrder,
    /// A place in a stream that moves begins without what commits said of an earlier one.
    MoveFromStart,
    /// A commit that is in no stream ends the place that moves.
    MoveAway,
    /// ... for good.
    StayLost,
}
