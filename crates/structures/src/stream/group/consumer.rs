//! Consumers of a group.

use std::ops::ControlFlow;

use heap::{Full, Ptr, View};

use super::pending::{Pending, seek};
use super::{Group, Records, each, name};
use crate::blob::Blob;
use crate::reclaim::Queue;
use crate::stream::words::{self, Name};
use crate::stream::{Error, Id};
use crate::tree::Tree;
use crate::{Damaged, Store};

/// When it was last seen, its name, and when it was last active.
const CONSUMER: Name = Name(*b"xact", "consumer");
const WORDS: usize = 3;
/// The record of earlier versions, without the last word; it is not converted.
const OLD_CONSUMER: Name = Name(*b"xcon", "consumer");
const OLD_WORDS: usize = 2;
/// The index of the name's word, in both.
const NAME_WORD: usize = 2;
pub(super) const CONSUMER_ROOTS: usize = 1;
/// In place of a time: never active.
const NEVER: u64 = u64::MAX;

/// One of a group's consumers.
#[derive(Clone, Copy, Debug)]
pub struct Consumer {
    pub(super) at: Ptr,
    pub(super) name: Blob,
    /// When it was last seen, in unix ms.
    pub seen: u64,
    /// When entries were last delivered to it for the first time, or claimed by it, in unix ms. For
    /// a consumer that an earlier version created, when it was last seen.
    pub active: Option<u64>,
    pub(super) is_old: bool,
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

    /// Shows up to `most` consumers from number `from` on; returns how many.
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

    /// Returns the consumer with this name.
    pub fn consumer<V: View>(&self, view: &V, name: &[u8]) -> Result<Option<Consumer>, Damaged> {
        let (_, found) = name::find(view, self.consumer_tree(), NAME_WORD, name)?;
        found.map(|item| Consumer::read(view, Ptr::from_raw(item.second))).transpose()
    }

    /// Creates a consumer with a name that no other one has; it counts as seen and active at this
    /// time (unix ms).
    pub fn create_consumer<S: Store>(
        &self,
        store: &mut S,
        name: &[u8],
        seen: u64,
        active: Option<u64>,
    ) -> Result<Consumer, Error> {
        let (cursor, _) = name::find(store, self.consumer_tree(), NAME_WORD, name)?;
        let blob = Blob::create(store, name)?;
        let mut consumer = Consumer { at: Ptr::NULL, name: blob, seen, active, is_old: false };
        consumer.at = consumer.write(store, &words::no_roots::<CONSUMER_ROOTS>())?;
        self.consumer_tree().insert(store, &cursor, name::item(name, consumer.at))?;
        Ok(consumer)
    }

    /// Removes a consumer with all its pending entries; returns how many entries there were. The
    /// time it takes grows with their number.
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
        let (cursor, found) = name::find(store, self.consumer_tree(), NAME_WORD, &name)?;
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
        let is_old = OLD_CONSUMER.is_of(view, at);
        let [seen, name, active] = if is_old {
            let [seen, name] = words::read::<OLD_WORDS, V>(view, at, OLD_CONSUMER)?;
            [seen, name, seen]
        } else {
            words::read::<WORDS, V>(view, at, CONSUMER)?
        };
        let active = (active != NEVER).then_some(active);
        Ok(Consumer { at, name: Blob::from_word(name), seen, active, is_old })
    }

    /// Returns the size of the record at a place, whatever else is wrong with it.
    pub(super) fn size_at<V: View>(view: &V, at: Ptr) -> usize {
        let words = if OLD_CONSUMER.is_of(view, at) { OLD_WORDS } else { WORDS };
        words::size(words, CONSUMER_ROOTS)
    }

    /// Returns the name of the record's type, and its words.
    fn words(&self) -> (Name, [u64; WORDS], usize) {
        let words = [self.seen, self.name.word(), self.active.unwrap_or(NEVER)];
        if self.is_old { (OLD_CONSUMER, words, OLD_WORDS) } else { (CONSUMER, words, WORDS) }
    }

    /// Writes the record to a new block with these roots; returns its place.
    pub(super) fn write<S: Store>(
        &self,
        store: &mut S,
        roots: &[u64; CONSUMER_ROOTS],
    ) -> Result<Ptr, Full> {
        let (kind, words, len) = self.words();
        words::create(store, kind, &words[..len], roots)
    }

    /// Returns its name.
    pub fn name<V: View>(&self, view: &V) -> Result<Vec<u8>, Damaged> {
        name::read(view, self.name)
    }

    /// Returns true if this is the same consumer of the same group.
    pub fn is(&self, other: &Consumer) -> bool {
        self.at == other.at
    }

    /// Returns the place of its record, which distinguishes it from others.
    pub fn ptr(&self) -> Ptr {
        self.at
    }

    pub(super) fn pending_root(&self) -> Ptr {
        words::root(self.at, self.words().2, 0)
    }

    pub(super) fn pending_tree(&self) -> Tree<Records> {
        Tree::at(self.pending_root())
    }

    /// Returns the number of its pending entries.
    pub fn pending_count<V: View>(&self, view: &V) -> u64 {
        self.pending_tree().weight(view)
    }

    /// Shows its pending entries from an ID on, until `visit` returns `false`.
    pub fn visit_pending<V: View>(
        &self,
        view: &V,
        from: Id,
        visit: impl FnMut(&Pending) -> bool,
    ) -> Result<(), Damaged> {
        super::pending::visit(view, self.pending_tree(), from, visit)
    }

    /// Records that it is seen now (unix ms), and whether it is active.
    pub fn see<S: Store>(&mut self, store: &mut S, now: u64, is_active: bool) {
        let active = if is_active || self.is_old { Some(now) } else { self.active };
        self.rewrite(store, Consumer { seen: now, active, ..*self });
    }

    /// Logs new times or a new name.
    pub(super) fn rewrite<S: Store>(&mut self, store: &mut S, new: Consumer) {
        let (kind, old, len) = self.words();
        words::write(store, self.at, kind, &old[..len], &new.words().1[..len]);
        *self = new;
    }

    /// Adds one of the group's pending entries to its own.
    pub(super) fn take_on<S: Store>(&self, store: &mut S, pending: &Pending) -> Result<(), Error> {
        let cursor = seek(store, self.pending_tree(), pending.id)?.0;
        Ok(self.pending_tree().insert(store, &cursor, pending.item())?)
    }
}
