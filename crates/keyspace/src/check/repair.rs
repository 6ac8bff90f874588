//! Repairing the problems that a check found, by ordinary transactions, each of which takes effect
//! entirely or not at all.
//!
//! Damaged keys are removed and named. Indexes, counts and the space of blocks that nothing leads
//! to follow from the rest, and are restored. If the heap's own tables are damaged, nothing is
//! changed.

use std::collections::BTreeSet;

use crate::Keyspace;
use crate::key::DATABASES;
use crate::layout::{Counts, LIBRARIES, QUEUE_ROOT, counts_root};
use crate::problem::Refusal;
use crate::rebuild::{cut, rebuild, recount_fields};
use crate::walk::Walk;
use crate::{CheckError, DamagedKey};

/// How many blocks one transaction frees.
const AT_ONCE: usize = 256;

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// The keys that were removed.
    pub cut: Vec<DamagedKey>,
    /// Databases whose indexes were rebuilt: the shard, and the number as clients know it.
    pub rebuilt: Vec<(usize, usize)>,
    /// Keys to which no slot led, and which can be found again.
    pub found: u64,
    /// Counts that were corrected.
    pub counts: u64,
    /// Blocks in use that were marked as free.
    pub allocated: u64,
    /// Free queues that were abandoned.
    pub queues: u64,
    /// Blocks to which nothing led, and which are free again.
    pub freed: u64,
    /// The bytes of these blocks.
    pub freed_bytes: u64,
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

    /// Repairs bitmaps before anything else, since all other repairs reserve blocks.
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
            let rebuilt = rebuild(&self.shared, &mut locked, self.shared.physical_of(db))?;
            done.found += rebuilt.found;
            done.rebuilt.push((shard, db));
        }
        Ok(())
    }

    fn repair_key(&self, key: &DamagedKey, done: &mut Repaired) -> Result<(), Refusal> {
        let mut shard = self.heap().lock(key.shard);
        // If its index was rebuilt, the key is no longer in it.
        cut(&self.shared, &mut shard, key);
        shard.commit()?;
        done.cut.push(key.clone());
        Ok(())
    }

    /// Corrects the counts of a shard, and frees the blocks to which nothing leads.
    fn repair_shard(&self, shard: usize, done: &mut Repaired) -> Result<(), Refusal> {
        let mut shard = self.heap().lock(shard);
        let (mut counts, mut fields) = (Vec::new(), Vec::new());
        let (_, lost) =
            Walk::new(&self.shared, &shard, &|_| {}, &mut |problem: CheckError| match problem {
                CheckError::Count { db, found_keys, found_expiring, .. } => {
                    counts.push((db, Counts { keys: found_keys, expiring: found_expiring }));
                }
                CheckError::Fields { db, .. } => fields.push(db),
                _ => {}
            })
            .collect();
        for (db, count) in counts.iter().filter(|(db, _)| is_known(*db)) {
            let root = shard.root(counts_root(self.shared.physical_of(*db)));
            shard.set(root, count.encode());
            done.counts += 1;
        }
        for db in fields.into_iter().filter(|db| is_known(*db)) {
            recount_fields(&mut shard, self.shared.physical_of(db));
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

/// Returns true if `db`, the number by which a problem names a database, is that of one.
fn is_known(db: usize) -> bool {
    db < DATABASES || db == usize::from(LIBRARIES)
}
