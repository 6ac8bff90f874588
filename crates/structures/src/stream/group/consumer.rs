//! Consumers of a group.

use std::ops::ControlFlow;

use heap::{Ptr, View};

use super::pending::{Pending, seek};
use super::{Group, Records, each, name};
use crate::blob::Blob;
use crate::reclaim::Queue;
use crate::stream::words::{self, Name};
use crate::stream::{Error, Id};
use crate::tree::Tree;
use crate::{Damaged, Store};

pub(super) const CONSUMER: Name = Name(*b"xcon", "consumer");
pub(super) const CONSUMER_WORDS: usize = 2;
pub(super) const CONSUMER_ROOTS: usize = 1;

/// One of a group's consumers.
#[derive(Clone, Copy, Debug)]
pub struct Consumer {
    pub(super) at: Ptr,
    pub(super) name: Blob,
    /// When it was last seen, in unix ms.
    pub seen: u64,
}

impl Group {
    /// Shows the consumers in the order of their names, until `visit` breaks.
    pub fn consumers<V: View, B>(
        &self,
        view: &V,
        mut visit: impl FnMut(Consumer) -> ControlFlow<B>,
    ) -> Result<Option<B>, Damaged> {
        let tree = self.consumer_tree();
        each(view, tree, tree.begin(view), |at| Ok(visit(Consumer::read(view, at)?)))
    }

    /// Shows up to `most` consumers from number `from` on; how many.
    pub fn some_consumers<V: View>(
        &self,
        view: &V,
        from: u64,
        most: u64,
        mut visit: impl FnMut(Consumer),
    ) -> Result<u64, Damaged> {
        let (tree, mut shown) = (self.consumer_tree(), 0);
        let Some((cursor, _)) = tree.numbered(view, from)? else { return Ok(0) };
        each(view, tree, cursor, |at| {
            visit(Consumer::read(view, at)?);
            shown += 1;
            Ok(if shown < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(shown)
    }

    /// Returns the consumer of a name.
    pub fn consumer<V: View>(&self, view: &V, name: &[u8]) -> Result<Option<Consumer>, Damaged> {
        let (_, found) = name::find(view, self.consumer_tree(), CONSUMER_WORDS, name)?;
        found.map(|item| Consumer::read(view, Ptr::from_raw(item.second))).transpose()
    }

    /// Makes a consumer, whose name no other one has.
    pub fn create_consumer<S: Store>(
        &self,
        store: &mut S,
        name: &[u8],
        seen: u64,
    ) -> Result<Consumer, Error> {
        let (cursor, _) = name::find(store, self.consumer_tree(), CONSUMER_WORDS, name)?;
        let blob = Blob::create(store, name)?;
        let at = words::create(
            store,
            CONSUMER,
            &[seen, blob.word()],
            &words::no_roots::<CONSUMER_ROOTS>(),
        )?;
        self.consumer_tree().insert(store, &cursor, name::item(name, at))?;
        Ok(Consumer { at, name: blob, seen })
    }

    /// Takes a consumer out with all that is pending of it; how many entries that were. It takes as
    /// long as these are many.
    pub fn drop_consumer<S: Store>(
        &self,
        store: &mut S,
        queue: Queue,
        owners: super::Owners,
        consumer: &Consumer,
    ) -> Result<u64, Error> {
        let (tree, mut count) = (consumer.pending_tree(), 0);
        let mut cursor = tree.begin(store);
        while let Some(item) = tree.item_at(store, &cursor)? {
            let pending = Pending::read(store, Ptr::from_raw(item.second))?;
            let (own, found) = (consumer.at.raw(), pending.consumer.raw());
            Damaged::unless_equal("consumer of a pending entry", pending.at, own, found)?;
            pending.take_out(store, self.pending_tree())?;
            store.free(pending.at);
            cursor.next(store);
            count += 1;
        }
        let name = consumer.name(store)?;
        let (cursor, found) = name::find(store, self.consumer_tree(), CONSUMER_WORDS, &name)?;
        let own = consumer.at.raw();
        let found = found.map_or(0, |item| item.second);
        Damaged::unless_equal("place of a consumer", consumer.at, own, found)?;
        self.consumer_tree().remove(store, &cursor);
        consumer.release(store, queue, owners)?;
        Ok(count)
    }
}

impl Consumer {
    pub(super) fn read<V: View>(view: &V, at: Ptr) -> Result<Consumer, Damaged> {
        let [seen, name] = words::read::<CONSUMER_WORDS, V>(view, at, CONSUMER)?;
        Ok(Consumer { at, name: Blob::from_word(name), seen })
    }

    /// Returns its name.
    pub fn name<V: View>(&self, view: &V) -> Result<Vec<u8>, Damaged> {
        name::read(view, self.name)
    }

    /// Returns true if this is the same consumer of the same group.
    pub fn is(&self, other: &Consumer) -> bool {
        self.at == other.at
    }

    /// Returns the place of its record, which tells it from others.
    pub fn ptr(&self) -> Ptr {
        self.at
    }

    pub(super) fn pending_root(&self) -> Ptr {
        words::root(self.at, CONSUMER_WORDS, 0)
    }

    pub(super) fn pending_tree(&self) -> Tree<Records> {
        Tree::at(self.pending_root())
    }

    /// Returns how many entries are pending of it.
    pub fn pending_count<V: View>(&self, view: &V) -> u64 {
        self.pending_tree().weight(view)
    }

    /// Shows what is pending of it from an ID on, until `visit` answers `false`.
    pub fn visit_pending<V: View>(
        &self,
        view: &V,
        from: Id,
        visit: impl FnMut(&Pending) -> bool,
    ) -> Result<(), Damaged> {
        super::pending::visit(view, self.pending_tree(), from, visit)
    }

    /// Says when it was last seen.
    pub fn see<S: Store>(&mut self, store: &mut S, now: u64) {
        self.rewrite(store, now, self.name);
    }

    /// Logs another time or name.
    pub(super) fn rewrite<S: Store>(&mut self, store: &mut S, seen: u64, name: Blob) {
        let (old, new) = ([self.seen, self.name.word()], [seen, name.word()]);
        words::write(store, self.at, CONSUMER, &old, &new);
        (self.seen, self.name) = (seen, name);
    }

    /// Adds one of the group's pending entries.
    pub(super) fn take_on<S: Store>(&self, store: &mut S, pending: &Pending) -> Result<(), Error> {
        let cursor = seek(store, self.pending_tree(), pending.id)?.0;
        Ok(self.pending_tree().insert(store, &cursor, pending.item())?)
    }
}
