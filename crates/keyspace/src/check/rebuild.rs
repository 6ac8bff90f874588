//! Rebuilding an index from the entries themselves, each of which holds its key.
//!
//! The new index grows from a root word of its own, in transactions of bounded size, and takes the
//! old one's place in one more. A crash before that leaves the old index as it was, and blocks that
//! nothing leads to. The old index's blocks are then such blocks too: who repairs frees them at
//! last.

use std::collections::HashSet;

use heap::{Full, Ptr, Shard, View};
use structures::index::{Index, WalkItem};

use super::Refusal;
use super::walk::{Sound, Walk};
use crate::CheckError;
use crate::collection::Deep;
use crate::layout::{
    Counts, FieldCounts, SCRATCH_ROOT, counts_root, expiry_root, fields_root, keys_root,
};
use crate::verify;
use crate::{Keyspace, entry};

/// Entries inserted by one transaction.
const AT_ONCE: usize = 64;

/// What a rebuilt index holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rebuilt {
    pub(crate) keys: u64,
    /// Of these, entries to which no slot led any more.
    pub(crate) found: u64,
}

impl Keyspace {
    /// Rebuilds both indexes of a database in a locked shard. Damaged keys without a name that
    /// nobody remembers are left out.
    pub(crate) fn rebuild(&self, shard: &mut Shard<'_>, db: u8) -> Result<Rebuilt, Refusal> {
        let unidentified = self.unidentified_of(shard, db);
        let mut led_to = HashSet::new();
        Index::at(shard.root(keys_root(db))).salvage_walk(shard, |found| {
            if let WalkItem::Entry(slot, _) = found {
                led_to.insert(slot.entry());
            }
            true
        });
        let (sound, lost) = Walk::new(self, shard, &|_| {}, &mut |_: CheckError| {}).collect();
        let mut keys: Vec<Sound> = sound.into_iter().filter(|entry| entry.db == db).collect();
        // Whose block was given up and taken again is another's.
        led_to.extend(lost.iter().map(|block| block.ptr));
        let kept: HashSet<Ptr> = keys.iter().map(|key| key.at).collect();
        // Whoever asks for one of these is still to be told of the damage.
        for (at, hash) in unidentified {
            if led_to.contains(&at) && !kept.contains(&at) {
                keys.push(Sound { db, at, hash, expires: entry::expiry_word(shard, at) != 0 });
            }
        }
        let linked = keys.len();
        for block in lost {
            let block_capacity = |at| shard.capacity(at);
            let deep = Deep { hashing: Some(&self.hashing), block_capacity: &block_capacity };
            let seen = verify::entry(shard, block.ptr, block.capacity, Some(deep));
            let (Some(key), None) = (seen.key, seen.fault) else { continue };
            let (hash, home) = verify::place(&key, &self.hashing, self.shards());
            if home == shard.id() {
                keys.push(Sound { db, at: block.ptr, hash, expires: seen.expires });
            }
        }
        let expiring: Vec<Sound> = keys.iter().copied().filter(|entry| entry.expires).collect();
        self.replace(shard, keys_root(db), &keys)?;
        self.replace(shard, expiry_root(db), &expiring)?;
        let counts = Counts { keys: keys.len() as u32, expiring: expiring.len() as u32 };
        let root = shard.root(counts_root(db));
        shard.set(root, counts.encode());
        self.recount_fields(shard, db);
        shard.commit()?;
        Ok(Rebuilt { keys: keys.len() as u64, found: (keys.len() - linked) as u64 })
    }

    /// Sets the counts of the hashes whose fields have times right, by the index of expiry times.
    pub(super) fn recount_fields(&self, shard: &mut Shard<'_>, db: u8) {
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

    fn replace(&self, shard: &mut Shard<'_>, root: usize, keys: &[Sound]) -> Result<(), Refusal> {
        let (root, scratch) = (shard.root(root), shard.root(SCRATCH_ROOT));
        shard.set(scratch, 0);
        shard.allow_reserve(true);
        let index = Index::at(scratch);
        for some in keys.chunks(AT_ONCE) {
            for key in some {
                index
                    .insert(shard, key.hash, key.at, |s, at| entry::hash(s, at, &self.hashing))
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
}
