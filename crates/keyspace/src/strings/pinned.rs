//! Large strings that are read after their shard is unlocked.
//!
//! A reader pins the string: under the lock it records where the bytes are, and it copies them
//! afterwards. While the pin lives, the bytes do not change and their blocks are not reused.

use std::sync::Arc;

use heap::{Heap, Pin, Ptr};

use super::Strings;
use crate::{Entry, Error};

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

impl Strings<'_, '_> {
    /// Pins a string, so that it can be read after the transaction is dropped.
    pub fn pin(&self, entry: &Entry) -> Result<Pinned, Error> {
        let value = self.txn.string(entry)?;
        let shard = &self.txn.shards[entry.shard];
        let mut pieces = Vec::new();
        value.pieces(0, usize::MAX, &mut |bytes| {
            pieces.push(match shard.place_of(bytes) {
                Some(at) => Piece::At(at, bytes.len()),
                None => Piece::Zeros(bytes.len()),
            });
        })?;
        let len = value.len();
        Ok(Pinned { heap: Arc::clone(&self.txn.shared().heap), pin: shard.pin(), len, pieces })
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

    /// Appends the whole string to `out`.
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
