//! The path from the root word to a segment.
//!
//! The root word, and each word of a node, refers to a node (its lowest bit is set) or to a
//! segment. A word reached through `covered` bits of the hash refers to a segment of depth at most
//! `covered`; if the depth is less, neighbouring words of the same node also refer to the segment:
//! `2^(covered - depth)` of them, from one whose index is a multiple of that count. This is
//! extendible hashing within one node; a segment whose depth equals `covered` can split only into a
//! new node, so that no directory is ever doubled.

use heap::{Ptr, View};

use super::layout::*;

/// A word that refers to a segment, and that segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentPath {
    /// The word that the hash led to.
    pub(super) at: Ptr,
    /// The word's index in its node.
    number: usize,
    /// How many bits of the hash led there.
    pub(super) covered: u32,
    pub(super) segment: Ptr,
}

/// The words, all of one node or the root word alone, that refer to one segment.
pub(super) struct Run {
    pub(super) first: Ptr,
    pub(super) words: usize,
}

impl SegmentPath {
    /// Follows a hash. Returns `None` if there is nothing, or if a damaged trie has no segment
    /// there.
    #[inline]
    pub(super) fn of<V: View>(view: &V, root: Ptr, hash: u64) -> Option<SegmentPath> {
        let mut at = root;
        let mut covered = 0;
        let mut number = 0;
        loop {
            let word = view.word(at);
            if word & NODE_FLAG == 0 {
                let segment = Ptr::from_raw(word);
                return (word != 0).then_some(SegmentPath { at, number, covered, segment });
            }
            if covered == MAX_DEPTH {
                return None;
            }
            number = node_word(hash, covered);
            at = word_at(Ptr::from_raw(word & !NODE_FLAG), number);
            covered += NODE_BITS;
        }
    }

    /// Returns the segment's depth, if a segment at this place can have it.
    pub(super) fn depth<V: View>(&self, view: &V) -> Option<u32> {
        let depth = depth_of(view.word(word_at(self.segment, KIND)))?;
        let lowest = self.covered.saturating_sub(NODE_BITS - 1);
        (lowest..=self.covered).contains(&depth).then_some(depth)
    }

    /// Returns the words that refer to this place's segment, which has depth `depth`.
    pub(super) fn run(&self, depth: u32) -> Run {
        let words = 1 << (self.covered - depth);
        let before = (self.number & (words - 1)) * WORD;
        Run { first: Ptr::from_raw(self.at.raw() - before as u64), words }
    }
}

/// A node on the way to a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) at: Ptr,
    /// The word that refers to it.
    pub(super) parent: Ptr,
    /// How many bits of the hash led to it.
    pub(super) covered: u32,
}

/// The nodes on the path of a hash, from the root.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nodes {
    nodes: [Node; (MAX_DEPTH / NODE_BITS) as usize],
    count: usize,
}

impl Nodes {
    pub(super) fn of<V: View>(view: &V, root: Ptr, hash: u64) -> Nodes {
        let mut path = Nodes::default();
        let mut parent = root;
        while path.count < path.nodes.len() {
            let word = view.word(parent);
            if word & NODE_FLAG == 0 {
                break;
            }
            let covered = path.count as u32 * NODE_BITS;
            let at = Ptr::from_raw(word & !NODE_FLAG);
            path.nodes[path.count] = Node { at, parent, covered };
            path.count += 1;
            parent = word_at(at, node_word(hash, covered));
        }
        path
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Node> {
        self.nodes.into_iter().take(self.count)
    }

    pub(super) fn last(&self) -> Option<Node> {
        self.iter().last()
    }
}
