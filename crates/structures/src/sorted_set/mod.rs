//! The large form of a sorted set: members with scores, found by name, and by position in the order
//! of scores.
//!
//! A [`Dict`] leads from a member to its score, and a counted [`Tree`] holds the members in the
//! order of (score, member): both refer to the same block of the member, whose value is the score.
//! So a lookup of a score reads a line of the index and the member; a lookup of a rank, or of the
//! member with a rank, is one descent of the tree. The tree's items are the score, as a number that
//! rises with it, and the member's place; if two scores are equal, the members' bytes decide, which
//! the tree's comparison reads in place.
//!
//! ```text
//! header:  as a table's; its spare word at 16 is the tree's root word   logged
//! member:  as a table's; its value are the eight bytes of the score
//! ```
//!
//! Invariants: index and tree refer to the same members; an item's first word is that of its
//! member's score; the number of members is the weight of the tree. Zero has one place in the
//! order, whatever its sign.

mod fill;
mod lifecycle;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use heap::{Full, Ptr, View};

pub use fill::AT_ONCE;

use crate::dict::{self, Dict, Member};
use crate::reclaim::Queue;
use crate::tree::{Cursor, Item, Kind, Tree};
use crate::{Damaged, Error, Store};

/// A sorted set, known by its header block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortedSet {
    dict: Dict,
}

/// A member that was found, with its score. Any change of the set invalidates it.
#[derive(Clone, Copy, Debug)]
pub struct FoundMember {
    place: dict::MemberSlot,
    /// Its score.
    pub score: f64,
}

/// Every item has the weight 1.
#[derive(Clone, Copy)]
struct ByScore;

impl Kind for ByScore {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

/// The number of members to prefetch ahead of the one that is read.
const PREFETCHED: usize = 4;
/// The number of members that are removed together.
const TOGETHER: usize = 16;
/// Maximum length of a member whose slots are prefetched.
const SHORT: usize = 256;

const SIGN: u64 = 1 << 63;

/// Returns a number that rises with the score; the same for both zeros.
fn order_of(score: f64) -> u64 {
    let bits = (score + 0.0).to_bits();
    if bits & SIGN == 0 { bits | SIGN } else { !bits }
}

/// Returns the score that has this number in the order.
fn score_at(order: u64) -> f64 {
    f64::from_bits(if order & SIGN == 0 { !order } else { order ^ SIGN })
}

fn item(member: Member, score: f64) -> Item {
    Item { first: order_of(score), second: member.ptr().raw() }
}

fn member_of(item: Item) -> Member {
    Member::at(Ptr::from_raw(item.second))
}

/// Returns the score in a member's block.
fn score_of<V: View>(view: &V, member: Member) -> Result<f64, Damaged> {
    score_in(member, &member.value(view))
}

/// Returns the score in the value of a member.
fn score_in(member: Member, value: &[u8]) -> Result<f64, Damaged> {
    let bytes = <[u8; 8]>::try_from(value);
    let len = value.len() as u64;
    bytes.map(f64::from_le_bytes).map_err(|_| Damaged::new("score", member.ptr(), 8, len))
}

/// Compares an item with a position in the order.
fn compare<V: View>(view: &V, item: Item, score: f64, member: &[u8]) -> Ordering {
    let by_score = item.first.cmp(&order_of(score));
    by_score.then_with(|| (*member_of(item).field(view)).cmp(member))
}

impl SortedSet {
    /// Returns the sorted set whose header is at `header`.
    pub const fn at(header: Ptr) -> SortedSet {
        SortedSet { dict: Dict::at(header) }
    }

    /// Returns the place of its header.
    pub const fn ptr(self) -> Ptr {
        self.dict.ptr()
    }

    /// Returns the table of its members by name.
    pub const fn dict(self) -> Dict {
        self.dict
    }

    const fn tree(self) -> Tree<ByScore> {
        Tree::at(self.dict.spare())
    }

    /// Creates an empty sorted set.
    pub fn create<S: Store>(store: &mut S) -> Result<SortedSet, Full> {
        Ok(SortedSet { dict: Dict::create(store)? })
    }

    /// Returns the number of its members; 0 if the number is damaged.
    pub fn len<V: View>(self, view: &V) -> u64 {
        self.dict.len(view)
    }

    /// Returns true if it has no members.
    pub fn is_empty<V: View>(self, view: &V) -> bool {
        self.len(view) == 0
    }

    /// Returns the member with this name, which has this hash. With `verify`, verifies every member
    /// that it reads.
    pub fn find<V: View>(
        self,
        view: &V,
        hash: u64,
        member: &[u8],
        verify: bool,
    ) -> Result<Option<FoundMember>, Damaged> {
        let Some(place) = self.dict.find(view, hash, member, verify)? else { return Ok(None) };
        Ok(Some(FoundMember { place, score: score_of(view, place.member())? }))
    }

    /// Returns a cursor before the first item that is not before this position.
    fn seek<V: View>(self, view: &V, score: f64, member: &[u8]) -> Cursor {
        let order = order_of(score);
        let by_score = |first: u64| (first != order).then_some(first < order);
        let before = |item| compare(view, item, score, member) == Ordering::Less;
        self.tree().seek_by(view, by_score, before)
    }

    /// Returns the place in the tree of a member that was found; an error if the tree does not have
    /// it.
    fn place<V: View>(
        self,
        view: &V,
        found: &FoundMember,
        member: &[u8],
    ) -> Result<Cursor, Damaged> {
        let at = self.seek(view, found.score, member);
        let own = found.place.member().ptr();
        match at.item(view) {
            Some(item) if item.second == own.raw() => Ok(at),
            item => {
                let other = item.map_or(0, |item| item.second);
                Err(Damaged::new("place of a member", own, own.raw(), other))
            }
        }
    }

    /// Returns the rank of a member that was found.
    pub fn rank<V: View>(
        self,
        view: &V,
        found: &FoundMember,
        member: &[u8],
    ) -> Result<u64, Damaged> {
        Ok(self.tree().rank(view, &self.place(view, found, member)?))
    }

    /// Returns how many members are before the first one for which `before` is false. `before` must
    /// be true up to some position, and false after it.
    pub fn count_before<V: View>(
        self,
        view: &V,
        mut before: impl FnMut(f64, Member) -> bool,
    ) -> Result<u64, Damaged> {
        let is_before = |item: Item| before(score_at(item.first), member_of(item));
        let at = self.tree().seek(view, is_before);
        let (rank, len) = (self.tree().rank(view, &at), self.len(view));
        let leads = at.item(view).is_some() || at.is_at_end() && rank == len;
        if leads && rank <= len { Ok(rank) } else { Err(self.no_way(view)) }
    }

    /// Returns the error of a tree that does not lead to a member that should be there.
    fn no_way<V: View>(self, view: &V) -> Damaged {
        let found = self.tree().weight(view);
        Damaged::new("members in a tree", self.ptr(), self.len(view), found)
    }

    /// Returns the cursor before the member of rank `rank`, which must be below the number of
    /// members.
    fn at_rank<V: View>(self, view: &V, rank: u64, verify: bool) -> Result<Cursor, Damaged> {
        let tree = self.tree();
        let found =
            if verify { tree.seek_weight_sound(view, rank)? } else { tree.seek_weight(view, rank) };
        Ok(found.0)
    }

    /// Shows members with their scores from rank `rank` on, counted from the lowest, upwards or
    /// downwards, until `visit` returns `false`. With `verify`, each is verified, and so is the
    /// path to the first. It is an error if the tree has fewer members than it should; it never
    /// shows more.
    pub fn visit<V: View>(
        self,
        view: &V,
        rank: u64,
        backwards: bool,
        verify: bool,
        mut visit: impl FnMut(&[u8], f64) -> bool,
    ) -> Result<(), Damaged> {
        let len = self.len(view);
        if rank >= len {
            return Ok(());
        }
        let mut left = if backwards { rank + 1 } else { len - rank };
        let mut at = self.at_rank(view, rank, verify)?;
        loop {
            let Some(item) = at.item(view) else { return Err(self.no_way(view)) };
            // Members are scattered: one that will be read soon is prefetched.
            if let Some(soon) = at.nearby_item(view, PREFETCHED, backwards) {
                member_of(soon).prefetch(view);
            }
            let (member, score) = read_item(view, item, verify)?;
            left -= 1;
            if !visit(&member, score) || left == 0 {
                return Ok(());
            }
            let moved = if backwards { at.prev(view) } else { at.next(view) };
            if !moved {
                return Err(self.no_way(view));
            }
        }
    }

    /// Adds a member that the caller knows to be absent. `hash` returns the hash of any member.
    pub fn insert<S: Store>(
        self,
        store: &mut S,
        hash: impl Fn(&[u8]) -> u64,
        member: &[u8],
        score: f64,
    ) -> Result<(), Full> {
        let at = self.seek(store, score, member);
        let new = self.dict.insert(store, hash, member, &score.to_le_bytes(), None)?;
        self.tree().insert(store, &at, item(new, score))
    }

    /// Changes the score of a member that was found.
    pub fn update<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        found: FoundMember,
        member: &[u8],
        score: f64,
    ) -> Result<(), Error> {
        let at = self.place(store, &found, member)?;
        let stays = self.stays(store, &at, score, member);
        if !stays {
            self.tree().remove(store, &at);
        }
        let to = if stays { at } else { self.seek(store, score, member) };
        let bytes = score.to_le_bytes();
        let new = item(self.dict.replace(store, queue, found.place, member, &bytes, None)?, score);
        if stays {
            self.tree().replace(store, &to, new);
        } else {
            self.tree().insert(store, &to, new)?;
        }
        Ok(())
    }

    /// Returns true if the item at a cursor would keep its neighbours with another score.
    fn stays<V: View>(self, view: &V, at: &Cursor, score: f64, member: &[u8]) -> bool {
        let (mut before, mut after) = (*at, *at);
        let follows = !before.prev(view)
            || before
                .item(view)
                .is_none_or(|item| compare(view, item, score, member) == Ordering::Less);
        let precedes = !after.next(view)
            || after
                .item(view)
                .is_none_or(|item| compare(view, item, score, member) == Ordering::Greater);
        follows && precedes
    }

    /// Removes a member that was found.
    pub fn remove<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        found: FoundMember,
        member: &[u8],
    ) -> Result<(), Error> {
        let at = self.place(store, &found, member)?;
        self.tree().remove(store, &at);
        self.dict.remove(store, queue, found.place)?;
        Ok(())
    }

    /// Removes the members at these ranks, as far as there are any, and shows each with its score.
    /// With `verify`, each is verified, and so is the path to them.
    pub fn remove_range<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        hash: impl Fn(&[u8]) -> u64,
        ranks: Range<u64>,
        verify: bool,
        mut take: impl FnMut(&[u8], f64),
    ) -> Result<u64, Error> {
        let (rank, count) = (ranks.start, ranks.end.saturating_sub(ranks.start));
        let mut removed = 0;
        while removed < count {
            let at = self.at_rank(store, rank, verify)?;
            let most = usize::try_from(count - removed).unwrap_or(usize::MAX);
            let mut items = Vec::new();
            if count == 1 {
                self.prefetch_next(store, &hash, &at, rank > 0);
            }
            if self.tree().remove_run(store, &at, most, |item| items.push(item)) == 0 {
                break;
            }
            removed += items.len() as u64;
            for items in items.chunks(TOGETHER) {
                self.remove_members(store, queue, &hash, items, verify, &mut take)?;
            }
        }
        Ok(removed)
    }

    /// Removes members that the tree does not have any more, at most [`TOGETHER`], after `take` has
    /// seen each with its score. What that will read is prefetched for all before.
    fn remove_members<S: Store>(
        self,
        store: &mut S,
        queue: Queue,
        hash: impl Fn(&[u8]) -> u64,
        items: &[Item],
        verify: bool,
        mut take: impl FnMut(&[u8], f64),
    ) -> Result<(), Error> {
        if items.len() > 1 {
            items.iter().for_each(|item| member_of(*item).prefetch(store));
        }
        let mut hashes = [0; TOGETHER];
        for (item, own) in items.iter().zip(&mut hashes) {
            *own = hash(&member_of(*item).field(store));
            if items.len() > 1 {
                self.dict.prefetch_bucket(store, *own);
                store.expect_free(member_of(*item).ptr());
            }
        }
        for (&item, own) in items.iter().zip(hashes) {
            let member = member_of(item);
            let (field, score) = read_item(store, item, verify)?;
            take(&field, score);
            let missing = Damaged::new("slot of a member", self.ptr(), item.second, 0);
            let place = self.dict.find_member(store, own, member).ok_or(missing)?;
            self.dict.remove(store, queue, place)?;
        }
        Ok(())
    }

    /// Prefetches what removing the next members will read, as a queue has them removed one by one:
    /// a member some places ahead, and the slots of a nearer one, which has arrived meanwhile.
    #[inline]
    fn prefetch_next<S: Store>(
        self,
        view: &S,
        hash: impl Fn(&[u8]) -> u64,
        at: &Cursor,
        backwards: bool,
    ) {
        if let Some(later) = at.nearby_item(view, 2 * PREFETCHED, backwards) {
            member_of(later).prefetch(view);
        }
        if let Some(soon) = at.nearby_item(view, PREFETCHED, backwards) {
            let field = member_of(soon).field(view);
            // To hash a longer one takes longer than a miss.
            if field.len() <= SHORT {
                self.dict.prefetch_bucket(view, hash(&field));
            }
            view.expect_free(member_of(soon).ptr());
        }
    }
}

/// Verifies the member of an item, and that both have the same score.
fn check_item<V: View>(view: &V, item: Item) -> Result<(), Damaged> {
    read_item(view, item, true).map(drop)
}

/// Returns the member of an item and its score; with `verify`, verifies both, and that they have
/// the same score.
fn read_item<V: View>(view: &V, item: Item, verify: bool) -> Result<(Cow<'_, [u8]>, f64), Damaged> {
    let member = member_of(item);
    if !verify {
        return Ok((member.field(view), score_of(view, member)?));
    }
    let (field, value) = member.read_checked(view)?;
    let score = score_in(member, &value)?;
    Damaged::unless_equal("score of a tree's item", member.ptr(), order_of(score), item.first)?;
    Ok((field, score))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_scores_is_that_of_their_numbers() {
        let scores = [f64::NEG_INFINITY, f64::MIN, -1.5, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0];
        let orders = scores.map(order_of);
        assert!(orders.is_sorted() && orders.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(order_of(-0.0), order_of(0.0));
        assert!(scores.iter().all(|&score| score_at(order_of(score)) == score));
        assert_eq!(score_at(order_of(f64::INFINITY)), f64::INFINITY);
    }
}
