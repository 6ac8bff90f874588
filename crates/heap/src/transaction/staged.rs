//! The words that an open transaction will change, readable before they are stored.
//!
//! After a savepoint staging only appends, so that a rollback is a truncation. Of several values of
//! a word only the newest counts and is seen by a commit: a run of commands that changes the same
//! word each time logs it once. A few words are searched from the end; many through a table of
//! their lines, since readers ask for a whole line as often as for a word.

const FEW: usize = 12;
/// No index.
const NONE: u32 = u32::MAX;
/// Words of a line.
const LINE: usize = 8;
/// Words of the bit set for groups of lines: enough that a run of commands leaves most bits 0.
const GROUPS: usize = 8;

#[derive(Debug)]
struct Word {
    at: u64,
    value: u64,
    /// The index of the value that this one replaces, or `NONE`.
    older: u32,
    is_newest: bool,
}

/// A line with staged words.
#[derive(Debug)]
struct Line {
    number: u64,
    /// For each of its words, the index of the newest value plus 1, or 0.
    newest: [u32; LINE],
}

/// Staged words in the order in which they were staged.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    words: Vec<Word>,
    /// The lines of the words, and some that had words before a truncation, if there are more than
    /// `FEW` words.
    lines: Vec<Line>,
    /// Open addressing: the index of a line plus 1.
    table: Vec<u32>,
    tabled: bool,
    /// One bit for each of 512 groups of lines: no line is staged in a group whose bit is 0.
    groups: [u64; GROUPS],
    /// Words before this one belong to a savepoint and are not overwritten.
    floor: usize,
}

impl Staged {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.words.len()
    }

    /// Returns every staged word with its newest value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.words.iter().filter(|word| word.is_newest).map(|word| (word.at, word.value))
    }

    #[cfg(test)]
    fn get(&self, at: u64) -> Option<u64> {
        if self.touches_line(at) { self.newest(at) } else { None }
    }

    /// Returns the newest staged value of a word, if it has one.
    pub(crate) fn newest(&self, at: u64) -> Option<u64> {
        self.find(at).map(|i| self.words[i].value)
    }

    /// Returns true if a word of the line at `at` may be staged.
    #[inline]
    pub(crate) fn touches_line(&self, at: u64) -> bool {
        let (word, bit) = group(at);
        self.groups[word] & bit != 0
    }

    /// Overwrites the words of the line at `at`, a multiple of 64, with their newest staged values.
    pub(crate) fn apply_to_line(&self, at: u64, words: &mut [u64; LINE]) {
        self.each_of_line(at, |word, value| words[word] = value);
    }

    /// Calls `each` for the staged words of the line at `at`, a multiple of 64, with the word's
    /// index in the line and its value. Of several values of a word, the newest comes last.
    #[inline]
    pub(crate) fn each_of_line(&self, at: u64, mut each: impl FnMut(usize, u64)) {
        if !self.tabled {
            let staged = self.words.iter().filter(|word| line_of(word.at) == line_of(at));
            return staged.for_each(|word| each(word_of(word.at), word.value));
        }
        let Some(line) = self.find_line(line_of(at)) else { return };
        for (word, &newest) in self.lines[line].newest.iter().enumerate() {
            if newest != 0 {
                each(word, self.words[newest as usize - 1].value);
            }
        }
    }

    pub(crate) fn set(&mut self, at: u64, value: u64) {
        let (word, bit) = group(at);
        let staged = if self.groups[word] & bit == 0 { None } else { self.find(at) };
        self.groups[word] |= bit;
        match staged {
            Some(i) if i >= self.floor => self.words[i].value = value,
            older => {
                if let Some(i) = older {
                    self.words[i].is_newest = false;
                }
                let older = older.map_or(NONE, |i| i as u32);
                self.words.push(Word { at, value, older, is_newest: true });
                self.enter(self.words.len() - 1);
            }
        }
    }

    /// Marks a state to which `truncate` can return, and returns its length.
    pub(crate) fn mark(&mut self) -> usize {
        self.floor = self.words.len();
        self.floor
    }

    /// Returns to the first `len` words, at the cost of those that are dropped.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.tabled &= len > FEW;
        while self.words.len() > len {
            let Some(Word { at, older, .. }) = self.words.pop() else { break };
            if self.tabled
                && let Some(line) = self.find_line(line_of(at))
            {
                // For `NONE`, the index plus 1 is 0.
                self.lines[line].newest[word_of(at)] = older.wrapping_add(1);
            }
            if let Some(older) = self.words.get_mut(older as usize) {
                older.is_newest = true;
            }
        }
        self.floor = self.floor.min(len);
    }

    /// Marks every line as possibly staged, until `clear`: for a transaction that reads the past,
    /// and finds the values of words elsewhere.
    pub(crate) fn touch_all(&mut self) {
        self.groups = [u64::MAX; GROUPS];
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.tabled = false;
        self.groups = [0; GROUPS];
        self.floor = 0;
    }

    /// Returns the index of the newest value of the word at `at`.
    fn find(&self, at: u64) -> Option<usize> {
        if !self.tabled {
            return self.words.iter().rposition(|word| word.at == at);
        }
        let newest = self.lines[self.find_line(line_of(at))?].newest[word_of(at)];
        (newest as usize).checked_sub(1)
    }

    fn find_line(&self, number: u64) -> Option<usize> {
        (self.table[self.place(number)] as usize).checked_sub(1)
    }

    /// Returns the slot of a line in the table, or the empty slot where it belongs.
    #[inline]
    fn place(&self, number: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut i = hash(number) & mask;
        while self.table[i] != 0 && self.lines[self.table[i] as usize - 1].number != number {
            i = (i + 1) & mask;
        }
        i
    }

    fn enter(&mut self, index: usize) {
        if self.tabled {
            self.insert(index);
        } else if index >= FEW {
            self.build();
        }
    }

    /// Builds the table of all words.
    fn build(&mut self) {
        self.lines.clear();
        self.resize(self.words.len());
        self.tabled = true;
        (0..self.words.len()).for_each(|index| self.insert(index));
    }

    /// Makes a table with space for twice as many lines.
    fn resize(&mut self, lines: usize) {
        self.table.clear();
        self.table.resize((lines * 4).next_power_of_two(), 0);
        for line in 0..self.lines.len() {
            let place = self.place(self.lines[line].number);
            self.table[place] = line as u32 + 1;
        }
    }

    /// Enters a word that is newer than those in the table.
    fn insert(&mut self, index: usize) {
        let (number, word) = (line_of(self.words[index].at), word_of(self.words[index].at));
        let mut place = self.place(number);
        if self.table[place] == 0 {
            if self.lines.len() * 2 >= self.table.len() {
                self.resize(self.lines.len());
                place = self.place(number);
            }
            self.lines.push(Line { number, newest: [0; LINE] });
            self.table[place] = self.lines.len() as u32;
        }
        self.lines[self.table[place] as usize - 1].newest[word] = index as u32 + 1;
    }
}

/// Returns the number of the line that a word is in.
#[inline]
fn line_of(at: u64) -> u64 {
    at >> 6
}

/// Returns the index of a word in its line.
#[inline]
fn word_of(at: u64) -> usize {
    (at >> 3) as usize % LINE
}

/// Returns the word and the bit of the group of a line.
#[inline]
fn group(at: u64) -> (usize, u64) {
    let hash = line_of(at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((hash >> 61) as usize % GROUPS, 1 << (hash >> 55 & 63))
}

fn hash(line: u64) -> usize {
    (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_counts_and_truncation_brings_back_the_older() {
        let mut staged = Staged::default();
        for round in 0..100u64 {
            staged.set(round * 8, round);
        }
        let mark = staged.mark();
        for round in 0..100u64 {
            staged.set(round * 8, round + 1000);
            staged.set(round * 8, round + 2000);
        }
        assert_eq!(staged.len(), 200);
        assert_eq!(staged.get(8 * 42), Some(2042));
        assert!(staged.iter().eq((0..100).map(|round| (round * 8, round + 2000))));
        staged.truncate(mark);
        assert_eq!(staged.get(8 * 42), Some(42));
        assert!(staged.iter().eq((0..100).map(|round| (round * 8, round))));
        assert_eq!(staged.get(8 * 100), None);
        staged.truncate(5);
        assert_eq!(staged.get(8 * 4), Some(4));
        assert_eq!(staged.get(8 * 5), None);
    }

    #[test]
    fn a_word_staged_twice_without_a_savepoint_takes_one_place() {
        let mut staged = Staged::default();
        staged.set(8, 1);
        staged.set(8, 2);
        assert_eq!((staged.len(), staged.get(8)), (1, Some(2)));
    }

    /// Compares the table with a list, over random stagings, marks and returns.
    #[test]
    fn any_order_of_stagings_and_returns_leaves_the_newest_values() {
        let mut staged = Staged::default();
        let mut model: Vec<(u64, u64)> = Vec::new();
        let mut marks: Vec<(usize, usize)> = Vec::new();
        let mut random = 7u64;
        for round in 0..200_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (choice, at) = ((random >> 33) % 100, (random >> 40) % 90 * 8);
            match choice {
                0..90 => {
                    staged.set(at, round);
                    model.push((at, round));
                }
                90..96 => marks.push((staged.mark(), model.len())),
                96..99 => {
                    let kept = marks.len().saturating_sub(1 + (random >> 50) as usize % 3);
                    if let Some((len, of_model)) = marks.drain(kept..).next() {
                        staged.truncate(len);
                        model.truncate(of_model);
                    }
                }
                _ if model.len() > 400 => {
                    staged.clear();
                    model.clear();
                    marks.clear();
                }
                _ => {}
            }
            let newest = |at| model.iter().rev().find(|word| word.0 == at).map(|word| word.1);
            assert_eq!(staged.get(at), newest(at), "round {round}");
            let line = std::array::from_fn(|n| newest(at / 64 * 64 + n as u64 * 8).unwrap_or(!0));
            let mut shown = [!0; LINE];
            staged.apply_to_line(at / 64 * 64, &mut shown);
            assert_eq!(shown, line, "round {round}");
            if round % 64 == 0 {
                let mut all: Vec<_> = staged.iter().collect();
                all.sort_unstable();
                let expected = (0..90).filter_map(|n| Some((n * 8, newest(n * 8)?)));
                assert!(all.into_iter().eq(expected), "round {round}");
            }
        }
    }
}
