//! Operations on a collection as a whole, whatever its type.

use std::collections::{HashMap, HashSet};

use heap::{Full, Ptr, Shard, View};
use structures::blob::Blob;
use structures::dict::Dict;
use structures::list::{self, Element, List, Side};
use structures::listpack::{self, Items};
use structures::reclaim::Queue;
use structures::sorted_set::SortedSet;
use structures::stream::Stream;
use structures::{Damaged, Store};

use super::text::Text;
use super::{Head, Layout, scores, streams};
use crate::key::Hashing;
use crate::layout::{OWNER_LIST, OWNER_MEMBERS, OWNER_RANKS, STREAM_OWNERS};
use crate::types::Type;

/// About how many bytes of an index each entry takes.
pub(crate) const INDEX_COST: u64 = 14;

/// The information that a full verification needs.
#[derive(Clone, Copy)]
pub(crate) struct Deep<'a> {
    /// The hash that determines the places of members; `None` if its key is lost: then members are
    /// accepted where they are.
    pub(crate) hashing: Option<&'a Hashing>,
    /// Returns how many bytes the block that begins at a place holds; 0 if no block begins there.
    pub(crate) block_capacity: &'a dyn Fn(Ptr) -> usize,
}

impl<'a> Deep<'a> {
    /// Returns a function from the members of a table to their hashes: those that their slots
    /// imply, if the hash key is lost.
    fn hash<V: View>(self, view: &V, table: Dict) -> impl Fn(&[u8]) -> u64 + use<'a, V> {
        let hashes = match self.hashing {
            Some(_) => HashMap::new(),
            None => table.named_hashes(view, self.block_capacity),
        };
        move |field| match self.hashing {
            Some(hashing) => hashing.hash(field),
            None => hashes.get(field).copied().unwrap_or(0),
        }
    }
}

pub(super) fn dict(word: u64) -> Dict {
    Dict::at(Ptr::from_raw(word))
}

pub(super) fn sorted_set(word: u64) -> SortedSet {
    SortedSet::at(Ptr::from_raw(word))
}

/// Visits its blocks.
pub(crate) fn blocks<V: View>(view: &V, head: Head, word: u64, visit: impl FnMut(Ptr)) {
    match head.layout {
        Layout::Listpack | Layout::ListpackWithTtls => Blob::from_word(word).blocks(view, visit),
        Layout::HashTable => dict(word).blocks(view, visit),
        Layout::List => List::from_word(word).blocks(view, visit),
        Layout::SortedSet => sorted_set(word).blocks(view, visit),
        Layout::Stream => Stream::blocks(view, word, visit),
    }
}

/// Frees it: at once if it is one block, otherwise through the free queue.
pub(crate) fn release<S: Store>(
    store: &mut S,
    queue: Queue,
    head: Head,
    word: u64,
) -> Result<(), Full> {
    match head.layout {
        Layout::Listpack | Layout::ListpackWithTtls => {
            queue.release_blob(store, Blob::from_word(word)).map(|_| ())
        }
        Layout::HashTable => dict(word).release(store, queue, OWNER_MEMBERS, OWNER_RANKS),
        Layout::List => List::from_word(word).release(store, queue, OWNER_LIST),
        Layout::SortedSet => sorted_set(word).release(store, queue, OWNER_MEMBERS, OWNER_RANKS),
        Layout::Stream => Stream::release(store, queue, word, STREAM_OWNERS),
    }
}

/// Moves the block to which the cell leads, and the first node of a list or stream, out of sparse
/// spans; returns the cell's new word if it changes.
pub(crate) fn relocate<S: Store>(
    store: &mut S,
    head: Head,
    word: u64,
) -> Result<Option<u64>, Full> {
    match head.layout {
        Layout::Listpack | Layout::ListpackWithTtls => {
            Ok(Blob::from_word(word).relocate(store)?.map(Blob::word))
        }
        Layout::HashTable => Ok(dict(word).relocate(store)?.map(|dict| dict.ptr().raw())),
        Layout::List => Ok(relocate_list(store, List::from_word(word), 0)?.0.map(List::word)),
        Layout::SortedSet => {
            Ok(sorted_set(word).relocate(store)?.map(|sorted_set| sorted_set.ptr().raw()))
        }
        Layout::Stream => Ok(streams::relocate(store, word, 0)?.0),
    }
}

/// Verifies it. Without `deep`, skips tables, sorted sets, and long lists and streams.
pub(crate) fn check<V: View>(
    view: &V,
    head: Head,
    word: u64,
    deep: Option<Deep<'_>>,
) -> Result<(), Damaged> {
    match head.layout {
        Layout::Listpack | Layout::ListpackWithTtls => {
            let blob = Blob::from_word(word);
            let at = Ptr::from_raw(word);
            if blob.is_large() {
                return Err(Damaged::new("packed collection", at, word & !1, word));
            }
            blob.check(view)?;
            let bytes = blob.to_vec(view)?;
            let items = head.count as usize * head.items();
            if items == 0 || !listpack::is_whole(&bytes, items) {
                let found = Items::of(&bytes).count() as u64;
                return Err(Damaged::new("packed collection", at, items as u64, found));
            }
            Ok(())
        }
        Layout::HashTable => match deep {
            None => Ok(()),
            Some(deep) => {
                let hash = deep.hash(view, dict(word));
                dict(word).check(view, hash, deep.block_capacity, |_| {})
            }
        },
        Layout::List => match (List::from_word(word), deep) {
            (list, None) if list.is_long() => Ok(()),
            (list, None) => list.check(view),
            (list, Some(Deep { block_capacity, .. })) => check_list(view, list, block_capacity),
        },
        Layout::SortedSet => match deep {
            None => Ok(()),
            Some(deep) => {
                let hash = deep.hash(view, sorted_set(word).dict());
                sorted_set(word).check(view, hash, deep.block_capacity)
            }
        },
        Layout::Stream => match deep {
            None => streams::check_short(view, word),
            Some(Deep { block_capacity, .. }) => streams::check(view, word, block_capacity),
        },
    }
}

/// Returns how many bytes of the heap it takes; for a table or a sorted set, an estimate from a
/// sample of its members.
pub(crate) fn memory(shard: &Shard<'_>, head: Head, word: u64) -> u64 {
    match head.layout {
        Layout::Listpack | Layout::ListpackWithTtls | Layout::List | Layout::Stream => {
            let mut bytes = 0;
            blocks(shard, head, word, |at| bytes += shard.capacity(at) as u64);
            bytes
        }
        Layout::SortedSet => {
            sorted_set(word).tree_cost(shard) + dict_memory(shard, sorted_set(word).dict())
        }
        Layout::HashTable => dict_memory(shard, dict(word)) + dict(word).ttl_index_cost(shard),
    }
}

fn dict_memory(shard: &Shard<'_>, dict: Dict) -> u64 {
    const SAMPLES: usize = 32;
    let (mut seen, mut bytes) = (0, 0);
    dict.scan(shard, 0, SAMPLES, |member| {
        seen += 1;
        bytes += shard.capacity(member.ptr()) as u64;
        member.blobs(shard, |at| bytes += shard.capacity(at) as u64);
    });
    let all = dict.len(shard);
    let members = (u128::from(bytes) * u128::from(all) / seen.max(1)) as u64;
    shard.capacity(dict.ptr()) as u64 + members + all * INDEX_COST
}

/// Visits about `count` elements from `cursor` on, item by item, and all elements of a packed
/// collection; returns where to continue (0: at the end). A score comes before its member, as in
/// ZADD, and lower scores come first.
pub(crate) fn pieces<V: View>(
    view: &V,
    head: Head,
    word: u64,
    cursor: u64,
    count: usize,
    mut visit: impl FnMut(&[u8]),
) -> u64 {
    match head.layout {
        Layout::Listpack if head.what == Type::SortedSet => {
            let bytes = Blob::from_word(word).to_vec(view).unwrap_or_default();
            for pair in scores::pairs(&bytes) {
                visit(scores::score_text(pair.score).as_bytes());
                visit(Text::of(pair.member).as_ref());
            }
            0
        }
        Layout::Listpack => {
            let bytes = Blob::from_word(word).to_vec(view).unwrap_or_default();
            Items::of(&bytes).for_each(|(_, item)| visit(Text::of(item).as_ref()));
            0
        }
        Layout::ListpackWithTtls => {
            let bytes = Blob::from_word(word).to_vec(view).unwrap_or_default();
            for (number, (_, item)) in Items::of(&bytes).enumerate() {
                if number % 3 < 2 {
                    visit(Text::of(item).as_ref());
                }
            }
            0
        }
        Layout::HashTable => dict(word).scan(view, cursor, count, |member| {
            visit(&member.field(view));
            if head.items() == 2 {
                visit(&member.value(view));
            }
        }),
        Layout::List => list_pieces(view, List::from_word(word), cursor, count, visit),
        Layout::SortedSet => sorted_set_pieces(view, sorted_set(word), cursor, count, visit),
        // A stream has parts of several kinds: `crate::streams::parts`.
        Layout::Stream => 0,
    }
}

/// Takes a step of defragmenting a list. Returns the list if its word changes, and the element to
/// continue with (0: at the end). If the list is damaged, nothing moves.
pub(crate) fn relocate_list<S: Store>(
    store: &mut S,
    list: List,
    index: u64,
) -> Result<(Option<List>, u64), Full> {
    match list.relocate(store, index) {
        Ok(done) => Ok(done),
        Err(list::Error::Full(full)) => Err(full),
        Err(list::Error::Damaged(_)) => Ok((None, 0)),
    }
}

/// Verifies a list that may be damaged: reads only blocks that exist, and each of them once.
fn check_list<V: View>(
    view: &V,
    list: List,
    block_capacity: &dyn Fn(Ptr) -> usize,
) -> Result<(), Damaged> {
    let (mut seen, mut first) = (HashSet::new(), Ok(()));
    list.salvage_walk(view, |found| match found {
        list::WalkItem::Block(at, size) => seen.insert(at) && block_capacity(at) >= size,
        list::WalkItem::Damage(damage) => {
            first = first.and(Err(damage));
            true
        }
    });
    first
}

/// Like [`pieces`]; the cursor is the number of an element.
fn list_pieces<V: View>(
    view: &V,
    list: List,
    cursor: u64,
    count: usize,
    mut visit: impl FnMut(&[u8]),
) -> u64 {
    let mut shown = 0;
    let show = |element: Element<'_>| {
        match element {
            Element::Item(item) => visit(Text::of(item).as_ref()),
            Element::Blob(blob) => visit(&blob.to_vec(view).unwrap_or_default()),
        }
        shown += 1;
        shown < count
    };
    // A damaged list ends at the damage, which a verification reports.
    list.visit(view, cursor, Side::Head, false, show).ok();
    let next = cursor + shown as u64;
    if shown == count && list.len(view).is_ok_and(|len| next < len) { next } else { 0 }
}

/// Like [`pieces`]; the cursor is a rank.
fn sorted_set_pieces<V: View>(
    view: &V,
    sorted_set: SortedSet,
    cursor: u64,
    count: usize,
    mut visit: impl FnMut(&[u8]),
) -> u64 {
    let mut shown = 0;
    let show = |member: &[u8], score: f64| {
        visit(scores::score_text(score).as_bytes());
        visit(member);
        shown += 1;
        shown < count
    };
    // A damaged set ends at the damage, which a verification reports.
    sorted_set.visit(view, cursor, false, false, show).ok();
    let next = cursor + shown as u64;
    if shown == count && next < sorted_set.len(view) { next } else { 0 }
}
