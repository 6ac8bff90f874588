//! The tags of a last-level cache: which lines of the region a processor's cache would hold.
//!
//! Set-associative, the least recently used of a set goes. All threads share it, as cores share that cache, without a
//! lock: two that meet in a set may lose or double a tag, which costs precision only. Other memory of the process, which
//! would compete for the real cache, is not in it.

use crate::lines::LINE;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const WAYS: usize = 16;
/// Where the machine does not tell the size of its cache.
const USUAL: u64 = 32 << 20;

/// One line of the host for each set.
#[repr(align(64))]
struct Set([AtomicU32; WAYS]);

pub(super) struct Tags {
    sets: Box<[Set]>,
}

impl Tags {
    /// Of a cache of at most `bytes`; a power of two of sets.
    pub(super) fn new(bytes: u64) -> Tags {
        let sets = (bytes / (LINE * WAYS as u64)).max(1);
        let sets = 1 << sets.ilog2();
        Tags { sets: (0..sets).map(|_| Set(Default::default())).collect() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sets.len() as u64 * WAYS as u64 * LINE
    }

    fn set(&self, line: u64) -> (&[AtomicU32; WAYS], u32) {
        let sets = self.sets.len() as u64;
        // Tag 0 is an empty way.
        (&self.sets[(line & (sets - 1)) as usize].0, (line / sets) as u32 + 1)
    }

    /// Puts a line in front of its set; whether it was there.
    pub(super) fn touch(&self, line: u64) -> bool {
        let (ways, tag) = self.set(line);
        let found = ways.iter().position(|way| way.load(Relaxed) == tag);
        let last = found.unwrap_or(WAYS - 1);
        for at in (0..last).rev() {
            ways[at + 1].store(ways[at].load(Relaxed), Relaxed);
        }
        ways[0].store(tag, Relaxed);
        found.is_some()
    }

    /// A line left the cache.
    pub(super) fn drop_line(&self, line: u64) {
        let (ways, tag) = self.set(line);
        if let Some(way) = ways.iter().find(|way| way.load(Relaxed) == tag) {
            way.store(0, Relaxed);
        }
    }
}

/// The size of the machine's last-level cache, in bytes.
pub(super) fn machine() -> u64 {
    let told = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
    let kib = told.ok().and_then(|text| text.trim().strip_suffix('K')?.parse::<u64>().ok());
    kib.map_or(USUAL, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_held_until_as_many_others_of_its_set_were_used() {
        let tags = Tags::new(64 << 10);
        let sets = tags.sets.len() as u64;
        assert_eq!((tags.bytes(), sets), (64 << 10, 64));
        assert!(!tags.touch(5) && tags.touch(5));
        (1..16).for_each(|n| assert!(!tags.touch(5 + n * sets)));
        assert!(tags.touch(5), "sixteen lines fit");
        assert!(!tags.touch(5 + 16 * sets), "one more");
        assert!(!tags.touch(5 + sets), "the least recently used had to go");
        assert!(tags.touch(5));
        assert!(!tags.touch(6), "another set");
        tags.drop_line(5);
        assert!(!tags.touch(5));
    }

    #[test]
    fn the_size_is_rounded_down_to_a_power_of_two_of_sets() {
        assert_eq!(Tags::new(100 << 10).bytes(), 64 << 10);
        assert_eq!(Tags::new(0).bytes(), 1024);
        assert!(machine() >= 1 << 20);
    }
}
