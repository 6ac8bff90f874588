//! Function libraries: the source code of each, by its name.
//!
//! They are stored like strings, as entries of a physical database of their own, to which no
//! logical database maps. So everything that works on databases (check, repair, scrub,
//! defragmentation, salvage) includes them, and nothing that works on keys (KEYS, FLUSHALL,
//! eviction, watches) sees them.
//!
//! This module does not know what a library contains (its functions).

use heap::{Ptr, View};

use crate::layout::{Kind, LIBRARIES};
use crate::txn::KeyLocation;
use crate::{Error, Expire, Txn, entry};

/// The operations that change function libraries. The shard of a library's name must be locked.
pub struct Libraries<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the code of a function library, if there is one of this name. The library is in the
    /// shard of a key of the same name, which must be locked.
    pub fn library(&self, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = self.key(name);
        let place = self.place_in(LIBRARIES, &key);
        let Some(slot) = self.slot(place, &key) else { return Ok(None) };
        code(&self.shards[place.shard], slot.entry()).map(Some)
    }

    /// Calls `show` with each function library in the locked shards: its name, and its code or the
    /// error if the code is damaged.
    pub fn for_each_library(&self, mut show: impl FnMut(&[u8], Result<Vec<u8>, Error>)) {
        for shard in 0..self.shards.len() {
            let place = KeyLocation { shard, db: LIBRARIES };
            let shard = &self.shards[shard];
            let mut cursor = 0;
            loop {
                cursor = self.keys_index(place).scan(shard, cursor, 64, |at| {
                    show(&entry::key(shard, at), code(shard, at));
                });
                if cursor == 0 {
                    break;
                }
            }
        }
    }

    /// Returns the operations that change function libraries.
    #[inline]
    pub fn libraries(&mut self) -> Libraries<'_, 'k> {
        Libraries { txn: self }
    }
}

impl Libraries<'_, '_> {
    /// Stores the code of a function library, and replaces its old code.
    pub fn put(&mut self, name: &[u8], code: &[u8]) -> Result<(), Error> {
        let key = self.txn.key(name);
        let place = self.txn.place_in(LIBRARIES, &key);
        let old = self.txn.slot(place, &key).map(|slot| self.txn.old(place, slot));
        self.txn.strings().put_bytes(place, &key, old, code, false, Expire::Clear)
    }

    /// Deletes a function library. Returns true if there was one of this name.
    pub fn delete(&mut self, name: &[u8]) -> Result<bool, Error> {
        let key = self.txn.key(name);
        let place = self.txn.place_in(LIBRARIES, &key);
        let Some(slot) = self.txn.slot(place, &key) else { return Ok(false) };
        self.txn.unlink(place, key.hash, slot, true)?;
        Ok(true)
    }

    /// Deletes the function libraries in the locked shards, and returns how many there were.
    /// [`crate::Keyspace::reclaim_step`] frees the space that they occupied.
    pub fn flush(&mut self) -> Result<u64, Error> {
        self.txn.forget();
        let mut flushed = 0;
        for shard in 0..self.txn.shards.len() {
            let place = KeyLocation { shard, db: LIBRARIES };
            flushed += self.txn.databases().flush_place(place)?;
        }
        Ok(flushed)
    }
}

/// Returns the code of the function library with this entry.
pub(crate) fn code<V: View>(view: &V, at: Ptr) -> Result<Vec<u8>, Error> {
    let damaged = || Error::Damaged(at.raw());
    match Kind::decode(view.word(at)) {
        Some(Kind::Inline { len, crc, .. }) => {
            let is_sound = entry::body_is_sound(view, at, len, crc);
            is_sound.then(|| entry::body(view, at, len).to_vec()).ok_or_else(damaged)
        }
        Some(Kind::Blob) => entry::blob(view, at).to_vec(view).map_err(|_| damaged()),
        _ => Err(damaged()),
    }
}
