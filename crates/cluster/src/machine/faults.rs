//! Faults that DEBUG causes in a node, for tests of whole clusters.

use super::{Effect, LinkFacts, Machine, Moment};
use crate::id::Id;
use crate::message::Message;
use crate::topology::LinkId;

/// The faults of a node: what it does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// It drops the messages of one type, or all.
    pub drops: Dropped,
    /// It closes the link on which such a message comes.
    pub closes_link: bool,
    /// It makes no links.
    pub makes_no_links: bool,
}

/// The messages that a node drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dropped {
    /// None.
    #[default]
    None,
    /// Those with this number of a type.
    Kind(u16),
    /// All.
    All,
}

impl Machine {
    /// Changes what the node does wrong.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
    }

    /// Returns what the node does wrong.
    pub fn faults(&self) -> Faults {
        self.faults
    }

    /// Closes the links of a node: those that this node made (`to`), and those of the other one.
    pub fn kill_links(
        &mut self,
        node: Id,
        to: bool,
        from: bool,
        moment: &mut Moment<'_>,
    ) -> Vec<Effect> {
        let is_meant =
            |link: &LinkFacts| link.node == node && if link.is_inbound { from } else { to };
        for link in self.links().into_iter().filter(is_meant) {
            self.close(link.link, moment.now());
        }
        self.finish(moment)
    }

    /// Returns true if a message is dropped.
    pub(super) fn drops(&mut self, link: LinkId, message: &Message, now: u64) -> bool {
        let is_dropped = match self.faults.drops {
            Dropped::None => return false,
            Dropped::Kind(kind) => message.kind() == kind,
            Dropped::All => true,
        };
        if is_dropped && self.faults.closes_link {
            self.close(link, now);
        }
        is_dropped
    }
}
