//! The tags of a last-level cache: which lines of the region a CPU cache would hold.
//!
//! The cache is set-associative; the least recently used line of a set is evicted. All threads
//! share it without a lock, as cores share such a cache: two that meet in a set may lose or double
//! a tag, which only costs precision. Other memory of the process, which would compete for the real
//! cache, is not in it.
//!
//! A lookup must be much shorter than the access that it decides about. So a set is two words of
//! four tags each, newest first, and is searched and shifted as words: a few instructions, with
//! four neighbouring sets on one line of the host.

use crate::lines::LINE;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of 16-bit tags in a word.
const WAYS_OF_WORD: u64 = 4;
const WAYS: u64 = 2 * WAYS_OF_WORD;
const TAG: u64 = 0xffff;
/// One in each lane.
const ONES: u64 = 0x0001_0001_0001_0001;
/// The highest bit of each lane.
const HIGH: u64 = ONES << 15;
/// Used if the machine does not report the size of its cache.
const USUAL: u64 = 32 << 20;

pub(super) struct Tags {
    sets: Box<[[AtomicU64; 2]]>,
}

/// Returns the lane that holds `tag`.
fn way_of(word: u64, tag: u64) -> Option<u32> {
    let differ = word ^ (ONES * tag);
    let equal = differ.wrapping_sub(ONES) & !differ & HIGH;
    // The lowest such bit is right; a borrow can only falsify higher ones.
    (equal != 0).then(|| equal.trailing_zeros() / 16)
}

/// Returns the word with `tag` in front, and the tags before `way` moved back by one.
fn in_front(word: u64, tag: u64, way: u32) -> u64 {
    let moved = u64::MAX >> (48 - 16 * way);
    word & !moved | (word << 16) & moved | tag
}

impl Tags {
    /// Creates the tags of a cache of at most `bytes`, with a power of two of sets.
    pub(super) fn new(bytes: u64) -> Tags {
        let sets = 1 << (bytes / (LINE * WAYS)).max(1).ilog2();
        Tags { sets: (0..sets).map(|_| Default::default()).collect() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.sets.len() as u64 * WAYS * LINE
    }

    /// Returns the set of a line, and its tag there; 0 is no tag. In a pool many thousand times as
    /// large as the cache, tags repeat.
    fn set(&self, line: u64) -> (&[AtomicU64; 2], u64) {
        let sets = self.sets.len() as u64;
        (&self.sets[(line & (sets - 1)) as usize], (line >> sets.ilog2()) % TAG + 1)
    }

    /// Puts a line in front of its set; returns true if it was there.
    pub(super) fn touch(&self, line: u64) -> bool {
        let ([newer, older], tag) = self.set(line);
        let front = newer.load(Relaxed);
        if let Some(way) = way_of(front, tag) {
            if way > 0 {
                newer.store(in_front(front, tag, way), Relaxed);
            }
            return true;
        }
        let back = older.load(Relaxed);
        let found = way_of(back, tag);
        older.store(in_front(back, front >> 48, found.unwrap_or(3)), Relaxed);
        newer.store(in_front(front, tag, 3), Relaxed);
        found.is_some()
    }

    /// Records that a line left the cache.
    pub(super) fn drop_line(&self, line: u64) {
        let (words, tag) = self.set(line);
        for word in words {
            let tags = word.load(Relaxed);
            if let Some(way) = way_of(tags, tag) {
                word.store(tags & !(TAG << (16 * way)), Relaxed);
            }
        }
    }
}

/// Returns the size of the machine's last-level cache, in bytes.
pub(super) fn machine() -> u64 {
    let size = std::fs::read_to_string("/sys/devices/system/cpu/cpu0/cache/index3/size");
    let kib = size.ok().and_then(|text| text.trim().strip_suffix('K')?.parse::<u64>().ok());
    kib.map_or(USUAL, |kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn a_line_is_held_until_as_many_others_of_its_set_were_used() {
        let tags = Tags::new(64 << 10);
        let sets = tags.sets.len() as u64;
        assert_eq!((tags.bytes(), sets), (64 << 10, 128));
        assert!(!tags.touch(5) && tags.touch(5));
        (1..8).for_each(|n| assert!(!tags.touch(5 + n * sets)));
        assert!(tags.touch(5), "eight lines fit");
        assert!(!tags.touch(5 + 8 * sets), "one more");
        assert!(!tags.touch(5 + sets), "the least recently used had to go");
        assert!(tags.touch(5));
        assert!(!tags.touch(6), "another set");
        tags.drop_line(5);
        assert!(!tags.touch(5));
    }

    #[test]
    fn it_does_what_a_queue_of_eight_lines_does() {
        let tags = Tags::new(512);
        let mut queue = VecDeque::new();
        let mut random = 1u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let line = (random >> 40) % 13;
            let at = queue.iter().position(|held| *held == line);
            if let Some(at) = at {
                queue.remove(at);
            }
            if random >> 60 == 0 {
                tags.drop_line(line);
                // An empty way is left.
                if let Some(at) = at {
                    queue.insert(at, u64::MAX);
                }
                continue;
            }
            queue.push_front(line);
            queue.truncate(8);
            assert_eq!(tags.touch(line), at.is_some());
        }
    }

    #[test]
    fn the_size_is_rounded_down_to_a_power_of_two_of_sets() {
        assert_eq!(Tags::new(100 << 10).bytes(), 64 << 10);
        assert_eq!(Tags::new(0).bytes(), 512);
        assert!(machine() >= 1 << 20);
    }
}
