//! Iterators over long collections.
//!
//! An iterator reads a batch in one short transaction, releases every lock, and returns the batch
//! item by item; then it reads the next batch from there. So it holds no lock between two steps,
//! writers go on, and its memory is bounded. It is not a snapshot: each batch is of its own moment.
//! Over a transaction it sees that transaction's state, whose keys are locked anyway.
//!
//! If there is an order, the iterator remembers its position as the last item shown (a score with
//! its member, an ID, a row's key), not as a number, so that changes elsewhere do not shift it.

mod keys;
mod prefix;
pub(crate) mod ranked;

use std::collections::VecDeque;
use std::fmt;

use crate::{Error, Perdura};

pub use keys::{KeyCursor, KeyIter};

/// Maximum number of items in a batch.
pub(crate) const ITEMS: usize = 64;
/// Bytes after which a batch takes no more items.
const BYTES: usize = 64 << 10;

/// How often a batch is read while the medium keeps losing bytes.
const TRIES: usize = 8;

/// An end of an ordered iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// The items that one transaction reads.
pub(crate) struct Batch<T> {
    items: VecDeque<T>,
    bytes: usize,
}

impl<T> Batch<T> {
    fn new() -> Batch<T> {
        Batch { items: VecDeque::new(), bytes: 0 }
    }

    /// Adds an item of this many bytes. Returns true if there is space for another one.
    pub(crate) fn push(&mut self, item: T, bytes: usize) -> bool {
        self.items.push_back(item);
        self.bytes += bytes;
        !self.is_full()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= ITEMS || self.bytes >= BYTES
    }

    /// Replaces the batch with what `read` reads, and reads again if a loss ends that. Returns true
    /// if there may be more.
    fn fill(
        &mut self,
        mut read: impl FnMut(&mut Batch<T>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let mut tries = 0;
        loop {
            self.items.clear();
            self.bytes = 0;
            let done = read(self);
            tries += 1;
            if tries < TRIES && done.as_ref().is_err_and(Error::has_unresolved_losses) {
                continue;
            }
            if done.is_err() {
                self.items.clear();
            }
            return done;
        }
    }
}

/// Reads the next batch. Returns true if there may be more.
type Fetch<'s, T, S> = dyn FnMut(&S, &mut Batch<T>) -> Result<bool, Error> + Send + 's;

/// An iterator over the fields of a hash or the members of a set, in no particular order.
///
/// It reads batches of 64 items, or of 64 KiB if that is reached first, each in a transaction of
/// its own, and holds no lock between two steps; a small collection (in Redis's listpack encoding)
/// is read in one batch. While others write, an item that exists from start to end is shown at
/// least once, or twice if the collection grows or shrinks much meanwhile. One that is added or
/// removed meanwhile may be shown or not. After an error it ends.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// for n in 0..1000 {
///     store.set_add("numbers", n.to_string())?;
/// }
/// let mut sum = 0;
/// for member in store.set_iter("numbers") {
///     sum += String::from_utf8(member?)?.parse::<u64>()?;
///     store.increment("seen", 1)?; // the store can be called meanwhile
/// }
/// assert_eq!(sum, 499_500);
/// # Ok(())
/// # }
/// ```
pub struct Iter<'s, T, S: ?Sized = Perdura> {
    on: &'s S,
    fetch: Box<Fetch<'s, T, S>>,
    batch: Batch<T>,
    done: bool,
}

impl<'s, T, S: ?Sized> Iter<'s, T, S> {
    pub(crate) fn new(
        on: &'s S,
        fetch: impl FnMut(&S, &mut Batch<T>) -> Result<bool, Error> + Send + 's,
    ) -> Iter<'s, T, S> {
        Iter { on, fetch: Box::new(fetch), batch: Batch::new(), done: false }
    }
}

impl<T, S: ?Sized> Iterator for Iter<'_, T, S> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        loop {
            if let Some(item) = self.batch.items.pop_front() {
                return Some(Ok(item));
            }
            if self.done {
                return None;
            }
            let (on, fetch) = (self.on, &mut self.fetch);
            match self.batch.fill(|batch| fetch(on, batch)) {
                Ok(more) => self.done = !more,
                Err(error) => {
                    self.done = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<T, S: ?Sized> std::iter::FusedIterator for Iter<'_, T, S> {}

impl<T, S: ?Sized> fmt::Debug for Iter<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("done", &self.done).finish_non_exhaustive()
    }
}

/// Reads the next batch from an end. Returns true if there may be more between the two ends.
type FetchEnd<'s, T, S> = dyn FnMut(&S, End, &mut Batch<T>) -> Result<bool, Error> + Send + 's;

/// An iterator over a range of an ordered collection, from both ends: elements of a list, members
/// of a sorted set, entries of a stream, rows of a table.
///
/// It reads batches of 64 items, or of 64 KiB if that is reached first, each in a transaction of
/// its own, and holds no lock between two steps; for a sorted set or a table, batches of 256 follow
/// the first two. While others write, an item that stays at its place from start to end is shown
/// exactly once, and all are shown in their order. One that is added or removed meanwhile may be
/// shown or not; a member whose score changes may be shown or not, or twice. Lists are different,
/// since positions in them are numbers: see [`crate::Lists::list_iter`]. After an error it ends.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// for (player, points) in [("anna", 30.0), ("ben", 10.0), ("cleo", 20.0)] {
///     store.sorted_set_add("players", player, points)?;
/// }
/// let best = store.sorted_set_iter("players").next_back().expect("a player")?;
/// assert_eq!(best, (b"anna".to_vec(), 30.0));
/// # Ok(())
/// # }
/// ```
pub struct RangeIter<'s, T, S: ?Sized = Perdura> {
    on: &'s S,
    fetch: Box<FetchEnd<'s, T, S>>,
    front: Batch<T>,
    back: Batch<T>,
    done: bool,
}

impl<'s, T, S: ?Sized> RangeIter<'s, T, S> {
    pub(crate) fn new(
        on: &'s S,
        fetch: impl FnMut(&S, End, &mut Batch<T>) -> Result<bool, Error> + Send + 's,
    ) -> RangeIter<'s, T, S> {
        let (front, back) = (Batch::new(), Batch::new());
        RangeIter { on, fetch: Box::new(fetch), front, back, done: false }
    }

    fn step(&mut self, end: End) -> Option<Result<T, Error>> {
        loop {
            let (own, other) = match end {
                End::Front => (&mut self.front, &mut self.back),
                End::Back => (&mut self.back, &mut self.front),
            };
            if let Some(item) = own.items.pop_front() {
                return Some(Ok(item));
            }
            if self.done {
                // The last items are those that the other end has read.
                return other.items.pop_back().map(Ok);
            }
            let (on, fetch) = (self.on, &mut self.fetch);
            match own.fill(|batch| fetch(on, end, batch)) {
                Ok(more) => self.done = !more,
                Err(error) => {
                    self.done = true;
                    self.front.items.clear();
                    self.back.items.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}

impl<T, S: ?Sized> Iterator for RangeIter<'_, T, S> {
    type Item = Result<T, Error>;

    fn next(&mut self) -> Option<Result<T, Error>> {
        self.step(End::Front)
    }
}

impl<T, S: ?Sized> DoubleEndedIterator for RangeIter<'_, T, S> {
    fn next_back(&mut self) -> Option<Result<T, Error>> {
        self.step(End::Back)
    }
}

impl<T, S: ?Sized> std::iter::FusedIterator for RangeIter<'_, T, S> {}

impl<T, S: ?Sized> fmt::Debug for RangeIter<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangeIter").field("done", &self.done).finish_non_exhaustive()
    }
}
