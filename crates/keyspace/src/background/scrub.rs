//! Searching for damage before clients meet it: all keys of a shard, in bounded steps.
//!
//! A step verifies some entries under the shard's lock, in the order of a scan. The chunks of large
//! values are verified after the lock was released. They are pinned, so their bytes do not change.
//! Keys that are found to be damaged are marked, as after a media error, so that clients get an
//! error; an index that does not lead to its own entries is rebuilt.

use heap::{Pin, Ptr, Shard};
use structures::index::{Index, Near, WalkItem};

use super::large::{Large, Within};
use crate::collection::Deep;
use crate::layout::{Kind, keys_root, next_database};
use crate::rebuild::rebuild;
use crate::{CommitError, Keyspace, entry, verify};

/// How many entries are requested from the index at a time.
const AT_ONCE: usize = 16;
/// About how many entries a step verifies while it holds the lock.
const ENTRIES: usize = 128;

/// The position of a scrub within a shard, and its totals since it began with the shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrub {
    db: u8,
    cursor: u64,
    within: Option<Within>,
    /// Keys verified.
    pub keys: u64,
    /// Bytes verified.
    pub bytes: u64,
    /// Damaged keys found.
    pub found: u64,
}

/// A chunk of a large value that is verified without the lock.
struct Chunk {
    entry: Ptr,
    at: Ptr,
    len: usize,
    crc: u32,
}

/// The work that is left after the lock was released.
#[derive(Default)]
struct Rest {
    chunks: Vec<Chunk>,
    pin: Option<Pin>,
    /// The damaged entries.
    damaged: Vec<Ptr>,
    /// Whether the index is damaged: one of its segments is, or a slot leads to an entry that
    /// belongs elsewhere.
    misled: bool,
}

impl Keyspace {
    /// Verifies some keys of the shard, and marks those that are damaged. Returns the new position
    /// and whether there is more; the last position has the totals of the shard.
    pub fn scrub_step(&self, shard: usize, from: Scrub) -> Result<(Scrub, bool), CommitError> {
        if from.keys == 0 && self.has_media_errors() {
            self.resolver().sweep_unidentified(shard);
        }
        let held = self.time_lock_hold();
        let mut rest = Rest::default();
        let mut next = from;
        {
            let locked = self.heap().lock(shard);
            match from.within {
                None => next.cursor = self.look(&locked, &mut next, &mut rest),
                Some(within) => self.look_within(&locked, within, &mut next, &mut rest),
            }
        }
        held.done();
        for chunk in &rest.chunks {
            let Some(pin) = &rest.pin else { break };
            next.bytes += chunk.len as u64;
            if heap::crc32c(self.heap().pinned(pin, chunk.at, chunk.len)) != chunk.crc {
                rest.damaged.push(chunk.entry);
            }
        }
        drop(rest.pin.take());
        if !self.has_unresolved_losses() && (rest.misled || !rest.damaged.is_empty()) {
            next.found += self.mark_damaged(shard, next.db, rest)?;
        }
        if next.cursor == 0 && next.within.is_none() {
            let Some(db) = next_database(next.db) else { return Ok((next, false)) };
            next.db = db;
        }
        Ok((next, true))
    }

    /// Verifies the next entries under the lock; returns the cursor after them.
    fn look(&self, shard: &Shard<'_>, next: &mut Scrub, rest: &mut Rest) -> u64 {
        let index = Index::at(shard.root(keys_root(next.db)));
        let (mut cursor, mut entries) = (next.cursor, Vec::new());
        let begin = next.keys;
        loop {
            entries.clear();
            let from = cursor;
            cursor = index.scan(shard, cursor, AT_ONCE, |at| entries.push(at));
            rest.misled |= index.check_step(shard, from, cursor).is_err();
            for &at in &entries {
                self.look_at(shard, index, at, next, rest);
            }
            next.within = Within::first(shard, index, &self.shared.hashing, from, AT_ONCE);
            let enough =
                rest.misled || next.keys - begin >= ENTRIES as u64 || !rest.chunks.is_empty();
            if cursor == 0 || enough || next.within.is_some() {
                return cursor;
            }
        }
    }

    /// Verifies some members of a table, a leaf of a sorted set, a node of a list, or a piece of a
    /// stream.
    fn look_within(&self, shard: &Shard<'_>, within: Within, next: &mut Scrub, rest: &mut Rest) {
        let index = Index::at(shard.root(keys_root(next.db)));
        let mut cursor = 0;
        if let Some((entry, large)) = within.find(shard, index, &self.shared.hashing) {
            let mut damaged = false;
            match large {
                Large::Table(dict) => {
                    let hash = |field: &[u8]| self.shared.hashing.hash(field);
                    match dict.check_step(shard, within.cursor, ENTRIES, hash) {
                        Ok((next_cursor, bytes)) => {
                            next.bytes += bytes;
                            cursor = next_cursor;
                        }
                        Err(_) => damaged = true,
                    }
                }
                Large::SortedSet(sorted_set) => {
                    let hash = |member: &[u8]| self.shared.hashing.hash(member);
                    match sorted_set.check_leaf(shard, within.cursor, hash) {
                        Ok((next_cursor, bytes)) => {
                            next.bytes += bytes;
                            cursor = next_cursor;
                        }
                        Err(_) => damaged = true,
                    }
                }
                Large::List(list) => match list.check_node(shard, within.cursor) {
                    Ok((next_cursor, bytes)) => {
                        next.bytes += bytes;
                        cursor = next_cursor;
                    }
                    Err(_) => damaged = true,
                },
                Large::Stream(stream) => match stream.check_step(shard, within.cursor) {
                    Ok((next_cursor, bytes)) => {
                        next.bytes += bytes;
                        cursor = next_cursor;
                    }
                    Err(_) => damaged = true,
                },
            }
            if damaged {
                rest.damaged.push(entry);
                cursor = 0;
            }
        }
        next.within = within.next(cursor, shard, index, &self.shared.hashing, AT_ONCE);
    }

    fn look_at(&self, shard: &Shard<'_>, index: Index, at: Ptr, next: &mut Scrub, rest: &mut Rest) {
        let capacity = shard.capacity(at);
        let seen = verify::entry(shard, at, capacity, None);
        next.keys += 1;
        next.bytes += capacity as u64;
        if seen.fault.is_some() {
            return rest.damaged.push(at);
        }
        let key = seen.key.unwrap_or_default();
        let (hash, home) = verify::place(&key, &self.shared.hashing, self.shards());
        if home != shard.id() || index.find(shard, hash, |found| found == at).is_none() {
            rest.misled = true;
            return;
        }
        if entry::kind(shard, at) == Kind::Blob {
            let blob = entry::blob(shard, at);
            if blob.is_large() {
                rest.pin.get_or_insert_with(|| shard.pin());
                let sound = blob.checksums(shard, |chunk, len, crc| {
                    rest.chunks.push(Chunk { entry: at, at: chunk, len, crc });
                });
                if sound.is_err() {
                    rest.damaged.push(at);
                }
            } else {
                next.bytes += blob.len(shard).unwrap_or(0);
            }
        }
    }

    /// Marks the entries that still exist and are still damaged; returns their number.
    fn mark_damaged(&self, shard: usize, db: u8, rest: Rest) -> Result<u64, CommitError> {
        let mut locked = self.heap().lock(shard);
        let mut slots: Vec<(Ptr, Near)> = Vec::new();
        Index::at(locked.root(keys_root(db))).salvage_walk(&locked, |found| {
            if let WalkItem::Entry(slot, near) = found
                && rest.damaged.contains(&slot.entry())
            {
                slots.push((slot.entry(), near));
            }
            true
        });
        let mut found = 0;
        for (at, near) in slots {
            let block_capacity = |at| locked.capacity(at);
            let deep =
                Deep { hashing: Some(&self.shared.hashing), block_capacity: &block_capacity };
            let seen = verify::entry(&locked, at, locked.capacity(at), Some(deep));
            if seen.fault.is_none() {
                continue;
            }
            found += 1;
            let is_entry = seen.fits(near, &self.shared.hashing);
            let seen = seen.by(near, &self.shared.hashing).owned();
            if is_entry {
                self.resolver().mark(&mut locked, db, at, near, seen)?;
            } else {
                // The slot itself may be damaged. Then this is no entry, and must not be written
                // to.
                self.resolver().remember(locked.id(), db, at, near, seen);
            }
        }
        // After the entries, since a rebuild leaves out those without a name that nobody remembers.
        if rest.misled && rebuild(&self.shared, &mut locked, db).is_ok() {
            self.resolver().report_rebuilt(shard, db);
        }
        Ok(found)
    }
}
