//! Copies sound entries into the new pool.

use heap::Ptr;

use super::walk::Salvager;
use super::{SalvageFinding, SalvageStopped};
use crate::layout::LIBRARIES;
use crate::{Content, Db, Error, Keyspace, entry, functions, snapshot};

impl Salvager<'_> {
    /// Copies a sound entry that expires at `time` (0: never), unless it has expired or its key was
    /// copied already.
    pub(super) fn copy(&mut self, db: Db, at: Ptr, time: u64) -> Result<(), SalvageStopped> {
        let (pool, now) = (self.pool, self.options.now);
        if time != 0 && time <= now {
            self.done.expired += 1;
            return Ok(());
        }
        if has(self.to, db, &entry::key(pool, at), now) {
            self.done.lost += 1;
            let key = entry::key(pool, at).into_owned();
            (self.find)(SalvageFinding::Twice { db: db.number(), key, at: at.raw() });
            return Ok(());
        }
        let (mut within, mut is_there) = (0, false);
        loop {
            let (mut item, rest) = snapshot::begin(pool, db, at, &mut within);
            if let (Some(len), Content::String(value)) = (rest, &mut item.value) {
                let read = |piece: &[u8]| value.extend_from_slice(piece);
                let done = entry::blob(pool, at).read(pool, 0..len, read);
                done.map_err(|_| SalvageStopped::Write(Error::Damaged(at.raw())))?;
            }
            item.expiry = Some(time).filter(|time| *time != 0 && within == 0);
            is_there |= self.to.restore(&item, now)?;
            if within == 0 {
                break;
            }
        }
        match is_there {
            true => {
                self.done.keys += 1;
                self.done.expiring += u64::from(time != 0);
            }
            // It is a hash of which all fields have expired.
            false => self.done.expired += 1,
        }
        Ok(())
    }

    /// Copies a sound entry to which no index led, and counts it once it is copied. Returns true if
    /// it is.
    pub(super) fn copy_found(&mut self, db: Db, at: Ptr) -> Result<bool, SalvageStopped> {
        let before = self.done.keys;
        self.copy(db, at, entry::expiry(self.pool, at))?;
        let copied = self.done.keys - before;
        self.done.found += copied;
        Ok(copied > 0)
    }

    /// Copies the sound entry of a function library, unless a library of this name was copied
    /// already.
    pub(super) fn copy_library(&mut self, at: Ptr) -> Result<(), SalvageStopped> {
        let name = entry::key(self.pool, at).into_owned();
        let key = self.to.key(&name);
        let mut txn = self.to.begin_one(key.shard(), self.options.now);
        if txn.library(&name)?.is_some() {
            self.done.lost += 1;
            let db = usize::from(LIBRARIES);
            (self.find)(SalvageFinding::Twice { db, key: name, at: at.raw() });
            return Ok(());
        }
        let code = functions::code(self.pool, at);
        txn.libraries().put(&name, &code.map_err(SalvageStopped::Write)?)?;
        txn.commit()?;
        self.done.libraries += 1;
        Ok(())
    }

    /// Reports a sound entry whose database is not known, and copies it into the database that the
    /// caller chose, if any.
    pub(super) fn unplaced(&mut self, shard: usize, at: Ptr) -> Result<(), SalvageStopped> {
        let key = entry::key(self.pool, at).into_owned();
        let to = self.options.unplaced.filter(|&db| !has(self.to, db, &key, self.options.now));
        let put = match to {
            Some(db) => self.copy_found(db, at)?.then_some(db.number()),
            None => {
                self.done.lost += 1;
                None
            }
        };
        (self.find)(SalvageFinding::Unplaced { shard, key, at: at.raw(), put });
        Ok(())
    }
}

fn has(to: &Keyspace, db: Db, key: &[u8], now: u64) -> bool {
    let key = to.key(key);
    to.begin_one(key.shard(), now).find(db, &key).is_some()
}
