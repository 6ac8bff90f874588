//! The persistent free queue: structures that were unlinked at once and are freed in steps.
//!
//! Deleting a value of 512 MiB, or all keys, takes one logged word and a node of 32 bytes; the
//! blocks are freed in later transactions of bounded size, which continue after a restart where
//! they stopped. A step whose record is missing never happened; so nothing is freed twice and
//! nothing leaks.
//!
//! The newest node is freed first. A step may add to the queue (an entry of an index owns a large
//! blob): the new node comes before the one that is being freed, which is removed when it is the
//! first again.
//!
//! ```text
//! node:  0   next node, or 0, self-checksummed
//!        8   kind (1 blob, 2 index, 3 tree) in bits 0..15, owner in bits 16..31, self-checksummed
//!        16  the blob's word, or the root word of the index or tree
//!        24  index: cursor of the drain, 0 at the start, self-checksummed
//! ```
//!
//! A damaged node is given up with everything that it leads to: a cursor that has become smaller
//! would free blocks again that belong to others by now.
//!
//! Deletes must work in a full pool: nodes come from the space that the heap reserves for deletes.

use heap::{Full, Ptr, View};

use crate::blob::Blob;
use crate::fault_points::FaultPoint;
use crate::index::{self, Index, drain};
use crate::tree::{self, Item};
use crate::{Damaged, Store, self_checksummed};

const NODE: usize = 32;
const NEXT: u64 = 0;
const KIND: u64 = 8;
const WORD: u64 = 16;
const CURSOR: u64 = 24;

const BLOB: u64 = 1;
const INDEX: u64 = 2;
const TREE: u64 = 3;

/// The queue, known by the address of its root word: 0 while it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    root: Ptr,
}

/// What a node of the queue frees.
enum Work {
    Blob(Blob),
    Index { owner: u16, cursor: u64 },
    Tree { owner: u16 },
    Nothing,
}

/// A part of a structure that only its owner can free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// An entry of an index.
    Entry(Ptr),
    /// An item of a tree.
    Item(Item),
}

/// Something that waits to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A block of the queue, or of a structure.
    Block(Ptr),
    /// A part that the structure's owner frees.
    Owned(Owned),
}

impl Queue {
    /// Returns the queue whose root word is at `root`.
    pub const fn at(root: Ptr) -> Queue {
        Queue { root }
    }

    /// Returns true if nothing waits to be freed.
    pub fn is_empty<V: View>(&self, view: &V) -> bool {
        view.word(self.root) == 0
    }

    /// Takes over a blob to which nothing refers after this transaction.
    pub fn push_blob<S: Store>(&self, store: &mut S, blob: Blob) -> Result<(), Full> {
        if blob == Blob::EMPTY {
            return Ok(());
        }
        self.push(store, BLOB, blob.word())
    }

    /// Takes over everything below an index's root word, and sets that word to 0.
    ///
    /// `owner` is passed to the callback that frees the entries, so that it knows whose they are.
    pub fn push_index<S: Store>(&self, store: &mut S, root: Ptr, owner: u16) -> Result<(), Full> {
        self.push_root(store, INDEX, root, owner)
    }

    /// Takes over everything below a tree's root word, and sets that word to 0.
    ///
    /// `owner` is passed to the callback that frees what the items own, so that it knows whose they
    /// are.
    pub fn push_tree<S: Store>(&self, store: &mut S, root: Ptr, owner: u16) -> Result<(), Full> {
        self.push_root(store, TREE, root, owner)
    }

    fn push_root<S: Store>(
        &self,
        store: &mut S,
        kind: u64,
        root: Ptr,
        owner: u16,
    ) -> Result<(), Full> {
        let word = store.word(root);
        let empty = if kind == TREE { tree::empty_root() } else { 0 };
        if word == empty {
            return Ok(());
        }
        self.push(store, kind | u64::from(owner) << 16, word)?;
        if FaultPoint::UnlinkQueued.is_enabled() {
            store.set(root, empty);
        }
        Ok(())
    }

    /// Like [`Queue::push_index`], for a root word to which nothing leads after this transaction.
    pub fn push_unlinked_index<S: Store>(
        &self,
        store: &mut S,
        word: u64,
        owner: u16,
    ) -> Result<(), Full> {
        if word == 0 {
            return Ok(());
        }
        self.push(store, INDEX | u64::from(owner) << 16, word)
    }

    /// Like [`Queue::push_tree`], for a root word to which nothing leads after this transaction.
    pub fn push_unlinked_tree<S: Store>(
        &self,
        store: &mut S,
        word: u64,
        owner: u16,
    ) -> Result<(), Full> {
        if tree::leads_to(word).is_none() {
            return Ok(());
        }
        self.push(store, TREE | u64::from(owner) << 16, word)
    }

    /// Frees a blob to which nothing refers any more: immediately if it is one block, otherwise
    /// through the queue. Returns how many blocks were freed.
    pub fn release_blob<S: Store>(&self, store: &mut S, blob: Blob) -> Result<usize, Full> {
        if blob.is_large() {
            self.push_blob(store, blob)?;
            return Ok(0);
        }
        Ok(blob.free_step(store, 1).1)
    }

    fn push<S: Store>(&self, store: &mut S, kind: u64, word: u64) -> Result<(), Full> {
        let before = store.allow_reserve(true);
        let fresh = store.reserve(NODE);
        store.allow_reserve(before);
        let fresh = fresh?;
        let next = store.word(self.root);
        for (at, value) in [
            (NEXT, self_checksummed::encode(next)),
            (KIND, self_checksummed::encode(kind)),
            (WORD, word),
            (CURSOR, self_checksummed::encode(0)),
        ] {
            store.write_word(&fresh, at as usize, value);
        }
        let node = store.publish(fresh, NODE);
        store.set(self.root, node.raw());
        Ok(())
    }

    /// Frees about `budget` blocks within the open transaction; returns how many: 0 if the queue is
    /// empty.
    ///
    /// `free_owned(store, owner, owned)` frees one entry of an index, or what one item of a tree
    /// owns, and may push large parts onto this queue; it returns how many blocks it freed.
    pub fn step<S: Store>(
        &self,
        store: &mut S,
        budget: usize,
        mut free_owned: impl FnMut(&mut S, u16, Owned) -> Result<usize, Full>,
    ) -> Result<usize, Full> {
        let mut freed = 0;
        while freed < budget {
            let node = Ptr::from_raw(store.word(self.root));
            if node.is_null() {
                break;
            }
            match self.work(store, node, budget - freed, &mut free_owned)? {
                0 => break,
                some => freed += some,
            }
        }
        Ok(freed)
    }

    /// Works on the first node; removes it if it has nothing left and is still the first.
    fn work<S: Store>(
        &self,
        store: &mut S,
        node: Ptr,
        budget: usize,
        free_owned: &mut impl FnMut(&mut S, u16, Owned) -> Result<usize, Full>,
    ) -> Result<usize, Full> {
        let mut freed = match read(store, node).unwrap_or(Work::Nothing) {
            Work::Nothing => 0,
            Work::Blob(blob) => {
                let (left, freed) = blob.free_step(store, budget);
                set_if_changed(store, node.add(WORD), left.word());
                freed
            }
            Work::Index { owner, cursor } => {
                let done = drain::drain(store, node.add(WORD), cursor, budget, |store, entry| {
                    free_owned(store, owner, Owned::Entry(entry))
                })?;
                let cursor = self_checksummed::encode(done.cursor.unwrap_or(0));
                set_if_changed(store, node.add(CURSOR), cursor);
                done.freed
            }
            Work::Tree { owner } => {
                tree::free_step(store, node.add(WORD), budget, |store, item| {
                    free_owned(store, owner, Owned::Item(item))
                })?
            }
        };
        let is_done = matches!(read(store, node), Ok(Work::Nothing) | Err(_));
        if is_done && store.word(self.root) == node.raw() {
            store.set(self.root, open(store, node, NEXT).unwrap_or(0));
            store.free(node);
            freed += 1;
        }
        Ok(freed)
    }

    /// Verifies everything in the queue, and visits each block and each entry of it once.
    ///
    /// `rehash(owner, entry)` returns the hash of an entry; `visit(owner, part)` gets the blocks of
    /// blobs with owner 0.
    pub fn check<V: View>(
        &self,
        view: &V,
        mut rehash: impl FnMut(u16, Ptr) -> u64,
        mut visit: impl FnMut(u16, Part),
    ) -> Result<(), Damaged> {
        let mut at = Ptr::from_raw(view.word(self.root));
        // A node that was passed: a queue may lead back to itself.
        let (mut passed, mut count) = (Ptr::NULL, 0u64);
        while !at.is_null() {
            count += 1;
            if count.is_power_of_two() {
                passed = at;
            }
            visit(0, Part::Block(at));
            match read(view, at)? {
                Work::Nothing => {}
                Work::Blob(blob) => {
                    blob.check(view)?;
                    blob.blocks(view, |block| visit(0, Part::Block(block)));
                }
                Work::Index { owner, cursor } => Index::at(at.add(WORD)).check_from(
                    view,
                    cursor,
                    &mut |entry| rehash(owner, entry),
                    &mut |part| match part {
                        index::Part::Block(block) => visit(owner, Part::Block(block)),
                        index::Part::Entry(entry) => {
                            visit(owner, Part::Owned(Owned::Entry(entry)));
                        }
                    },
                )?,
                Work::Tree { owner } => {
                    tree::check_dying(view, at.add(WORD), &mut |part| match part {
                        tree::Part::Block(block) => visit(owner, Part::Block(block)),
                        tree::Part::Item(item) => visit(owner, Part::Owned(Owned::Item(item))),
                    })?;
                }
            }
            let next = Ptr::from_raw(open(view, at, NEXT)?);
            if next == passed {
                return Err(Damaged::new("free queue", at, 0, next.raw()));
            }
            at = next;
        }
        Ok(())
    }
}

fn read<V: View>(view: &V, node: Ptr) -> Result<Work, Damaged> {
    let kind = open(view, node, KIND)?;
    let word = view.word(node.add(WORD));
    let owner = (kind >> 16) as u16;
    match kind & 0xffff {
        BLOB | INDEX if word == 0 => Ok(Work::Nothing),
        BLOB => Ok(Work::Blob(Blob::from_word(word))),
        INDEX => Ok(Work::Index { owner, cursor: open(view, node, CURSOR)? }),
        TREE if word == tree::empty_root() => Ok(Work::Nothing),
        TREE => Ok(Work::Tree { owner }),
        _ => Err(Damaged::new("kind of what is to be freed", node, 0, kind)),
    }
}

/// Returns the number in a self-checksummed word of a node.
fn open<V: View>(view: &V, node: Ptr, at: u64) -> Result<u64, Damaged> {
    let word = view.word(node.add(at));
    self_checksummed::decode(word).ok_or(Damaged::new("node of the free queue", node, 0, word))
}

fn set_if_changed<S: Store>(store: &mut S, at: Ptr, value: u64) {
    if store.word(at) != value {
        store.set(at, value);
    }
}
