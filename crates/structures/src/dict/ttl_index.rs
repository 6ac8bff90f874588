//! Members with a time, in the order of their times.
//!
//! A time is a number that the caller gives a member, and only the caller knows what it means. It
//! is stored in the member's block. In addition to the index, a counted [`Tree`] holds the members
//! that have a time, in the order of (time, place of the block). So the earliest are found without
//! reading the others, and one descent counts the members with a time up to a limit. A table
//! without any time has no tree, and no extra cost.
//!
//! ```text
//! header:           its spare word at 24 is the tree's root word    logged
//! item of the tree: the time; the place of the member
//! ```
//!
//! Invariant: the items are the members that have a time, each with its time.

use std::collections::HashSet;

use heap::{Full, Ptr, View};

use super::{Dict, Member, MemberSlot, SPARE, check_member};
use crate::tree::{self, Item, Kind, Tree};
use crate::{Damaged, Error, Store};

/// Set in a cursor of [`Dict::defragment`] and [`Dict::check_step`] that is a position in the tree;
/// the others are cursors of the index.
const IN_TREE: u64 = 1 << 63;
const _: () = assert!(crate::index::CURSOR_BITS < 63);

/// About how many bytes a tree takes for each item.
const TREE_COST: u64 = 24;

/// Every item has the weight 1.
#[derive(Clone, Copy)]
pub(super) struct ByTime;

impl Kind for ByTime {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

fn item(member: Member, time: u64) -> Item {
    Item { first: time, second: member.ptr().raw() }
}

fn member_of(item: Item) -> Member {
    Member::at(Ptr::from_raw(item.second))
}

fn order(item: Item) -> (u64, u64) {
    (item.first, item.second)
}

impl Dict {
    const fn ttl_index(self) -> Tree<ByTime> {
        Tree::at(self.header.add(SPARE[1]))
    }

    /// Returns true if any member has a time.
    #[inline]
    pub fn has_ttls<V: View>(self, view: &V) -> bool {
        !self.ttl_index().is_empty(view)
    }

    /// Returns the number of members with a time.
    pub fn timed_len<V: View>(self, view: &V) -> u64 {
        self.ttl_index().weight(view)
    }

    /// Returns the number of members with a time of at most `time`.
    pub fn count_until<V: View>(self, view: &V, time: u64) -> u64 {
        let at = self.ttl_index().seek(view, |item| item.first <= time);
        self.ttl_index().rank(view, &at)
    }

    /// Returns the earliest time.
    pub fn first_time<V: View>(self, view: &V) -> Option<u64> {
        self.ttl_index().begin(view).item(view).map(|item| item.first)
    }

    /// Returns true if every member has a time of at most `time`. Returns false if that cannot be
    /// decided because of damage.
    pub fn all_fields_expired<V: View>(self, view: &V, time: u64) -> bool {
        let mut end = self.ttl_index().end(view);
        let last = if end.prev(view) { end.item(view) } else { None };
        let Some(last) = last.filter(|last| last.first <= time) else { return false };
        self.has_sound_len(view)
            && self.ttl_index().weight_sound(view).is_ok_and(|timed| timed == self.len(view))
            && self.ttl_index().is_leaf_sound(view, &end)
            && check_item(view, last).is_ok()
    }

    /// Returns the fields of at most `most` members with a time of at most `time`, the earliest
    /// first.
    pub fn until<V: View>(self, view: &V, time: u64, most: usize) -> Result<Vec<Vec<u8>>, Damaged> {
        let (mut fields, mut at) = (Vec::new(), self.ttl_index().begin(view));
        while let Some(item) =
            at.item(view).filter(|item| item.first <= time && fields.len() < most)
        {
            check_item(view, item)?;
            fields.push(member_of(item).field(view).into_owned());
            if !at.next(view) {
                break;
            }
        }
        Ok(fields)
    }

    /// Gives the member at this place this time, or none.
    pub fn set_time<S: Store>(
        self,
        store: &mut S,
        place: MemberSlot,
        time: Option<u64>,
    ) -> Result<(), Error> {
        self.remove_from_ttl_index(store, place.member());
        let member = place.member().retime(store, time)?;
        self.index().replace(store, place.slot, member.ptr());
        match time {
            Some(time) => Ok(self.add_to_ttl_index(store, member, time)?),
            None => Ok(()),
        }
    }

    pub(super) fn add_to_ttl_index<S: Store>(
        self,
        store: &mut S,
        member: Member,
        time: u64,
    ) -> Result<(), Full> {
        let new = item(member, time);
        let at = self.ttl_index().seek(store, |item| order(item) < order(new));
        self.ttl_index().insert(store, &at, new)
    }

    /// Removes a member from the tree, if it has a time. (In a damaged tree the item may stay: code
    /// that follows an item verifies it.)
    #[inline]
    pub(super) fn remove_from_ttl_index<S: Store>(self, store: &mut S, member: Member) {
        let Some(time) = member.time(store) else { return };
        let old = item(member, time);
        let at = self.ttl_index().seek(store, |item| order(item) < order(old));
        if at.item(store) == Some(old) {
            self.ttl_index().remove(store, &at);
        }
    }

    /// Takes a step of defragmentation: first the index with its members, about `count` at a time,
    /// then the tree, leaf by leaf. Returns where to continue (0: at the end); calls `moved` for
    /// each member that moved.
    pub fn defragment<S: Store>(
        self,
        store: &mut S,
        cursor: u64,
        count: usize,
        mut moved: impl FnMut(),
    ) -> Result<u64, Full> {
        if cursor & IN_TREE != 0 {
            let next = self.ttl_index().relocate(store, cursor ^ IN_TREE, |_, _| Ok(None))?;
            return Ok(if next == 0 { 0 } else { next | IN_TREE });
        }
        let next = self.defragment_with(store, cursor, count, |store, member| {
            let new = self.relocate_member(store, member)?;
            if new.is_some() {
                moved();
            }
            Ok(new)
        })?;
        Ok(if next == 0 && self.has_ttls(store) { IN_TREE } else { next })
    }

    /// Moves a member out of a sparse span, and updates the tree.
    fn relocate_member<S: Store>(
        self,
        store: &mut S,
        member: Member,
    ) -> Result<Option<Member>, Full> {
        let Some(time) = member.time(store) else { return member.relocate(store) };
        let old = item(member, time);
        let at = self.ttl_index().seek(store, |item| order(item) < order(old));
        // A damaged member stays where it is.
        if at.item(store) != Some(old) {
            return Ok(None);
        }
        let Some(new) = member.relocate(store)? else { return Ok(None) };
        self.ttl_index().remove(store, &at);
        self.add_to_ttl_index(store, new, time)?;
        Ok(Some(new))
    }

    /// Verifies about `count` members at a time, then leaf by leaf the tree with the slots that
    /// lead to its members; returns where to continue (0: at the end), and how many bytes were
    /// read.
    pub fn check_step<V: View>(
        self,
        view: &V,
        cursor: u64,
        count: usize,
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<(u64, u64), Damaged> {
        let (mut bytes, mut damaged) = (0, Ok(()));
        if cursor & IN_TREE == 0 {
            let next = self.scan(view, cursor, count, |member| {
                bytes += member.size(view) as u64;
                if damaged.is_ok() {
                    damaged = member.check(view);
                }
            });
            self.index().check_step(view, cursor, next)?;
            let next = if next == 0 && self.has_ttls(view) { IN_TREE } else { next };
            return damaged.map(|()| (next, bytes));
        }
        let mut items = Vec::new();
        let next = self.ttl_index().check_leaf(view, cursor ^ IN_TREE, |item| items.push(item))?;
        for item in items {
            check_item(view, item)?;
            self.check_slot(view, item, &hash)?;
            bytes += member_of(item).size(view) as u64;
        }
        Ok((if next == 0 { 0 } else { next | IN_TREE }, bytes))
    }

    /// Verifies that the index leads to the member of an item.
    fn check_slot<V: View>(
        self,
        view: &V,
        item: Item,
        hash: &impl Fn(&[u8]) -> u64,
    ) -> Result<(), Damaged> {
        let member = member_of(item);
        let field = member.field(view);
        let found = self.find(view, hash(&field), &field, false)?;
        let found = found.map_or(0, |place| place.member().ptr().raw());
        Damaged::unless_equal("slot of a member", member.ptr(), member.ptr().raw(), found)
    }

    /// Verifies everything, and shows each block once it is verified, so that on `Ok` all of them
    /// were shown.
    ///
    /// `block_capacity` returns the size in bytes of the block that begins at a place, or 0 if none
    /// does. It is called before a block is read.
    pub fn check<V: View>(
        self,
        view: &V,
        hash: impl Fn(&[u8]) -> u64,
        block_capacity: impl Fn(Ptr) -> usize,
        mut visit: impl FnMut(Ptr),
    ) -> Result<(), Damaged> {
        let timed = self.check_with(view, &SPARE[..1], &hash, &block_capacity, &mut visit)?;
        let (mut seen, mut last, mut count) = (HashSet::new(), None, 0);
        let mut first = Ok(());
        self.ttl_index().salvage_walk(view, |found| match found {
            tree::WalkItem::Block(at, size) => {
                let sound = block_capacity(at) >= size && seen.insert(at);
                if sound {
                    visit(at);
                }
                sound
            }
            tree::WalkItem::Damage(damage) => {
                first = first.and(Err(damage));
                true
            }
            tree::WalkItem::Item(item) => {
                count += 1;
                if first.is_ok() {
                    first = check_member(view, member_of(item), &block_capacity)
                        .and_then(|()| check_item(view, item))
                        .and_then(|()| self.check_slot(view, item, &hash))
                        .and_then(|()| {
                            let rises = last.is_none_or(|last| order(last) < order(item));
                            let at = member_of(item).ptr();
                            Damaged::unless_equal("order of times", at, 1, u64::from(rises))
                        });
                }
                last = Some(item);
                true
            }
        });
        first?;
        Damaged::unless_equal("members with a time", self.ptr(), timed, count)
    }

    /// Visits the blocks of the tree that have not been seen.
    pub(super) fn ttl_index_blocks<V: View>(
        self,
        view: &V,
        seen: &mut HashSet<Ptr>,
        visit: &mut impl FnMut(Ptr),
    ) {
        self.ttl_index().salvage_walk_blocks(view, seen, visit);
    }

    /// Returns about how many bytes the tree takes.
    pub fn ttl_index_cost<V: View>(self, view: &V) -> u64 {
        self.timed_len(view) * TREE_COST
    }
}

/// Verifies the member of an item, and that both have the same time.
fn check_item<V: View>(view: &V, item: Item) -> Result<(), Damaged> {
    let member = member_of(item);
    member.check(view)?;
    let own = member.time(view).unwrap_or(0);
    Damaged::unless_equal("time of a tree's item", member.ptr(), own, item.first)
}
