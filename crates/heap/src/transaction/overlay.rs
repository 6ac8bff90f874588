//! The words that changed since a snapshot's cut, with their values at the cut.
//!
//! They are kept by page of the pool, in a tree of small nodes: saving one more word moves at most
//! a page of values and splits a few nodes, however many there are. A table that doubles would move
//! all of them at once, under the shard's lock.

use std::collections::BTreeMap;

/// Bytes of the pool that a page covers.
const PAGE: u64 = 4096;
/// Words of bits, one bit for each word of a page.
const BITS: usize = PAGE as usize / 8 / 64;
/// DRAM that a page takes in addition to its values: its place in a node that is two thirds full,
/// and the allocator's share.
const PAGE_OVERHEAD: u64 = (size_of::<(u64, Page)>() as u64) * 3 / 2 + 16;

/// The saved words of a page, in order of their places.
#[derive(Debug, Default)]
struct Page {
    saved: [u64; BITS],
    values: Vec<u64>,
}

impl Page {
    /// Returns the index of a word's value, or the index at which to insert it.
    fn find(&self, at: u64) -> Result<usize, usize> {
        let (word, bit) = bit(at);
        let before: u32 = self.saved[..word].iter().map(|bits| bits.count_ones()).sum();
        let index = (before + (self.saved[word] & ((1 << bit) - 1)).count_ones()) as usize;
        if self.saved[word] >> bit & 1 != 0 { Ok(index) } else { Err(index) }
    }
}

/// Returns the bit of the word at `at` in its page.
fn bit(at: u64) -> (usize, u32) {
    let word = at % PAGE / 8;
    ((word / 64) as usize, (word % 64) as u32)
}

/// The saved words of one shard.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    pages: BTreeMap<u64, Page>,
    words: usize,
    bytes: u64,
}

impl Overlay {
    /// Saves the value of the word at `at`, unless an older one is already saved; with
    /// `overwrites`, even then.
    pub(crate) fn save(&mut self, at: u64, value: u64, overwrites: bool) {
        let page = self.pages.entry(at / PAGE).or_insert_with(|| {
            self.bytes += PAGE_OVERHEAD;
            Page::default()
        });
        match page.find(at) {
            Ok(index) if overwrites => page.values[index] = value,
            Ok(_) => {}
            Err(index) => {
                let before = page.values.capacity();
                page.values.insert(index, value);
                self.bytes += 8 * (page.values.capacity() - before) as u64;
                self.words += 1;
                let (word, bit) = bit(at);
                page.saved[word] |= 1 << bit;
            }
        }
    }

    /// Returns the saved value of the word at `at`; `None` if the word has not changed.
    pub(crate) fn get(&self, at: u64) -> Option<u64> {
        let page = self.pages.get(&(at / PAGE))?;
        Some(page.values[page.find(at).ok()?])
    }

    /// Overwrites the words of the line at `at`, a multiple of 64, with their saved values.
    pub(crate) fn apply_to_line(&self, at: u64, line: &mut [u64; 8]) {
        let Some(page) = self.pages.get(&(at / PAGE)) else { return };
        for (at, word) in (at..).step_by(8).zip(line) {
            if let Ok(index) = page.find(at) {
                *word = page.values[index];
            }
        }
    }

    /// Returns the number of saved words.
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// Returns about how many bytes of DRAM they take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn the_first_value_of_each_word_is_saved() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let places = 1 << random.u32(3..16);
            let (mut overlay, mut model) = (Overlay::default(), HashMap::new());
            for _ in 0..4000 {
                let (at, value) = (8 * random.u64(..places), random.u64(..));
                overlay.save(at, value, false);
                model.entry(at).or_insert(value);
            }
            for at in (0..places).map(|word| 8 * word) {
                assert_eq!(overlay.get(at), model.get(&at).copied(), "seed {seed}, {at:#x}");
            }
            for line in (0..places).step_by(8).map(|word| 8 * word) {
                let mut words = std::array::from_fn(|n| n as u64);
                overlay.apply_to_line(line, &mut words);
                let saved = |n| model.get(&(line + 8 * n)).copied().unwrap_or(n);
                assert_eq!(words, std::array::from_fn(|n| saved(n as u64)), "seed {seed}");
            }
            assert_eq!(overlay.words(), model.len());
        }
    }

    #[test]
    fn what_it_takes_is_counted_and_bounded_by_its_pages() {
        let mut overlay = Overlay::default();
        for word in 0..100_000 {
            overlay.save(8 * word, word, false);
        }
        let dense = overlay.bytes() as f64 / 100_000.0;
        assert!((8.0..10.0).contains(&dense), "{dense} bytes a word");
        let mut overlay = Overlay::default();
        for word in 0..1000 {
            overlay.save(PAGE * word, word, false);
        }
        assert!(overlay.bytes() <= 1000 * (PAGE_OVERHEAD + 32), "{}", overlay.bytes());
    }
}
