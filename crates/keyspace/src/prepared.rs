//! Large strings that are written before their shard is locked.
//!
//! A string of megabytes takes milliseconds to copy. So a writer prepares it: it reserves the
//! blocks in short steps under the lock, and fills and fences them without the lock. The
//! transaction that sets the string then only refers to these blocks.

use heap::Shard;
use structures::blob::{Blob, Reservation};

use crate::value::checked_len;
use crate::{Error, Key};

/// The number of blocks that are reserved under one hold of the lock.
pub const BLOCKS_AT_ONCE: usize = 64;

/// The length, in bytes, from which it pays to prepare or to pin a string.
pub(crate) const LARGE: usize = 32 << 10;

/// A string that is in the heap and belongs to no key yet. Dropping it discards the string.
#[derive(Debug)]
pub struct Prepared<'k> {
    reservation: Reservation<'k>,
    blob: Blob,
    shard: usize,
    /// The hash of the key, for a check.
    hash: u64,
}

impl<'k> Prepared<'k> {
    /// Writes a string into blocks of the key's shard, which `lock` locks. Returns `None` if `lock`
    /// does.
    pub(crate) fn write(
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

    /// Makes the string a part of the transaction that has this shard locked, as the value of the
    /// key.
    pub(crate) fn adopt(self, key: &Key<'_>, shard: &mut Shard<'k>) -> Blob {
        debug_assert_eq!(self.hash, key.hash, "a string that was prepared for another key");
        assert_eq!(self.shard, shard.id(), "a string that was prepared for another shard");
        self.reservation.adopt(shard);
        self.blob
    }
}
