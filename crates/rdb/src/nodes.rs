//! Lists in the nodes of Redis 7.0: listpacks, each filled from the head on, as by RPUSH.

use crate::ListpackBuilder;

/// The size of a list's nodes: `list-max-listpack-size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimit(i32);

/// Bytes up to which a node that is limited by its count takes further elements.
pub const SAFE: usize = 8192;
/// The assumed overhead of an element.
const OVERHEAD: usize = 8;

impl ListLimit {
    /// Makes a limit. From -1 to -5: 4 to 64 KiB; above zero: that many elements.
    pub fn new(size: i32) -> ListLimit {
        ListLimit(size.clamp(-5, i32::from(i16::MAX)))
    }

    /// Returns true if a node of this size and count takes an element of this length.
    fn takes(self, bytes: usize, count: usize, len: usize) -> bool {
        let bytes = bytes + len + OVERHEAD;
        match self.0 {
            size @ ..0 => bytes <= 2048 << size.unsigned_abs(),
            most => bytes <= SAFE && count < most as usize,
        }
    }
}

/// Puts elements into nodes. The last node is always kept back, unless there are no elements.
#[derive(Debug)]
pub struct ListNodes {
    limit: ListLimit,
    node: ListpackBuilder,
}

impl ListNodes {
    /// The mark of a node that is a listpack, unlike a plain element.
    pub const PACKED: u64 = 2;

    /// Begins with the head.
    pub fn new(limit: ListLimit) -> ListNodes {
        ListNodes { limit, node: ListpackBuilder::default() }
    }

    /// Adds an element. Returns the previous node, if the element begins another one.
    pub fn push(&mut self, element: &[u8]) -> Option<Vec<u8>> {
        let node = &self.node;
        let fits = node.is_empty() || self.limit.takes(node.size(), node.len(), element.len());
        let full = (!fits).then(|| std::mem::take(&mut self.node).finish());
        self.node.push(element);
        full
    }

    /// Returns the last node.
    pub fn finish(self) -> Option<Vec<u8>> {
        (!self.node.is_empty()).then(|| self.node.finish())
    }
}
