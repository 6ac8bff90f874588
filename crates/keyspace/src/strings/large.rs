//! Large strings: written before their shard is locked, and read after it was unlocked.
//!
//! A string of megabytes takes milliseconds to copy. A writer prepares it: blocks are reserved in
//! short steps under the lock, filled and fenced without it, and attached by the transaction that
//! sets it, which then only refers to it. A reader pins the string: it notes under the lock where
//! the bytes lie, and copies them afterwards; they do not change, and their blocks are not used
//! again while the pin lives.

use std::sync::Arc;

use heap::{Heap, Pin, Ptr, Shard, ShardWait};
use smallvec::SmallVec;
use structures::blob::{Blob, Reservation};

use crate::strings::checked_len;
use crate::{Entry, Error, Key, Keyspace, Txn};

/// Blocks reserved under one hold of the lock.
pub const BLOCKS_AT_ONCE: usize = 64;

/// A string that is in the heap and belongs to no key yet. Dropped, it was never there.
#[derive(Debug)]
pub struct Prepared<'k> {
    reservation: Reservation<'k>,
    blob: Blob,
    shard: usize,
    /// The key's, for a check.
    hash: u64,
}

/// A string that can be read without a lock.
#[derive(Debug)]
pub struct Pinned {
    heap: Arc<Heap>,
    pin: Pin,
    len: usize,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    At(Ptr, usize),
    Zeros(usize),
}

impl Keyspace {
    /// From this length on it pays to prepare or to pin a string.
    pub const LARGE: usize = 32 << 10;

    /// Writes a large string into blocks of the key's shard, for [`Txn::set_prepared`].
    pub fn prepare(&self, key: &Key<'_>, bytes: &[u8]) -> Result<Prepared<'_>, Error> {
        let lock = || Some(self.heap().lock(key.shard()));
        self.prepare_by(lock, key, bytes).map(|prepared| prepared.expect("it waits for the lock"))
    }

    /// Does the same for who has others to serve; `None` where the key's shard is locked.
    pub fn try_prepare(
        &self,
        key: &Key<'_>,
        bytes: &[u8],
        wait: Option<&ShardWait>,
    ) -> Result<Option<Prepared<'_>>, Error> {
        let ticket = wait.map_or(0, ShardWait::ticket);
        let lock = || -> Option<Shard<'_>> {
            let mut locked: SmallVec<[Shard<'_>; 1]> =
                self.heap().try_lock_all(&[key.shard()], ticket)?;
            locked.pop()
        };
        self.prepare_by(lock, key, bytes)
    }

    fn prepare_by<'k>(
        &'k self,
        lock: impl Fn() -> Option<Shard<'k>>,
        key: &Key<'_>,
        bytes: &[u8],
    ) -> Result<Option<Prepared<'k>>, Error> {
        checked_len(bytes.len(), 0)?;
        let mut reservation = Reservation::new(bytes.len() as u64);
        loop {
            let Some(mut shard) = lock() else { return Ok(None) };
            if reservation.reserve(&mut shard, BLOCKS_AT_ONCE)? {
                break;
            }
        }
        let blob = reservation.fill(|at, piece| {
            let at = at as usize;
            piece.copy_from_slice(&bytes[at..at + piece.len()]);
        })?;
        Ok(Some(Prepared { reservation, blob, shard: key.shard(), hash: key.hash }))
    }
}

impl<'k> Prepared<'k> {
    /// Makes it a part of the transaction that has this shard locked, as the value of the key.
    pub(crate) fn adopt(self, key: &Key<'_>, shard: &mut Shard<'k>) -> Blob {
        debug_assert_eq!(self.hash, key.hash, "a string that was prepared for another key");
        assert_eq!(self.shard, shard.id(), "a string that was prepared for another shard");
        self.reservation.adopt(shard);
        self.blob
    }
}

impl<'k> Txn<'k> {
    /// Attaches a prepared string, for the command that is to set it.
    pub fn attach(&mut self, prepared: Prepared<'k>) {
        self.attached = Some(Box::new(prepared));
    }

    /// Takes the attached string, for [`Txn::set_prepared`].
    #[inline]
    pub fn take_attached(&mut self) -> Option<Box<Prepared<'k>>> {
        self.attached.take()
    }

    /// Notes where a string is, to be read after the transaction was dropped.
    pub fn pin_string(&self, entry: &Entry) -> Result<Pinned, Error> {
        let value = self.string(entry)?;
        let shard = &self.shards[entry.shard];
        let mut pieces = Vec::new();
        value.pieces(0, usize::MAX, &mut |bytes| {
            pieces.push(match shard.place_of(bytes) {
                Some(at) => Piece::At(at, bytes.len()),
                None => Piece::Zeros(bytes.len()),
            });
        })?;
        let len = value.len();
        Ok(Pinned { heap: Arc::clone(&self.keyspace.heap), pin: shard.pin(), len, pieces })
    }
}

impl Pinned {
    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends all of it to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.len);
        for piece in &self.pieces {
            match *piece {
                Piece::At(at, len) => out.extend_from_slice(self.heap.pinned(&self.pin, at, len)),
                Piece::Zeros(len) => out.resize(out.len() + len, 0),
            }
        }
    }
}
