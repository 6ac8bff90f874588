//! Entries that were lost with their names, and the keys that may have led to them.
//!
//! An entry whose key is lost cannot be found by name. It is remembered in DRAM ([`Lost`]) by what
//! its slot says of its hash: the 16 bits of the tag and the prefix of the segment. A command that
//! names a key whose hash fits is answered with the damage and not with "no such key". An entry may
//! fit a key that is not its own. Such a key is *cleared*: one that is there under its name, and
//! one whose delete or overwriting has cut an entry that fitted it as well.

use std::sync::atomic::Ordering::Relaxed;

use heap::{Ledger, Ptr, Reached, Shard, View};
use structures::index::{Index, Near, WalkItem};

use super::KeyDamage;
use crate::check::slot_of;
use crate::known_damage::{Lost, Name, lock};
use crate::layout::{Kind, is_marked, keys_root, physical_databases};
use crate::txn::KeyLocation;
use crate::{CommitError, DamagedKey, Db, Key, Keyspace, Txn, entry, verify};

impl Keyspace {
    /// Returns why a command on this key cannot be tried. The caller holds no shard.
    pub fn key_damage(&self, db: Db, key: &Key<'_>) -> Option<KeyDamage> {
        if let Some(why) = self.stopped().filter(|_| self.hides_keys()) {
            return Some(KeyDamage::Stopped(why.to_owned()));
        }
        let name = self.name(db, key);
        loop {
            let found = lock(&self.damage.unidentified).find(&name)?;
            if self.clear_if_intact(name, key) {
                return None;
            }
            if self.is_still_lost(&found) {
                self.report_name(&found, db, key);
                return Some(KeyDamage::Unidentified(found.at.raw()));
            }
            self.forget_unidentified(found.at);
        }
    }

    /// Returns where an entry is that lost its name and may have been this key's: for a key that
    /// was not found, while its shard is held.
    pub(crate) fn may_have_lost(&self, db: Db, key: &Key<'_>) -> Option<u64> {
        let name = self.name(db, key);
        lock(&self.damage.unidentified).find(&name).map(|lost| lost.at.raw())
    }

    /// Takes a lost entry that this key led to out of the indexes: whoever names it deletes or
    /// overwrites it.
    pub fn remove_unidentified(&self, db: Db, key: &Key<'_>) -> Result<(), CommitError> {
        let Some(KeyDamage::Unidentified(at)) = self.key_damage(db, key) else { return Ok(()) };
        let mut shard = self.heap().lock(key.shard());
        if !is_damaged(&shard, Ptr::from_raw(at)) {
            // It was given up meanwhile, and its block is another's.
            return Ok(());
        }
        let lost = DamagedKey {
            shard: key.shard(),
            db: db.number(),
            key: None,
            entry: at,
            what: "key",
            at,
            hash: key.hash,
            bits: 64,
        };
        self.cut(&mut shard, &lost);
        shard.commit()?;
        lock(&self.damage.unidentified).cleared.insert(self.name(db, key));
        self.forget_unidentified(Ptr::from_raw(at));
        Ok(())
    }

    /// Forgets the entries of a shard that went with their database.
    pub(crate) fn sweep_unidentified(&self, shard: usize) {
        let known = lock(&self.damage.unidentified).entries.clone();
        for lost in known.iter().filter(|lost| lost.shard == shard) {
            if !self.is_still_lost(lost) {
                self.forget_unidentified(lost.at);
            }
        }
    }

    /// Returns the entries of a database in a shard that are remembered without a name, and what is
    /// known of their hashes.
    pub(crate) fn unidentified_of(&self, shard: &Shard<'_>, db: u8) -> Vec<(Ptr, u64)> {
        let unidentified = lock(&self.damage.unidentified);
        let here =
            unidentified.entries.iter().filter(|lost| (lost.shard, lost.db) == (shard.id(), db));
        here.filter(|lost| is_damaged(shard, lost.at))
            .map(|lost| (lost.at, lost.near.hash()))
            .collect()
    }

    /// Remembers the entries of a shard that are marked as damaged and have no name. Looks at a
    /// line of each entry.
    pub(super) fn find_unidentified(&self, shard: usize) {
        let shard = self.heap().lock(shard);
        let mut ledger = Ledger::of(&shard, &mut |_| {});
        for db in physical_databases() {
            Index::at(shard.root(keys_root(db))).salvage_walk(&shard, |found| match found {
                WalkItem::Block(at, len) => {
                    matches!(ledger.reach(at), Reached::First(block_capacity) if block_capacity >= len)
                }
                WalkItem::Entry(slot, near) => {
                    let at = slot.entry();
                    if is_marked(shard.word(at)) {
                        let seen = verify::entry(&shard, at, shard.capacity(at), None);
                        let seen = seen.by(near, &self.hashing);
                        if seen.key.is_none() {
                            self.remember(shard.id(), db, at, near, seen);
                        }
                    }
                    true
                }
                WalkItem::Damage(_) => true,
            });
        }
    }

    pub(super) fn remember_slot(&self, shard: usize, db: u8, at: Ptr, near: Near) {
        lock(&self.damage.unidentified).add(Lost {
            shard,
            db,
            at,
            near,
            slot: near.hash(),
            named: false,
        });
        self.damage.has_media_errors.store(true, Relaxed);
    }

    fn name(&self, db: Db, key: &Key<'_>) -> Name {
        Name { shard: key.shard(), db: self.physical_of(db.number()), hash: key.hash }
    }

    /// Clears a key that is there under its name; whether it is. While its shard is held, so that
    /// it is not lost meanwhile.
    fn clear_if_intact(&self, name: Name, key: &Key<'_>) -> bool {
        let shard = self.heap().lock(key.shard());
        // Where nothing could be marked, an entry with its name may be a lost one too.
        let is_kept_in_mind = |at| {
            let is_it = |lost: &Lost| (lost.shard, lost.at) == (shard.id(), at);
            self.heap().is_poisoned() && lock(&self.damage.unidentified).entries.iter().any(is_it)
        };
        let named = |at| {
            entry::has_key(&shard, at, key.bytes())
                && !is_kept_in_mind(at)
                && verify::entry(&shard, at, shard.capacity(at), None).key.is_some()
        };
        let index = Index::at(shard.root(keys_root(name.db)));
        let is_whole = index.find(&shard, key.hash, named).is_some();
        if is_whole {
            lock(&self.damage.unidentified).cleared.insert(name);
        }
        is_whole
    }

    /// Tells the log once what the key is called whose name was lost: somebody asked for it.
    fn report_name(&self, lost: &Lost, db: Db, key: &Key<'_>) {
        let mut unidentified = lock(&self.damage.unidentified);
        let Some(known) = unidentified.entries.iter_mut().find(|known| known.at == lost.at) else {
            return;
        };
        if !std::mem::replace(&mut known.named, true) {
            let (db, name) = (db.number(), key.bytes().escape_ascii());
            let at = lost.at.raw();
            self.damage.report(format!(
                "Media error: database {db}, key \"{name}\" is lost (entry at {at:#x})"
            ));
        }
    }

    fn is_still_lost(&self, lost: &Lost) -> bool {
        let shard = self.heap().lock(lost.shard);
        let index = Index::at(shard.root(keys_root(lost.db)));
        let slot = slot_of(&shard, index, lost.slot, lost.at);
        if let Some((_, hash)) = slot
            && hash != lost.slot
        {
            let mut unidentified = lock(&self.damage.unidentified);
            let moved = unidentified.entries.iter_mut().filter(|known| known.at == lost.at);
            moved.for_each(|known| known.slot = hash);
        }
        // Where nothing could be marked, what is remembered is all that there is.
        slot.is_some() && (is_damaged(&shard, lost.at) || self.heap().is_poisoned())
    }

    fn forget_unidentified(&self, at: Ptr) {
        self.retain_unidentified(|lost| lost.at != at);
    }

    fn retain_unidentified(&self, stays: impl Fn(&Lost) -> bool) {
        let mut unidentified = lock(&self.damage.unidentified);
        if unidentified.retain(stays) && self.stopped().is_none() {
            self.damage.has_media_errors.store(false, Relaxed);
        }
    }
}

impl Txn<'_> {
    /// Returns true if whoever walks over all keys sees this one: it is live, and still has its
    /// name.
    pub(crate) fn shows(&self, place: KeyLocation, at: Ptr) -> bool {
        let shard = &self.shards[place.shard];
        let named = || {
            let seen = verify::entry(shard, at, shard.capacity(at), None);
            seen.key.is_some_and(|key| !key.is_empty())
        };
        self.live(place, at) && (Kind::decode(shard.word(at)).is_some() || named())
    }

    /// Returns where an entry is that lost its name and may have been this key's, if the key is not
    /// there.
    pub fn lost(&self, db: Db, key: &Key<'_>) -> Option<u64> {
        if !self.keyspace.has_media_errors() || self.slot(self.place(db, key), key).is_some() {
            return None;
        }
        self.keyspace.may_have_lost(db, key)
    }
}

fn is_damaged(shard: &Shard<'_>, at: Ptr) -> bool {
    verify::entry(shard, at, shard.capacity(at), None).fault.is_some()
}
