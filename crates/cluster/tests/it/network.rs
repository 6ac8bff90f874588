//! The network: connections between nodes, which deliver in order, late, or not at all.

use std::collections::{BTreeMap, BTreeSet};

use cluster::LinkId;

/// The number of a node.
pub(crate) type Number = usize;

/// A connection, from the node that made it to the other one.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub(crate) ends: [Number; 2],
    pub(crate) links: [Option<LinkId>; 2],
    /// When the last message to each end arrives: none overtakes it.
    pub(crate) busy_until: [u64; 2],
}

/// The network between nodes, with its faults.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) connections: BTreeMap<u64, Connection>,
    last: u64,
    /// Nodes in different parts do not reach each other.
    parts: Vec<usize>,
    /// Pairs of which the first does not reach the second.
    deaf: BTreeSet<(Number, Number)>,
    /// One in so many messages is lost; 0 for none.
    pub(crate) loses_one_in: u64,
    /// The longest time on the way.
    pub(crate) max_delay: u64,
}

impl Network {
    pub(crate) fn new(nodes: usize) -> Network {
        Network {
            connections: BTreeMap::new(),
            last: 0,
            parts: vec![0; nodes],
            deaf: BTreeSet::new(),
            loses_one_in: 0,
            max_delay: 5,
        }
    }

    pub(crate) fn connect(&mut self, ends: [Number; 2], links: [Option<LinkId>; 2]) -> u64 {
        self.last += 1;
        let connection = Connection { ends, links, busy_until: [0; 2] };
        self.connections.insert(self.last, connection);
        self.last
    }

    /// Returns the connection and the end of a node's link.
    pub(crate) fn find(&self, node: Number, link: LinkId) -> Option<(u64, usize)> {
        self.connections.iter().find_map(|(id, connection)| {
            let is_end =
                |end: &usize| connection.ends[*end] == node && connection.links[*end] == Some(link);
            (0..2).find(is_end).map(|end| (*id, end))
        })
    }

    pub(crate) fn cut(&mut self, parts: Vec<usize>) {
        self.parts = parts;
    }

    /// Makes a node not reach another one, while that one reaches it.
    pub(crate) fn deafen(&mut self, from: Number, to: Number) {
        self.deaf.insert((from, to));
    }

    pub(crate) fn heal(&mut self) {
        self.parts.fill(0);
        self.deaf.clear();
        self.loses_one_in = 0;
        self.max_delay = 5;
    }

    pub(crate) fn reaches(&self, from: Number, to: Number) -> bool {
        self.parts[from] == self.parts[to] && !self.deaf.contains(&(from, to))
    }
}
