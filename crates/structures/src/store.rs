//! What a structure needs from the heap.
//!
//! The structures are written against these two traits instead of [`heap::Shard`] for two reasons.
//! A large value is filled while its shard is not locked, by something that can only reserve and
//! write blocks ([`Fill`]). And a test can run a structure over a store that counts logged words
//! and refuses every breach of the heap's rules.

use heap::{Fresh, Full, Ptr, Shard, View};

/// Reserves blocks and fills them before anybody can reach them.
pub trait Fill {
    /// A reserved block that is not part of the transaction yet.
    type Fresh;

    /// Reserves a block of at least `len` bytes, whose content is undefined.
    fn reserve(&mut self, len: usize) -> Result<Self::Fresh, Full>;

    /// Returns the size in bytes of the reserved block.
    fn fresh_capacity(&self, fresh: &Self::Fresh) -> usize;

    /// Writes `bytes` at offset `at` of a reserved block.
    fn write(&mut self, fresh: &Self::Fresh, at: usize, bytes: &[u8]);

    /// Like [`Fill::write`], for bytes whose CRC-32C is `crc`.
    fn write_checksummed(&mut self, fresh: &Self::Fresh, at: usize, bytes: &[u8], crc: u32) {
        let _ = crc;
        self.write(fresh, at, bytes);
    }

    /// Lets `fill` write `len` bytes, all of them and not many, at offset `at` of a reserved block;
    /// in place if possible.
    fn write_with(
        &mut self,
        fresh: &Self::Fresh,
        at: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let mut bytes = vec![0; len];
        fill(&mut bytes);
        self.write(fresh, at, &bytes);
    }

    /// Writes a word at offset `at`, a multiple of 8, of a reserved block.
    fn write_word(&mut self, fresh: &Self::Fresh, at: usize, value: u64);

    /// Makes the first `len` bytes of a reserved block part of the transaction.
    fn publish(&mut self, fresh: Self::Fresh, len: usize) -> Ptr;
}

/// A locked shard with an open transaction.
pub trait Store: View + Fill {
    /// Stages a new value for the word at `at`.
    fn set(&mut self, at: Ptr, value: u64);

    /// Writes bytes after the published length of a block.
    fn append(&mut self, block: Ptr, at: usize, bytes: &[u8]);

    /// Returns the size in bytes of an allocated block.
    fn capacity(&self, block: Ptr) -> usize;

    /// Announces that a block will be freed.
    fn expect_free(&self, block: Ptr) {
        let _ = block;
    }

    /// Frees a block when the transaction commits.
    fn free(&mut self, block: Ptr);

    /// Returns true if the block's span is mostly empty, so that moving the block elsewhere helps
    /// to free the span.
    fn is_sparse(&self, block: Ptr) -> bool;

    /// Allows or forbids reservations, from here on, to use the emergency reserve, which is kept
    /// for deletes; returns the previous setting.
    fn allow_reserve(&mut self, yes: bool) -> bool;
}

impl Fill for Shard<'_> {
    type Fresh = Fresh;

    #[inline]
    fn reserve(&mut self, len: usize) -> Result<Fresh, Full> {
        Shard::reserve(self, len)
    }

    #[inline]
    fn fresh_capacity(&self, fresh: &Fresh) -> usize {
        fresh.capacity()
    }

    #[inline]
    fn write(&mut self, fresh: &Fresh, at: usize, bytes: &[u8]) {
        Shard::write(self, fresh, at, bytes);
    }

    #[inline]
    fn write_checksummed(&mut self, fresh: &Fresh, at: usize, bytes: &[u8], crc: u32) {
        Shard::write_checksummed(self, fresh, at, bytes, crc);
    }

    #[inline]
    fn write_with(&mut self, fresh: &Fresh, at: usize, len: usize, fill: impl FnOnce(&mut [u8])) {
        Shard::write_with(self, fresh, at, len, fill);
    }

    #[inline]
    fn write_word(&mut self, fresh: &Fresh, at: usize, value: u64) {
        Shard::write_word(self, fresh, at, value);
    }

    #[inline]
    fn publish(&mut self, fresh: Fresh, len: usize) -> Ptr {
        Shard::publish(self, fresh, len)
    }
}

impl Store for Shard<'_> {
    #[inline]
    fn set(&mut self, at: Ptr, value: u64) {
        Shard::set(self, at, value);
    }

    #[inline]
    fn append(&mut self, block: Ptr, at: usize, bytes: &[u8]) {
        Shard::append(self, block, at, bytes);
    }

    #[inline]
    fn capacity(&self, block: Ptr) -> usize {
        Shard::capacity(self, block)
    }

    #[inline]
    fn expect_free(&self, block: Ptr) {
        Shard::expect_free(self, block);
    }

    #[inline]
    fn free(&mut self, block: Ptr) {
        Shard::free(self, block);
    }

    #[inline]
    fn is_sparse(&self, block: Ptr) -> bool {
        Shard::is_sparse(self, block)
    }

    #[inline]
    fn allow_reserve(&mut self, yes: bool) -> bool {
        Shard::allow_reserve(self, yes)
    }
}
