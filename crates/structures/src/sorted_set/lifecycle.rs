//! Operations on a sorted set as a whole: freeing, moving, verifying, showing its blocks.

use std::collections::HashSet;

use heap::{Full, Ptr, View};

use super::{SortedSet, check_item, member_of};
use crate::dict::{Member, SPARE, check_member};
use crate::reclaim::Queue;
use crate::tree::{self, Item};
use crate::{Damaged, Store};

/// Set in a cursor of [`SortedSet::defragment`] that is a rank in the tree; the others are cursors
/// of the index.
const IN_TREE: u64 = 1 << 63;
const _: () = assert!(crate::index::CURSOR_BITS < 63);

/// About how many bytes a tree takes for each item.
const TREE_COST: u64 = 24;

impl SortedSet {
    /// Frees the header and pushes all else onto the free queue, which passes `members` when it
    /// frees the members; the tree owns nothing that its items refer to.
    pub fn release<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        members: u16,
        tree: u16,
    ) -> Result<(), Full> {
        if self.dict.has_sound_len(store) {
            let root = store.word(self.dict.spare());
            queue.push_unlinked_tree(store, root, tree)?;
        }
        self.dict.release(store, queue, members, tree)
    }

    /// Moves the header out of a sparse span; `None` if it stays.
    pub fn relocate<S: Store>(self, store: &mut S) -> Result<Option<SortedSet>, Full> {
        Ok(self.dict.relocate(store)?.map(|dict| SortedSet { dict }))
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
            let next = self.tree().relocate(store, cursor ^ IN_TREE, |_, _| Ok(None))?;
            return Ok(if next == 0 { 0 } else { next | IN_TREE });
        }
        let next = self.dict.defragment_with(store, cursor, count, |store, member| {
            let new = self.relocate_member(store, member)?;
            if new.is_some() {
                moved();
            }
            Ok(new)
        })?;
        Ok(if next == 0 { IN_TREE } else { next })
    }

    /// Moves a member out of a sparse span, and updates the tree.
    fn relocate_member<S: Store>(
        self,
        store: &mut S,
        member: Member,
    ) -> Result<Option<Member>, Full> {
        // A damaged member stays where it is.
        let Ok(score) = super::score_of(store, member) else { return Ok(None) };
        let at = self.seek(store, score, &member.field(store));
        if at.item(store).is_none_or(|item| item.second != member.ptr().raw()) {
            return Ok(None);
        }
        let Some(new) = member.relocate(store)? else { return Ok(None) };
        self.tree().replace(store, &at, super::item(new, score));
        Ok(Some(new))
    }

    /// Verifies the leaf of the tree that contains number `rank` of the members, with its members
    /// and the slots that lead to them; returns the number to continue with (0: at the end), and
    /// how many bytes were read.
    pub fn check_leaf<V: View>(
        self,
        view: &V,
        rank: u64,
        hash: impl Fn(&[u8]) -> u64,
    ) -> Result<(u64, u64), Damaged> {
        let mut items = Vec::new();
        let next = self.tree().check_leaf(view, rank, |item| items.push(item))?;
        let mut bytes = 0;
        for item in items {
            check_item(view, item)?;
            self.check_slot(view, item, &hash)?;
            bytes += member_of(item).size(view) as u64;
        }
        if next == 0 {
            let found = self.tree().weight(view);
            Damaged::unless_equal("members in a tree", self.ptr(), self.len(view), found)?;
        }
        Ok((next, bytes))
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
        let found = self.dict.find(view, hash(&field), &field, false)?;
        let found = found.map_or(0, |place| place.member().ptr().raw());
        Damaged::unless_equal("slot of a member", member.ptr(), member.ptr().raw(), found)
    }

    /// Verifies everything, like the check of a table.
    pub fn check<V: View>(
        self,
        view: &V,
        hash: impl Fn(&[u8]) -> u64,
        block_capacity: impl Fn(Ptr) -> usize,
    ) -> Result<(), Damaged> {
        self.dict.check_with(view, &SPARE[1..], &hash, &block_capacity, |_| {})?;
        let (mut seen, mut last, mut count) = (HashSet::new(), None, 0);
        let mut first = Ok(());
        self.tree().salvage_walk(view, |found| match found {
            tree::WalkItem::Block(at, size) => seen.insert(at) && block_capacity(at) >= size,
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
                        .and_then(|()| check_order(view, last, item));
                }
                last = Some(item);
                true
            }
        });
        first?;
        Damaged::unless_equal("members in a tree", self.ptr(), self.len(view), count)
    }

    /// Visits every block, sound or not.
    pub fn blocks<V: View>(self, view: &V, mut visit: impl FnMut(Ptr)) {
        self.dict.blocks(view, &mut visit);
        // A damaged tree may lead to a block twice.
        let mut seen = HashSet::new();
        self.tree().salvage_walk_blocks(view, &mut seen, &mut visit);
    }

    /// Returns about how many bytes its tree takes.
    pub fn tree_cost<V: View>(self, view: &V) -> u64 {
        self.len(view) * TREE_COST
    }
}

/// Verifies that an item is after the previous one.
fn check_order<V: View>(view: &V, last: Option<Item>, item: Item) -> Result<(), Damaged> {
    let member = member_of(item);
    let rises = last.is_none_or(|last| {
        let score = super::score_at(item.first);
        super::compare(view, last, score, &member.field(view)) == std::cmp::Ordering::Less
    });
    Damaged::unless_equal("order of members", member.ptr(), 1, u64::from(rises))
}
