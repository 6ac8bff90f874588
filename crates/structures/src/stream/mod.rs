//! Streams: entries of fields and values in the order of their IDs, which only grow; and consumer
//! groups.
//!
//! The caller keeps one word, which refers to a header. The header leads to the last node of
//! entries, a sorted tree of the nodes before it, and a tree of groups.
//!
//! The reasons: a stream grows at its end. An entry is written after the others of the last node,
//! and logs the node's two words and the words of the header that change. If the last node were in
//! the tree, each append would first descend the tree; and a short stream needs no tree at all. Old
//! entries are removed from the front: whole nodes at once, and entries of the first node by
//! changing one word. Removing an entry elsewhere copies its node.
//!
//! Changes are made to an opened [`Stream`] and to the heap; [`Stream::save`] finally logs the
//! header.
//!
//! A stream knows neither keys nor clocks. `docs/format/stream.md` has the format and the counts.

mod entry;
mod group;
mod lifecycle;
mod node;
mod pieces;
mod trim;
mod walk;
mod words;

use heap::{Full, Ptr, View};

pub use entry::{Entry, Pairs};
pub use group::{Consumer, Delivery, Group, Owners, Pending};
pub use lifecycle::{NodeCopy, WalkItem};
pub use node::{MAX_BYTES, MAX_COUNT};
pub use pieces::Piece;
pub use trim::{Bound, Trim};

use crate::listpack::Item;
use crate::tree::{self, Kind, Tree};
use crate::{Damaged, Store};
use node::Node;
use words::Name;

/// The ID of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Milliseconds, usually of the time at which the entry was added.
    pub ms: u64,
    /// Distinguishes entries of the same millisecond.
    pub seq: u64,
}

impl Id {
    /// The minimum.
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    /// The maximum.
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// Returns the next ID, if there is one.
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// Returns the previous ID, if there is one.
    pub fn prev(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }

    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.ms.to_le_bytes());
        bytes[8..].copy_from_slice(&self.seq.to_le_bytes());
        bytes
    }
}

/// The maximum size of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    bytes: usize,
    count: usize,
}

impl Limits {
    /// Returns limits for nodes of fewer than `bytes` bytes and of at most `count` entries; 0 means
    /// as many as fit into a node.
    pub fn new(bytes: usize, count: usize) -> Limits {
        let bytes = if bytes == 0 { usize::MAX } else { bytes.saturating_sub(node::LESS).max(64) };
        let count = if count == 0 { usize::MAX } else { count };
        Limits { bytes: bytes.min(node::MAX_BYTES), count: count.min(node::MAX_COUNT) }
    }
}

/// Why a stream cannot be read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The heap has no space.
    #[error(transparent)]
    Full(#[from] Full),
    /// The stream is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}

/// The nodes before the last one, as (milliseconds of the base, place).
#[derive(Clone, Copy, Debug)]
struct Nodes;

impl Kind for Nodes {
    const SORTED: bool = true;

    fn weight(_: tree::Item) -> u64 {
        1
    }
}

const NAME: Name = Name(*b"xstr", "stream header");
const WORDS: usize = 7;
const ROOTS: usize = 2;

/// The header of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The number of its entries.
    pub len: u64,
    /// The greatest ID that it has ever had.
    pub last: Id,
    /// The number of entries that were ever added.
    pub added: u64,
    /// The greatest ID that was ever deleted, other than by trimming.
    pub deleted: Id,
    /// The last node, or 0.
    tail: u64,
}

impl Head {
    fn words(self) -> [u64; WORDS] {
        let Head { len, last, added, deleted, tail } = self;
        [len, last.ms, last.seq, added, deleted.ms, deleted.seq, tail]
    }

    fn from_words([len, ms, seq, added, deleted_ms, deleted_seq, tail]: [u64; WORDS]) -> Head {
        let deleted = Id { ms: deleted_ms, seq: deleted_seq };
        Head { len, last: Id { ms, seq }, added, deleted, tail }
    }
}

/// A stream that was opened.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    at: Ptr,
    saved: Head,
    /// The header; [`Stream::save`] writes its changes.
    pub head: Head,
}

impl Stream {
    /// Creates an empty stream.
    pub fn create<S: Store>(store: &mut S) -> Result<Stream, Full> {
        let head = Head::default();
        let at = words::create(store, NAME, &head.words(), &words::no_roots::<ROOTS>())?;
        Ok(Stream { at, saved: head, head })
    }

    /// Returns the stream that a word refers to.
    pub fn open<V: View>(view: &V, word: u64) -> Result<Stream, Damaged> {
        let at = Ptr::from_raw(word);
        let head = Head::from_words(words::read(view, at, NAME)?);
        Ok(Stream { at, saved: head, head })
    }

    /// Returns the word to keep.
    pub fn word(&self) -> u64 {
        self.at.raw()
    }

    /// Logs the changes of its header.
    pub fn save<S: Store>(&mut self, store: &mut S) {
        words::write(store, self.at, NAME, &self.saved.words(), &self.head.words());
        self.saved = self.head;
    }

    fn nodes(&self) -> Tree<Nodes> {
        Tree::at(words::root(self.at, WORDS, 0))
    }

    fn tail<V: View>(&self, view: &V) -> Result<Option<Node>, Damaged> {
        match self.head.tail {
            0 => Ok(None),
            at => Node::read(view, Ptr::from_raw(at)).map(Some),
        }
    }

    /// Returns the number of its nodes: at most that of its entries, whatever the weights of a
    /// damaged tree say.
    pub fn node_count<V: View>(&self, view: &V) -> u64 {
        let nodes = self.nodes().weight(view).saturating_add(u64::from(self.head.tail != 0));
        nodes.min(self.head.len)
    }

    /// Returns true if it has more than one node, or groups: operations on the whole stream are
    /// then done in steps.
    pub fn is_long<V: View>(&self, view: &V) -> bool {
        !self.nodes().is_empty(view) || !self.group_tree().is_empty(view)
    }

    /// Adds an entry whose ID is greater than the last one.
    pub fn append<S: Store>(
        &mut self,
        store: &mut S,
        id: Id,
        pairs: &[(Item<'_>, Item<'_>)],
        limits: Limits,
    ) -> Result<(), Error> {
        let tail = self.tail(store)?;
        let grown = match &tail {
            Some(tail) => tail.append(store, id, pairs, limits)?,
            None => None,
        };
        let at = match (grown, tail) {
            (Some(at), _) => at,
            (None, None) => Node::create(store, id, pairs, 0)?,
            (None, Some(tail)) => {
                let end = self.nodes().end(store);
                self.nodes().insert(store, &end, item_of(&tail))?;
                // It will probably be as large as the previous one.
                let capacity = tail.stored() + tail.stored() / 8;
                Node::create(store, id, pairs, capacity.min(limits.bytes))?
            }
        };
        self.head.tail = at.raw();
        self.head.len += 1;
        // It is reported to clients as a signed number.
        self.head.added = self.head.added.saturating_add(1).min(i64::MAX as u64);
        self.head.last = id;
        Ok(())
    }
}

fn item_of(node: &Node) -> tree::Item {
    tree::Item { first: node.base.ms, second: node.at.raw() }
}
