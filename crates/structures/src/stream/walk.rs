//! Finds entries by their IDs, and goes through them in either direction.

use std::ops::RangeInclusive;

use heap::{Ptr, View};

use super::entry::Entry;
use super::node::Node;
use super::{Id, Stream};
use crate::Damaged;
use crate::tree::{self, Cursor};

/// The place of a node: after a cursor of the tree; `None` for the last node.
pub(super) type NodeCursor = Option<Cursor>;

/// A node and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Located {
    pub(super) place: NodeCursor,
    pub(super) node: Node,
}

/// Returns true if the base of a tree's item is at most this ID.
fn begins<V: View>(view: &V, item: tree::Item, id: Id) -> bool {
    match item.first.cmp(&id.ms) {
        std::cmp::Ordering::Equal => Node::base_of(view, Ptr::from_raw(item.second)) <= id,
        order => order.is_lt(),
    }
}

impl Stream {
    fn located<V: View>(&self, view: &V, cursor: Cursor) -> Result<Option<Located>, Damaged> {
        let Some(item) = cursor.item(view) else {
            return match self.nodes().is_edge(view, &cursor, false) {
                true => self.tail_place(view),
                false => Err(self.no_way(view)),
            };
        };
        if !self.nodes().is_leaf_sound(view, &cursor) {
            return Err(self.no_way(view));
        }
        let node = Node::read(view, Ptr::from_raw(item.second))?;
        Ok(Some(Located { place: Some(cursor), node }))
    }

    /// Returns the error of a tree that leads nowhere though it has items.
    fn no_way<V: View>(&self, view: &V) -> Damaged {
        Damaged::new("tree of a stream's nodes", self.at, self.nodes().weight(view), 0)
    }

    /// Returns the node before a cursor; `None` at the start.
    fn back<V: View>(&self, view: &V, mut cursor: Cursor) -> Result<Option<Located>, Damaged> {
        let begin = cursor;
        if cursor.prev(view) {
            return self.located(view, cursor);
        }
        let is_begin = self.nodes().is_edge(view, &begin, true);
        if is_begin { Ok(None) } else { Err(self.no_way(view)) }
    }

    fn tail_place<V: View>(&self, view: &V) -> Result<Option<Located>, Damaged> {
        Ok(self.tail(view)?.map(|node| Located { place: None, node }))
    }

    /// Returns the first node.
    pub(super) fn first<V: View>(&self, view: &V) -> Result<Option<Located>, Damaged> {
        self.located(view, self.nodes().begin(view))
    }

    /// Returns the last node.
    pub(super) fn last<V: View>(&self, view: &V) -> Result<Option<Located>, Damaged> {
        match self.tail_place(view)? {
            None => self.before(view, None),
            found => Ok(found),
        }
    }

    /// Returns node number `number`.
    pub(super) fn numbered<V: View>(
        &self,
        view: &V,
        number: u64,
    ) -> Result<Option<Located>, Damaged> {
        let (cursor, left) = self.nodes().seek_weight_sound(view, number)?;
        if cursor.item(view).is_some() {
            return self.located(view, cursor);
        }
        if left == 0 { self.tail_place(view) } else { Ok(None) }
    }

    /// Returns the node that would contain an ID, if there is one: the last node that does not
    /// begin after it.
    pub(super) fn locate<V: View>(&self, view: &V, id: Id) -> Result<Option<Located>, Damaged> {
        if let Some(tail) = self.tail_place(view)?
            && tail.node.base <= id
        {
            return Ok(Some(tail));
        }
        self.back(view, self.nodes().seek(view, |item| begins(view, item, id)))
    }

    pub(super) fn after<V: View>(
        &self,
        view: &V,
        place: NodeCursor,
    ) -> Result<Option<Located>, Damaged> {
        let Some(mut cursor) = place else { return Ok(None) };
        cursor.next(view);
        self.located(view, cursor)
    }

    pub(super) fn before<V: View>(
        &self,
        view: &V,
        place: NodeCursor,
    ) -> Result<Option<Located>, Damaged> {
        self.back(view, place.unwrap_or_else(|| self.nodes().end(view)))
    }

    /// Shows the entries in a range of IDs, in order, until `visit` returns `false`. With `verify`,
    /// verifies the bytes of each node.
    pub fn visit<V: View>(
        &self,
        view: &V,
        ids: RangeInclusive<Id>,
        verify: bool,
        mut visit: impl FnMut(&Entry<'_>) -> bool,
    ) -> Result<(), Damaged> {
        let mut next = match self.locate(view, *ids.start())? {
            None => self.first(view)?,
            found => found,
        };
        while let Some(Located { place, node }) = next {
            if node.base > *ids.end() {
                break;
            }
            let content = node.content(view, verify)?;
            let mut left = node.live();
            for entry in content.entries()? {
                left -= 1;
                if entry.id < *ids.start() {
                    continue;
                }
                if entry.id > *ids.end() || !visit(&entry) {
                    return Ok(());
                }
            }
            whole(&node, left)?;
            next = self.after(view, place)?;
        }
        Ok(())
    }

    /// Like [`Stream::visit`], in reverse order.
    pub fn visit_back<V: View>(
        &self,
        view: &V,
        ids: RangeInclusive<Id>,
        verify: bool,
        mut visit: impl FnMut(&Entry<'_>) -> bool,
    ) -> Result<(), Damaged> {
        let mut next = self.locate(view, *ids.end())?;
        while let Some(Located { place, node }) = next {
            let content = node.content(view, verify)?;
            let entries: Vec<Entry<'_>> = content.entries()?.collect();
            whole(&node, node.live() - entries.len() as u64)?;
            for entry in entries.iter().rev() {
                if entry.id > *ids.end() {
                    continue;
                }
                if entry.id < *ids.start() || !visit(entry) {
                    return Ok(());
                }
            }
            next = self.before(view, place)?;
        }
        Ok(())
    }

    /// Shows the entries of node number `number`.
    pub fn visit_node<V: View>(
        &self,
        view: &V,
        number: u64,
        mut visit: impl FnMut(&Entry<'_>),
    ) -> Result<(), Damaged> {
        let Some(Located { node, .. }) = self.numbered(view, number)? else { return Ok(()) };
        let content = node.content(view, false)?;
        content.entries()?.for_each(|entry| visit(&entry));
        Ok(())
    }

    /// Returns true if there is an entry with this ID.
    pub fn contains<V: View>(&self, view: &V, id: Id, verify: bool) -> Result<bool, Damaged> {
        let mut found = false;
        self.visit(view, id..=id, verify, |_| {
            found = true;
            false
        })?;
        Ok(found)
    }

    /// Returns the ID of the first entry.
    pub fn first_id<V: View>(&self, view: &V) -> Result<Option<Id>, Damaged> {
        let mut first = None;
        self.visit(view, Id::MIN..=Id::MAX, false, |entry| {
            first = Some(entry.id);
            false
        })?;
        Ok(first)
    }
}

/// Returns an error if entries of a node are missing.
fn whole(node: &Node, left: u64) -> Result<(), Damaged> {
    if left == 0 { Ok(()) } else { Err(node.lacks_entries(node.live() - left)) }
}
