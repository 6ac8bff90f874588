//! Verifies groups: in steps, and all groups of a stream that may be damaged.

use std::collections::HashSet;

use heap::{Ptr, View};

use super::consumer::Consumer;
use super::pending::{PENDING_WORDS, Pending};
use super::{GROUP_ROOTS, GROUP_WORDS, Group, Records, name};
use crate::Damaged;
use crate::blob::Blob;
use crate::stream::{Stream, WalkItem, words};
use crate::tree::{self, Item, Tree};

/// The number of consumers that a step verifies.
const CONSUMERS: u64 = 16;
/// The number of pending entries that a step verifies.
const PENDING: u64 = 64;

impl Group {
    /// Verifies its record and name; returns how many bytes were read.
    pub(in crate::stream) fn check<V: View>(&self, view: &V) -> Result<u64, Damaged> {
        let name = self.name(view)?;
        Ok((words::size(GROUP_WORDS, GROUP_ROOTS) + name.len()) as u64)
    }

    /// Verifies some consumers from number `from` on; returns how many, and the number of bytes
    /// that were read.
    pub(in crate::stream) fn check_consumers<V: View>(
        &self,
        view: &V,
        from: u64,
    ) -> Result<(u64, u64), Damaged> {
        let mut some = Vec::new();
        let count = self.some_consumers(view, from, CONSUMERS, |consumer| some.push(consumer))?;
        let mut bytes = 0;
        for consumer in some {
            bytes += (Consumer::size_at(view, consumer.at) + consumer.name(view)?.len()) as u64;
            self.consumer(view, &consumer.name(view)?)?
                .filter(|found| found.is(&consumer))
                .ok_or(Damaged::new("place of a consumer", consumer.at, consumer.at.raw(), 0))?;
        }
        Ok((count, bytes))
    }

    /// Like `check_consumers`, for pending entries; both trees must lead to them.
    pub(in crate::stream) fn check_pending<V: View>(
        &self,
        view: &V,
        from: u64,
    ) -> Result<(u64, u64), Damaged> {
        let mut some = Vec::new();
        let count = self.some_pending(view, from, PENDING, |pending| some.push(*pending))?;
        for pending in some {
            pending.place(view, self.pending_tree())?;
            pending.place(view, Consumer::read(view, pending.consumer)?.pending_tree())?;
        }
        Ok((count, count * words::size(PENDING_WORDS, 0) as u64))
    }
}

/// Shows the blocks of a stream's groups, which may be damaged, and all their damage.
pub(in crate::stream) fn salvage_walk<V: View>(
    view: &V,
    stream: &Stream,
    visit: &mut dyn FnMut(WalkItem) -> bool,
) {
    let mut salvage_walk = SalvageWalk { view, visit };
    let mut last: Option<Vec<u8>> = None;
    for item in salvage_walk.tree(stream.group_tree()) {
        let size = words::size(GROUP_WORDS, GROUP_ROOTS);
        let Some(group) = salvage_walk.record(item, size, Group::read) else { continue };
        salvage_walk.name(item, group.name, &mut last);
        salvage_walk.group(&group);
    }
}

struct SalvageWalk<'s, V> {
    view: &'s V,
    visit: &'s mut dyn FnMut(WalkItem) -> bool,
}

impl<V: View> SalvageWalk<'_, V> {
    fn damage(&mut self, damage: Damaged) {
        (self.visit)(WalkItem::Damage(damage));
    }

    /// Returns the items of a tree.
    fn tree(&mut self, tree: Tree<Records>) -> Vec<Item> {
        let mut items = Vec::new();
        tree.salvage_walk(self.view, |found| match found {
            tree::WalkItem::Block(at, size) => (self.visit)(WalkItem::Block(at, size)),
            tree::WalkItem::Damage(damage) => (self.visit)(WalkItem::Damage(damage)),
            tree::WalkItem::Item(item) => {
                items.push(item);
                true
            }
        });
        items
    }

    /// Returns the record, of this many bytes, that an item refers to.
    fn record<T>(
        &mut self,
        item: Item,
        size: usize,
        read: impl FnOnce(&V, Ptr) -> Result<T, Damaged>,
    ) -> Option<T> {
        let at = Ptr::from_raw(item.second);
        let read = match (self.visit)(WalkItem::Block(at, size)) {
            true => read(self.view, at),
            false => Err(Damaged::new("record of a stream's group", at, 0, at.raw())),
        };
        read.map_err(|damage| self.damage(damage)).ok()
    }

    /// Checks a name, and that it is after the previous one.
    fn name(&mut self, item: Item, name: Blob, last: &mut Option<Vec<u8>>) {
        let (mut sound, at) = (true, Ptr::from_raw(item.second));
        name.blocks(self.view, |at| sound &= (self.visit)(WalkItem::Block(at, 8)));
        if !sound {
            return self.damage(Damaged::new("name in a stream's group", at, 0, name.word()));
        }
        match name::read(self.view, name) {
            Err(damage) => self.damage(damage),
            Ok(name) => {
                let rises = last.as_ref().is_none_or(|last| *last < name);
                if !rises || name::item(&name, at) != item {
                    self.damage(Damaged::new("order of names", at, 0, item.first));
                }
                *last = Some(name);
            }
        }
    }

    fn group(&mut self, group: &Group) {
        let pending = self.pending(group.pending_tree(), |salvage_walk, item| {
            salvage_walk.record(item, words::size(PENDING_WORDS, 0), Pending::read)
        });
        let mut left: HashSet<Item> = pending.into_iter().collect();
        let mut last = None;
        for item in self.tree(group.consumer_tree()) {
            let size = Consumer::size_at(self.view, Ptr::from_raw(item.second));
            let consumer = self.record(item, size, Consumer::read);
            let Some(consumer) = consumer else { continue };
            self.name(item, consumer.name, &mut last);
            self.pending(consumer.pending_tree(), |salvage_walk, item| {
                salvage_walk.of_consumer(&consumer, item, &mut left)
            });
        }
        if !left.is_empty() {
            let found = left.len() as u64;
            self.damage(Damaged::new("pending entries of no consumer", group.at, 0, found));
        }
    }

    /// Takes the entries that a consumer's items refer to out of `left`, the group's entries
    /// without an owner so far.
    fn of_consumer(
        &mut self,
        consumer: &Consumer,
        item: Item,
        left: &mut HashSet<Item>,
    ) -> Option<Pending> {
        if !left.remove(&item) {
            let at = consumer.at;
            self.damage(Damaged::new("pending entry of a consumer", at, 0, item.second));
            return None;
        }
        let pending = Pending::read(self.view, Ptr::from_raw(item.second)).ok()?;
        if pending.consumer != consumer.at {
            let (own, found) = (consumer.at.raw(), pending.consumer.raw());
            self.damage(Damaged::new("consumer of a pending entry", pending.at, own, found));
        }
        Some(pending)
    }

    /// Returns the items of pending entries that can be read, in order.
    fn pending(
        &mut self,
        tree: Tree<Records>,
        mut read: impl FnMut(&mut Self, Item) -> Option<Pending>,
    ) -> Vec<Item> {
        let (mut sound, mut last) = (Vec::new(), None);
        for item in self.tree(tree) {
            let Some(pending) = read(self, item) else { continue };
            let rises = last.is_none_or(|last| last < pending.id);
            if !rises || pending.item() != item {
                let ms = pending.id.ms;
                self.damage(Damaged::new("order of pending entries", pending.at, item.first, ms));
            }
            last = Some(pending.id);
            sound.push(item);
        }
        sound
    }
}
