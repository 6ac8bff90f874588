//! Who owns which slot, for both questions: the owner of a slot, and the slots of a node.

use std::collections::BTreeMap;

use crate::id::Id;
use crate::slot::{SLOTS, SlotSet};

/// The owners of all slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owners {
    of_slot: Vec<Option<Id>>,
    of_node: BTreeMap<Id, Owned>,
    none: SlotSet,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Owned {
    slots: SlotSet,
    count: usize,
}

impl Owners {
    pub(crate) fn new() -> Owners {
        Owners {
            of_slot: vec![None; usize::from(SLOTS)],
            of_node: BTreeMap::new(),
            none: SlotSet::new(),
        }
    }

    /// Returns the owner of a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<Id> {
        self.of_slot.get(usize::from(slot)).copied().flatten()
    }

    /// Returns the slots of a node.
    pub(crate) fn of(&self, node: Id) -> &SlotSet {
        self.of_node.get(&node).map_or(&self.none, |owned| &owned.slots)
    }

    /// Returns the number of slots of a node.
    pub(crate) fn count(&self, node: Id) -> usize {
        self.of_node.get(&node).map_or(0, |owned| owned.count)
    }

    /// Returns the number of slots that have an owner.
    pub(crate) fn assigned(&self) -> usize {
        self.of_node.values().map(|owned| owned.count).sum()
    }

    /// Gives a slot to a node, or to none.
    pub(crate) fn assign(&mut self, slot: u16, node: Option<Id>) {
        let Some(owner) = self.of_slot.get_mut(usize::from(slot)) else { return };
        if let Some(before) = std::mem::replace(owner, node)
            && let Some(owned) = self.of_node.get_mut(&before)
        {
            owned.slots.remove(slot);
            owned.count -= 1;
            if owned.count == 0 {
                self.of_node.remove(&before);
            }
        }
        if let Some(node) = node {
            let owned = self.of_node.entry(node).or_default();
            owned.slots.add(slot);
            owned.count += 1;
        }
    }

    /// Gives all slots of a node to another one, or to none. Returns them.
    pub(crate) fn move_all(&mut self, from: Id, to: Option<Id>) -> SlotSet {
        let slots = self.of(from).clone();
        slots.iter().for_each(|slot| self.assign(slot, to));
        slots
    }

    /// Gives a node's slots to the same node under another ID.
    pub(crate) fn rename(&mut self, from: Id, to: Id) {
        self.move_all(from, Some(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_questions_have_one_answer() {
        let mut random = fastrand::Rng::with_seed(7);
        let nodes: Vec<Id> = (0..4).map(|_| Id::random(&mut random)).collect();
        let mut owners = Owners::new();
        for _ in 0..20_000 {
            let node = nodes.get(random.usize(..5)).copied();
            owners.assign(random.u16(..SLOTS), node);
        }
        owners.move_all(nodes[0], Some(nodes[1]));
        owners.move_all(nodes[2], None);
        for node in nodes {
            let slots: SlotSet = (0..SLOTS).filter(|s| owners.owner(*s) == Some(node)).collect();
            assert_eq!(*owners.of(node), slots);
            assert_eq!(owners.count(node), slots.len());
        }
        owners.assign(SLOTS, None);
    }
}
