//! Finding out what lost bytes meant, while the keyspace is in use.
//!
//! When the medium loses bytes, accesses read zeros in their place (see [`pmem`]), and the loss is
//! *unresolved*: nothing commits, and every read made in the meantime is repeated.
//! [`Resolver::resolve_losses`] finds the owner of each lost byte. An ordinary transaction marks
//! the affected entry in its value word, so that the mark outlives a restart; an index is rebuilt
//! from the entries; the heap restores the metadata that it can derive. If lost metadata cannot be
//! derived from anything else, the store is stopped: it takes no writes and, if the loss hides
//! keys, answers every command on data with the reason.

mod unidentified;

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use heap::{Ledger, Lost, LostPart, Ptr, Reached, Shard, Stop, View};
use structures::index::{Index, Near, WalkItem};

use crate::collection::Deep;
use crate::known_damage::{Hits, lock};
use crate::layout::{
    Kind, LIBRARIES, MAP_ROOT, QUEUE_ROOT, counts_root, expiry_root, fields_root, keys_root,
    map_word, marked, physical_databases,
};
use crate::problem::Refusal;
use crate::rebuild::rebuild;
use crate::shared::Shared;
use crate::verify::{self, Fault, Seen};
use crate::{CommitError, DamagedKey, DatabaseName, entry};

/// The text that tells users how a stop that is recorded in the pool ends.
const UNTIL_REPAIR: &str = "No write is taken until `perdura check --repair` has rebuilt the \
     pool; what it cannot rebuild, \
     `perdura salvage` copies into a new one";
/// Why a command on a key is refused before it is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDamage {
    /// The store's own tables were lost: a key that exists may not be found.
    Stopped(String),
    /// The key's entry was lost together with its name: the entry's byte offset in the pool.
    Unidentified(u64),
}

/// Finds the owners of lost bytes, in the shards of a keyspace.
pub(crate) struct Resolver<'s> {
    shared: &'s Shared,
}

impl<'s> Resolver<'s> {
    pub(crate) fn new(shared: &'s Shared) -> Resolver<'s> {
        Resolver { shared }
    }

    /// Finds out what lost bytes meant, until no loss is unresolved, in at most 1000 rounds. The
    /// caller holds no shard.
    pub(crate) fn resolve_losses(&self) {
        let _one_at_a_time = lock(&self.shared.damage.in_resolution);
        let region = self.shared.heap().region();
        for _ in 0..1000 {
            let (pages, lost) = region.lost();
            if pages == 0 {
                return;
            }
            if self.stop_if_cut_short() {
                region.resolve(pages);
                continue;
            }
            region.repair();
            if region.failed() && !self.shared.heap().is_poisoned() {
                self.shared.heap().stop();
                let text = "Media error: a page that the medium lost could not be written again. No write is taken any more";
                self.shared.damage.report(text.into());
            }
            for lost in &lost {
                let (at, len) = (lost.at, lost.len);
                self.shared
                    .damage
                    .report(format!("Media error: {len} bytes at pool offset {at:#x} were lost"));
            }
            let resolved = self.shared.heap().resolving(|| self.resolve(lost));
            self.shared.heap().forget_losses(pages, &resolved);
            region.resolve(pages);
        }
        if region.lost().0 > 0 {
            let text =
                "Media error: the medium goes on losing bytes; no write is taken until that ends";
            self.shared.damage.report(text.into());
        }
    }

    /// Stops the store if its file was truncated, before anything is written beyond the file's end.
    /// Returns true if so.
    pub(crate) fn stop_if_cut_short(&self) -> bool {
        let region = self.shared.heap().region();
        let Some(found) = region.cut_short() else { return false };
        if self.shared.damage.stopped().is_none() {
            let expected = region.len();
            let why = format!(
                "the pool's file was cut short, from {expected} bytes to {found}, and what was there is lost. End the \
                 server and bring a backup of the file back"
            );
            self.shared.heap().stop();
            self.report_stopped(Stop { why, hides_keys: true }, "No write is taken any more");
        }
        true
    }

    /// Finds the owner of each lost byte. Returns the losses that are durably resolved. If the
    /// store is stopped, these are only the ones that the heap itself restored: the marks of
    /// entries cannot be written, and the loss that stopped the store stays recorded.
    fn resolve(&self, lost: Vec<Lost>) -> Vec<Lost> {
        let restored = self.shared.heap().restore(&lost);
        if let Some(lost) = restored.irreplaceable {
            self.stop(lost.to_string(), false);
        }
        self.resolve_parts(&restored.parts);
        if self.shared.heap().is_poisoned() { restored.resolved } else { lost }
    }

    /// Takes over what earlier incarnations knew of damage: a stop, and entries that were lost with
    /// their names.
    pub(crate) fn take_over(&self) {
        if let Some(stop) = self.shared.heap().stopped() {
            self.report_stopped(stop, UNTIL_REPAIR);
        }
        if !self.shared.heap().has_lost_names() {
            return;
        }
        (0..self.shared.shards()).for_each(|shard| self.find_unidentified(shard));
        if !self.shared.damage.has_media_errors() {
            self.shared.heap().forget_lost_names();
        }
    }

    pub(crate) fn report_rebuilt(&self, shard: usize, db: u8) {
        let db = self.shared.logical_of(db);
        self.shared.damage.report(format!(
            "An index of {} in shard {shard} was damaged and rebuilt",
            DatabaseName(db)
        ));
    }

    fn stop(&self, why: String, hides_keys: bool) {
        let stop = Stop { why, hides_keys };
        self.shared.heap().stop_durably(&stop);
        self.report_stopped(stop, UNTIL_REPAIR);
    }

    fn report_stopped(&self, stop: Stop, then: &str) {
        // Under this lock, `retain_unidentified` checks whether the store is stopped before it
        // clears `has_media_errors`.
        let _unidentified = lock(&self.shared.damage.unidentified);
        self.shared.damage.hides_keys.fetch_or(stop.hides_keys, Relaxed);
        if self.shared.damage.stopped.get().is_none_or(|why| *why != stop.why) {
            self.shared.damage.report(format!("The store is stopped: {}. {then}", stop.why));
        }
        let _ = self.shared.damage.stopped.set(stop.why);
        self.shared.damage.has_media_errors.store(true, Relaxed);
    }

    fn resolve_parts(&self, parts: &[LostPart]) {
        let mut blocks: BTreeMap<usize, Hits> = BTreeMap::new();
        let mut roots = Vec::new();
        for part in parts {
            match *part {
                LostPart::Block { shard, at, from, to } => {
                    let hits = blocks.entry(shard).or_default();
                    hits.entry(at.raw()).or_default().push((from, to));
                }
                LostPart::Roots { shard, from, to } => roots.push((shard, from, to)),
            }
        }
        for (shard, hits) in blocks {
            let mut shard = self.shared.heap().lock(shard);
            if let Err(refusal) = self.resolve_blocks(&mut shard, &hits) {
                drop(shard);
                self.stop(refusal.to_string(), true);
            }
        }
        // After the entries: this rebuilds indexes, and a rebuild leaves out damaged entries
        // without a name that nobody remembers yet.
        roots.into_iter().for_each(|(shard, from, to)| self.resolve_roots(shard, from, to));
    }

    /// Resolves lost root words, which read as zero. The counts and the index of expiry times
    /// follow from the keys, and the map of databases is known. If the free queue was lost, so is
    /// the space of its content.
    fn resolve_roots(&self, shard: usize, from: usize, to: usize) {
        if from < expiry_root(0) {
            let what = format!("the medium lost where shard {shard} keeps the indexes of its keys");
            return self.stop(what, true);
        }
        let mut locked = self.shared.heap().lock(shard);
        let lost = |root: usize| (from..to).contains(&root);
        // The root word of the libraries' index of keys is stored apart from the others: after its
        // loss, an entry to which no index leads is a library.
        let databases = physical_databases().filter(|&db| {
            [expiry_root(db), counts_root(db), fields_root(db)].into_iter().any(lost)
                || db == LIBRARIES && lost(keys_root(db))
        });
        let done = databases.map(|db| rebuild(self.shared, &mut locked, db)).find_map(Result::err);
        if shard == 0 && lost(MAP_ROOT) {
            let root = locked.root(MAP_ROOT);
            locked.set(root, map_word(self.shared.map.load(Relaxed)));
        }
        let committed = locked.commit().map_err(Refusal::from).err();
        drop(locked);
        if let Some(refusal) = done.or(committed) {
            return self.stop(refusal.to_string(), false);
        }
        if lost(QUEUE_ROOT) {
            let text = format!(
                "Media error: shard {shard} lost what its free queue led to; `perdura check --repair` frees it"
            );
            self.shared.damage.report(text);
        }
    }

    fn resolve_blocks(&self, shard: &mut Shard<'_>, hits: &Hits) -> Result<(), Refusal> {
        // First the entries: a rebuild leaves out damaged entries without a name that nobody
        // remembers yet.
        self.resolve_entries(shard, hits)?;
        let (keys, all) = self.hit_indexes(shard, hits);
        if keys.len() > 1 {
            let text = format!("shard {}: the indexes of several databases were lost", shard.id());
            return Err(Refusal::Metadata(text));
        }
        for &db in &all {
            let done = rebuild(self.shared, shard, db)?;
            self.shared.damage.report(format!(
                "Media error: an index of shard {} was rebuilt: {} keys, {} of them found again",
                shard.id(),
                done.keys,
                done.found
            ));
        }
        if all.is_empty() { Ok(()) } else { self.resolve_entries(shard, hits) }
    }

    fn resolve_entries(&self, shard: &mut Shard<'_>, hits: &Hits) -> Result<(), Refusal> {
        for db in physical_databases() {
            for (at, near) in self.hit_entries(shard, db, hits) {
                self.resolve_entry(shard, db, at, near, hits)?;
            }
        }
        Ok(())
    }

    /// Returns the databases whose index of keys was hit, and those of which any index was hit.
    pub(crate) fn hit_indexes(&self, shard: &Shard<'_>, hits: &Hits) -> (Vec<u8>, Vec<u8>) {
        let (mut keys, mut all) = (Vec::new(), Vec::new());
        let mut ledger = Ledger::of(shard, &mut |_| {});
        for db in physical_databases() {
            for (root, is_keys) in [(keys_root(db), true), (expiry_root(db), false)] {
                let mut hit = false;
                Index::at(shard.root(root)).salvage_walk(shard, |found| match found {
                    WalkItem::Block(at, len) => {
                        hit |= hits.contains_key(&at.raw());
                        matches!(ledger.reach(at), Reached::First(block_capacity) if block_capacity >= len)
                    }
                    _ => true,
                });
                if hit && !all.contains(&db) {
                    all.push(db);
                }
                if hit && is_keys {
                    keys.push(db);
                }
            }
        }
        (keys, all)
    }

    /// Returns the entries of a database that were hit, in their own block or in a block that they
    /// own.
    fn hit_entries(&self, shard: &Shard<'_>, db: u8, hits: &Hits) -> Vec<(Ptr, Near)> {
        let mut found = Vec::new();
        let mut ledger = Ledger::of(shard, &mut |_| {});
        Index::at(shard.root(keys_root(db))).salvage_walk(shard, |part| match part {
            WalkItem::Block(at, len) => {
                matches!(ledger.reach(at), Reached::First(block_capacity) if block_capacity >= len)
            }
            WalkItem::Entry(slot, near) => {
                let at = slot.entry();
                let mut hit = hits.contains_key(&at.raw());
                entry::owned(shard, at, |block| hit |= hits.contains_key(&block.raw()));
                if hit {
                    found.push((at, near));
                }
                true
            }
            WalkItem::Damage(_) => true,
        });
        found
    }

    fn resolve_entry(
        &self,
        shard: &mut Shard<'_>,
        db: u8,
        at: Ptr,
        near: Near,
        hits: &Hits,
    ) -> Result<(), Refusal> {
        let capacity = shard.capacity(at);
        let block_capacity = |at| shard.capacity(at);
        let deep = Deep { hashing: Some(&self.shared.hashing), block_capacity: &block_capacity };
        let seen = verify::entry(shard, at, capacity, Some(deep));
        let own = hits.get(&at.raw());
        let words_hit = own.is_some_and(|own| {
            let end = entry::expiry_place(shard, at).unwrap_or(at).raw() + 8;
            let cell = entry::cell(shard, at).raw();
            let inline = matches!(entry::kind(shard, at), Kind::Inline { .. });
            own.iter().any(|&(from, to)| from < end || !inline && from < cell + 8 && to > cell)
        });
        let used = own.is_none_or(|own| {
            own.iter().any(|&(from, to)| verify::meets(shard, at, capacity, from, to))
        });
        if seen.fault.is_none() && !(words_hit && used) {
            // The lost bytes were zeros, or free space after the value.
            return Ok(());
        }
        let fault = seen.fault.unwrap_or(Fault { what: "value", at: at.raw() });
        let seen = Seen { fault: Some(fault), ..seen }.by(near, &self.shared.hashing).owned();
        if self.shared.heap().is_poisoned() {
            // The mark cannot be written: the damage is remembered in DRAM.
            self.remember_slot(shard.id(), db, at, near);
            self.remember(shard.id(), db, at, near, seen);
            return Ok(());
        }
        self.mark(shard, db, at, near, seen)?;
        Ok(())
    }

    /// Marks an entry as damaged, so that reads of its key are refused from now on, and remembers
    /// it.
    pub(crate) fn mark(
        &self,
        shard: &mut Shard<'_>,
        db: u8,
        at: Ptr,
        near: Near,
        seen: Seen<'_>,
    ) -> Result<(), CommitError> {
        if seen.key.is_none() {
            self.shared.heap().record_lost_names();
        }
        let word = shard.word(at);
        shard.set(at, marked(word));
        shard.commit()?;
        self.remember(shard.id(), db, at, near, seen);
        Ok(())
    }

    /// Remembers a damaged entry, by its name or by what its slot implies about its hash.
    pub(crate) fn remember(&self, shard: usize, db: u8, at: Ptr, near: Near, seen: Seen<'_>) {
        let fault = seen.fault.unwrap_or(Fault { what: "value", at: at.raw() });
        if seen.key.is_none() {
            self.remember_slot(shard, db, at, near);
        }
        let hash = seen.key.as_ref().map_or(near.hash(), |key| self.shared.hashing.hash(key));
        self.shared.damage.remember(DamagedKey {
            shard,
            db: self.shared.logical_of(db),
            bits: if seen.key.is_some() { 64 } else { near.bits() },
            key: seen.key.map(|key| key.into_owned()),
            entry: at.raw(),
            what: fault.what,
            at: fault.at,
            hash,
        });
    }
}
