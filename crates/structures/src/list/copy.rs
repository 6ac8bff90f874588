//! Copying a list node by node: as many bytes as it has, and no element is looked at.

use heap::View;

use super::ends::NodeRef;
use super::node::{self, Node};
use super::{Error, List, Side};
use crate::blob::Blob;
use crate::{Damaged, Store};

/// A node of a list as it was, for another list.
#[derive(Debug)]
pub struct NodeCopy {
    bytes: Vec<u8>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Packed { count: usize, reversed: bool },
    Plain,
}

impl NodeCopy {
    /// Returns how many elements it has: not none.
    pub fn count(&self) -> u64 {
        match self.kind {
            Kind::Packed { count, .. } => count as u64,
            Kind::Plain => 1,
        }
    }
}

impl List {
    /// Returns the node of which element number `index` is the first, if there is one. With
    /// `verify` it is compared with what was written.
    pub fn copy_node<V: View>(
        self,
        view: &V,
        index: u64,
        verify: bool,
    ) -> Result<Option<NodeCopy>, Damaged> {
        let Some((found, own)) = self.locate(view, index)? else { return Ok(None) };
        Damaged::unless_equal("begin of a list node", found.node.place(), 0, own)?;
        let copy = match found.node {
            NodeRef::Plain(blob) => {
                if verify {
                    blob.check(view)?;
                }
                NodeCopy { bytes: blob.to_vec(view)?, kind: Kind::Plain }
            }
            NodeRef::Packed(at) => {
                let node = Node::read(view, at)?;
                if verify {
                    node.check(view)?;
                }
                let (count, reversed) = (node.window.count, node.window.reversed);
                NodeCopy {
                    bytes: node.bytes(view).to_vec(),
                    kind: Kind::Packed { count, reversed },
                }
            }
        };
        Ok(Some(copy))
    }

    /// Adds a node after all others.
    pub fn push_copy<S: Store>(self, store: &mut S, node: &NodeCopy) -> Result<List, Error> {
        let NodeCopy { bytes, kind } = node;
        let new = match *kind {
            Kind::Packed { count, reversed } => {
                NodeRef::Packed(node::create(store, bytes, count, reversed, bytes.len())?)
            }
            Kind::Plain => NodeRef::Plain(Blob::create(store, bytes)?),
        };
        match self.outermost(store, Side::Tail)? {
            None => Ok(List::single(new)),
            Some(end) => self.add_node(store, Side::Tail, end.node, new),
        }
    }
}
