//! Taking entries out: one by its ID, or old ones from the front.

use heap::Ptr;

use super::walk::{Located, Place};
use super::{Error, Id, Stream, item_of, node::Node};
use crate::Store;
use crate::reclaim::Queue;

/// What is left by a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most so many entries.
    Len(u64),
    /// None with a lesser ID.
    Id(Id),
}

/// How old entries go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// What is to be left.
    pub bound: Bound,
    /// Whether only whole nodes go.
    pub whole_nodes: bool,
    /// The most entries that go; 0 for any number.
    pub most: u64,
}

impl Stream {
    /// Takes an entry out; whether there was one.
    pub fn delete<S: Store>(
        &mut self,
        store: &mut S,
        queue: Queue,
        id: Id,
        verify: bool,
    ) -> Result<bool, Error> {
        let Some(located) = self.locate(store, id)? else { return Ok(false) };
        let node = located.node;
        let content = node.content(store, verify)?;
        let mut entries = content.entries()?;
        let (mut number, mut from) = (0, content.offset(entries.rest()));
        let found = loop {
            match entries.next() {
                Some(entry) if entry.id == id => break true,
                Some(entry) if entry.id < id => {
                    (number, from) = (number + 1, content.offset(entries.rest()));
                }
                _ => break false,
            }
        };
        if !found {
            return Ok(false);
        }
        let to = content.offset(entries.rest());
        drop(content);
        match node.live() {
            1 => self.drop_node(store, queue, &located)?,
            _ if number == 0 => node.narrow(store, 1, to),
            _ => {
                let new = node.without(store, from, to)?;
                self.put(store, located.place, new)?;
            }
        }
        self.head.len = self.head.len.saturating_sub(1);
        self.head.deleted = self.head.deleted.max(id);
        Ok(true)
    }

    /// Takes old entries out; how many.
    pub fn trim<S: Store>(
        &mut self,
        store: &mut S,
        queue: Queue,
        trim: Trim,
        verify: bool,
    ) -> Result<u64, Error> {
        let mut gone = 0;
        while let Some(located) = self.first(store)? {
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
            }
            gone += count;
            self.head.len = self.head.len.saturating_sub(count);
            if count < live {
                break;
            }
        }
        Ok(gone)
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

    /// Puts another node in the place of one with the same base.
    pub(super) fn put<S: Store>(
        &mut self,
        store: &mut S,
        place: Place,
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

/// How many entries of a node go, and where in its content the first one that stays begins.
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
