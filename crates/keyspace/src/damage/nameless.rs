//! Entries that were lost with their names, and the keys that may have led to them.
//!
//! An entry whose key is lost cannot be found by name. It is remembered here, in DRAM, by what its slot says of its hash:
//! the 16 bits of the tag and the prefix of the segment. A command that names a key whose hash fits is answered with the
//! damage and not with "no such key". An entry may fit a key that is not its own. Such a key is *cleared*: one that is there
//! under its name, and one whose delete or overwriting has cut an entry that fitted it as well.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

use heap::{Ptr, Shard};
use structures::index::{Index, Near};

use super::{Harm, lock};
use crate::check::slot_of;
use crate::layout::keys_root;
use crate::{CommitError, DamagedKey, Db, Key, Keyspace, entry, verify};

/// What is remembered of entries without names.
#[derive(Default)]
pub(super) struct Nameless {
    entries: Vec<Lost>,
    /// Keys that fit a lost entry which is not theirs.
    cleared: HashSet<Name>,
}

/// An entry that leads to no name.
#[derive(Clone, Copy)]
struct Lost {
    shard: usize,
    db: u8,
    at: Ptr,
    near: Near,
    /// Whether the log was told the name by which somebody asked for it.
    named: bool,
}

/// A key by its whole hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name {
    shard: usize,
    db: u8,
    hash: u64,
}

impl Lost {
    fn fits(&self, name: &Name) -> bool {
        (self.shard, self.db) == (name.shard, name.db) && self.near.fits(name.hash)
    }
}

impl Nameless {
    /// The first entry that this key may have led to.
    fn find(&self, name: &Name) -> Option<Lost> {
        let found = self.entries.iter().copied().find(|lost| lost.fits(name))?;
        (!self.cleared.contains(name)).then_some(found)
    }

    fn add(&mut self, lost: Lost) {
        if !self.entries.iter().any(|known| known.at == lost.at) {
            self.cleared.retain(|name| !lost.fits(name));
            self.entries.push(lost);
        }
    }

    /// Forgets entries; whether none is left.
    fn retain(&mut self, stays: impl Fn(&Lost) -> bool) -> bool {
        self.entries.retain(stays);
        if self.entries.is_empty() {
            self.cleared.clear();
        }
        self.entries.is_empty()
    }
}

impl Keyspace {
    /// Why a command on this key cannot be tried. The caller holds no shard.
    pub fn harm(&self, db: Db, key: &Key<'_>) -> Option<Harm> {
        if let Some(why) = self.stopped() {
            return Some(Harm::Stopped(why.to_owned()));
        }
        let name = self.name(db, key);
        loop {
            let found = lock(&self.damage.nameless).find(&name)?;
            if self.clear_whole(name, key) {
                return None;
            }
            if self.is_still_lost(&found) {
                self.tell_name(&found, db, key);
                return Some(Harm::Nameless(found.at.raw()));
            }
            self.forget_nameless(found.at);
        }
    }

    /// Where an entry lies that lost its name and may have been this key's: for a key that was not found, while its shard is
    /// held.
    pub(crate) fn may_have_lost(&self, db: Db, key: &Key<'_>) -> Option<u64> {
        let name = self.name(db, key);
        lock(&self.damage.nameless).find(&name).map(|lost| lost.at.raw())
    }

    /// Takes a lost entry that this key led to out of the indexes: whoever names it deletes or overwrites it.
    pub fn cut_nameless(&self, db: Db, key: &Key<'_>) -> Result<(), CommitError> {
        let Some(Harm::Nameless(at)) = self.harm(db, key) else { return Ok(()) };
        let mut shard = self.heap().lock(key.shard());
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
        lock(&self.damage.nameless).cleared.insert(self.name(db, key));
        drop(shard);
        self.forget_nameless(Ptr::from_raw(at));
        Ok(())
    }

    /// Forgets the entries of a database in a shard, which go with all others.
    pub(crate) fn forget_nameless_of(&self, shard: usize, db: u8) {
        if self.has_alert() {
            self.retain_nameless(|lost| (lost.shard, lost.db) != (shard, db));
        }
    }

    /// The entries of a database in a shard that are remembered without a name, by hashes that lead to their slots.
    pub(crate) fn nameless_of(&self, shard: &Shard<'_>, db: u8) -> Vec<(Ptr, u64)> {
        let nameless = lock(&self.damage.nameless);
        let here = nameless.entries.iter().filter(|lost| (lost.shard, lost.db) == (shard.id(), db));
        here.filter(|lost| is_damaged(shard, lost.at))
            .map(|lost| (lost.at, lost.near.hash()))
            .collect()
    }

    pub(super) fn remember_slot(&self, shard: usize, db: u8, at: Ptr, near: Near) {
        lock(&self.damage.nameless).add(Lost { shard, db, at, near, named: false });
        self.damage.alert.store(true, Relaxed);
    }

    fn name(&self, db: Db, key: &Key<'_>) -> Name {
        Name { shard: key.shard(), db: self.physical_of(db.number()), hash: key.hash }
    }

    /// Clears a key that is there under its name; whether it is. While its shard is held, so that it is not lost meanwhile.
    fn clear_whole(&self, name: Name, key: &Key<'_>) -> bool {
        let shard = self.heap().lock(key.shard());
        let named = |at| {
            entry::has_key(&shard, at, key.bytes())
                && verify::entry(&shard, at, shard.capacity(at), None).key.is_some()
        };
        let index = Index::at(shard.root(keys_root(name.db)));
        let is_whole = index.find(&shard, key.hash, named).is_some();
        if is_whole {
            lock(&self.damage.nameless).cleared.insert(name);
        }
        is_whole
    }

    /// Tells the log once what the key is called whose name was lost: somebody asked for it.
    fn tell_name(&self, lost: &Lost, db: Db, key: &Key<'_>) {
        let mut nameless = lock(&self.damage.nameless);
        let Some(known) = nameless.entries.iter_mut().find(|known| known.at == lost.at) else {
            return;
        };
        if !std::mem::replace(&mut known.named, true) {
            let (db, name) = (db.number(), key.bytes().escape_ascii());
            let at = lost.at.raw();
            self.damage.tell(format!(
                "Media error: database {db}, key \"{name}\" is lost (entry at {at:#x})"
            ));
        }
    }

    fn is_still_lost(&self, lost: &Lost) -> bool {
        let shard = self.heap().lock(lost.shard);
        let index = Index::at(shard.root(keys_root(lost.db)));
        let linked = slot_of(&shard, index, lost.near.hash(), lost.at).is_some();
        // Where nothing could be marked, what is remembered is all that there is.
        linked && (is_damaged(&shard, lost.at) || self.heap().is_poisoned())
    }

    fn forget_nameless(&self, at: Ptr) {
        self.retain_nameless(|lost| lost.at != at);
    }

    fn retain_nameless(&self, stays: impl Fn(&Lost) -> bool) {
        let mut nameless = lock(&self.damage.nameless);
        if nameless.retain(stays) && self.stopped().is_none() {
            self.damage.alert.store(false, Relaxed);
        }
    }
}

fn is_damaged(shard: &Shard<'_>, at: Ptr) -> bool {
    verify::entry(shard, at, shard.capacity(at), None).fault.is_some()
}
