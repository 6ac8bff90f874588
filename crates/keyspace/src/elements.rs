//! Reading the elements of lists, sets and sorted sets piece by piece.

use crate::lists::Side;
use crate::{Entry, Error, Txn, Type};

impl Txn<'_> {
    /// Returns the number of elements of a list, a set or a sorted set.
    pub fn element_count(&self, entry: &Entry) -> Result<u64, Error> {
        match self.properties(entry).value_type() {
            Type::List => self.list(entry)?.len(),
            Type::Set => Ok(self.members(entry, Type::Set)?.len()),
            _ => Ok(self.sorted_set(entry)?.len()),
        }
    }

    /// Visits about `count` elements of a list, a set or a sorted set from `cursor` on (0: the
    /// beginning), or all elements of a small set, and returns the cursor to continue from (0: the
    /// end). A list is visited from its head, a sorted set from its lowest score, a set in no
    /// order. Each element is visited once if the value does not change between the calls.
    pub fn each_element(
        &self,
        entry: &Entry,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<u64, Error> {
        if self.properties(entry).value_type() == Type::Set {
            let members = self.members(entry, Type::Set)?;
            return members.scan(cursor, count, |member, _| visit(member));
        }
        let mut left = count;
        self.elements_in_order(entry, cursor, false, |element| {
            visit(element);
            left -= 1;
            left > 0
        })?;
        let next = cursor + count as u64;
        Ok(if next < self.element_count(entry)? { next } else { 0 })
    }

    /// Visits elements of a list or a sorted set in order, or `backwards`, until `visit` returns
    /// `false`. Starts at number `first`, counted from the end of the value at which the direction
    /// starts.
    pub fn elements_in_order(
        &self,
        entry: &Entry,
        first: u64,
        backwards: bool,
        mut visit: impl FnMut(&[u8]) -> bool,
    ) -> Result<(), Error> {
        let Some(last) = self.element_count(entry)?.checked_sub(1) else { return Ok(()) };
        let Some(distance) = last.checked_sub(first) else { return Ok(()) };
        let (from, number) = if backwards { (Side::Tail, distance) } else { (Side::Head, first) };
        match self.properties(entry).value_type() {
            Type::List => self.list(entry)?.visit(number, from, visit),
            _ => self.sorted_set(entry)?.visit(number, backwards, |member, _| visit(member)),
        }
    }
}
