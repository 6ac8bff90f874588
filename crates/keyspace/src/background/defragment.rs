//! Defragmentation online: entries and their blobs move out of spans that are mostly empty.
//!
//! A step visits some entries of one index in one shard, in the order of a scan, and moves those
//! that are in sparse spans: it copies the entry, makes the slots that lead to it lead to the copy,
//! and frees the old block, all in one record. The index's own blocks move likewise. A client's
//! scan in progress keeps its guarantee.
//!
//! Anything for which there is no space stays where it is, and the walk continues after it: a
//! single entry, the segment of an index, or the rest of a large value.

use heap::{Full, Ptr, Shard, View};
use structures::blob::Blob;
use structures::index::Index;
use structures::list::List;

use super::large::{Large, Within};
use crate::collection;
use crate::fault_points::FaultPoint;
use crate::key::DATABASES;
use crate::layout::{Kind, LIBRARIES, expiry_root, keys_root};
use crate::{CommitError, Keyspace, entry, verify};

const INDEXES: usize = 2 * DATABASES;

/// The index of the function libraries, which follows those.
const LIBRARIES_INDEX: u8 = keys_root(LIBRARIES) as u8;

/// The position of a defragmentation within a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defragmentation {
    /// The number of the index's root word: first those of all keys, then those of expiry times,
    /// then that of the function libraries.
    index: u8,
    cursor: u64,
    within: Option<Within>,
    /// Blocks moved since the defragmentation of the shard began.
    pub moved: u64,
}

impl Defragmentation {
    /// Returns where to continue: in the same index, in the next one, or nowhere.
    fn go_on(self) -> Option<Defragmentation> {
        if self.cursor != 0 || self.within.is_some() {
            return Some(self);
        }
        let index = match self.index + 1 {
            next if usize::from(next) < INDEXES => next,
            next if usize::from(next) == INDEXES => LIBRARIES_INDEX,
            _ => return None,
        };
        Some(Defragmentation { index, ..self })
    }

    /// Returns the physical database to which the index belongs.
    fn db(self) -> u8 {
        if self.index == LIBRARIES_INDEX { LIBRARIES } else { self.index % DATABASES as u8 }
    }
}

impl Keyspace {
    /// Looks at about `budget` entries of the shard, and moves those that are in sparse spans.
    /// Returns where to continue: `None` at the end of the shard, and `from` itself if the shard is
    /// locked.
    pub fn defragment_step(
        &self,
        shard: usize,
        from: Defragmentation,
        budget: usize,
    ) -> Result<Option<Defragmentation>, CommitError> {
        let held = self.time_lock_hold();
        let Some(mut locked) = self.heap().try_lock(shard) else { return Ok(Some(from)) };
        let next = self.defragment_locked(&mut locked, from, budget);
        drop(locked);
        held.done();
        next
    }

    /// Like [`Keyspace::defragment_step`], in a shard that the caller has locked. Commits the step.
    pub(super) fn defragment_locked(
        &self,
        locked: &mut Shard<'_>,
        from: Defragmentation,
        budget: usize,
    ) -> Result<Option<Defragmentation>, CommitError> {
        if let Some(within) = from.within {
            return self.defragment_table(locked, from, within, budget);
        }
        let index = Index::at(locked.root(usize::from(from.index)));
        let db = from.db();
        let expiring = Index::at(locked.root(expiry_root(db)));
        let mut moved = 0;
        let next = index.defragment(locked, from.cursor, budget, |shard, old| {
            // An entry is moved only once, through the index of all keys.
            if usize::from(from.index) != keys_root(db) {
                return Ok(None);
            }
            let new = self.try_relocate(shard, expiring, old);
            moved += u64::from(new.is_some());
            Ok(new)
        });
        let Ok(cursor) = next else {
            locked.rollback();
            let past = Index::defragment_past(from.cursor);
            return Ok(past.map(|cursor| Defragmentation { cursor, ..from }));
        };
        locked.commit()?;
        let within = match usize::from(from.index) == keys_root(db) {
            true => Within::first(locked, index, &self.shared.hashing, from.cursor, budget),
            false => None,
        };
        Ok(Defragmentation { cursor, within, moved: from.moved + moved, ..from }.go_on())
    }

    /// Does the same for members of a large set, hash or sorted set, for a leaf of a sorted set, or
    /// for a node of a long list or a piece of a stream.
    fn defragment_table(
        &self,
        locked: &mut Shard<'_>,
        from: Defragmentation,
        within: Within,
        budget: usize,
    ) -> Result<Option<Defragmentation>, CommitError> {
        let index = Index::at(locked.root(usize::from(from.index)));
        let hashing = &self.shared.hashing;
        let mut moved = 0;
        let next = match within.find(locked, index, hashing) {
            Some((_, Large::Table(dict))) => {
                dict.defragment(locked, within.cursor, budget, || moved += 1)
            }
            Some((_, Large::SortedSet(sorted_set))) => {
                sorted_set.defragment(locked, within.cursor, budget, || moved += 1)
            }
            Some((at, Large::List(list))) => relocate_nodes(locked, at, list, within.cursor),
            Some((at, Large::Stream(stream))) => {
                relocate_stream_part(locked, at, stream.word(), within.cursor)
            }
            None => Ok(0),
        };
        let Ok(cursor) = next else {
            locked.rollback();
            let within = within.next(0, locked, index, hashing, budget);
            return Ok(Defragmentation { within, ..from }.go_on());
        };
        locked.commit()?;
        let within = within.next(cursor, locked, index, hashing, budget);
        Ok(Defragmentation { within, moved: from.moved + moved, ..from }.go_on())
    }

    /// Moves an entry, and the blocks that it owns, out of sparse spans. If there is no space for
    /// that, it stays, and its span is no longer to be emptied.
    pub(super) fn try_relocate(
        &self,
        shard: &mut Shard<'_>,
        expiring: Index,
        old: Ptr,
    ) -> Option<Ptr> {
        let before = shard.savepoint();
        let moved = self.relocate(shard, expiring, old);
        moved.unwrap_or_else(|Full| {
            shard.rollback_to(before);
            shard.keep_span_of(old);
            None
        })
    }

    fn relocate(
        &self,
        shard: &mut Shard<'_>,
        expiring: Index,
        old: Ptr,
    ) -> Result<Option<Ptr>, Full> {
        if Kind::decode(shard.word(old)).is_none() {
            // Damaged entries stay: of some of them, only the place is known.
            return Ok(None);
        }
        let cell = entry::cell(shard, old);
        let moved = match entry::kind(shard, old) {
            Kind::Inline { .. } | Kind::Int => None,
            Kind::Blob => entry::blob(shard, old).relocate(shard)?.map(Blob::word),
            Kind::Collection(head) => {
                let word = shard.word(cell);
                collection::relocate(shard, head, word)?
            }
        };
        if let Some(word) = moved {
            shard.set(cell, word);
        }
        if !shard.is_sparse(old) {
            return Ok(None);
        }
        if verify::entry(shard, old, shard.capacity(old), None).key.is_none() {
            return Ok(None);
        }
        let size = entry::size(shard, old);
        let mut bytes: Vec<u8> = (0..size.div_ceil(8) as u64)
            .flat_map(|word| shard.word(old.add(8 * word)).to_le_bytes())
            .collect();
        // Only the bytes in use are published: the next append writes the space after them, which
        // would falsify what is published here.
        if FaultPoint::MoveWithoutSpace.is_enabled() {
            bytes.truncate(size);
        }
        let fresh = shard.reserve(bytes.len())?;
        shard.write(&fresh, 0, &bytes);
        let new = shard.publish(fresh, bytes.len());
        if entry::expiry_word(shard, old) != 0 {
            let hash = entry::hash(shard, old, &self.shared.hashing);
            if let Some(slot) = expiring.find(shard, hash, |at| at == old) {
                expiring.replace(shard, slot, new);
            }
        }
        shard.free(old);
        Ok(Some(new))
    }
}

/// Moves the node that contains the list's element `index`; returns the element to continue with.
fn relocate_nodes(shard: &mut Shard<'_>, at: Ptr, list: List, index: u64) -> Result<u64, Full> {
    let (moved, next) = collection::relocate_list(shard, list, index)?;
    if let Some(list) = moved {
        let cell = entry::cell(shard, at);
        shard.set(cell, list.word());
    }
    Ok(next)
}

/// Moves the piece at a position of a stream; returns the position to continue with.
fn relocate_stream_part(
    shard: &mut Shard<'_>,
    at: Ptr,
    word: u64,
    place: u64,
) -> Result<u64, Full> {
    let (moved, next) = collection::streams::relocate(shard, word, place)?;
    if let Some(word) = moved {
        let cell = entry::cell(shard, at);
        shard.set(cell, word);
    }
    Ok(next)
}
