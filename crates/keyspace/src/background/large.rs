//! Processing large tables, long lists and the like in steps of their own, during a walk through
//! the keys.
//!
//! A walk takes some keys at a time, from a cursor of the index of keys. If any of them have large
//! tables, the walk stops after these keys and processes their tables one after the other, in the
//! order of their keys' hashes, each with a cursor of its own. Between two steps, keys may be
//! created, deleted and moved: a table that no longer exists is left out.

use heap::{Ptr, Shard, View};
use structures::dict::Dict;
use structures::index::Index;
use structures::list::List;
use structures::sorted_set::SortedSet;
use structures::stream::Stream;

use crate::entry;
use crate::head::Layout;
use crate::key::Hashing;
use crate::layout::Kind;

/// The position of a walk that is inside a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Within {
    /// The walk's cursor when it took the keys, of which the table's key is one.
    pub(crate) from: u64,
    /// The hash of the table's key.
    hash: u64,
    /// The cursor of the walk through the table.
    pub(crate) cursor: u64,
}

/// A value that is processed in steps of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Large {
    Table(Dict),
    /// A list of more than one node.
    List(List),
    /// A sorted set in its large form.
    SortedSet(SortedSet),
    /// A stream of more than one node, or with groups.
    Stream(Stream),
}

fn table(shard: &Shard<'_>, at: Ptr) -> Option<Large> {
    let Kind::Collection(head) = entry::kind(shard, at) else { return None };
    let word = shard.word(entry::cell(shard, at));
    match head.layout {
        Layout::Listpack | Layout::ListpackWithTtls => None,
        Layout::HashTable => Some(Large::Table(Dict::at(Ptr::from_raw(word)))),
        Layout::List => Some(List::from_word(word)).filter(|list| list.is_long()).map(Large::List),
        Layout::SortedSet => Some(Large::SortedSet(SortedSet::at(Ptr::from_raw(word)))),
        Layout::Stream => {
            let stream = Stream::open(shard, word).ok();
            stream.filter(|stream| stream.is_long(shard)).map(Large::Stream)
        }
    }
}

impl Within {
    /// Returns the first table among the `count` keys from `from` on.
    pub(crate) fn first(
        shard: &Shard<'_>,
        index: Index,
        hashing: &Hashing,
        from: u64,
        count: usize,
    ) -> Option<Within> {
        Within::after(shard, index, hashing, from, count, None)
    }

    fn after(
        shard: &Shard<'_>,
        index: Index,
        hashing: &Hashing,
        from: u64,
        count: usize,
        before: Option<u64>,
    ) -> Option<Within> {
        let mut next: Option<u64> = None;
        index.scan(shard, from, count, |at| {
            if table(shard, at).is_some() {
                let hash = entry::hash(shard, at, hashing);
                if before.is_none_or(|before| hash > before) {
                    next = Some(next.map_or(hash, |next| next.min(hash)));
                }
            }
        });
        next.map(|hash| Within { from, hash, cursor: 0 })
    }

    /// Returns the entry and the table, if they still exist.
    pub(crate) fn find(
        &self,
        shard: &Shard<'_>,
        index: Index,
        hashing: &Hashing,
    ) -> Option<(Ptr, Large)> {
        let is_it = |at| table(shard, at).is_some() && entry::hash(shard, at, hashing) == self.hash;
        let at = index.find(shard, self.hash, is_it)?.entry();
        table(shard, at).map(|large| (at, large))
    }

    /// Returns where to continue: in this table unless its cursor is 0, otherwise in the next table
    /// of the same keys.
    pub(crate) fn next(
        self,
        cursor: u64,
        shard: &Shard<'_>,
        index: Index,
        hashing: &Hashing,
        count: usize,
    ) -> Option<Within> {
        if cursor != 0 {
            return Some(Within { cursor, ..self });
        }
        Within::after(shard, index, hashing, self.from, count, Some(self.hash))
    }
}
