//! Streams in the nodes of Redis 7.0: listpacks, each filled as by XADD.

use crate::stream::SAME_FIELDS;
use crate::{ListpackBuilder, StreamId};

/// The size of a stream's nodes: `stream-node-max-bytes` and `stream-node-max-entries`; 0 for no
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimit {
    /// Bytes from which on a node takes no more.
    pub bytes: usize,
    /// Maximum number of entries.
    pub entries: usize,
}

/// Maximum number of bytes in a node.
const MOST_BYTES: usize = 1 << 30;

/// A node of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamNode {
    /// The ID of its first entry, which its other IDs are relative to.
    pub base: StreamId,
    /// Its entries.
    pub listpack: Vec<u8>,
}

/// Puts entries into nodes.
#[derive(Debug)]
pub struct StreamNodes {
    limit: StreamLimit,
    base: StreamId,
    fields: Vec<Vec<u8>>,
    entries: usize,
    node: ListpackBuilder,
}

impl StreamNodes {
    /// Begins with the first entry.
    pub fn new(limit: StreamLimit) -> StreamNodes {
        let node = ListpackBuilder::default();
        StreamNodes { limit, base: StreamId::MIN, fields: Vec::new(), entries: 0, node }
    }

    fn takes(&self, len: usize) -> bool {
        let most = match self.limit.bytes {
            0 => MOST_BYTES,
            most => most.min(MOST_BYTES),
        };
        let has_space = self.limit.entries == 0 || self.entries < self.limit.entries;
        self.node.size() + len < most && has_space
    }

    /// Adds an entry, fields before their values. Returns the previous node, if the entry begins
    /// another one.
    pub fn push(&mut self, id: StreamId, words: &[&[u8]]) -> Option<StreamNode> {
        let len = words.iter().map(|word| word.len()).sum();
        let full = if self.entries > 0 && !self.takes(len) { self.take() } else { None };
        if self.entries == 0 {
            self.begin(id, words);
        }
        self.entries += 1;
        let pairs = words.chunks_exact(2);
        let is_same = pairs.clone().map(|pair| pair[0]).eq(self.fields.iter().map(Vec::as_slice));
        let count = pairs.len();
        self.node.push_int(if is_same { SAME_FIELDS } else { 0 });
        self.node.push_int(id.ms.wrapping_sub(self.base.ms) as i64);
        self.node.push_int(id.seq.wrapping_sub(self.base.seq) as i64);
        if !is_same {
            self.node.push_int(count as i64);
        }
        for pair in pairs {
            if !is_same {
                self.node.push(pair[0]);
            }
            self.node.push(pair[1]);
        }
        self.node.push_int(if is_same { count + 3 } else { 2 * count + 4 } as i64);
        self.node.replace_first_int(self.entries as i64);
        full
    }

    /// Writes the master entry.
    fn begin(&mut self, id: StreamId, words: &[&[u8]]) {
        self.base = id;
        self.fields = words.chunks_exact(2).map(|pair| pair[0].to_vec()).collect();
        self.node.push_int(0);
        self.node.push_int(0);
        self.node.push_int(self.fields.len() as i64);
        self.fields.iter().for_each(|field| self.node.push(field));
        self.node.push_int(0);
    }

    fn take(&mut self) -> Option<StreamNode> {
        let entries = std::mem::take(&mut self.entries);
        let node = std::mem::take(&mut self.node);
        (entries > 0).then(|| StreamNode { base: self.base, listpack: node.finish() })
    }

    /// Returns the last node.
    pub fn finish(mut self) -> Option<StreamNode> {
        self.take()
    }
}
