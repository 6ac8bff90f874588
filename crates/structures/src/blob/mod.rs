//! Byte strings of up to 512 MiB.
#![allow(unused_variables, clippy::todo, missing_docs)]

use std::ops::Range;

use heap::{Full, View};

use crate::{Fill, Store};

/// The longest blob: Redis's limit for a string.
pub const MAX_LEN: u64 = 512 << 20;

/// A byte string, as the one word that the caller keeps: 0 is the empty string.
///
/// A change answers the blob's new word; the caller stores it where the old one was if it differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blob(u64);

/// The blob's bytes do not match their checksum, or its table makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the blob at {at:#x} is damaged: expected {expected:#x}, found {found:#x}")]
pub struct Damaged {
    pub at: u64,
    pub expected: u64,
    pub found: u64,
}

impl Blob {
    pub const EMPTY: Blob = Blob(0);

    pub const fn from_word(word: u64) -> Blob {
        Blob(word)
    }

    pub const fn word(self) -> u64 {
        self.0
    }

    pub fn len<V: View>(self, view: &V) -> u64 {
        todo!()
    }

    /// Whether the blob is a table of chunks: too long for one block, and too long to free at once.
    pub fn is_large(self) -> bool {
        todo!()
    }

    /// A blob of these bytes. `fill` is the locked shard, or for a large value something that fills blocks without the lock.
    pub fn create<F: Fill>(fill: &mut F, bytes: &[u8]) -> Result<Blob, Full> {
        todo!()
    }

    /// A blob of `len` bytes, which `source` writes piece by piece, in order: it gets a piece's offset and room.
    pub fn create_with<F: Fill>(
        fill: &mut F,
        len: u64,
        source: impl FnMut(u64, &mut [u8]),
    ) -> Result<Blob, Full> {
        todo!()
    }

    /// Visits the bytes of a range (cut to the blob's length) as slices, in order.
    pub fn read<'v, V: View>(self, view: &'v V, range: Range<u64>, visit: impl FnMut(&'v [u8])) {
        todo!()
    }

    /// Adds bytes at the end; at most `MAX_LEN` in all, which the caller has checked.
    pub fn append<S: Store>(self, store: &mut S, bytes: &[u8]) -> Result<Blob, Full> {
        todo!()
    }

    /// Overwrites from `at` on, with zeros before where the blob was shorter. The caller has checked `MAX_LEN`.
    pub fn set_range<S: Store>(self, store: &mut S, at: u64, bytes: &[u8]) -> Result<Blob, Full> {
        todo!()
    }

    /// Frees up to `budget` blocks of a blob that nothing else refers to, from its end; answers what is left of it
    /// (`EMPTY`: nothing) and how many blocks were freed.
    pub fn free_step<S: Store>(self, store: &mut S, budget: usize) -> (Blob, usize) {
        todo!()
    }

    /// Copies a blob of one block out of a sparse span: its new word, or `None` where it may stay.
    pub fn relocate<S: Store>(self, store: &mut S) -> Result<Option<Blob>, Full> {
        todo!()
    }

    /// Verifies every checksum.
    pub fn check<V: View>(self, view: &V) -> Result<(), Damaged> {
        todo!()
    }

    /// Visits each block of the blob.
    pub fn blocks<V: View>(self, view: &V, visit: impl FnMut(heap::Ptr)) {
        todo!()
    }
}
