//! Slots, and sets of slots as the bus has them: a bit for each.
//!
//! Which slot a key has is not computed here: `keyspace::slot` does.

use std::fmt;
use std::ops::RangeInclusive;

/// The number of slots.
pub const SLOTS: u16 = 16384;

/// The bytes of a set of slots.
pub(crate) const SET_BYTES: usize = SLOTS as usize / 8;

/// A set of slots. Slot `n` is bit `n % 8` of byte `n / 8`.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Box<[u8; SET_BYTES]>);

impl SlotSet {
    /// Returns the set of no slots.
    pub fn new() -> SlotSet {
        SlotSet(Box::new([0; SET_BYTES]))
    }

    /// Returns the set that these bytes stand for.
    pub(crate) fn from_bytes(bytes: &[u8; SET_BYTES]) -> SlotSet {
        SlotSet(Box::new(*bytes))
    }

    /// Returns its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8; SET_BYTES] {
        &self.0
    }

    /// Returns true if it has a slot.
    pub fn has(&self, slot: u16) -> bool {
        let byte = self.0.get(usize::from(slot / 8));
        byte.is_some_and(|byte| byte >> (slot % 8) & 1 != 0)
    }

    /// Adds a slot.
    pub fn add(&mut self, slot: u16) {
        if let Some(byte) = self.0.get_mut(usize::from(slot / 8)) {
            *byte |= 1 << (slot % 8);
        }
    }

    /// Removes a slot.
    pub fn remove(&mut self, slot: u16) {
        if let Some(byte) = self.0.get_mut(usize::from(slot / 8)) {
            *byte &= !(1 << (slot % 8));
        }
    }

    /// Removes the slots that another set has.
    pub fn remove_all(&mut self, others: &SlotSet) {
        for (byte, other) in self.0.iter_mut().zip(others.0.iter()) {
            *byte &= !other;
        }
    }

    /// Returns true if it has no slot.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    /// Returns the number of its slots.
    pub fn len(&self) -> usize {
        self.0.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Returns its slots in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        let bytes = self.0.iter().enumerate().filter(|(_, byte)| **byte != 0);
        bytes.flat_map(|(at, byte)| {
            (0..8).filter(move |bit| byte >> bit & 1 != 0).map(move |bit| at as u16 * 8 + bit)
        })
    }

    /// Returns its slots as ranges in order.
    pub fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == slot => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }
}

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet::new()
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> SlotSet {
        let mut set = SlotSet::new();
        slots.into_iter().for_each(|slot| set.add(slot));
        set
    }
}

/// Its ranges as CLUSTER NODES shows them: `0-5460 7000`.
impl fmt::Display for SlotSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for range in self.ranges() {
            let (first, last) = range.into_inner();
            write!(out, "{separator}{first}")?;
            if first != last {
                write!(out, "-{last}")?;
            }
            separator = " ";
        }
        Ok(())
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SlotSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_shown_as_ranges() {
        let mut set: SlotSet = (0..=5460).chain([7000, 16383]).collect();
        assert_eq!(set.to_string(), "0-5460 7000 16383");
        assert_eq!(set.len(), 5463);
        set.remove(5460);
        set.remove(16383);
        assert_eq!(set.to_string(), "0-5459 7000");
        set.remove_all(&set.clone());
        assert!(set.is_empty());
        assert_eq!(set.to_string(), "");
    }

    #[test]
    fn what_is_no_slot_is_in_no_set() {
        let mut set = SlotSet::new();
        set.add(SLOTS);
        set.remove(u16::MAX);
        assert!(set.is_empty() && !set.has(SLOTS));
    }
}
