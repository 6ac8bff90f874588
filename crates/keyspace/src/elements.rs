//! Reading the elements of lists, sets and sorted sets piece by piece, whichever it is.

use crate::lists::{ListRef, Side};
use crate::members::Members;
use crate::sorted_sets::SortedSetRef;
use crate::{Entry, Error, Txn, Type};

/// A list, a set or a sorted set that is read in place.
pub struct Elements<'t>(Repr<'t>);

enum Repr<'t> {
    List(ListRef<'t>),
    Set(Members<'t>),
    SortedSet(SortedSetRef<'t>),
}

impl Txn<'_> {
    /// Returns the elements of the list, the set or the sorted set of an entry.
    pub fn elements(&self, entry: &Entry) -> Result<Elements<'_>, Error> {
        Ok(Elements(match self.properties(entry).value_type() {
            Type::List => Repr::List(self.list(entry)?),
            Type::Set => Repr::Set(self.members(entry, Type::Set)?),
            _ => Repr::SortedSet(self.sorted_set(entry)?),
        }))
    }
}

impl Elements<'_> {
    /// Returns the number of elements.
    pub fn count(&self) -> Result<u64, Error> {
        match &self.0 {
            Repr::List(list) => list.len(),
            Repr::Set(set) => Ok(set.len()),
            Repr::SortedSet(sorted_set) => Ok(sorted_set.len()),
        }
    }

    /// Visits about `count` elements from `cursor` on (0: the beginning), or all elements of a
    /// small set, and returns the cursor to continue from (0: the end). A list is visited from its
    /// head, a sorted set from its lowest score, a set in no order. Each element is visited once if
    /// the value does not change between the calls.
    pub fn scan(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<u64, Error> {
        if let Repr::Set(set) = &self.0 {
            return set.scan(cursor, count, |member, _| visit(member));
        }
        let mut left = count;
        self.visit(cursor, false, |element| {
            visit(element);
            left -= 1;
            left > 0
        })?;
        let next = cursor + count as u64;
        Ok(if next < self.count()? { next } else { 0 })
    }

    /// Visits elements of a list or a sorted set in order, or `backwards`, until `visit` returns
    /// `false`. Starts at number `first`, counted from the end of the value at which the direction
    /// starts. Refuses a set, which has no order.
    pub fn visit(
        &self,
        first: u64,
        backwards: bool,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        let Some(last) = self.count()?.checked_sub(1) else { return Ok(()) };
        let Some(distance) = last.checked_sub(first) else { return Ok(()) };
        let (from, number) = if backwards { (Side::Tail, distance) } else { (Side::Head, first) };
        match &self.0 {
            Repr::List(list) => list.visit(number, from, visit),
            Repr::Set(_) => Err(Error::WrongType),
            Repr::SortedSet(sorted_set) => {
                sorted_set.visit(number, backwards, |member, _| visit(member))
            }
        }
    }
}
