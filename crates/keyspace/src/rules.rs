//! The rules of this crate that crash tests show to be needed, by name: see the crate `pmem` on how one is left out.

heap::steps! { 176:
    /// Where a string in an entry grows, its checksum changes with its length, in the same word.
    SumWithLength,
    /// What is moved is published without the room behind it, which the next append writes.
    MoveWithoutRoom,
}
