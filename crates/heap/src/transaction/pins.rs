//! Readers of blocks without the shard's lock.
//!
//! A pin is a number that only grows. A block that is freed while pins are held is reused only
//! after every pin that was taken before it was freed is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The pins on one shard.
#[derive(Debug, Default)]
pub(crate) struct Pins {
    held: Mutex<BTreeMap<u64, usize>>,
    next: AtomicU64,
    count: AtomicU64,
}

impl Pins {
    /// Takes a pin. Requires the shard's lock, so that no block is freed meanwhile.
    pub(crate) fn take(self: &Arc<Pins>) -> Pin {
        let number = self.next.load(Ordering::Relaxed);
        *self.lock().entry(number).or_insert(0) += 1;
        self.count.fetch_add(1, Ordering::Release);
        Pin { pins: Arc::clone(self), number }
    }

    /// Returns the mark for a block that is freed now; `None` if no reader can see it. Requires the
    /// shard's lock.
    pub(crate) fn mark(&self) -> Option<u64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        Some(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the number of the oldest pin: a block with a smaller mark may be reused. Without
    /// pins, every block may.
    pub(crate) fn oldest(&self) -> u64 {
        self.lock().first_key_value().map_or(u64::MAX, |(&oldest, _)| oldest)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, usize>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Preserves every block that was allocated when the pin was taken.
#[derive(Debug)]
pub struct Pin {
    pins: Arc<Pins>,
    number: u64,
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = self.pins.lock();
        if let Some(count) = held.get_mut(&self.number) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.number);
            }
        }
        self.pins.count.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_waits_for_the_pins_taken_before_it_was_freed_and_for_no_later_one() {
        let pins = Arc::new(Pins::default());
        assert_eq!(pins.mark(), None);
        let before = pins.take();
        let mark = pins.mark().expect("a pin is held");
        let after = pins.take();
        assert!(pins.oldest() <= mark);
        drop(before);
        assert!(pins.oldest() > mark);
        drop(after);
        assert_eq!(pins.mark(), None);
    }

    /// Several pins share a number if nothing is freed between them; they go in any order.
    #[test]
    fn a_block_waits_for_each_pin_however_many_there_are() {
        for seed in 0..200 {
            let (pins, mut random) = (Arc::new(Pins::default()), fastrand::Rng::with_seed(seed));
            // Pins and marks, each with the time at which it was taken or made.
            let (mut held, mut marks) = (Vec::<(usize, Pin)>::new(), Vec::<(usize, u64)>::new());
            for time in 0..60 {
                match random.u8(..6) {
                    0..3 if held.len() < 5 => held.push((time, pins.take())),
                    3 => match pins.mark() {
                        Some(mark) => marks.push((time, mark)),
                        None => assert!(held.is_empty(), "seed {seed}, time {time}: a pin is held"),
                    },
                    _ if !held.is_empty() => drop(held.swap_remove(random.usize(..held.len()))),
                    _ => {}
                }
                for (freed, mark) in &marks {
                    let waits = held.iter().any(|(taken, _)| taken < freed);
                    assert_eq!(
                        pins.oldest() > *mark,
                        !waits,
                        "seed {seed}, {time}: freed at {freed}"
                    );
                }
            }
        }
    }
}
