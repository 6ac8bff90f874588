//! The hash-table encoding of a collection: a hash index over blocks of members.
//!
//! The caller keeps one word, the place of a header block, which leads to an [`Index`] and a block
//! for each member, a field with its value. A new value of a field takes a new block and changes
//! one slot; nothing else moves. A lookup reads a line of the index and the member. Deleting the
//! whole table pushes the index onto the free queue, whatever its size.
//!
//! ```text
//! header:  0   root word of the index               logged
//!          8   number of members, self-checksummed  logged
//!          16  root word of a tree: of a sorted set (`sorted_set`); else without items      logged
//!          24  root word of a tree of the members that have a time (`times`)    logged
//! ```
//!
//! Fields are distinguished by their bytes; the caller supplies their hashes, always by the same
//! function. A table knows neither keys nor the meaning of its values.

mod member;
mod ttl_index;

use std::collections::{HashMap, HashSet};

use heap::{Full, Ptr, View};

pub use member::{INLINE, Member};

use crate::index::{Bucket, Index, Slot, WalkItem};
use crate::reclaim::Queue;
use crate::{Damaged, Store, self_checksummed, tree};

const HEADER: usize = 32;

/// Number of members that a scan prefetches before it reads the first of them.
const AHEAD: usize = 8;
const COUNT: u64 = 8;
pub(crate) const SPARE: [u64; 2] = [16, 24];

/// A table, known by its header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dict {
    header: Ptr,
}

/// The name of a field, and its hash.
#[derive(Clone, Copy)]
pub struct Hashed<'f> {
    /// The name.
    pub bytes: &'f [u8],
    /// Its hash, as the table's other fields are hashed.
    pub hash: u64,
}

/// The place of a member that was found. Any change of the table, except one in this place,
/// invalidates it.
#[derive(Clone, Copy, Debug)]
pub struct MemberSlot {
    slot: Slot,
}

impl MemberSlot {
    /// Returns the member at this place.
    pub fn member(&self) -> Member {
        Member::at(self.slot.entry())
    }
}

impl Dict {
    /// Returns the table whose header is at `header`.
    pub const fn at(header: Ptr) -> Dict {
        Dict { header }
    }

    /// Returns the place of its header.
    pub const fn ptr(self) -> Ptr {
        self.header
    }

    /// Creates an empty table.
    pub fn create<S: Store>(store: &mut S) -> Result<Dict, Full> {
        let fresh = store.reserve(HEADER)?;
        let none = tree::root_word(Ptr::NULL);
        for (at, word) in [0, self_checksummed::encode(0), none, none].into_iter().enumerate() {
            store.write_word(&fresh, 8 * at, word);
        }
        Ok(Dict { header: store.publish(fresh, HEADER) })
    }

    /// Returns the root word of an additional tree, in which a caller keeps something about all
    /// members; empty in a new table.
    pub(crate) const fn spare(self) -> Ptr {
        self.header.add(SPARE[0])
    }

    const fn index(self) -> Index {
        Index::at(self.header)
    }

    /// Returns the number of members; 0 if the number is damaged.
    pub fn len<V: View>(self, view: &V) -> u64 {
        self_checksummed::decode(view.word(self.header.add(COUNT))).unwrap_or(0)
    }

    /// Returns true if the number of members can be read. If it cannot, it is reported as 0, and
    /// nothing may be changed.
    #[inline]
    pub fn has_sound_len<V: View>(self, view: &V) -> bool {
        self_checksummed::decode(view.word(self.header.add(COUNT))).is_some()
    }

    /// Returns true if it has no members.
    pub fn is_empty<V: View>(self, view: &V) -> bool {
        self.len(view) == 0
    }

    fn count<S: Store>(self, store: &mut S, by: i64) {
        let count = self.len(store).saturating_add_signed(by);
        store.set(self.header.add(COUNT), self_checksummed::encode(count));
    }

    /// Returns the place of the field with this hash. With `verify`, verifies every member that it
    /// reads.
    pub fn find<V: View>(
        self,
        view: &V,
        hash: u64,
        field: &[u8],
        verify: bool,
    ) -> Result<Option<MemberSlot>, Damaged> {
        let mut damaged = None;
        let slot = self.index().find(view, hash, |at| {
            let member = Member::at(at);
            if verify && let Err(damage) = member.check(view) {
                damaged = Some(damage);
            }
            member.has_field(view, field)
        });
        match damaged {
            Some(damage) => Err(damage),
            None => Ok(slot.map(|slot| MemberSlot { slot })),
        }
    }

    /// Returns the place of a member whose field has this hash.
    #[inline]
    pub(crate) fn find_member<V: View>(
        self,
        view: &V,
        hash: u64,
        member: Member,
    ) -> Option<MemberSlot> {
        let slot = self.index().find(view, hash, |at| at == member.ptr());
        slot.map(|slot| MemberSlot { slot })
    }

    /// Adds a member whose field the caller knows to be absent. `hash` returns the hash of any
    /// field.
    pub fn insert<S: Store>(
        self,
        store: &mut S,
        hash: impl Fn(&[u8]) -> u64,
        field: &[u8],
        value: &[u8],
        time: Option<u64>,
    ) -> Result<Member, Full> {
        let field = Hashed { bytes: field, hash: hash(field) };
        self.insert_expecting(store, field, value, time, 0, hash)
    }

    /// Like [`Dict::insert`], for a field whose hash is known, while members are added for which
    /// segments of this depth will be needed ([`Index::insert_expecting`]).
    pub fn insert_expecting<S: Store>(
        self,
        store: &mut S,
        field: Hashed<'_>,
        value: &[u8],
        time: Option<u64>,
        depth: u32,
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<Member, Full> {
        let member = Member::create(store, field.bytes, value, time)?;
        let rehash = |store: &S, at| hash(&Member::at(at).field(store));
        self.index().insert_expecting(store, field.hash, member.ptr(), || depth, rehash)?;
        if let Some(time) = time {
            self.add_to_ttl_index(store, member, time)?;
        }
        self.count(store, 1);
        Ok(member)
    }

    /// Replaces the value of the field at this place, with this time or none.
    pub fn replace<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        place: MemberSlot,
        field: &[u8],
        value: &[u8],
        time: Option<u64>,
    ) -> Result<Member, Full> {
        let member = Member::create(store, field, value, time)?;
        self.index().replace(store, place.slot, member.ptr());
        self.remove_from_ttl_index(store, place.member());
        if let Some(time) = time {
            self.add_to_ttl_index(store, member, time)?;
        }
        place.member().release(store, queue)?;
        Ok(member)
    }

    /// Removes the member at this place.
    pub fn remove<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        place: MemberSlot,
    ) -> Result<(), Full> {
        self.index().remove(store, place.slot);
        self.remove_from_ttl_index(store, place.member());
        place.member().release(store, queue)?;
        self.count(store, -1);
        Ok(())
    }

    /// Visits about `count` members from `cursor` on, like [`Index::scan`].
    pub fn scan<V: View>(
        self,
        view: &V,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(Member),
    ) -> u64 {
        // Members are prefetched some time before they are read.
        let (mut ahead, mut number) = ([Ptr::NULL; AHEAD], 0);
        let next = self.index().scan(view, cursor, count, |at| {
            view.prefetch(at);
            let before = std::mem::replace(&mut ahead[number % AHEAD], at);
            if number >= AHEAD {
                visit(Member::at(before));
            }
            number += 1;
        });
        for at in number.saturating_sub(AHEAD)..number {
            visit(Member::at(ahead[at % AHEAD]));
        }
        next
    }

    /// Prefetches the lines that a lookup of this hash reads first; [`Bucket::prefetch_entry`] of
    /// the result prefetches those of the member.
    pub fn prefetch_bucket<V: View>(self, view: &V, hash: u64) -> Option<Bucket> {
        self.index().prefetch_bucket(view, hash)
    }

    /// Returns a member picked nearly uniformly, if there is one.
    pub fn random<V: View>(self, view: &V, mut random: impl FnMut() -> u64) -> Option<Member> {
        let picked = self.index().random(view, &mut random).map(Member::at);
        // The index is sparse: take the first member after some place.
        picked.or_else(|| self.first_from(view, random())).or_else(|| self.first_from(view, 0))
    }

    fn first_from<V: View>(self, view: &V, mut cursor: u64) -> Option<Member> {
        let mut found = None;
        loop {
            cursor = self.scan(view, cursor, 1, |member| _ = found.get_or_insert(member));
            if cursor == 0 || found.is_some() {
                return found;
            }
        }
    }

    /// Frees the header and pushes all else onto the free queue, which passes `members` when it
    /// frees the members, and `times` for the items of the tree of members with a time, which own
    /// nothing. A damaged header is left as it is, with everything that it leads to.
    pub fn release<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        members: u16,
        times: u16,
    ) -> Result<(), Full> {
        if !self.has_sound_len(store) {
            return Ok(());
        }
        let tree = store.word(self.header.add(SPARE[1]));
        queue.push_unlinked_tree(store, tree, times)?;
        let root = store.word(self.header);
        queue.push_unlinked_index(store, root, members)?;
        store.free(self.header);
        Ok(())
    }

    /// Moves the header out of a sparse span; `None` if it stays.
    pub fn relocate<S: Store>(self, store: &mut S) -> Result<Option<Dict>, Full> {
        if !store.is_sparse(self.header) {
            return Ok(None);
        }
        let words: [u64; HEADER / 8] =
            std::array::from_fn(|i| store.word(self.header.add(8 * i as u64)));
        let fresh = store.reserve(HEADER)?;
        for (at, word) in words.into_iter().enumerate() {
            store.write_word(&fresh, 8 * at, word);
        }
        let header = store.publish(fresh, HEADER);
        store.free(self.header);
        Ok(Some(Dict { header }))
    }

    /// Takes a step of defragmentation of index and members, like [`Index::defragment`]. The caller
    /// moves the members: `relocate` returns the new place, or `None` to leave a member.
    pub(crate) fn defragment_with<S: Store>(
        self,
        store: &mut S,
        cursor: u64,
        count: usize,
        mut relocate: impl FnMut(&mut S, Member) -> Result<Option<Member>, Full>,
    ) -> Result<u64, Full> {
        self.index().defragment(store, cursor, count, |store, at| {
            Ok(relocate(store, Member::at(at))?.map(Member::ptr))
        })
    }

    /// Like [`Dict::check`], without the trees next to the members; the words `empty` of the header
    /// must lead to no tree. Returns how many members have a time.
    pub(crate) fn check_with<V: View>(
        self,
        view: &V,
        empty: &[u64],
        hash: impl Fn(&[u8]) -> u64,
        block_capacity: impl Fn(Ptr) -> usize,
        mut visit: impl FnMut(Ptr),
    ) -> Result<u64, Damaged> {
        let at_least = |what, at: Ptr, len: usize| {
            Damaged::unless_equal(what, at, len as u64, block_capacity(at).min(len) as u64)
        };
        at_least("table header", self.header, HEADER)?;
        for at in empty.iter().map(|&at| self.header.add(at)) {
            let none = tree::root_word(Ptr::NULL);
            Damaged::unless_equal("spare word of a table", at, none, view.word(at))?;
        }
        let count = self_checksummed::decode(view.word(self.header.add(COUNT)));
        let mut problem = None;
        let (mut members, mut timed) = (0, 0);
        visit(self.header);
        self.index().salvage_walk(view, |found| {
            let checked = match found {
                WalkItem::Damage(damaged) => Err(damaged),
                WalkItem::Block(at, len) => at_least("index block", at, len).map(|()| visit(at)),
                WalkItem::Entry(slot, near) => {
                    members += 1;
                    let member = Member::at(slot.entry());
                    check_member(view, member, &block_capacity).and_then(|()| {
                        let own = hash(&member.field(view));
                        if !near.fits(own) {
                            let (at, expected) = (member.ptr(), near.hash());
                            return Err(Damaged::new("slot of a member", at, expected, own));
                        }
                        timed += u64::from(member.time(view).is_some());
                        visit(member.ptr());
                        member.blobs(view, &mut visit);
                        Ok(())
                    })
                }
            };
            let sound = checked.is_ok();
            problem = problem.take().or(checked.err());
            sound && problem.is_none()
        });
        match problem {
            Some(damaged) => Err(damaged),
            None => {
                let at = self.header.add(COUNT);
                let count = count.unwrap_or(u64::MAX);
                Damaged::unless_equal("number of members", at, members, count).map(|()| timed)
            }
        }
    }

    /// Returns, for each sound member, a hash that leads to its slot. For a table whose hash key is
    /// lost.
    pub fn named_hashes<V: View>(
        self,
        view: &V,
        block_capacity: impl Fn(Ptr) -> usize,
    ) -> HashMap<Vec<u8>, u64> {
        let (mut named, mut seen) = (HashMap::new(), HashSet::new());
        self.index().salvage_walk(view, |found| {
            match found {
                WalkItem::Block(at, len) => return block_capacity(at) >= len && seen.insert(at),
                WalkItem::Entry(slot, near) => {
                    let member = Member::at(slot.entry());
                    if check_member(view, member, &block_capacity).is_ok() {
                        named.insert(member.field(view).into_owned(), near.hash());
                    }
                }
                WalkItem::Damage(_) => {}
            }
            true
        });
        named
    }

    /// Visits every block, sound or not.
    pub fn blocks<V: View>(self, view: &V, mut visit: impl FnMut(Ptr)) {
        visit(self.header);
        // A damaged index may lead to a block twice.
        let mut seen = HashSet::new();
        self.index().salvage_walk(view, |found| {
            match found {
                WalkItem::Block(at, _) if seen.insert(at) => visit(at),
                WalkItem::Block(..) => return false,
                WalkItem::Entry(slot, _) => {
                    let member = Member::at(slot.entry());
                    visit(member.ptr());
                    member.blobs(view, &mut visit);
                }
                WalkItem::Damage(_) => {}
            }
            true
        });
        self.ttl_index_blocks(view, &mut seen, &mut visit);
    }
}

/// Verifies a member; `block_capacity` says whether there is a block.
pub(crate) fn check_member<V: View>(
    view: &V,
    member: Member,
    block_capacity: &impl Fn(Ptr) -> usize,
) -> Result<(), Damaged> {
    let at = member.ptr();
    let capacity = block_capacity(at);
    // The lengths are read only if there is a block.
    if capacity < Member::LEAST || member.size(view) > capacity {
        return Err(Damaged::new("member", at, Member::LEAST as u64, capacity as u64));
    }
    member.check(view)
}
