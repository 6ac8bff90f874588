//! When and how often keys were used: approximate, and in DRAM only.
//!
//! A cell for each of 2^n values of the low hash bits; keys that share a cell share what it says, so the table
//! grows with the keys. It grows by a segment as long as all before it, which begins as a copy of them: a key's
//! cell then says what it said before. Cells are atomics under no lock; a torn pair of updates costs precision only.
//!
//! A cell holds either a time in tenths of a second (LRU), or, as in Redis, minutes << 8 | logarithmic counter
//! (LFU). Zero: not used since the start.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const FIRST: usize = 1024;
const SEGMENTS: usize = 22;
/// Redis's counter for a new key: it shall not be evicted before it could be used.
const LFU_INIT: u8 = 5;

/// Redis's `lfu-log-factor` and `lfu-decay-time`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lfu {
    pub(crate) log_factor: u32,
    pub(crate) decay_minutes: u32,
}

pub(crate) struct AccessTable {
    segments: [OnceLock<Box<[AtomicU32]>>; SEGMENTS],
    /// Cells in use: FIRST << n.
    len: AtomicU64,
    random: AtomicU64,
    start: u64,
}

impl AccessTable {
    pub(crate) fn new(now: u64, seed: u64) -> AccessTable {
        let table = AccessTable {
            segments: [const { OnceLock::new() }; SEGMENTS],
            len: AtomicU64::new(FIRST as u64),
            random: AtomicU64::new(seed | 1),
            start: now,
        };
        let first = (0..FIRST).map(|_| AtomicU32::new(0)).collect();
        // A new table: nobody else set it.
        let _ = table.segments[0].set(first);
        table
    }

    fn cell(&self, hash: u64) -> Option<&AtomicU32> {
        let index = (hash & (self.len.load(Relaxed) - 1)) as usize;
        let segment = (index / FIRST).checked_ilog2().map_or(0, |log| log as usize + 1);
        let base = if segment == 0 { 0 } else { FIRST << (segment - 1) };
        self.segments[segment].get()?.get(index - base)
    }

    fn read(&self, hash: u64) -> u32 {
        self.cell(hash).map_or(0, |cell| cell.load(Relaxed))
    }

    /// Doubles the table until there are two cells for each of `keys` keys, by one segment a call. No lock is needed.
    pub(crate) fn grow(&self, keys: u64) {
        let len = self.len.load(Relaxed);
        let segment = (len as usize / FIRST).ilog2() as usize + 1;
        if keys * 2 <= len || segment >= SEGMENTS {
            return;
        }
        self.segments[segment]
            .get_or_init(|| (0..len).map(|index| AtomicU32::new(self.read(index))).collect());
        self.len.store(len * 2, Relaxed);
    }

    /// Forgets everything: cells are about to mean something else.
    pub(crate) fn clear(&self) {
        for cell in self.segments.iter().filter_map(OnceLock::get).flatten() {
            cell.store(0, Relaxed);
        }
    }

    pub(crate) fn touch(&self, hash: u64, now: u64, lfu: Option<Lfu>) {
        let Some(cell) = self.cell(hash) else { return };
        let value = match lfu {
            None => tenths(now),
            Some(lfu) => {
                let counter = decayed(cell.load(Relaxed), now, lfu);
                let minutes = minutes(now);
                u32::from(self.incremented(counter, lfu.log_factor)) | minutes << 8
            }
        };
        cell.store(value, Relaxed);
    }

    /// A key was made.
    pub(crate) fn begin(&self, hash: u64, now: u64, lfu: Option<Lfu>) {
        let Some(cell) = self.cell(hash) else { return };
        cell.store(
            match lfu {
                None => tenths(now),
                Some(_) => u32::from(LFU_INIT) | minutes(now) << 8,
            },
            Relaxed,
        );
    }

    /// Milliseconds since the last use, or since the start.
    pub(crate) fn idle_ms(&self, hash: u64, now: u64) -> u64 {
        match self.read(hash) {
            0 => now.saturating_sub(self.start),
            cell => u64::from(tenths(now).wrapping_sub(cell).min(u32::MAX / 2)) * 100,
        }
    }

    /// Redis's logarithmic use counter, decayed.
    pub(crate) fn frequency(&self, hash: u64, now: u64, lfu: Lfu) -> u8 {
        decayed(self.read(hash), now, lfu)
    }

    /// Counts one more use with a chance that falls as the counter rises.
    fn incremented(&self, counter: u8, log_factor: u32) -> u8 {
        let above = u64::from(counter.saturating_sub(LFU_INIT));
        let odds = above * u64::from(log_factor) + 1;
        if counter < u8::MAX && self.random().is_multiple_of(odds) { counter + 1 } else { counter }
    }

    fn random(&self) -> u64 {
        // xorshift; two threads that draw at once may draw the same.
        let mut x = self.random.load(Relaxed);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, Relaxed);
        x >> 11
    }
}

fn tenths(now: u64) -> u32 {
    // Zero means "never".
    ((now / 100) as u32).max(1)
}

fn minutes(now: u64) -> u32 {
    (now / 60_000) as u32 & 0xffff
}

fn decayed(cell: u32, now: u64, lfu: Lfu) -> u8 {
    if cell == 0 {
        return LFU_INIT;
    }
    let elapsed = minutes(now).wrapping_sub(cell >> 8) & 0xffff;
    let periods = elapsed.checked_div(lfu.decay_minutes).unwrap_or(0);
    (cell as u8).saturating_sub(periods.min(255) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LFU: Lfu = Lfu { log_factor: 10, decay_minutes: 1 };
    const START: u64 = 1_700_000_000_000;

    #[test]
    fn growth_keeps_what_a_key_said() {
        let table = AccessTable::new(START, 1);
        for hash in 0..100 {
            table.touch(hash * 77_777, START + 1000, None);
        }
        for _ in 0..10 {
            table.grow(200_000);
        }
        assert_eq!(table.len.load(Relaxed), 524_288);
        for hash in 0..100 {
            assert_eq!(table.idle_ms(hash * 77_777, START + 61_000), 60_000);
        }
    }

    #[test]
    fn an_untouched_key_is_idle_since_the_start() {
        let table = AccessTable::new(START, 1);
        assert_eq!(table.idle_ms(5, START + 2000), 2000);
        assert_eq!(table.frequency(5, START, LFU), LFU_INIT);
    }

    #[test]
    fn a_counter_rises_ever_slower_and_decays_by_the_minute() {
        let table = AccessTable::new(START, 42);
        table.begin(9, START, Some(LFU));
        for _ in 0..100 {
            table.touch(9, START, Some(LFU));
        }
        let hundred = table.frequency(9, START, LFU);
        assert!((7..=14).contains(&hundred), "{hundred}, Redis gives about 10");
        for _ in 0..100_000 {
            table.touch(9, START, Some(LFU));
        }
        let many = table.frequency(9, START, LFU);
        assert!((110..=200).contains(&many), "{many}, Redis gives about 142");
        assert_eq!(table.frequency(9, START + 10 * 60_000, LFU), many - 10);
    }
}
