//! Operations on keys, whatever the types of their values.

use heap::{Ptr, Shard};
use structures::blob::Blob;

use crate::collection;
use crate::entry;
use crate::error::refused;
use crate::held::Held;
use crate::layout::FIELDS;
use crate::txn::{KeyLocation, Old};
use crate::{Db, Error, Event, Key, Txn};

/// The operations on keys, whatever the types of their values.
pub struct Keys<'t, 'k> {
    txn: &'t mut Txn<'k>,
}

impl<'k> Txn<'k> {
    /// Returns the operations on keys.
    #[inline]
    pub fn keys(&mut self) -> Keys<'_, 'k> {
        Keys { txn: self }
    }
}

impl Keys<'_, '_> {
    /// Deletes a key. Returns false if there was none, or only an expired one.
    pub fn delete(&mut self, db: Db, key: &Key<'_>) -> Result<bool, Error> {
        let place = self.txn.place(db, key);
        let Some(slot) = self.txn.slot_mut(place, db, key)? else { return Ok(false) };
        self.txn.unlink(place, key.hash, slot, true)?;
        self.txn.record_change(place.shard, db, key.bytes, Event::Deleted);
        Ok(true)
    }

    /// Deletes a key that the caller creates again next, with another value: it is then not listed
    /// as new.
    pub fn delete_to_overwrite(&mut self, db: Db, key: &Key<'_>) -> Result<bool, Error> {
        let was_there = self.delete(db, key)?;
        self.txn.set_overwritten(was_there);
        Ok(was_there)
    }

    /// Sets (`Some(unix ms)`) or removes the expiry time. Returns false if there is no such key.
    pub fn set_expiry(&mut self, db: Db, key: &Key<'_>, at: Option<u64>) -> Result<bool, Error> {
        let (place, Some(old)) = self.txn.open(db, key)? else { return Ok(false) };
        self.txn.move_expiry(place, key, old, at.unwrap_or(0) | old.expiry & FIELDS)?;
        self.txn.record_change(place.shard, db, key.bytes, Event::Written);
        Ok(true)
    }

    /// Sets how long ago a key was last used. Does nothing under an LFU policy, which does not use
    /// it.
    pub fn set_idle(&mut self, db: Db, key: &Key<'_>, idle_ms: u64) {
        if self.txn.shared().lfu().is_none() {
            let (place, now) = (self.txn.place(db, key), self.txn.used_at());
            self.txn.volatile(place.shard).access.set_idle(place.which(key.hash), now, idle_ms);
        }
    }

    /// Sets Redis's logarithmic counter of uses of a key. Does nothing unless the policy is LFU,
    /// since no other policy uses it.
    pub fn set_frequency(&mut self, db: Db, key: &Key<'_>, frequency: u8) {
        if let Some(lfu) = self.txn.shared().lfu() {
            let (place, now) = (self.txn.place(db, key), self.txn.used_at());
            let which = place.which(key.hash);
            self.txn.volatile(place.shard).access.set_frequency(which, now, lfu, frequency);
        }
    }

    /// Moves a value with its expiry time to another key, another database, or both, and replaces
    /// the value there. Returns false if there is no source. Nothing changes if source and target
    /// are the same.
    pub fn rename(&mut self, from: (Db, &Key<'_>), to: (Db, &Key<'_>)) -> Result<bool, Error> {
        self.txn.hashes().delete_some_expired(from.0, from.1)?;
        let (place, Some(_)) = self.txn.open_sound(from.0, from.1)? else { return Ok(false) };
        let target = self.txn.place(to.0, to.1);
        if place == target && from.1.bytes == to.1.bytes {
            return Ok(true);
        }
        to.1.check_len()?;
        self.delete(to.0, to.1)?;
        // The deletion may have moved the source's slot.
        let (_, Some(old)) = self.txn.open(from.0, from.1)? else { return Ok(false) };
        if place.shard == target.shard {
            self.rename_within(place, from.1, old, target, to.1)?;
        } else {
            self.copy_entry(place, old, target, to.1)?;
            self.txn.unlink(place, from.1.hash, old.slot, true)?;
        }
        self.txn.record_change(place.shard, from.0, from.1.bytes, Event::Deleted);
        self.txn.record_change(target.shard, to.0, to.1.bytes, Event::Written);
        Ok(true)
    }

    /// Within a shard, the new entry takes over what the old one owns. If only the database
    /// differs, the entry itself moves.
    fn rename_within(
        &mut self,
        place: KeyLocation,
        from: &Key<'_>,
        old: Old,
        target: KeyLocation,
        to: &Key<'_>,
    ) -> Result<(), Error> {
        self.txn.unlink(place, from.hash, old.slot, false)?;
        if from.bytes == to.bytes {
            return self.txn.link(target, to, None, old.at, old.expiry);
        }
        let shard = &mut self.txn.shards[place.shard];
        let held = Held::read(shard, old.at);
        let new = entry::create(shard, to.bytes, old.expiry, held.value(), 0)?;
        self.txn.link(target, to, None, new, old.expiry)?;
        let queue = self.txn.queue(place.shard);
        Ok(entry::release_shell(&mut self.txn.shards[place.shard], queue, old.at)?)
    }

    /// Copies a value with its expiry time, and replaces the value there. Returns false if there is
    /// no source.
    pub fn copy(&mut self, from: (Db, &Key<'_>), to: (Db, &Key<'_>)) -> Result<bool, Error> {
        self.txn.hashes().delete_some_expired(from.0, from.1)?;
        let (place, Some(_)) = self.txn.open_sound(from.0, from.1)? else { return Ok(false) };
        let target = self.txn.place(to.0, to.1);
        if place == target && from.1.bytes == to.1.bytes {
            return Ok(true);
        }
        to.1.check_len()?;
        self.delete(to.0, to.1)?;
        let (_, Some(old)) = self.txn.open(from.0, from.1)? else { return Ok(false) };
        self.copy_entry(place, old, target, to.1)?;
        self.txn.record_change(target.shard, to.0, to.1.bytes, Event::Written);
        Ok(true)
    }

    /// Copies an entry's value to a key that does not exist.
    fn copy_entry(
        &mut self,
        place: KeyLocation,
        old: Old,
        target: KeyLocation,
        key: &Key<'_>,
    ) -> Result<(), Error> {
        let held = match Held::read(&self.txn.shards[place.shard], old.at) {
            Held::Blob(_) => Held::Blob(self.copy_blob(place.shard, old.at, target.shard)?),
            Held::Collection(head, word) => {
                let hashing = &self.txn.shared().hashing;
                let shards = &mut self.txn.shards;
                let pair = collection::Pair { shards, from: place.shard, to: target.shard };
                let copy = collection::copy(pair, hashing, head, word);
                Held::Collection(head, copy.map_err(|error| refused(error, old.at))?)
            }
            short => short,
        };
        let to = &mut self.txn.shards[target.shard];
        let new = entry::create(to, key.bytes, old.expiry, held.value(), 0)?;
        self.txn.link(target, key, None, new, old.expiry)
    }

    fn copy_blob(&mut self, from: usize, at: Ptr, to: usize) -> Result<Blob, Error> {
        let damaged = |damaged: structures::Damaged| refused(damaged.into(), at);
        if self.txn.shards[from].heap().is_durable() {
            entry::blob(&self.txn.shards[from], at)
                .check(&self.txn.shards[from])
                .map_err(damaged)?;
        }
        if from == to {
            // The same shard is read and written, so the bytes are copied through DRAM.
            let shard = &mut self.txn.shards[from];
            let source = entry::blob(shard, at);
            let bytes = source.to_vec(shard).map_err(damaged)?;
            return Ok(Blob::create(shard, &bytes)?);
        }
        let (from, to) = pair(&mut self.txn.shards, from, to);
        let source = entry::blob(from, at);
        let len = source.len(from).map_err(damaged)?;
        Ok(Blob::create_with(to, len, |offset, block| {
            let (mut filled, end) = (0, offset + block.len() as u64);
            let read = |piece: &[u8]| {
                block[filled..filled + piece.len()].copy_from_slice(piece);
                filled += piece.len();
            };
            // It was verified above.
            source.read(from, offset..end, read).ok();
        })?)
    }
}

/// Borrows two of the shards at once, the first to read and the second to write.
fn pair<'t, 'k>(
    shards: &'t mut [Shard<'k>],
    from: usize,
    to: usize,
) -> (&'t Shard<'k>, &'t mut Shard<'k>) {
    let (low, high) = shards.split_at_mut(from.max(to));
    if from < to { (&low[from], &mut high[0]) } else { (&high[0], &mut low[to]) }
}

#[cfg(test)]
mod tests {
    use heap::{CreateOptions, Heap};
    use structures::index::Slot;

    use super::*;
    use crate::key::MAX_KEY;
    use crate::{Expire, Keyspace};

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let heap = Heap::volatile(64 << 20, &CreateOptions::default()).expect("a heap in memory");
        let (keyspace, db) = (Keyspace::new(heap, 0), Db::default());
        let mut txn = keyspace.begin_all(0);
        let from = txn.key(b"from");
        txn.strings().set(db, &from, b"value", Expire::Clear).expect("free memory");
        let bytes = vec![0; MAX_KEY + 1];
        let to = Key { bytes: &bytes, hash: 0, shard: 0, slot_hint: Slot::default() };
        let renamed = txn.keys().rename((db, &from), (db, &to));
        let copied = txn.keys().copy((db, &from), (db, &to));
        assert_eq!((renamed, copied), (Err(Error::KeyTooLong), Err(Error::KeyTooLong)));
        assert!(txn.peek(db, &from).is_some());
    }
}
