//! Entries that were lost with their names, and the keys that may have led to them.
//!
//! An entry whose key is lost cannot be found by name. It is remembered in DRAM ([`Lost`]) by what
//! its slot implies about its hash: the 16 bits of the tag and the prefix of the segment. A command
//! on a key whose hash fits gets an error instead of "no such key". An entry may fit a key that is
//! not its own. Such a key is *cleared* once that is known: if the key exists under its name, or if
//! its delete or overwriting has removed an entry that fitted it as well.

use std::sync::atomic::Ordering::Relaxed;

use heap::{Ledger, Ptr, Reached, View};
use structures::index::{Index, Near, WalkItem};

use super::{KeyDamage, Resolver};
use crate::known_damage::{Lost, Name, lock};
use crate::layout::{is_marked, keys_root, physical_databases};
use crate::rebuild::{cut, is_damaged, slot_of};
use crate::{CommitError, DamagedKey, Db, Key, entry, verify};

impl Resolver<'_> {
    /// Returns why a command on this key cannot be tried. The caller holds no shard.
    pub(crate) fn key_damage(&self, db: Db, key: &Key<'_>) -> Option<KeyDamage> {
        if let Some(why) = self.shared.damage.stopped().filter(|_| self.shared.damage.hides_keys())
        {
            return Some(KeyDamage::Stopped(why.to_owned()));
        }
        let name = self.shared.name(db, key);
        loop {
            let found = lock(&self.shared.damage.unidentified).find(&name)?;
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

    /// Removes a lost entry that fits this key from the indexes: a command deletes or overwrites
    /// the key.
    pub(crate) fn remove_unidentified(&self, db: Db, key: &Key<'_>) -> Result<(), CommitError> {
        let Some(KeyDamage::Unidentified(at)) = self.key_damage(db, key) else { return Ok(()) };
        let mut shard = self.shared.heap().lock(key.shard());
        if !is_damaged(&shard, Ptr::from_raw(at)) {
            // It was freed in the meantime, and its block may be another entry's.
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
        cut(self.shared, &mut shard, &lost);
        shard.commit()?;
        lock(&self.shared.damage.unidentified).cleared.insert(self.shared.name(db, key));
        self.forget_unidentified(Ptr::from_raw(at));
        Ok(())
    }

    /// Forgets the entries of a shard that are no longer in an index, since their database was
    /// emptied.
    pub(crate) fn sweep_unidentified(&self, shard: usize) {
        let known = lock(&self.shared.damage.unidentified).entries.clone();
        for lost in known.iter().filter(|lost| lost.shard == shard) {
            if !self.is_still_lost(lost) {
                self.forget_unidentified(lost.at);
            }
        }
    }

    /// Remembers the entries of a shard that are marked as damaged and have no name. Reads one
    /// cache line of each entry.
    pub(super) fn find_unidentified(&self, shard: usize) {
        let shard = self.shared.heap().lock(shard);
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
                        let seen = seen.by(near, &self.shared.hashing);
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
        lock(&self.shared.damage.unidentified).add(Lost {
            shard,
            db,
            at,
            near,
            slot: near.hash(),
            named: false,
        });
        self.shared.damage.has_media_errors.store(true, Relaxed);
    }

    /// Clears a key that exists under its name; returns whether it does. Holds its shard, so that
    /// the key is not lost in the meantime.
    fn clear_if_intact(&self, name: Name, key: &Key<'_>) -> bool {
        let shard = self.shared.heap().lock(key.shard());
        // If marks could not be written, an entry with this name may be a lost one too.
        let is_kept_in_mind = |at| {
            let is_it = |lost: &Lost| (lost.shard, lost.at) == (shard.id(), at);
            self.shared.heap().is_poisoned()
                && lock(&self.shared.damage.unidentified).entries.iter().any(is_it)
        };
        // The slot fits the hash of the name: that is how it is found.
        let named = |at| {
            let mut seen = verify::entry(&shard, at, shard.capacity(at), None);
            entry::has_key(&shard, at, key.bytes())
                && !is_kept_in_mind(at)
                && seen.readable_key().is_some()
        };
        let index = Index::at(shard.root(keys_root(name.db)));
        let is_whole = index.find(&shard, key.hash, named).is_some();
        if is_whole {
            lock(&self.shared.damage.unidentified).cleared.insert(name);
        }
        is_whole
    }

    /// Logs, once for each lost entry, the name of the key by which a command asked for it.
    fn report_name(&self, lost: &Lost, db: Db, key: &Key<'_>) {
        let mut unidentified = lock(&self.shared.damage.unidentified);
        let Some(known) = unidentified.entries.iter_mut().find(|known| known.at == lost.at) else {
            return;
        };
        if !std::mem::replace(&mut known.named, true) {
            let (db, name) = (db.number(), key.bytes().escape_ascii());
            let at = lost.at.raw();
            self.shared.damage.report(format!(
                "Media error: database {db}, key \"{name}\" is lost (entry at {at:#x})"
            ));
        }
    }

    fn is_still_lost(&self, lost: &Lost) -> bool {
        let shard = self.shared.heap().lock(lost.shard);
        let index = Index::at(shard.root(keys_root(lost.db)));
        let slot = slot_of(&shard, index, lost.slot, lost.at);
        if let Some((_, hash)) = slot
            && hash != lost.slot
        {
            let mut unidentified = lock(&self.shared.damage.unidentified);
            let moved = unidentified.entries.iter_mut().filter(|known| known.at == lost.at);
            moved.for_each(|known| known.slot = hash);
        }
        // If marks could not be written, the memory in DRAM is the only record.
        slot.is_some() && (is_damaged(&shard, lost.at) || self.shared.heap().is_poisoned())
    }

    fn forget_unidentified(&self, at: Ptr) {
        self.retain_unidentified(|lost| lost.at != at);
    }

    fn retain_unidentified(&self, stays: impl Fn(&Lost) -> bool) {
        let mut unidentified = lock(&self.shared.damage.unidentified);
        if unidentified.retain(stays) && self.shared.damage.stopped().is_none() {
            self.shared.damage.has_media_errors.store(false, Relaxed);
        }
    }
}
