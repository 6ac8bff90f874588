//! Byte strings of up to 512 MiB.
//!
//! The caller keeps one word. Up to 65528 bytes a blob is one block; beyond that it is a table of
//! chunks of 64 KiB, so that no length needs a large contiguous range, and a change copies at most
//! one chunk. Zeros after the last written byte take no space: a string that one far write made
//! long stays small.
//!
//! Bytes that a reader may see never change. An append writes after the published length; every
//! other change copies the block or the chunk. Next to each length is the CRC-32C of the bytes, in
//! the same word, so that the two change together. Every word of a blob is self-checksummed and
//! verified whenever it is read: a lost word is damage, not an empty string or a hole. Bytes are
//! verified before they are copied, so that no copy makes damaged bytes look sound.
//!
//! A large blob is freed in steps, from its end: see [`Blob::free_step`] and [`crate::reclaim`].
//! `docs/format/blob.md` has the format and the counts.
//!
//! Blobs know neither keys nor encodings; short values are better kept inside the caller's own
//! entry.

mod block;
mod check;
mod checksum;
mod reservation;
mod table;

use std::ops::Range;

use heap::{Full, Ptr, View};

pub(crate) use checksum::Checksum;
pub use reservation::Reservation;
pub use table::{CHUNK, LEAF_CHUNKS, SMALLEST_LEAF};

use crate::{Damaged, Error, Fill, Store};
use table::Table;

/// Maximum length of a blob: Redis's limit for a string.
pub const MAX_LEN: u64 = 512 << 20;

/// Maximum length of a blob that is one block.
pub const MAX_BLOCK_LEN: u64 = block::MAX as u64;

/// A byte string, as the one word that the caller keeps: 0 is the empty string.
///
/// A change returns the blob's new word; if it differs, the caller stores it in place of the old
/// one. A blob is owned by one word: after a change, its earlier words mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blob(u64);

const TABLE_FLAG: u64 = 1;

/// The form of a blob, according to its word.
enum Form {
    Empty,
    Block(Ptr),
    Table(Table),
}

impl Blob {
    /// The empty string, which has no block.
    pub const EMPTY: Blob = Blob(0);

    /// Returns the blob that a word refers to.
    pub const fn from_word(word: u64) -> Blob {
        Blob(word)
    }

    /// Returns the word to keep.
    pub const fn word(self) -> u64 {
        self.0
    }

    fn form(self) -> Form {
        match self.0 {
            0 => Form::Empty,
            word if word & TABLE_FLAG == 0 => Form::Block(Ptr::from_raw(word)),
            word => Form::Table(Table { top: Ptr::from_raw(word & !TABLE_FLAG) }),
        }
    }

    fn block(block: Ptr) -> Blob {
        Blob(block.raw())
    }

    fn table(table: Table) -> Blob {
        Blob(table.top.raw() | TABLE_FLAG)
    }

    /// Returns its length in bytes.
    pub fn len<V: View>(self, view: &V) -> Result<u64, Damaged> {
        match self.form() {
            Form::Empty => Ok(0),
            Form::Block(block) => block::len(view, block).map(|len| len as u64),
            Form::Table(table) => table.len(view),
        }
    }

    /// Returns true if the blob is a table of chunks, which must be freed through
    /// [`crate::reclaim`].
    pub fn is_large(self) -> bool {
        self.0 & TABLE_FLAG != 0
    }

    /// Creates a blob of these bytes, at most [`MAX_LEN`].
    ///
    /// `fill` is the locked shard; a [`Reservation`] fills blocks without the lock.
    pub fn create<F: Fill>(fill: &mut F, bytes: &[u8]) -> Result<Blob, Full> {
        match bytes.len() {
            0 => Ok(Blob::EMPTY),
            1..=block::MAX => block::create(fill, bytes, 0).map(Blob::block),
            _ => table::create(fill, bytes).map(Blob::table),
        }
    }

    /// Creates a blob of `len` bytes, at most [`MAX_LEN`], which `source` writes in pieces of up to
    /// 64 KiB, in order: it gets each piece's offset and buffer.
    pub fn create_with<F: Fill>(
        fill: &mut F,
        len: u64,
        mut source: impl FnMut(u64, &mut [u8]),
    ) -> Result<Blob, Full> {
        if len > MAX_BLOCK_LEN {
            return table::create_with(fill, len, source).map(Blob::table);
        }
        let mut bytes = vec![0; len as usize];
        if len > 0 {
            source(0, &mut bytes);
        }
        Blob::create(fill, &bytes)
    }

    /// Visits the bytes of a range, clipped to the blob's length, as slices in order; stops at a
    /// damaged word.
    pub fn read<'v, V: View>(
        self,
        view: &'v V,
        range: Range<u64>,
        mut visit: impl FnMut(&'v [u8]),
    ) -> Result<(), Damaged> {
        let end = range.end.min(self.len(view)?);
        if range.start >= end {
            return Ok(());
        }
        match self.form() {
            Form::Empty => {}
            Form::Block(block) => {
                visit(block::bytes(view, block, range.start as usize..end as usize));
            }
            Form::Table(table) => table.read(view, range.start..end, &mut visit)?,
        }
        Ok(())
    }

    /// Returns the block, the offset in it and the length of the bytes, if one block holds all of
    /// them.
    pub fn in_one_block<V: View>(self, view: &V) -> Option<(Ptr, usize, usize)> {
        match self.form() {
            Form::Block(block) => {
                block::len(view, block).ok().map(|len| (block, block::HEADER, len))
            }
            Form::Empty | Form::Table(_) => None,
        }
    }

    /// Returns all bytes in one vector: for short blobs.
    pub fn to_vec<V: View>(self, view: &V) -> Result<Vec<u8>, Damaged> {
        let mut bytes = Vec::with_capacity(self.len(view)? as usize);
        self.read(view, 0..u64::MAX, |slice| bytes.extend_from_slice(slice))?;
        Ok(bytes)
    }

    /// Prefetches the blob's first lines.
    pub fn prefetch<V: View>(self, view: &V) {
        if self != Blob::EMPTY {
            view.prefetch(Ptr::from_raw(self.0 & !TABLE_FLAG));
        }
    }

    /// Appends bytes; the caller has checked that the result has at most [`MAX_LEN`].
    ///
    /// Appends in place while the last block has space. Otherwise the block grows to twice the
    /// required size, up to the maximum.
    pub fn append<S: Store>(self, store: &mut S, bytes: &[u8]) -> Result<Blob, Error> {
        if bytes.is_empty() {
            return Ok(self);
        }
        match self.form() {
            Form::Empty => Ok(Blob::create(store, bytes)?),
            Form::Block(block) => {
                let checksum = block::checksum(store, block)?;
                if checksum.len as usize + bytes.len() <= block::MAX {
                    return block::append(store, block, checksum, bytes).map(Blob::block);
                }
                let table = table::from_block(store, block)?;
                table.write(store, u64::from(checksum.len), bytes)?;
                Ok(Blob::table(table))
            }
            Form::Table(table) => {
                table.write(store, table.len(store)?, bytes)?;
                Ok(self)
            }
        }
    }

    /// Overwrites from `at` on; if the blob is shorter, the gap is filled with zeros. The caller
    /// has checked that the result has at most [`MAX_LEN`]. Does nothing if there are no bytes to
    /// write.
    pub fn set_range<S: Store>(self, store: &mut S, at: u64, bytes: &[u8]) -> Result<Blob, Error> {
        if bytes.is_empty() {
            return Ok(self);
        }
        let end = at + bytes.len() as u64;
        let table = match self.form() {
            Form::Empty if end <= MAX_BLOCK_LEN => {
                let mut content = vec![0; at as usize];
                content.extend_from_slice(bytes);
                return Ok(Blob::create(store, &content)?);
            }
            Form::Block(block) if end <= MAX_BLOCK_LEN => {
                return block::set_range(store, block, at as usize, bytes).map(Blob::block);
            }
            Form::Empty => table::empty(store)?,
            Form::Block(block) => table::from_block(store, block)?,
            Form::Table(table) => table,
        };
        table.write(store, at, bytes)?;
        Ok(Blob::table(table))
    }

    /// Replaces the bytes of a blob of at most one block with at most [`MAX_BLOCK_LEN`] others. The
    /// spare space after them is that of before, at most as many bytes again.
    pub fn rewrite<S: Store>(self, store: &mut S, bytes: &[u8]) -> Result<Blob, Full> {
        match self.form() {
            Form::Block(block) if !bytes.is_empty() => {
                block::rewrite(store, block, bytes).map(Blob::block)
            }
            Form::Block(block) => {
                store.free(block);
                Ok(Blob::EMPTY)
            }
            Form::Empty => Blob::create(store, bytes),
            // Impossible in a sound pool; the table's space is lost.
            Form::Table(_) => Blob::create(store, bytes),
        }
    }

    /// Frees about `budget` blocks of a blob that nothing else refers to, from its end; returns
    /// what is left of it ([`Blob::EMPTY`] for nothing) and how many blocks were freed.
    pub fn free_step<S: Store>(self, store: &mut S, budget: usize) -> (Blob, usize) {
        match self.form() {
            Form::Empty => (Blob::EMPTY, 0),
            Form::Block(block) => {
                store.free(block);
                (Blob::EMPTY, 1)
            }
            Form::Table(table) => {
                let (left, freed) = table.free_step(store, budget);
                (if left { self } else { Blob::EMPTY }, freed)
            }
        }
    }

    /// Moves the blob's small blocks out of sparse spans; `None` if its word does not change.
    pub fn relocate<S: Store>(self, store: &mut S) -> Result<Option<Blob>, Full> {
        match self.form() {
            Form::Block(block) if store.is_sparse(block) => {
                Ok(block::relocate(store, block)?.map(Blob::block))
            }
            Form::Table(table) => Ok(table.relocate(store)?.map(Blob::table)),
            _ => Ok(None),
        }
    }

    /// Verifies every word, but not the bytes: afterwards the bytes can be read.
    pub fn check_words<V: View>(self, view: &V) -> Result<(), Damaged> {
        self.len(view)?;
        self.checksums(view, |_, _, _| {})
    }

    /// Verifies every length and checksum.
    pub fn check<V: View>(self, view: &V) -> Result<(), Damaged> {
        check::check(view, self)
    }

    /// Verifies the words of a large blob, and visits each of its chunks with its place, the number
    /// of bytes that it stores, and their checksum. These bytes do not change while they are
    /// pinned.
    pub fn checksums<V: View>(
        self,
        view: &V,
        visit: impl FnMut(Ptr, usize, u32),
    ) -> Result<(), Damaged> {
        check::checksums(view, self, visit)
    }

    /// Visits each block of the blob that can be reached.
    pub fn blocks<V: View>(self, view: &V, mut visit: impl FnMut(Ptr)) {
        match self.form() {
            Form::Empty => {}
            Form::Block(block) => visit(block),
            Form::Table(table) => table.blocks(view, &mut visit),
        }
    }
}
