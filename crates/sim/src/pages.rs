//! The bytes of a simulated file, in pages that copies share until one of them changes: a crash
//! leaves thousands of copies, which differ in a few sectors.

use std::sync::{Arc, LazyLock};

const PAGE: usize = 4096;

type Page = [u8; PAGE];

/// The page of everything that was never written.
static ZEROS: LazyLock<Arc<Page>> = LazyLock::new(|| Arc::new([0; PAGE]));

/// The content of a file. Bytes of its last page that are past its end are zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pages {
    pages: Vec<Arc<Page>>,
    len: usize,
}

impl Pages {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Changes the length; new bytes are zeros.
    pub(crate) fn resize(&mut self, len: usize) {
        self.pages.resize_with(len.div_ceil(PAGE), || Arc::clone(&ZEROS));
        if len < self.len && !len.is_multiple_of(PAGE) {
            Arc::make_mut(&mut self.pages[len / PAGE])[len % PAGE..].fill(0);
        }
        self.len = len;
    }

    /// Writes bytes; the file grows if it ends before them.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        self.resize(self.len.max(at + bytes.len()));
        let mut rest = bytes;
        self.each_part(at, bytes.len(), |part| {
            let (first, after) = rest.split_at(part.len());
            part.copy_from_slice(first);
            rest = after;
        });
    }

    /// Fills the bytes of `[at, at + len)` that are in the file.
    pub(crate) fn fill(&mut self, at: usize, len: usize, with: u8) {
        self.each_part(at, len.min(self.len.saturating_sub(at)), |part| part.fill(with));
    }

    /// Calls `change` with the parts of a range, one for each page.
    fn each_part(&mut self, at: usize, len: usize, mut change: impl FnMut(&mut [u8])) {
        let (mut at, end) = (at, at + len);
        while at < end {
            let to = end.min((at / PAGE + 1) * PAGE);
            let page = Arc::make_mut(&mut self.pages[at / PAGE]);
            change(&mut page[at % PAGE..][..to - at]);
            at = to;
        }
    }

    /// Reads the bytes at an offset; returns false if the file ends before.
    pub(crate) fn read(&self, bytes: &mut [u8], at: usize) -> bool {
        if at + bytes.len() > self.len {
            return false;
        }
        let (mut at, mut rest) = (at, bytes);
        while !rest.is_empty() {
            let (first, after) = rest.split_at_mut(rest.len().min(PAGE - at % PAGE));
            first.copy_from_slice(&self.pages[at / PAGE][at % PAGE..][..first.len()]);
            at += first.len();
            rest = after;
        }
        true
    }

    /// Returns all bytes.
    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        assert!(self.read(&mut bytes, 0));
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_what_a_vector_holds_and_a_copy_keeps_its_own() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut pages, mut bytes) = (Pages::default(), Vec::new());
        let mut copies = Vec::new();
        for _ in 0..300 {
            let at = rng.usize(..5 * PAGE);
            let written = vec![rng.u8(1..); rng.usize(..2 * PAGE)];
            match rng.usize(..8) {
                0 => {
                    pages.resize(at);
                    bytes.resize(at, 0);
                }
                1 => copies.push((pages.clone(), bytes.clone())),
                2 => {
                    pages.fill(at, written.len(), 7);
                    let end = bytes.len().min(at + written.len());
                    bytes[at.min(end)..end].fill(7);
                }
                _ => {
                    pages.put(at, &written);
                    bytes.resize(bytes.len().max(at + written.len()), 0);
                    bytes[at..][..written.len()].copy_from_slice(&written);
                }
            }
            assert_eq!(pages.to_vec(), bytes);
        }
        copies.iter().for_each(|(pages, bytes)| assert_eq!(pages.to_vec(), *bytes));
        assert!(!pages.read(&mut [0], bytes.len()));
    }
}
