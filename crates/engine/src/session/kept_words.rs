//! The words of a request that is executed later, or elsewhere: in place, if the connection has
//! lent its input, or as a copy.

use std::ops::Range;
use std::sync::Arc;

/// Bytes that are copied within about half a millisecond, into memory that is touched for the first
/// time: larger requests are not copied while others wait.
pub const LARGE: usize = 2 << 20;

/// The words of a request.
pub(crate) struct KeptWords {
    bytes: Arc<Vec<u8>>,
    ranges: Vec<Range<usize>>,
}

impl KeptWords {
    /// Keeps words where they are, in `bytes`; none if not all of them are there.
    pub(crate) fn in_place(words: &[&[u8]], bytes: &Arc<Vec<u8>>) -> Option<KeptWords> {
        let ranges = words.iter().map(|word| range_in(bytes, word)).collect::<Option<_>>()?;
        Some(KeptWords { bytes: Arc::clone(bytes), ranges })
    }

    /// Copies words.
    pub(crate) fn copied(words: &[&[u8]]) -> KeptWords {
        let mut end = 0;
        let ranges = words.iter().map(|word| {
            let start = end;
            end += word.len();
            start..end
        });
        KeptWords { ranges: ranges.collect(), bytes: Arc::new(words.concat()) }
    }

    /// Returns the words.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges.iter().map(|range| &self.bytes[range.clone()])
    }

    /// Returns the bytes of memory that they take.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.ranges.capacity() * size_of::<Range<usize>>()
    }
}

/// Returns the range of this part in `bytes`; none if it is not inside.
fn range_in(bytes: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(bytes.as_ptr().addr())?;
    let end = start.checked_add(part.len())?;
    (end <= bytes.len()).then_some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_where_they_are_or_copied() {
        let bytes = Arc::new(b"$3 SET $1 k $0  ".to_vec());
        let words = [&bytes[3..6], &bytes[10..11], &bytes[15..15]];
        let kept = KeptWords::in_place(&words, &bytes).expect("all are of it");
        assert!(kept.slices().eq(words));
        assert!(kept.slices().zip(words).all(|(kept, word)| kept.as_ptr() == word.as_ptr()));
        let other = b"other".to_vec();
        assert!(KeptWords::in_place(&[words[0], &other], &bytes).is_none());
        assert!(KeptWords::in_place(&[&other], &bytes).is_none());
        let copied = KeptWords::copied(&[words[0], &other, b""]);
        drop(bytes);
        assert!(copied.slices().eq([&b"SET"[..], b"other", b""]));
    }
}
