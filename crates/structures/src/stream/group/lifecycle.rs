//! Operations on a group as a whole: freeing, showing its blocks, moving.

use std::collections::HashSet;

use heap::{Full, Ptr, View};

use super::consumer::Consumer;
use super::pending::{PENDING, Pending};
use super::{GROUP, GROUP_ROOTS, GROUP_WORDS, Group, Records};
use crate::Store;
use crate::reclaim::Queue;
use crate::stream::{Error, Id, Stream, words};
use crate::tree::{self, Item, Tree};

/// The owner numbers by which the free queue distinguishes what the items of a stream's trees own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owners {
    /// Nodes of entries.
    pub nodes: u16,
    /// Groups.
    pub groups: u16,
    /// Consumers.
    pub consumers: u16,
    /// A group's pending entries.
    pub pending: u16,
    /// A consumer's pending entries, which belong to the group.
    pub nothing: u16,
}

/// Maximum number of pending entries of a consumer that is moved: each refers to it, and one step
/// changes all of them.
const MOVED_AT_ONCE: u64 = 64;

impl Group {
    /// Frees the group: its record and a short name immediately, the rest through the free queue.
    /// Returns how many blocks were freed.
    pub(in crate::stream) fn release<S: Store>(
        &self,
        store: &mut S,
        queue: Queue,
        owners: Owners,
    ) -> Result<usize, Full> {
        let (pending, consumers) = (self.pending_root(), self.consumer_root());
        queue.push_unlinked_tree(store, store.word(pending), owners.pending)?;
        queue.push_unlinked_tree(store, store.word(consumers), owners.consumers)?;
        let freed = queue.release_blob(store, self.name)?;
        store.free(self.at);
        Ok(freed + 1)
    }

    /// Visits its blocks, including everything below it.
    pub(in crate::stream) fn blocks<V: View>(&self, view: &V, visit: &mut dyn FnMut(Ptr)) {
        visit(self.at);
        self.name.blocks(view, &mut *visit);
        let record = |item: Item, visit: &mut dyn FnMut(Ptr)| visit(Ptr::from_raw(item.second));
        tree_blocks(view, self.pending_tree(), visit, record);
        tree_blocks(view, self.consumer_tree(), visit, |item, visit| {
            let at = Ptr::from_raw(item.second);
            match Consumer::read(view, at) {
                Ok(consumer) => consumer.blocks(view, visit),
                Err(_) => visit(at),
            }
        });
    }

    /// Moves its record, to which an item of the stream's tree of groups refers, and its name out
    /// of sparse spans.
    fn relocate<S: Store>(mut self, store: &mut S) -> Result<Option<Ptr>, Error> {
        if let Some(name) = self.name.relocate(store)? {
            self.name = name;
            self.save(store);
        }
        if !store.is_sparse(self.at) {
            return Ok(None);
        }
        let roots: [u64; GROUP_ROOTS] =
            std::array::from_fn(|number| store.word(words::root(self.at, GROUP_WORDS, number)));
        let at = words::create(store, GROUP, &self.saved, &roots)?;
        store.free(self.at);
        Ok(Some(at))
    }

    /// Takes a step of defragmentation over the consumers of a leaf from number `from` on; returns
    /// the number after them, or 0 at the end.
    pub(in crate::stream) fn relocate_consumers<S: Store>(
        &self,
        store: &mut S,
        from: u64,
    ) -> Result<u64, Error> {
        let mut damaged = Ok(());
        let next = self.consumer_tree().relocate(store, from, |store, item| {
            let moved = Consumer::read(store, Ptr::from_raw(item.second))
                .map_err(Error::from)
                .and_then(|consumer| consumer.relocate(store));
            keep_sound(moved.map(|at| moved_item(item, at)), &mut damaged)
        })?;
        damaged.map(|()| next)
    }

    /// Like `relocate_consumers`, for pending entries.
    pub(in crate::stream) fn relocate_pending<S: Store>(
        &self,
        store: &mut S,
        from: u64,
    ) -> Result<u64, Error> {
        let mut damaged = Ok(());
        let next = self.pending_tree().relocate(store, from, |store, item| {
            let moved = Pending::read(store, Ptr::from_raw(item.second))
                .map_err(Error::from)
                .and_then(|pending| pending.relocate(store));
            keep_sound(moved.map(|at| moved_item(item, at)), &mut damaged)
        })?;
        damaged.map(|()| next)
    }
}

fn moved_item(item: Item, at: Option<Ptr>) -> Option<Item> {
    at.map(|at| Item { second: at.raw(), ..item })
}

/// Records damage, which the walk over a tree does not report itself.
fn keep_sound(
    moved: Result<Option<Item>, Error>,
    damaged: &mut Result<(), Error>,
) -> Result<Option<Item>, Full> {
    match moved {
        Ok(item) => Ok(item),
        Err(Error::Full(full)) => Err(full),
        Err(damage) => {
            *damaged = Err(damage);
            Ok(None)
        }
    }
}

impl Consumer {
    pub(super) fn release<S: Store>(
        &self,
        store: &mut S,
        queue: Queue,
        owners: Owners,
    ) -> Result<usize, Full> {
        queue.push_unlinked_tree(store, store.word(self.pending_root()), owners.nothing)?;
        let freed = queue.release_blob(store, self.name)?;
        store.free(self.at);
        Ok(freed + 1)
    }

    /// Visits its blocks; the records of its pending entries belong to its group.
    fn blocks<V: View>(&self, view: &V, visit: &mut dyn FnMut(Ptr)) {
        visit(self.at);
        self.name.blocks(view, &mut *visit);
        tree_blocks(view, self.pending_tree(), visit, |_, _| {});
    }

    /// Moves its name and, if few entries are pending, its record.
    fn relocate<S: Store>(mut self, store: &mut S) -> Result<Option<Ptr>, Error> {
        if let Some(name) = self.name.relocate(store)? {
            self.rewrite(store, Consumer { name, ..self });
        }
        if !store.is_sparse(self.at) || self.pending_count(store) > MOVED_AT_ONCE {
            return Ok(None);
        }
        let mut all = Vec::new();
        self.visit_pending(store, Id::MIN, |pending| {
            all.push(*pending);
            all.len() as u64 <= MOVED_AT_ONCE
        })?;
        if all.len() as u64 > MOVED_AT_ONCE {
            return Ok(None);
        }
        let root = store.word(self.pending_root());
        let at = self.write(store, &[root])?;
        for pending in all {
            pending.rewrite(store, Pending { consumer: at, ..pending });
        }
        store.free(self.at);
        Ok(Some(at))
    }
}

impl Pending {
    /// Moves the leaf of its consumer's tree, and its record, out of sparse spans, and updates both
    /// trees.
    fn relocate<S: Store>(self, store: &mut S) -> Result<Option<Ptr>, Error> {
        let tree = Consumer::read(store, self.consumer)?.pending_tree();
        let cursor = self.place(store, tree)?;
        tree.relocate_leaf(store, &cursor)?;
        if !store.is_sparse(self.at) {
            return Ok(None);
        }
        let cursor = self.place(store, tree)?;
        let at = words::create(store, PENDING, &self.words(), &[])?;
        tree.replace(store, &cursor, Pending { at, ..self }.item());
        store.free(self.at);
        Ok(Some(at))
    }
}

impl Stream {
    /// Moves group number `number`, and the node of the tree of which it is the first.
    pub(in crate::stream) fn relocate_group<S: Store>(
        &self,
        store: &mut S,
        number: u64,
    ) -> Result<(), Error> {
        let Some((cursor, item)) = self.group_tree().numbered(store, number)? else {
            return Ok(());
        };
        let group = Group::read(store, Ptr::from_raw(item.second))?;
        if let Some(at) = group.relocate(store)? {
            self.group_tree().replace(store, &cursor, Item { second: at.raw(), ..item });
        }
        Ok(self.group_tree().relocate_leaf(store, &cursor)?)
    }

    /// Frees what an item of a queued stream's trees owns; returns how many blocks were freed.
    pub fn free_item<S: Store>(
        store: &mut S,
        queue: Queue,
        owners: Owners,
        owner: u16,
        item: Item,
    ) -> Result<usize, Full> {
        let at = Ptr::from_raw(item.second);
        // A part that cannot be read any more is not freed.
        if owner == owners.nodes {
            Stream::free_node(store, queue, at)
        } else if owner == owners.groups {
            Group::read(store, at).map_or(Ok(0), |group| group.release(store, queue, owners))
        } else if owner == owners.consumers {
            let consumer = Consumer::read(store, at);
            consumer.map_or(Ok(0), |consumer| consumer.release(store, queue, owners))
        } else if owner == owners.pending && Pending::read(store, at).is_ok() {
            store.free(at);
            Ok(1)
        } else {
            Ok(0)
        }
    }

    /// Visits the blocks that an item of a queued stream's trees owns.
    pub fn item_blocks<V: View>(
        view: &V,
        owners: Owners,
        owner: u16,
        item: Item,
        mut visit: impl FnMut(Ptr),
    ) {
        let at = Ptr::from_raw(item.second);
        if owner == owners.nodes {
            Stream::node_blocks(view, at, visit);
        } else if owner == owners.groups {
            if let Ok(group) = Group::read(view, at) {
                group.blocks(view, &mut visit);
            }
        } else if owner == owners.consumers {
            if let Ok(consumer) = Consumer::read(view, at) {
                consumer.blocks(view, &mut visit);
            }
        } else if owner == owners.pending && Pending::read(view, at).is_ok() {
            visit(at);
        }
    }

    /// Visits the blocks of its groups.
    pub(in crate::stream) fn group_blocks<V: View>(&self, view: &V, visit: &mut dyn FnMut(Ptr)) {
        tree_blocks(view, self.group_tree(), visit, |item, visit| {
            let at = Ptr::from_raw(item.second);
            match Group::read(view, at) {
                Ok(group) => group.blocks(view, visit),
                Err(_) => visit(at),
            }
        });
    }
}

/// Visits the blocks of a tree, and those that belong to its items.
fn tree_blocks<V: View>(
    view: &V,
    tree: Tree<Records>,
    visit: &mut dyn FnMut(Ptr),
    mut of_item: impl FnMut(Item, &mut dyn FnMut(Ptr)),
) {
    tree.salvage_walk_all(view, &mut HashSet::new(), |part| match part {
        tree::Part::Block(at) => visit(at),
        tree::Part::Item(item) => of_item(item, visit),
    });
}
