//! A few words that the log changes one by one, preceded by a checksum of all of them.
//!
//! The checksum includes a name, so that one type of record is never taken for another. Roots of
//! trees may follow the words: they are not part of the checksum, since their trees change them and
//! are self-checksummed.
//!
//! ```text
//! 0   crc32c of the words u32 | name u32      logged
//! 8   words                                   logged
//! .   roots                                   logged
//! ```

use heap::{Full, Ptr, View};

use crate::{Damaged, Store, tree};

/// The name of a type of record in its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Name(pub(super) [u8; 4], pub(super) &'static str);

impl Name {
    /// Returns true if the record at a place has this name, whatever else is wrong with it.
    pub(super) fn is_of<V: View>(self, view: &V, at: Ptr) -> bool {
        view.word(at) >> 32 == u64::from(u32::from_le_bytes(self.0))
    }
}

/// Returns the place of root number `number` after `words` words.
pub(super) fn root(at: Ptr, words: usize, number: usize) -> Ptr {
    at.add(8 * (1 + words + number) as u64)
}

/// Returns the size in bytes of a record of this many words and roots.
pub(super) const fn size(words: usize, roots: usize) -> usize {
    8 * (1 + words + roots)
}

fn checksum(name: Name, words: &[u64]) -> u64 {
    u64::from(heap::crc32c_words(words)) | u64::from(u32::from_le_bytes(name.0)) << 32
}

/// Reads and verifies the words.
pub(super) fn read<const N: usize, V: View>(
    view: &V,
    at: Ptr,
    name: Name,
) -> Result<[u64; N], Damaged> {
    let words = std::array::from_fn(|number| view.word(at.add(8 * (1 + number) as u64)));
    Damaged::unless_equal(name.1, at, checksum(name, &words), view.word(at))?;
    Ok(words)
}

/// Returns the root words of empty trees.
pub(super) fn no_roots<const N: usize>() -> [u64; N] {
    [tree::root_word(Ptr::NULL); N]
}

/// Writes a new record with these root words.
pub(super) fn create<S: Store>(
    store: &mut S,
    name: Name,
    words: &[u64],
    roots: &[u64],
) -> Result<Ptr, Full> {
    let size = size(words.len(), roots.len());
    let fresh = store.reserve(size)?;
    let all = std::iter::once(checksum(name, words)).chain(words.iter().chain(roots).copied());
    for (number, word) in all.enumerate() {
        store.write_word(&fresh, 8 * number, word);
    }
    Ok(store.publish(fresh, size))
}

/// Logs the words that differ, and the checksum.
pub(super) fn write<S: Store>(store: &mut S, at: Ptr, name: Name, old: &[u64], new: &[u64]) {
    if old == new {
        return;
    }
    for (number, (old, new)) in old.iter().zip(new).enumerate() {
        if old != new {
            store.set(at.add(8 * (1 + number) as u64), *new);
        }
    }
    store.set(at, checksum(name, new));
}
