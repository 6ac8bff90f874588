//! Public API of the heap (being filled).
#![allow(missing_docs, clippy::todo, unused_variables, dead_code)]
use crate::{Ptr, View};
use pmem::Region;

pub const ROOTS: usize = 128;
pub const MAX_BLOCK: usize = 65536;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the heap is full")]
pub struct Full;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError { #[error("a durable step failed earlier; the store takes no more writes until it is reopened")] Poisoned }
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError { #[error("x")] TooSmall }
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError { #[error("x")] NotAPool }

#[derive(Debug, Clone)]
pub struct Geometry { pub shards: usize, pub ring_parts: usize, pub ring_part: usize, pub zone_spans: usize }

#[derive(Debug, Clone, Default)]
pub struct Recovery { pub records: u64, pub words: u64, pub epoch: u64, pub clean: bool }

/// Reserved, unpublished memory of the transaction that reserved it.
#[derive(Debug)]
pub struct Fresh { ptr: Ptr, capacity: usize }
impl Fresh {
    pub fn ptr(&self) -> Ptr { self.ptr }
    pub fn capacity(&self) -> usize { self.capacity }
}

#[derive(Debug, Clone, Copy)]
pub struct Savepoint(());

pub struct Heap { region: Region }
impl Heap {
    pub fn create(region: Region, geometry: &Geometry) -> Result<Heap, CreateError> { todo!() }
    pub fn open(region: Region) -> Result<(Heap, Recovery), OpenError> { todo!() }
    /// A heap in anonymous memory.
    pub fn volatile(limit: u64) -> Result<Heap, CreateError> { todo!() }
    pub fn shards(&self) -> usize { todo!() }
    pub fn hash_seed(&self) -> [u8; 16] { todo!() }
    pub fn region(&self) -> &Region { &self.region }
    pub fn lock(&self, shard: usize) -> Shard<'_> { todo!() }
    pub fn try_lock(&self, shard: usize) -> Option<Shard<'_>> { todo!() }
    /// Commits the open transactions of several shards as one.
    pub fn commit_all(&self, shards: &mut [Shard<'_>]) -> Result<(), CommitError> { todo!() }
    /// Bytes in allocated blocks and spans, of all shards.
    pub fn used(&self) -> u64 { todo!() }
    /// Bytes that blocks may take at most.
    pub fn limit(&self) -> u64 { todo!() }
    /// Syncs and marks the pool as closed cleanly.
    pub fn close(self) -> std::io::Result<()> { todo!() }
}

/// A locked shard with an open transaction.
pub struct Shard<'h> { heap: &'h Heap }
impl View for Shard<'_> {
    fn word(&self, at: Ptr) -> u64 { todo!() }
    fn bytes(&self, at: Ptr, len: usize) -> &[u8] { todo!() }
    fn prefetch(&self, at: Ptr) { todo!() }
}
impl<'h> Shard<'h> {
    pub fn id(&self) -> usize { todo!() }
    pub fn heap(&self) -> &'h Heap { self.heap }
    pub fn root(&self, n: usize) -> Ptr { todo!() }
    pub fn set(&mut self, at: Ptr, value: u64) { todo!() }
    pub fn reserve(&mut self, len: usize) -> Result<Fresh, Full> { todo!() }
    pub fn write(&mut self, f: &Fresh, at: usize, bytes: &[u8]) { todo!() }
    pub fn write_word(&mut self, f: &Fresh, at: usize, value: u64) { todo!() }
    pub fn publish(&mut self, f: Fresh, len: usize) -> Ptr { todo!() }
    pub fn append(&mut self, block: Ptr, at: usize, bytes: &[u8]) { todo!() }
    pub fn capacity(&self, block: Ptr) -> usize { todo!() }
    pub fn free(&mut self, block: Ptr) { todo!() }
    /// Whether the span of this block is mostly empty, so that moving the block away would free it.
    pub fn is_sparse(&self, block: Ptr) -> bool { todo!() }
    /// From here on, reservations may use the room that is kept for deletes.
    pub fn use_reserve(&mut self, yes: bool) { todo!() }
    pub fn savepoint(&self) -> Savepoint { todo!() }
    pub fn rollback_to(&mut self, s: Savepoint) { todo!() }
    pub fn is_dirty(&self) -> bool { todo!() }
    pub fn commit(&mut self) -> Result<(), CommitError> { todo!() }
    /// Drops everything that the open transaction staged.
    pub fn rollback(&mut self) { todo!() }
}
