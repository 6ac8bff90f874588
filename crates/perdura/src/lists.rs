//! Lists: sequences of elements, pushed and popped at both ends.
//!
//! A list has no key while it has no element: pushing creates it, removing the last one deletes it.

use keyspace::{NodeLimits, Side};

use crate::iter::{Batch, End};
use crate::operations::{Execute, Open, Writable};
use crate::{Error, Perdura, RangeIter, Transaction};

/// Returns the server's default limits.
pub(crate) fn limits() -> NodeLimits {
    NodeLimits::new(8192, usize::MAX)
}

impl Open<'_> {
    fn push(&mut self, key: &[u8], side: Side, element: &[u8]) -> Result<u64, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.lists().push(tx.db, &key, side, [element], limits())?)
        })
    }

    fn pop(&mut self, key: &[u8], side: Side) -> Result<Option<Vec<u8>>, Error> {
        self.whole(|tx| {
            let key = tx.key(&key)?;
            let mut found = None;
            tx.txn.lists().pop(tx.db, &key, side, 1, |element| found = Some(element.to_vec()))?;
            Ok(found)
        })
    }
}

/// The indexes of the elements that an iterator has not shown yet.
#[derive(Clone, Copy)]
struct Numbers {
    from: u64,
    to: u64,
}

impl Open<'_> {
    /// Reads elements of a range from an end. Returns the rest of it.
    fn read_elements(
        &mut self,
        key: &[u8],
        mut numbers: Numbers,
        end: End,
        batch: &mut Batch<Vec<u8>>,
    ) -> Result<Option<Numbers>, Error> {
        let key = self.key(&key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(None) };
        let list = self.txn.list(&entry)?;
        numbers.to = numbers.to.min(list.len()?);
        if numbers.from >= numbers.to {
            return Ok(None);
        }
        let (first, side) = match end {
            End::Front => (numbers.from, Side::Head),
            End::Back => (numbers.to - 1, Side::Tail),
        };
        list.visit(first, side, |element| {
            match end {
                End::Front => numbers.from += 1,
                End::Back => numbers.to -= 1,
            }
            batch.push(element.to_vec(), element.len()) && numbers.from < numbers.to
        })?;
        Ok(Some(numbers))
    }
}

/// Operations on lists. A list has no key while it has no element: pushing creates it, removing the
/// last one deletes it.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// store.push_back("jobs", "first")?;
/// store.push_back("jobs", "second")?;
/// assert_eq!(store.pop_front("jobs")?.as_deref(), Some(&b"first"[..]));
/// assert_eq!(store.elements("jobs", 0, 10)?, [b"second"]);
/// assert_eq!(store.list_len("jobs")?, 1);
/// # Ok(())
/// # }
/// ```
pub trait Lists: Execute {
    /// Inserts an element at the front of a list. Returns the new length.
    fn push_front(&self, key: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<u64, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| tx.push(key.as_ref(), Side::Head, element.as_ref()))
    }

    /// Appends an element to a list. Returns the new length.
    fn push_back(&self, key: impl AsRef<[u8]>, element: impl AsRef<[u8]>) -> Result<u64, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| tx.push(key.as_ref(), Side::Tail, element.as_ref()))
    }

    /// Removes the first element of a list and returns it.
    fn pop_front(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| tx.pop(key.as_ref(), Side::Head))
    }

    /// Removes the last element of a list and returns it.
    fn pop_back(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error>
    where
        Self: Writable,
    {
        self.on(&[key.as_ref()], |tx| tx.pop(key.as_ref(), Side::Tail))
    }

    /// Returns how many elements a list has.
    fn list_len(&self, key: impl AsRef<[u8]>) -> Result<u64, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            match tx.txn.find(tx.db, &key) {
                Some(entry) => Ok(tx.txn.list(&entry)?.len()?),
                None => Ok(0),
            }
        })
    }

    /// Returns an iterator over the elements of a list, from both ends, in batches like
    /// [`RangeIter`]. Positions in a list are numbers, counted from its head: pushing or popping
    /// there meanwhile shifts all elements after it, so that one may be shown twice, or not at all.
    /// Elements pushed at the tail since the first step are not shown.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// for n in 0..1000 {
    ///     store.push_back("log", n.to_string())?;
    /// }
    /// let newest: Vec<Vec<u8>> = store.list_iter("log").rev().take(2).collect::<Result<_, _>>()?;
    /// assert_eq!(newest, [b"999", b"998"]);
    /// # Ok(())
    /// # }
    /// ```
    fn list_iter(&self, key: impl AsRef<[u8]>) -> RangeIter<'_, Vec<u8>, Self> {
        let (key, mut numbers) = (key.as_ref().to_vec(), Numbers { from: 0, to: u64::MAX });
        RangeIter::new(self, move |on, end, batch| {
            let rest = on.on(&[&key], |tx| tx.read_elements(&key, numbers, end, batch))?;
            numbers = rest.unwrap_or(Numbers { from: 0, to: 0 });
            Ok(numbers.from < numbers.to)
        })
    }

    /// Returns up to `count` elements of a list, from index `first` (counted from 0) on.
    fn elements(
        &self,
        key: impl AsRef<[u8]>,
        first: u64,
        count: usize,
    ) -> Result<Vec<Vec<u8>>, Error> {
        self.on(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            let mut found = Vec::new();
            let Some(entry) = tx.txn.find(tx.db, &key).filter(|_| count > 0) else {
                return Ok(found);
            };
            tx.txn.list(&entry)?.visit(first, Side::Head, |element| {
                found.push(element.to_vec());
                found.len() < count
            })?;
            Ok(found)
        })
    }

    /// Replaces the element with this index, counted from 0. Returns true if there is one.
    fn set_element(
        &self,
        key: impl AsRef<[u8]>,
        index: u64,
        element: impl AsRef<[u8]>,
    ) -> Result<bool, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref()], |tx| {
            let key = tx.key(&key)?;
            Ok(tx.txn.lists().set(tx.db, &key, index, element.as_ref(), limits())?)
        })
    }
}

impl Lists for Perdura {}
impl Lists for Transaction<'_> {}
