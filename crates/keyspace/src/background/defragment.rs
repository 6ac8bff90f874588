//! Giving memory back online: entries and their blobs move out of spans that are mostly empty.
//!
//! A step goes through some entries of one index in one shard, in the order of a scan, and moves
//! those that are in sparse spans: the entry is copied, the slots that lead to it are swung, the
//! old block is freed, all in one record. The index's own blocks move likewise. A scan of a client
//! that is under way keeps its guarantee.
//!
//! What finds no space stays where it is, and the walk goes on: an entry alone, or the segment of
//! an index, or what is left of a large value.

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

/// The index of the function libraries, which comes after those.
const LIBRARIES_INDEX: u8 = keys_root(LIBRARIES) as u8;

/// Where defragmentation of a shard goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Defragmentation {
    /// The root word of the index: those of all keys come first, then those of expiry times, then
    /// that of the function libraries.
    index: u8,
    cursor: u64,
    within: Option<Within>,
    /// Blocks moved since it began with the shard.
    pub moved: u64,
}

impl Defragmentation {
    /// Goes on after what is done: in the same index, in the next, or nowhere.
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

    /// Returns the physical database that the index is of.
    fn db(self) -> u8 {
        if self.index == LIBRARIES_INDEX { LIBRARIES } else { self.index % DATABASES as u8 }
    }
}

impl Keyspace {
    /// Looks at about `budget` entries of the shard, and moves those that are in sparse spans. None
    /// when it has been through the whole shard; where that is locked it gets no further.
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

    /// Takes a step of the same in a shard that is locked already, and commits it.
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
            // An entry moves once, by the index of all keys.
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
            true => Within::first(locked, (index, &self.shared.hashing), from.cursor, budget),
            false => None,
        };
        Ok(Defragmentation { cursor, within, moved: from.moved + moved, ..from }.go_on())
    }

    /// Returns the same for members of a large set, hash or sorted set, a leaf of the latter, or a
    /// node of a long list or stream.
    fn defragment_table(
        &self,
        locked: &mut Shard<'_>,
        from: Defragmentation,
        within: Within,
        budget: usize,
    ) -> Result<Option<Defragmentation>, CommitError> {
        let keys = (Index::at(locked.root(usize::from(from.index))), &self.shared.hashing);
        let mut moved = 0;
        let next = match within.find(locked, keys) {
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
            let within = within.next(0, locked, keys, budget);
            return Ok(Defragmentation { within, ..from }.go_on());
        };
        locked.commit()?;
        let within = within.next(cursor, locked, keys, budget);
        Ok(Defragmentation { within, moved: from.moved + moved, ..from }.go_on())
    }

    /// Moves an entry, and what is in blocks of its own, out of sparse spans. Where there is no
    /// space for that it stays, and its span is emptied no more.
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
            // Damaged: where it is is all that is known of some.
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
        // Not the space after it: the next append would falsify what is published here.
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

/// Moves the node of a list's element; the element to go on with.
fn relocate_nodes(shard: &mut Shard<'_>, at: Ptr, list: List, index: u64) -> Result<u64, Full> {
    let (moved, next) = collection::relocate_list(shard, list, index)?;
    if let Some(list) = moved {
        let cell = entry::cell(shard, at);
        shard.set(cell, list.word());
    }
    Ok(next)
}

/// Moves a node of a stream, or a part of a group; the place of the stream to go on with.
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
