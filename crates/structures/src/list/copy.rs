//! Copies a list node by node: the cost is that of its bytes, and no element is read.

use heap::View;

use super::ends::NodeRef;
use super::node::{self, Node};
use super::{Error, List, Side};
use crate::blob::Blob;
use crate::{Damaged, Store};

/// A copy of a list's node, for another list.
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
    /// Returns the number of its elements, at least one.
    pub fn count(&self) -> u64 {
        match self.kind {
            Kind::Packed { count, .. } => count as u64,
            Kind::Plain => 1,
        }
    }
}

impl List {
    /// Returns the node whose first element is number `index`, if there is one. With `verify`, it
    /// is verified.
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

    /// Appends a node.
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
