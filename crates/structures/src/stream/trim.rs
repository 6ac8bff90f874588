//! Removes entries: single ones by ID, or old ones from the front.

use std::ops::Range;

use heap::{Ptr, View};

use super::walk::{Located, NodeCursor};
use super::{Error, Id, Stream, item_of, node::Node};
use crate::reclaim::Queue;
use crate::{Damaged, Store};

/// What a trim leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most this many entries.
    Len(u64),
    /// No entries with a smaller ID.
    Id(Id),
}

/// How old entries are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// What is left.
    pub bound: Bound,
    /// Whether only whole nodes are removed.
    pub whole_nodes: bool,
    /// Maximum number of entries to remove; 0 for any number.
    pub most: u64,
}

/// Maximum number of nodes that a trim removes one by one; beyond that, the front of the tree is
/// cut off as a whole.
const ONE_BY_ONE: usize = 16;

impl Stream {
    /// Removes entries by their IDs, in rising order; returns how many there were. Each node is
    /// rewritten once, however many of its entries are removed.
    pub fn delete<S: Store>(
        &mut self,
        store: &mut S,
        queue: Queue,
        ids: &[Id],
        verify: bool,
    ) -> Result<u64, Error> {
        let (mut gone, mut left) = (0, ids);
        while let Some(&first) = left.first() {
            let Some(located) = self.locate(store, first)? else {
                left = &left[1..];
                continue;
            };
            let following = self.after(store, located.place)?.map(|next| next.node.base);
            let here =
                left.partition_point(|&id| following.is_none_or(|following| id < following)).max(1);
            gone += self.delete_in(store, queue, &located, &left[..here], verify)?;
            left = &left[here..];
        }
        self.head.len = self.head.len.saturating_sub(gone);
        Ok(gone)
    }

    /// Removes entries of one node.
    fn delete_in<S: Store>(
        &mut self,
        store: &mut S,
        queue: Queue,
        located: &Located,
        ids: &[Id],
        verify: bool,
    ) -> Result<u64, Error> {
        let node = located.node;
        let content = node.content(store, verify)?;
        let mut entries = content.entries()?;
        let (mut gone, mut kept, mut last) = (0, Vec::<Range<usize>>::new(), Id::MIN);
        let (mut from, mut left) = (content.offset(entries.rest()), ids);
        let mut count = 0;
        while let Some(entry) = entries.next() {
            let to = content.offset(entries.rest());
            left = &left[left.partition_point(|&id| id < entry.id)..];
            if left.first() == Some(&entry.id) {
                (gone, last) = (gone + 1, entry.id);
            } else {
                match kept.last_mut() {
                    Some(piece) if piece.end == from => piece.end = to,
                    _ => kept.push(from..to),
                }
            }
            (from, count) = (to, count + 1);
        }
        drop(content);
        if count != node.live() {
            return Err(node.lacks_entries(count).into());
        }
        match kept.as_slice() {
            _ if gone == 0 => return Ok(0),
            [] => self.drop_node(store, queue, located)?,
            // All removed entries are at the front.
            [rest] if rest.end == from => node.narrow(store, gone, rest.start),
            kept => {
                let new = node.with_only(store, gone, kept)?;
                self.put(store, located.place, new)?;
            }
        }
        self.head.deleted = self.head.deleted.max(last);
        Ok(gone)
    }

    /// Removes old entries; returns how many. If there are many nodes, their blocks go to the free
    /// queue with the owner `owner`, so that the transaction stays small.
    pub fn trim<S: Store>(
        &mut self,
        store: &mut S,
        queue: Queue,
        owner: u16,
        trim: Trim,
        verify: bool,
    ) -> Result<u64, Error> {
        let (mut gone, mut dropped) = (0, 0);
        while let Some(located) = self.first(store)? {
            if dropped == ONE_BY_ONE {
                gone += self.cut(store, queue, owner, trim, gone)?;
                dropped += 1;
                continue;
            }
            let live = located.node.live();
            let is_done = match trim.bound {
                Bound::Len(most) => self.head.len <= most,
                Bound::Id(least) => located.node.base >= least,
            };
            if is_done || trim.most > 0 && gone + live > trim.most {
                break;
            }
            let (count, begin) = match trim.bound {
                Bound::Len(most) if self.head.len - live.min(self.head.len) >= most => (live, 0),
                Bound::Len(_) if trim.whole_nodes => (0, 0),
                Bound::Len(most) => {
                    let surplus = self.head.len - most;
                    let mut left = surplus;
                    let (_, begin) = measure(store, &located.node, verify, |_| {
                        left = left.wrapping_sub(1);
                        left != u64::MAX
                    })?;
                    (surplus, begin)
                }
                Bound::Id(least) => measure(store, &located.node, verify, |id| id < least)?,
            };
            if count < live && (trim.whole_nodes || count == 0) {
                break;
            }
            if count < live {
                located.node.narrow(store, count, begin);
            } else {
                self.drop_node(store, queue, &located)?;
                dropped += 1;
            }
            gone += count;
            self.head.len = self.head.len.saturating_sub(count);
            if count < live {
                break;
            }
        }
        Ok(gone)
    }

    /// Removes all nodes that are removed as a whole, of which there may be any number; returns how
    /// many entries they had. The rest of the work is in the first node that stays.
    fn cut<S: Store>(
        &mut self,
        store: &mut S,
        queue: Queue,
        owner: u16,
        trim: Trim,
        gone: u64,
    ) -> Result<u64, Error> {
        let Some((first, count)) = self.first_to_stay(store, trim, gone)? else { return Ok(0) };
        let nodes = self.nodes();
        let at = first.place.unwrap_or_else(|| nodes.end(store));
        let front = nodes.split_off_front(store, &at)?;
        queue.push_unlinked_tree(store, front, owner)?;
        self.head.len = self.head.len.saturating_sub(count);
        Ok(count)
    }

    /// Returns the first node that is not removed as a whole, and the number of entries before it;
    /// searches from both ends, since most nodes may be removed or few.
    fn first_to_stay<V: View>(
        &self,
        view: &V,
        trim: Trim,
        gone: u64,
    ) -> Result<Option<(Located, u64)>, Damaged> {
        let len = self.head.len;
        let (mut front, mut before) = (self.first(view)?, 0u64);
        let (mut back, mut following) = (self.last(view)?, 0u64);
        while let (Some(first), Some(last)) = (front, back) {
            let next = self.after(view, first.place)?;
            let through = before + first.node.live();
            let goes = match trim.bound {
                Bound::Len(most) => len.saturating_sub(through) >= most,
                Bound::Id(least) => next.is_some_and(|next| next.node.base <= least),
            };
            if !goes || trim.most > 0 && gone + through > trim.most {
                return Ok(Some((first, before)));
            }
            (front, before) = (next, through);
            if trim.most > 0 {
                continue;
            }
            let from = following + last.node.live();
            let stays = match trim.bound {
                Bound::Len(most) => from >= most,
                Bound::Id(least) => last.node.base <= least,
            };
            if stays {
                return Ok(Some((last, len.saturating_sub(from))));
            }
            (back, following) = (self.before(view, last.place)?, from);
        }
        Ok(None)
    }

    fn drop_node<S: Store>(
        &mut self,
        store: &mut S,
        queue: Queue,
        located: &Located,
    ) -> Result<(), Error> {
        match &located.place {
            None => self.head.tail = 0,
            Some(cursor) => drop(self.nodes().remove(store, cursor)),
        }
        located.node.release(store, queue)?;
        Ok(())
    }

    /// Replaces a node with another that has the same base.
    pub(super) fn put<S: Store>(
        &mut self,
        store: &mut S,
        place: NodeCursor,
        at: Ptr,
    ) -> Result<(), Error> {
        match place {
            None => self.head.tail = at.raw(),
            Some(cursor) => {
                let item = item_of(&Node::read(store, at)?);
                self.nodes().replace(store, &cursor, item);
            }
        }
        Ok(())
    }
}

/// Returns how many entries of a node are removed, and the offset in its content of the first one
/// that stays.
fn measure<S: Store>(
    store: &S,
    node: &Node,
    verify: bool,
    mut goes: impl FnMut(Id) -> bool,
) -> Result<(u64, usize), Error> {
    let content = node.content(store, verify)?;
    let mut entries = content.entries()?;
    let (mut count, mut begin) = (0, content.offset(entries.rest()));
    while let Some(entry) = entries.next() {
        if !goes(entry.id) {
            break;
        }
        (count, begin) = (count + 1, content.offset(entries.rest()));
    }
    Ok((count, begin))
}
