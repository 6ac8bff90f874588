//! Who owns which slot, for both questions: the owner of a slot, and the slots of a node.

use std::collections::BTreeMap;

use crate::id::Id;
use crate::slot::{SLOTS, SlotSet};

/// The owners of all slots.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    /// For each slot the place of its owner in `places`: sessions keep copies of this, and an ID
    /// for each slot takes twenty times as much.
    of_slot: Vec<u16>,
    /// The first one is of no node.
    places: Vec<Option<Id>>,
    of_node: BTreeMap<Id, Owned>,
    none: SlotSet,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Owned {
    slots: SlotSet,
    count: usize,
}

impl PartialEq for Owners {
    fn eq(&self, other: &Owners) -> bool {
        self.of_node == other.of_node
    }
}

impl Eq for Owners {}

impl Owners {
    pub(crate) fn new() -> Owners {
        Owners {
            of_slot: vec![0; usize::from(SLOTS)],
            places: vec![None],
            of_node: BTreeMap::new(),
            none: SlotSet::new(),
        }
    }

    /// Returns the owner of a slot.
    pub(crate) fn owner(&self, slot: u16) -> Option<Id> {
        let place = *self.of_slot.get(usize::from(slot))?;
        self.places.get(usize::from(place)).copied().flatten()
    }

    /// Returns the place of a node, and makes one if it has none. There are no more nodes with
    /// slots than slots.
    fn place(&mut self, node: Option<Id>) -> u16 {
        let Some(node) = node else { return 0 };
        let at = |places: &[Option<Id>], wanted| {
            places.iter().skip(1).position(|place| *place == wanted).map(|at| at + 1)
        };
        let place = at(&self.places, Some(node)).or_else(|| at(&self.places, None));
        let place = place.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[place] = Some(node);
        place as u16
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
        if slot >= SLOTS {
            return;
        }
        if let Some(before) = self.owner(slot)
            && let Some(owned) = self.of_node.get_mut(&before)
        {
            owned.slots.remove(slot);
            owned.count -= 1;
            if owned.count == 0 {
                self.of_node.remove(&before);
                let place = self.of_slot[usize::from(slot)];
                self.places[usize::from(place)] = None;
            }
        }
        self.of_slot[usize::from(slot)] = self.place(node);
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
