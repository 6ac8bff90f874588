//! The slots of a node that are in use, in their order: a count and as many slot numbers, in four
//! logged words.
//!
//! In a damaged pool a number may be anything: numbers are clipped here to what a node has.

use super::layout::{ORDER_BYTES, ORDER_WORDS, WORD};

/// Byte 0 is the count, the bytes after it the slots in order, the rest 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order([u8; ORDER_BYTES]);

impl Order {
    pub(super) const EMPTY: Order = Order([0; ORDER_BYTES]);

    #[inline]
    pub(super) fn from_words(words: [u64; ORDER_WORDS]) -> Order {
        let mut bytes = [0; ORDER_BYTES];
        for (to, word) in bytes.chunks_exact_mut(WORD).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        Order(bytes)
    }

    /// Returns slots 0 to `count - 1`, in that order.
    pub(super) fn first(count: usize) -> Order {
        let mut order = Order::EMPTY;
        (0..count).for_each(|slot| order.insert(slot, slot));
        order
    }

    #[inline]
    pub(super) fn word(&self, number: usize) -> u64 {
        u64::from_le_bytes(self.0.as_chunks::<WORD>().0[number])
    }

    pub(super) fn bytes(&self) -> &[u8; ORDER_BYTES] {
        &self.0
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.0[0]).min(ORDER_BYTES - 1)
    }

    /// Returns the slots in order.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + use<'_> {
        self.0[1..=self.count()].iter().map(|&slot| usize::from(slot))
    }

    /// Returns true if all listed slots exist in a node of this many slots.
    #[inline]
    pub(super) fn fits(&self, slots: usize) -> bool {
        let count = self.count() as u8;
        let listed = |(&slot, i): (&u8, u8)| if i.wrapping_sub(1) < count { slot } else { 0 };
        // All bytes, and without an early exit, so that many are compared at once.
        usize::from(self.0.iter().zip(0..).map(listed).fold(0, u8::max)) < slots
    }

    /// Returns the slot at a position below the count.
    #[inline]
    pub(super) fn slot(&self, position: usize) -> usize {
        usize::from(self.0[1 + position])
    }

    /// Returns an unused slot of this many.
    pub(super) fn free(&self, slots: usize) -> Option<usize> {
        let used = self.slots().fold(0u64, |used, slot| used | 1 << (slot % 64));
        let free = used.trailing_ones() as usize;
        (free < slots).then_some(free)
    }

    /// Inserts a slot at a position, in a node that is not full.
    pub(super) fn insert(&mut self, position: usize, slot: usize) {
        let count = self.count();
        self.0.copy_within(1 + position..1 + count, 2 + position);
        self.0[1 + position] = slot as u8;
        self.0[0] = count as u8 + 1;
    }

    /// Removes some slots, from a position on.
    pub(super) fn remove(&mut self, position: usize, some: usize) {
        let count = self.count();
        self.0.copy_within(1 + position + some..1 + count, 1 + position);
        self.0[1 + count - some..].fill(0);
        self.0[0] = (count - some) as u8;
    }

    /// Returns true if each slot is listed once and is below `slots`, and all other bytes are 0.
    pub(super) fn is_sound(&self, slots: usize) -> bool {
        let count = usize::from(self.0[0]);
        if count > slots {
            return false;
        }
        let used = self.slots().fold(0u64, |used, slot| used | 1 << (slot % 64));
        used.count_ones() as usize == count
            && self.slots().all(|slot| slot < slots)
            && self.0[1 + count..].iter().all(|&byte| byte == 0)
    }
}
