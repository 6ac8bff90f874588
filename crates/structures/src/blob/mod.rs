//! Byte strings of up to 512 MiB.
//!
//! The caller keeps one word. Up to 65528 bytes a blob is one block; beyond that it is a table of
//! chunks of 64 KiB, so that no length needs a large free stretch, and a change copies one chunk at
//! most. Nothing is allocated for zeros after what was written: a string made long by one far
//! write stays small.
//!
//! Bytes that a reader may see never change. An append writes after the published length; every
//! other change copies the block or the chunk. Next to each length is the CRC-32C of the
//! bytes, in the same word, so that the two change in one. Every word of a blob checks itself
//! whenever it is read: a lost one is damage, and neither an empty string nor a hole. What is
//! copied is verified first, so that no copy makes damaged bytes look sound.
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

/// The longest blob: Redis's limit for a string.
pub const MAX_LEN: u64 = 512 << 20;

/// The longest blob that is one block.
pub const MAX_BLOCK_LEN: u64 = block::MAX as u64;

/// A byte string, as the one word that the caller keeps: 0 is the empty string.
///
/// A change answers the blob's new word, which the caller stores where the old one was if it
/// differs. A blob is owned by one word: after a change of the blob, an older word of it means
/// nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blob(u64);

const TABLE_FLAG: u64 = 1;

/// What a blob's word refers to.
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

    /// Returns true if the blob is a table of chunks: to be freed through [`crate::reclaim`].
    pub fn is_large(self) -> bool {
        self.0 & TABLE_FLAG != 0
    }

    /// Returns a blob of these bytes, at most [`MAX_LEN`].
    ///
    /// `fill` is the locked shard; a [`Reservation`] fills blocks without the lock.
    pub fn create<F: Fill>(fill: &mut F, bytes: &[u8]) -> Result<Blob, Full> {
        match bytes.len() {
            0 => Ok(Blob::EMPTY),
            1..=block::MAX => block::create(fill, bytes, 0).map(Blob::block),
            _ => table::create(fill, bytes).map(Blob::table),
        }
    }

    /// Returns a blob of `len` bytes, at most [`MAX_LEN`], which `source` writes in pieces of up to
    /// 64 KiB, in order: it gets the piece's offset and space.
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

    /// Visits the bytes of a range, cut to the blob's length, as slices in order: up to where a
    /// damaged word is met.
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

    /// Asks for the blob's first lines.
    pub fn prefetch<V: View>(self, view: &V) {
        if self != Blob::EMPTY {
            view.prefetch(Ptr::from_raw(self.0 & !TABLE_FLAG));
        }
    }

    /// Adds bytes at the end; the caller has checked that at most [`MAX_LEN`] result.
    ///
    /// In place while the last block has space. Else the block grows to twice what is needed, up to
    /// its largest size.
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

    /// Overwrites from `at` on, with zeros in front where the blob was shorter. The caller has
    /// checked that at most [`MAX_LEN`] result. Nothing happens if there are no bytes to write.
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

    /// Puts other bytes, at most [`MAX_BLOCK_LEN`], in the place of a blob of one block or none,
    /// with as much space after them as there was, at most as many again.
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
            // Not so in a sound pool; its space is lost.
            Form::Table(_) => Blob::create(store, bytes),
        }
    }

    /// Frees about `budget` blocks of a blob that nothing else refers to, from its end; answers
    /// what is left of it ([`Blob::EMPTY`]: nothing) and how many blocks were freed.
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

    /// Moves the blob's small blocks out of sparse spans; `None` where its word stays.
    pub fn relocate<S: Store>(self, store: &mut S) -> Result<Option<Blob>, Full> {
        match self.form() {
            Form::Block(block) if store.is_sparse(block) => {
                Ok(block::relocate(store, block)?.map(Blob::block))
            }
            Form::Table(table) => Ok(table.relocate(store)?.map(Blob::table)),
            _ => Ok(None),
        }
    }

    /// Verifies every word, but not the bytes: afterwards they can be read.
    pub fn check_words<V: View>(self, view: &V) -> Result<(), Damaged> {
        self.len(view)?;
        self.checksums(view, |_, _, _| {})
    }

    /// Verifies every length and checksum.
    pub fn check<V: View>(self, view: &V) -> Result<(), Damaged> {
        check::check(view, self)
    }

    /// Verifies the words of a large blob, and visits each of its chunks: where it is, how many
    /// bytes it stores, and their checksum. Bytes that it shows do not change while they are
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
