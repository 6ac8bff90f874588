//! Entries that were delivered and have not been acknowledged.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use heap::{Ptr, View};

use super::consumer::Consumer;
use super::{Group, Records, each};
use crate::stream::words::{self, Name};
use crate::stream::{Error, Id};
use crate::tree::{Cursor, Item, Tree};
use crate::{Damaged, Store};

pub(super) const PENDING: Name = Name(*b"xpen", "pending entry");
pub(super) const PENDING_WORDS: usize = 5;
/// The word of the sequence number.
const SEQ: u64 = 16;

/// When an entry was delivered last, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Unix time in milliseconds.
    pub at_ms: u64,
    /// How many times it was delivered.
    pub count: u64,
}

/// An entry that was delivered and has not been acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    pub(super) at: Ptr,
    pub(super) consumer: Ptr,
    /// The entry's ID.
    pub id: Id,
    /// When it was last delivered, in unix ms.
    pub delivered: u64,
    /// How many times it was delivered.
    pub count: u64,
}

/// Returns a cursor before the first pending entry whose ID is not less than this one, and its
/// item.
pub(super) fn seek<V: View>(
    view: &V,
    tree: Tree<Records>,
    id: Id,
) -> Result<(Cursor, Option<Item>), Damaged> {
    let cursor = tree.seek(view, |item| match item.first.cmp(&id.ms) {
        Ordering::Equal => view.word(Ptr::from_raw(item.second).add(SEQ)) < id.seq,
        order => order.is_lt(),
    });
    let item = tree.item_at(view, &cursor)?;
    Ok((cursor, item))
}

/// Shows the pending entries of a tree from an ID on, until `visit` returns `false`.
pub(super) fn visit<V: View>(
    view: &V,
    tree: Tree<Records>,
    from: Id,
    mut visit: impl FnMut(&Pending) -> bool,
) -> Result<(), Damaged> {
    let (cursor, _) = seek(view, tree, from)?;
    each(view, tree, cursor, |at| {
        let more = visit(&Pending::read(view, at)?);
        Ok(if more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })
    .map(drop)
}

impl Group {
    /// Returns the pending entry with this ID.
    pub fn pending<V: View>(&self, view: &V, id: Id) -> Result<Option<Pending>, Damaged> {
        let (_, Some(item)) = seek(view, self.pending_tree(), id)? else { return Ok(None) };
        let pending = Pending::read(view, Ptr::from_raw(item.second))?;
        Ok(Some(pending).filter(|pending| pending.id == id))
    }

    /// Shows the pending entries from an ID on, until `visit` returns `false`.
    pub fn visit_pending<V: View>(
        &self,
        view: &V,
        from: Id,
        visit: impl FnMut(&Pending) -> bool,
    ) -> Result<(), Damaged> {
        self::visit(view, self.pending_tree(), from, visit)
    }

    /// Shows up to `most` pending entries from number `from` on; returns how many.
    pub fn some_pending<V: View>(
        &self,
        view: &V,
        from: u64,
        most: u64,
        mut visit: impl FnMut(&Pending),
    ) -> Result<u64, Damaged> {
        let (tree, mut shown) = (self.pending_tree(), 0);
        let Some((cursor, _)) = tree.numbered(view, from)? else { return Ok(0) };
        each(view, tree, cursor, |at| {
            visit(&Pending::read(view, at)?);
            shown += 1;
            Ok(if shown < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        Ok(shown)
    }

    /// Returns the highest pending ID.
    pub fn last_pending<V: View>(&self, view: &V) -> Result<Option<Id>, Damaged> {
        let tree = self.pending_tree();
        let mut cursor = tree.end(view);
        // At the start there is none, or no path to it.
        cursor.prev(view);
        let item = tree.item_at(view, &cursor)?;
        item.map(|item| Ok(Pending::read(view, Ptr::from_raw(item.second))?.id)).transpose()
    }

    /// Records that an entry that is not yet pending in the group was delivered to a consumer.
    pub fn deliver<S: Store>(
        &self,
        store: &mut S,
        consumer: &Consumer,
        id: Id,
        delivery: Delivery,
    ) -> Result<(), Error> {
        let Delivery { at_ms: delivered, count } = delivery;
        let words = [id.ms, id.seq, delivered, count, consumer.at.raw()];
        let at = words::create(store, PENDING, &words, &[])?;
        let pending = Pending { at, consumer: consumer.at, id, delivered, count };
        let (cursor, _) = seek(store, self.pending_tree(), id)?;
        self.pending_tree().insert(store, &cursor, pending.item())?;
        consumer.take_on(store, &pending)
    }

    /// Records to whom a pending entry is delivered now.
    pub fn redeliver<S: Store>(
        &self,
        store: &mut S,
        pending: &Pending,
        consumer: &Consumer,
        delivery: Delivery,
    ) -> Result<(), Error> {
        if pending.consumer != consumer.at {
            let old = Consumer::read(store, pending.consumer)?;
            pending.take_out(store, old.pending_tree())?;
            consumer.take_on(store, pending)?;
        }
        let Delivery { at_ms: delivered, count } = delivery;
        pending.rewrite(store, Pending { delivered, count, consumer: consumer.at, ..*pending });
        Ok(())
    }

    /// Removes a pending entry.
    pub fn acknowledge<S: Store>(&self, store: &mut S, pending: &Pending) -> Result<(), Error> {
        let consumer = Consumer::read(store, pending.consumer)?;
        pending.take_out(store, self.pending_tree())?;
        pending.take_out(store, consumer.pending_tree())?;
        store.free(pending.at);
        Ok(())
    }

    /// Returns the consumer to which a pending entry was delivered.
    pub fn owner<V: View>(&self, view: &V, pending: &Pending) -> Result<Consumer, Damaged> {
        Consumer::read(view, pending.consumer)
    }
}

impl Pending {
    pub(super) fn read<V: View>(view: &V, at: Ptr) -> Result<Pending, Damaged> {
        let [ms, seq, delivered, count, consumer] =
            words::read::<PENDING_WORDS, V>(view, at, PENDING)?;
        let consumer = Ptr::from_raw(consumer);
        Ok(Pending { at, consumer, id: Id { ms, seq }, delivered, count })
    }

    /// Returns the place of the record of the consumer that has the entry.
    pub fn consumer(&self) -> Ptr {
        self.consumer
    }

    pub(super) fn words(&self) -> [u64; PENDING_WORDS] {
        [self.id.ms, self.id.seq, self.delivered, self.count, self.consumer.raw()]
    }

    pub(super) fn item(&self) -> Item {
        Item { first: self.id.ms, second: self.at.raw() }
    }

    /// Logs the changes to another version of it.
    pub(super) fn rewrite<S: Store>(&self, store: &mut S, new: Pending) {
        words::write(store, self.at, PENDING, &self.words(), &new.words());
    }

    /// Returns its place in a tree that must contain it.
    pub(super) fn place<V: View>(&self, view: &V, tree: Tree<Records>) -> Result<Cursor, Damaged> {
        match seek(view, tree, self.id)? {
            (cursor, Some(item)) if item == self.item() => Ok(cursor),
            (_, other) => {
                let other = other.map_or(0, |item| item.second);
                Err(Damaged::new("place of a pending entry", self.at, self.at.raw(), other))
            }
        }
    }

    /// Removes it from a tree that must contain it.
    pub(super) fn take_out<S: Store>(
        &self,
        store: &mut S,
        tree: Tree<Records>,
    ) -> Result<(), Damaged> {
        let cursor = self.place(store, tree)?;
        tree.remove(store, &cursor);
        Ok(())
    }
}
