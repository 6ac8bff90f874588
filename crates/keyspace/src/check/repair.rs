//! Putting right what a check found: by ordinary transactions, each whole or not at all.
//!
//! What is damaged is cut out and named; what can be made again from the rest (indexes, counts, the
//! space of blocks that nothing leads to) is. Where the heap's own tables are damaged nothing is
//! touched.

use std::collections::BTreeSet;

use heap::{CommitError, Ptr, Shard, View};
use structures::index::{Index, Slot, WalkItem};

use super::walk::Walk;
use crate::Keyspace;
use crate::key::DATABASES;
use crate::layout::{
    self, Counts, FieldCounts, LIBRARIES, QUEUE_ROOT, counts_root, expiry_root, fields_root,
    keys_root,
};
use crate::{CheckError, DamagedKey};

/// Blocks freed by one transaction.
const AT_ONCE: usize = 256;

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Keys that were cut out.
    pub cut: Vec<DamagedKey>,
    /// Databases whose indexes were rebuilt: shard, and number as clients know it.
    pub rebuilt: Vec<(usize, usize)>,
    /// Keys that no slot led to and that are found again.
    pub found: u64,
    /// Counts that were set right.
    pub counts: u64,
    /// Blocks in use that looked free.
    pub allocated: u64,
    /// Free queues that were given up.
    pub queues: u64,
    /// Blocks that nothing led to and that are free again.
    pub freed: u64,
    /// Bytes of these.
    pub freed_bytes: u64,
}

/// Why nothing more was repaired. What was done before is done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Something is damaged that nothing else tells.
    #[error(
        "cannot be repaired: {0}; `perdura salvage POOL --to NEW` copies what is sound into a new \
         pool"
    )]
    Metadata(String),
    /// There is no space for what must be rebuilt.
    #[error(
        "the pool has no free space for the repair: let it grow (--pool-size), or delete keys first"
    )]
    Full,
    /// A transaction failed.
    #[error("a repair could not be written: {0}")]
    Commit(#[from] CommitError),
}

impl Keyspace {
    /// Repairs what [`Keyspace::inspect`] found wrong. At rest: nobody else uses the keyspace.
    pub fn repair(&self, problems: &[CheckError]) -> Result<Repaired, Refusal> {
        let hopeless = problems.iter().find(|problem| match problem {
            CheckError::Heap(error) => !error.is_repairable(),
            CheckError::Dangling { .. } => true,
            _ => false,
        });
        if let Some(hopeless) = hopeless {
            return Err(Refusal::Metadata(hopeless.to_string()));
        }
        let mut done = Repaired::default();
        self.repair_bitmaps(problems, &mut done)?;
        self.repair_indexes(problems, &mut done)?;
        for problem in problems {
            match problem {
                CheckError::Key(key) => self.repair_key(key, &mut done)?,
                CheckError::Queue { shard, .. } => {
                    let mut shard = self.heap().lock(*shard);
                    let root = shard.root(QUEUE_ROOT);
                    shard.set(root, 0);
                    shard.commit()?;
                    done.queues += 1;
                }
                _ => {}
            }
        }
        for shard in 0..self.shards() {
            self.repair_shard(shard, &mut done)?;
        }
        Ok(done)
    }

    /// Repairs bitmaps before anything else, since everything else reserves blocks.
    fn repair_bitmaps(&self, problems: &[CheckError], done: &mut Repaired) -> Result<(), Refusal> {
        let shards: BTreeSet<usize> = problems
            .iter()
            .filter_map(|problem| match problem {
                CheckError::Unallocated { shard, .. } => Some(*shard),
                _ => None,
            })
            .collect();
        for shard in shards {
            done.allocated += self.rebuild_bitmaps(shard)?;
        }
        Ok(())
    }

    fn repair_indexes(&self, problems: &[CheckError], done: &mut Repaired) -> Result<(), Refusal> {
        let indexes: BTreeSet<(usize, usize)> = problems
            .iter()
            .filter_map(|problem| match problem {
                CheckError::Index { shard, db, .. } | CheckError::Expiry { shard, db, .. } => {
                    Some((*shard, *db))
                }
                _ => None,
            })
            .collect();
        let keys_lost = |(shard, db): (usize, usize)| {
            problems.iter().any(|problem| {
                matches!(problem, CheckError::Index { shard: s, db: d, expiry: false, .. } if (*s, *d) == (shard, db))
            })
        };
        for shard in 0..self.shards() {
            let of_shard: Vec<_> = indexes.iter().copied().filter(|(s, _)| *s == shard).collect();
            if of_shard.iter().filter(|index| keys_lost(**index)).count() > 1 {
                // An entry does not say which database it belongs to.
                let text = format!("shard {shard}: the indexes of several databases are damaged");
                return Err(Refusal::Metadata(text));
            }
        }
        for (shard, db) in indexes {
            let mut locked = self.heap().lock(shard);
            let rebuilt = self.rebuild(&mut locked, self.physical_of(db))?;
            done.found += rebuilt.found;
            done.rebuilt.push((shard, db));
        }
        Ok(())
    }

    /// Returns the physical database after a logical one.
    pub(crate) fn physical_of(&self, db: usize) -> u8 {
        if db == usize::from(LIBRARIES) {
            return LIBRARIES;
        }
        layout::physical(self.map.load(std::sync::atomic::Ordering::Relaxed), db)
    }

    /// Returns the logical database before a physical one.
    pub(crate) fn logical_of(&self, db: u8) -> usize {
        (0..DATABASES).find(|&n| self.physical_of(n) == db).unwrap_or(usize::from(db))
    }

    fn repair_key(&self, key: &DamagedKey, done: &mut Repaired) -> Result<(), Refusal> {
        let mut shard = self.heap().lock(key.shard);
        // Where its index was rebuilt, the key is gone already.
        self.cut(&mut shard, key);
        shard.commit()?;
        done.cut.push(key.clone());
        Ok(())
    }

    /// Takes a damaged entry out of the indexes. Its blocks stay: what it says of them is not
    /// accepted.
    pub(crate) fn cut(&self, shard: &mut Shard<'_>, key: &DamagedKey) {
        let db = self.physical_of(key.db);
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
            // What the damaged entry says may be wrong: then a repair counts again.
            let said = FieldCounts::of(crate::entry::expiry_word(shard, at));
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

    /// Sets the counts of a shard right, and frees what nothing leads to.
    fn repair_shard(&self, shard: usize, done: &mut Repaired) -> Result<(), Refusal> {
        let mut shard = self.heap().lock(shard);
        let (mut counts, mut fields) = (Vec::new(), Vec::new());
        let (_, lost) =
            Walk::new(self, &shard, &|_| {}, &mut |problem: CheckError| match problem {
                CheckError::Count { db, found_keys, found_expiring, .. } => {
                    counts.push((db, Counts { keys: found_keys, expiring: found_expiring }));
                }
                CheckError::Fields { db, .. } => fields.push(db),
                _ => {}
            })
            .collect();
        for (db, count) in counts.iter().filter(|(db, _)| is_known(*db)) {
            let root = shard.root(counts_root(self.physical_of(*db)));
            shard.set(root, count.encode());
            done.counts += 1;
        }
        for db in fields.into_iter().filter(|db| is_known(*db)) {
            self.recount_fields(&mut shard, self.physical_of(db));
            done.counts += 1;
        }
        shard.commit()?;
        for some in lost.chunks(AT_ONCE) {
            for block in some {
                shard.free(block.ptr);
                done.freed += 1;
                done.freed_bytes += block.capacity as u64;
            }
            shard.commit()?;
        }
        done.counts += u64::from(shard.recount()?);
        Ok(())
    }
}

/// Returns true if there is a database of this number, as problems name it.
fn is_known(db: usize) -> bool {
    db < DATABASES || db == usize::from(LIBRARIES)
}

/// Returns the slot of an entry that may have lost its name, and a hash that leads there: a split
/// puts it where zeros belong, and not where the hash says.
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
