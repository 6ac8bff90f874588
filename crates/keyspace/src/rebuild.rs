//! Rebuilds an index from the entries themselves, each of which holds its key.
//!
//! The new index grows from a root word of its own, in transactions of bounded size, and a final
//! transaction puts it in place of the old one. A crash before that leaves the old index as it was,
//! and the blocks of the new one unreachable. After the replacement the blocks of the old index are
//! unreachable. A repair frees unreachable blocks at its end.

use std::collections::HashSet;

use heap::{Full, Ptr, Shard, View};
use structures::index::{Index, Slot, WalkItem};

use crate::collection::Deep;
use crate::key::Hashing;
use crate::known_damage::lock;
use crate::layout::{
    Counts, FieldCounts, SCRATCH_ROOT, counts_root, expiry_root, fields_root, keys_root,
};
use crate::problem::Refusal;
use crate::shared::Shared;
use crate::walk::{Sound, Walk};
use crate::{CheckError, DamagedKey, entry, verify};

/// The number of entries that one transaction inserts.
const AT_ONCE: usize = 64;

/// The contents of a rebuilt index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebuilt {
    pub(crate) keys: u64,
    /// Those of `keys` to which no slot of the old index led.
    pub(crate) found: u64,
}

/// Rebuilds both indexes of a database in a locked shard. Omits damaged entries that lost their
/// names, except those that are remembered in DRAM.
pub(crate) fn rebuild(shared: &Shared, shard: &mut Shard<'_>, db: u8) -> Result<Rebuilt, Refusal> {
    let unidentified = unidentified_of(shared, shard, db);
    let mut led_to = HashSet::new();
    Index::at(shard.root(keys_root(db))).salvage_walk(shard, |found| {
        if let WalkItem::Entry(slot, _) = found {
            led_to.insert(slot.entry());
        }
        true
    });
    let (sound, lost) = Walk::new(shared, shard, &|_| {}, &mut |_: CheckError| {}).collect();
    let mut keys: Vec<Sound> = sound.into_iter().filter(|entry| entry.db == db).collect();
    // Only a block to which a slot leads, or that nothing reaches, can still be that of a
    // remembered entry: another block was freed and allocated again.
    led_to.extend(lost.iter().map(|block| block.ptr));
    let kept: HashSet<Ptr> = keys.iter().map(|key| key.at).collect();
    // Keep these, so that commands on their keys still report the damage.
    for (at, hash) in unidentified {
        if led_to.contains(&at) && !kept.contains(&at) {
            keys.push(Sound { db, at, hash, expires: entry::expiry_word(shard, at) != 0 });
        }
    }
    let linked = keys.len();
    for block in lost {
        let block_capacity = |at| shard.capacity(at);
        let deep = Deep { hashing: Some(&shared.hashing), block_capacity: &block_capacity };
        let seen = verify::entry(shard, block.ptr, block.capacity, Some(deep));
        let (Some(key), None) = (seen.key, seen.fault) else { continue };
        let (hash, home) = verify::place(&key, &shared.hashing, shared.shards());
        if home == shard.id() {
            keys.push(Sound { db, at: block.ptr, hash, expires: seen.expires });
        }
    }
    let expiring: Vec<Sound> = keys.iter().copied().filter(|entry| entry.expires).collect();
    replace(&shared.hashing, shard, keys_root(db), &keys)?;
    replace(&shared.hashing, shard, expiry_root(db), &expiring)?;
    let counts = Counts { keys: keys.len() as u32, expiring: expiring.len() as u32 };
    let root = shard.root(counts_root(db));
    shard.set(root, counts.encode());
    recount_fields(shard, db);
    shard.commit()?;
    Ok(Rebuilt { keys: keys.len() as u64, found: (keys.len() - linked) as u64 })
}

/// Recounts the hashes with field expiration from the index of expiry times.
pub(crate) fn recount_fields(shard: &mut Shard<'_>, db: u8) {
    let (mut counts, mut cursor) = (FieldCounts::default(), 0);
    loop {
        cursor = Index::at(shard.root(expiry_root(db))).scan(shard, cursor, AT_ONCE, |at| {
            counts = counts.plus(FieldCounts::of(entry::expiry_word(shard, at)));
        });
        if cursor == 0 {
            break;
        }
    }
    let root = shard.root(fields_root(db));
    shard.set(root, counts.encode());
}

fn replace(
    hashing: &Hashing,
    shard: &mut Shard<'_>,
    root: usize,
    keys: &[Sound],
) -> Result<(), Refusal> {
    let (root, scratch) = (shard.root(root), shard.root(SCRATCH_ROOT));
    shard.set(scratch, 0);
    shard.allow_reserve(true);
    let index = Index::at(scratch);
    for some in keys.chunks(AT_ONCE) {
        for key in some {
            index
                .insert(shard, key.hash, key.at, |s, at| entry::hash(s, at, hashing))
                .map_err(|Full| Refusal::Full)?;
        }
        shard.commit()?;
        shard.allow_reserve(true);
    }
    let word = shard.word(scratch);
    shard.set(root, word);
    shard.set(scratch, 0);
    shard.commit()?;
    Ok(())
}

/// Returns the remembered entries of a database in a shard that lost their names, with the known
/// bits of their hashes.
fn unidentified_of(shared: &Shared, shard: &Shard<'_>, db: u8) -> Vec<(Ptr, u64)> {
    let unidentified = lock(&shared.damage.unidentified);
    let here = unidentified.entries.iter().filter(|lost| (lost.shard, lost.db) == (shard.id(), db));
    here.filter(|lost| is_damaged(shard, lost.at)).map(|lost| (lost.at, lost.near.hash())).collect()
}

/// Returns true if an entry does not hold the bytes that were written.
pub(crate) fn is_damaged(shard: &Shard<'_>, at: Ptr) -> bool {
    verify::entry(shard, at, shard.capacity(at), None).fault.is_some()
}

/// Removes a damaged entry from the indexes. Its blocks stay allocated, because a damaged entry's
/// references cannot be trusted.
pub(crate) fn cut(shared: &Shared, shard: &mut Shard<'_>, key: &DamagedKey) {
    let db = shared.physical_of(key.db);
    let at = Ptr::from_raw(key.entry);
    let mut counts = Counts::decode(shard.word(shard.root(counts_root(db))));
    let keys = Index::at(shard.root(keys_root(db)));
    if let Some((slot, _)) = slot_of(shard, keys, key.hash, at) {
        keys.remove(shard, slot);
        counts.keys = counts.keys.saturating_sub(1);
    }
    let expiring = Index::at(shard.root(expiry_root(db)));
    if let Some((slot, _)) = slot_of(shard, expiring, key.hash, at) {
        expiring.remove(shard, slot);
        // The expiry word of the damaged entry may be wrong; a repair then corrects the counts.
        let said = FieldCounts::of(entry::expiry_word(shard, at));
        let root = shard.root(fields_root(db));
        let fields = FieldCounts::decode(shard.word(root));
        if fields.minus(said) != fields {
            shard.set(root, fields.minus(said).encode());
        }
        counts.expiring = counts.expiring.saturating_sub(1);
    }
    let root = shard.root(counts_root(db));
    shard.set(root, counts.encode());
}

/// Returns the slot of an entry that may have lost its name, and a hash that leads to this slot. A
/// split places such an entry by the hash of the zeros that are read as its key, not by `hash`.
pub(crate) fn slot_of(shard: &Shard<'_>, index: Index, hash: u64, at: Ptr) -> Option<(Slot, u64)> {
    let mut slot = index.find(shard, hash, |entry| entry == at).map(|slot| (slot, hash));
    if slot.is_none() {
        index.salvage_walk(shard, |found| {
            if let WalkItem::Entry(this, near) = found
                && this.entry() == at
            {
                slot = Some((this, near.hash()));
            }
            true
        });
    }
    slot
}
