//! Consumer groups: which entries of a stream were delivered to whom and have not been
//! acknowledged.
//!
//! A stream has a tree of groups in the order of their names. A group has a tree of its consumers,
//! in the order of their names, and one of its pending entries, in the order of their IDs; a
//! consumer has a tree of its own pending entries. A pending entry is a separate record, to which
//! both trees refer.
//!
//! The reasons: an entry is looked up by group, by consumer, and by ID within either; it is removed
//! or given to another consumer; and a group may have millions of pending entries or none. Each of
//! these is one descent of a tree, and all changes are logged words: nothing is copied. The record
//! names the consumer that has the entry, so that an acknowledgement finds the other tree.
//!
//! Ownership: a group owns its record, its name, its consumers and its pending entries; a consumer
//! owns its record, its name and the blocks of its tree, but not the records that the tree refers
//! to.

mod check;
mod consumer;
mod lifecycle;
mod name;
mod pending;

use std::ops::ControlFlow;

use heap::{Full, Ptr, View};

pub use consumer::Consumer;
pub use lifecycle::Owners;
pub use pending::{Delivery, Pending};

pub(super) use check::salvage_walk;

use super::words::{self, Name};
use super::{Id, Stream, WORDS};
use crate::blob::Blob;
use crate::reclaim::Queue;
use crate::tree::{Item, Kind, Tree};
use crate::{Damaged, Store};

const GROUP: Name = Name(*b"xgrp", "consumer group");
const GROUP_WORDS: usize = 4;
const GROUP_ROOTS: usize = 2;

/// The stored value if it is unknown how many entries a group has read.
const UNKNOWN: u64 = u64::MAX;

/// Maximum number of groups of a stream, since their numbers are part of the numbers of its pieces.
pub(super) const MOST_GROUPS: u64 = (1 << 28) - 2;

/// Records in the order of their contents, as (the first eight bytes of the content, place).
#[derive(Clone, Copy, Debug)]
pub(super) struct Records;

impl Kind for Records {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

/// A consumer group.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    at: Ptr,
    name: Blob,
    saved: [u64; GROUP_WORDS],
    /// The last ID that was delivered to it.
    pub last: Id,
    /// How many entries it has read, of all that were ever added; `None` if that is unknown.
    pub read: Option<u64>,
}

/// Visits the items of a tree from a number on, until `visit` breaks.
fn each<V: View, B>(
    view: &V,
    tree: Tree<Records>,
    mut cursor: crate::tree::Cursor,
    mut visit: impl FnMut(Ptr) -> Result<ControlFlow<B>, Damaged>,
) -> Result<Option<B>, Damaged> {
    while let Some(item) = tree.item_at(view, &cursor)? {
        if let ControlFlow::Break(found) = visit(Ptr::from_raw(item.second))? {
            return Ok(Some(found));
        }
        cursor.next(view);
    }
    Ok(None)
}

impl Stream {
    pub(super) fn group_tree(&self) -> Tree<Records> {
        Tree::at(words::root(self.at, WORDS, 1))
    }

    /// Returns the number of its groups.
    pub fn group_count<V: View>(&self, view: &V) -> u64 {
        self.group_tree().weight(view)
    }

    /// Shows the groups in the order of their names, until `visit` breaks.
    pub fn groups<V: View, B>(
        &self,
        view: &V,
        mut visit: impl FnMut(Group) -> ControlFlow<B>,
    ) -> Result<Option<B>, Damaged> {
        let tree = self.group_tree();
        each(view, tree, tree.begin(view), |at| Ok(visit(Group::read(view, at)?)))
    }

    /// Returns group number `number`, in the order of their names.
    pub(super) fn numbered_group<V: View>(
        &self,
        view: &V,
        number: u64,
    ) -> Result<Option<Group>, Damaged> {
        let found = self.group_tree().numbered(view, number)?;
        found.map(|(_, item)| Group::read(view, Ptr::from_raw(item.second))).transpose()
    }

    /// Returns the group with this name.
    pub fn group<V: View>(&self, view: &V, name: &[u8]) -> Result<Option<Group>, Damaged> {
        let (_, found) = name::find(view, self.group_tree(), GROUP_WORDS, name)?;
        found.map(|item| Group::read(view, Ptr::from_raw(item.second))).transpose()
    }

    /// Creates a group with a name that no other one has.
    pub fn create_group<S: Store>(
        &self,
        store: &mut S,
        name: &[u8],
        last: Id,
        read: Option<u64>,
    ) -> Result<Group, super::Error> {
        if self.group_count(store) >= MOST_GROUPS {
            return Err(Full.into());
        }
        let (cursor, _) = name::find(store, self.group_tree(), GROUP_WORDS, name)?;
        let blob = Blob::create(store, name)?;
        let saved = [last.ms, last.seq, read.unwrap_or(UNKNOWN), blob.word()];
        let at = words::create(store, GROUP, &saved, &words::no_roots::<GROUP_ROOTS>())?;
        self.group_tree().insert(store, &cursor, name::item(name, at))?;
        Ok(Group { at, name: blob, saved, last, read })
    }

    /// Removes a group; returns true if there was one with this name. Everything below it is freed
    /// through the free queue.
    pub fn drop_group<S: Store>(
        &self,
        store: &mut S,
        queue: Queue,
        owners: Owners,
        name: &[u8],
    ) -> Result<bool, super::Error> {
        let (cursor, found) = name::find(store, self.group_tree(), GROUP_WORDS, name)?;
        let Some(item) = found else { return Ok(false) };
        let group = Group::read(store, Ptr::from_raw(item.second))?;
        self.group_tree().remove(store, &cursor);
        group.release(store, queue, owners)?;
        Ok(true)
    }
}

impl Group {
    fn read<V: View>(view: &V, at: Ptr) -> Result<Group, Damaged> {
        let saved: [u64; GROUP_WORDS] = words::read(view, at, GROUP)?;
        let [ms, seq, read, name] = saved;
        let read = Some(read).filter(|&read| read != UNKNOWN);
        Ok(Group { at, name: Blob::from_word(name), saved, last: Id { ms, seq }, read })
    }

    /// Returns its name.
    pub fn name<V: View>(&self, view: &V) -> Result<Vec<u8>, Damaged> {
        name::read(view, self.name)
    }

    /// Logs the changes of `last` and `read`.
    pub fn save<S: Store>(&mut self, store: &mut S) {
        let Id { ms, seq } = self.last;
        let new = [ms, seq, self.read.unwrap_or(UNKNOWN), self.name.word()];
        words::write(store, self.at, GROUP, &self.saved, &new);
        self.saved = new;
    }

    fn pending_root(&self) -> Ptr {
        words::root(self.at, GROUP_WORDS, 0)
    }

    fn consumer_root(&self) -> Ptr {
        words::root(self.at, GROUP_WORDS, 1)
    }

    pub(super) fn pending_tree(&self) -> Tree<Records> {
        Tree::at(self.pending_root())
    }

    pub(super) fn consumer_tree(&self) -> Tree<Records> {
        Tree::at(self.consumer_root())
    }

    /// Returns the place of its record, which distinguishes it from others.
    pub fn ptr(&self) -> Ptr {
        self.at
    }

    /// Returns the number of pending entries.
    pub fn pending_count<V: View>(&self, view: &V) -> u64 {
        self.pending_tree().weight(view)
    }

    /// Returns the number of its consumers.
    pub fn consumer_count<V: View>(&self, view: &V) -> u64 {
        self.consumer_tree().weight(view)
    }
}
