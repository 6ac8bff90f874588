//! The persistent free queue: what was unlinked at once and is freed in steps.
#![allow(unused_variables, clippy::todo, missing_docs)]

use heap::{Full, Ptr, View};

use crate::{Store, blob::Blob};

/// The queue, known by the address of its root word: 0 while it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    root: Ptr,
}

impl Queue {
    pub const fn at(root: Ptr) -> Queue {
        Queue { root }
    }

    pub fn is_empty<V: View>(&self, view: &V) -> bool {
        todo!()
    }

    /// Takes over a blob that nothing refers to from this transaction on.
    pub fn push_blob<S: Store>(&self, store: &mut S, blob: Blob) -> Result<(), Full> {
        todo!()
    }

    /// Takes over everything behind an index's root word, and sets that word to 0. `owner` is handed to the callback that
    /// frees the entries: it says what kind of index this is.
    pub fn push_index<S: Store>(&self, store: &mut S, root: Ptr, owner: u16) -> Result<(), Full> {
        todo!()
    }

    /// Frees about `budget` blocks within the open transaction; answers how many, 0 when the queue is empty.
    ///
    /// `free_entry(store, owner, entry)` frees one entry of an index (and may push more onto this queue); it answers
    /// how many blocks it freed.
    pub fn step<S: Store>(
        &self,
        store: &mut S,
        budget: usize,
        free_entry: impl FnMut(&mut S, u16, Ptr) -> Result<usize, Full>,
    ) -> Result<usize, Full> {
        todo!()
    }
}
