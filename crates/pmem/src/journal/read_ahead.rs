//! Reads the pool's file ahead of a recovery.
//!
//! A word that is stored into a page waits until the page is in memory, and checkpoints, which
//! write past the page cache, leave none there. So the kernel is asked to read what the words of a
//! batch are in, before they are stored.

use super::batch::RangeBytes;
use super::storage::Storage;

/// Bytes that are asked for at once.
const PART: u64 = 64 << 10;

/// The parts of the file that the kernel was asked to read: one bit for each.
#[derive(Default)]
pub(super) struct ReadAhead {
    asked: Vec<u64>,
}

impl ReadAhead {
    /// Asks for the parts that some ranges are in, once.
    pub(super) fn ask(&mut self, pool: &dyn Storage, ranges: &[RangeBytes<'_>]) {
        for (range, bytes) in ranges {
            let at = range.bytes().0;
            for part in at / PART..(at + bytes.len() as u64).div_ceil(PART) {
                if self.is_first(part) {
                    pool.will_read(part * PART, (part + 1) * PART);
                }
            }
        }
    }

    /// Returns true for the first call with a part. Senseless parts, far from any file, are none.
    fn is_first(&mut self, part: u64) -> bool {
        const MOST: u64 = (1 << 44) / PART;
        let (word, bit) = (part as usize / 64, 1 << (part % 64));
        if part >= MOST {
            return false;
        }
        if self.asked.len() <= word {
            self.asked.resize(word + 1, 0);
        }
        let is_first = self.asked[word] & bit == 0;
        self.asked[word] |= bit;
        is_first
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::WordRange;
    use super::*;
    use std::io;
    use std::sync::Mutex;

    /// A file that remembers which parts it was asked to read.
    #[derive(Default)]
    struct Asked(Mutex<Vec<(u64, u64)>>);

    impl Storage for Asked {
        fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
            unreachable!("nothing is read")
        }

        fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
            unreachable!("nothing is written")
        }

        fn sync(&self) -> io::Result<()> {
            Ok(())
        }

        fn size(&self) -> io::Result<u64> {
            Ok(0)
        }

        fn allocate(&self, _: u64, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn will_read(&self, from: u64, to: u64) {
            self.0.lock().unwrap().push((from, to));
        }
    }

    #[test]
    fn each_part_with_a_word_is_asked_for_once() {
        let (pool, mut ahead) = (Asked::default(), ReadAhead::default());
        let words = |first, words| (WordRange { first, words }, vec![0; 8 * words as usize]);
        for (range, bytes) in [words(0, 1), words(8191, 1), words(8191, 2), words(32768, 16385)] {
            ahead.ask(&pool, &[(range, &bytes)]);
        }
        ahead.ask(&pool, &[(WordRange { first: (1 << 48) - 1, words: 1 }, &[0; 8])]);
        let asked = [0, 1, 4, 5, 6].map(|part| (part * PART, (part + 1) * PART));
        assert_eq!(*pool.0.lock().unwrap(), asked);
    }
}
