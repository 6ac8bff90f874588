//! Sorting the elements of a list, a set or a sorted set.

use std::cmp::Ordering;

use keyspace::Side;

use crate::lists::limits;
use crate::operations::{Execute, Open, Writable};
use crate::{Error, Perdura, Transaction};

/// Elements that are read at once.
const PIECE: usize = 1024;

/// An order of elements. Equal elements are in the order of their bytes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Order, Perdura};
///
/// let store = Perdura::open(Options::volatile())?;
/// for number in ["10", "9", "-1"] {
///     store.push_back("numbers", number)?;
/// }
/// assert_eq!(store.sort("numbers", Order::Numbers)?, [&b"-1"[..], b"9", b"10"]);
/// assert_eq!(store.sort("numbers", Order::BytesDescending)?, [&b"9"[..], b"10", b"-1"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By the numbers that they spell, the smallest first.
    Numbers,
    /// By the numbers that they spell, the largest first.
    NumbersDescending,
    /// By their bytes.
    Bytes,
    /// By their bytes, the last first.
    BytesDescending,
}

impl Order {
    fn is_numeric(self) -> bool {
        matches!(self, Order::Numbers | Order::NumbersDescending)
    }

    fn compare(self, a: &(f64, Vec<u8>), b: &(f64, Vec<u8>)) -> Ordering {
        // When sorting by bytes, all numbers are zero.
        let order = a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1));
        match self {
            Order::Numbers | Order::Bytes => order,
            Order::NumbersDescending | Order::BytesDescending => order.reverse(),
        }
    }
}

fn number(element: &[u8]) -> Result<f64, Error> {
    let number = std::str::from_utf8(element).ok().and_then(|text| text.parse::<f64>().ok());
    // -0 and 0 are the same number.
    number.filter(|number| !number.is_nan()).map(|number| number + 0.0).ok_or(Error::NotANumber)
}

impl Open<'_> {
    fn sorted_elements(
        &mut self,
        key: &impl AsRef<[u8]>,
        order: Order,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let key = self.key(key)?;
        let Some(entry) = self.txn.find(self.db, &key) else { return Ok(Vec::new()) };
        let elements = self.txn.elements(&entry)?;
        let (mut rows, mut cursor) = (Vec::new(), 0);
        loop {
            let keep = |element: &[u8]| rows.push((0.0, element.to_vec()));
            cursor = elements.scan(cursor, PIECE, keep)?;
            if cursor == 0 {
                break;
            }
        }
        if order.is_numeric() {
            for (weight, element) in &mut rows {
                *weight = number(element)?;
            }
        }
        rows.sort_unstable_by(|a, b| order.compare(a, b));
        Ok(rows.into_iter().map(|(_, element)| element).collect())
    }
}

/// Operations that sort the elements of a list, a set or a sorted set.
pub trait Sorting: Execute {
    /// Returns the sorted elements of a list, a set or a sorted set; none if there is no key. All
    /// of them are in DRAM for this; [`Sorting::sort_into`] makes a list of them, which
    /// [`crate::Lists::list_iter`] reads piece by piece.
    ///
    /// # Errors
    /// [`Error::NotANumber`] if an element is not a number and the order is one of numbers.
    fn sort(&self, key: impl AsRef<[u8]>, order: Order) -> Result<Vec<Vec<u8>>, Error> {
        self.on(&[key.as_ref()], |tx| tx.sorted_elements(&key, order))
    }

    /// Replaces `target` with a list of the sorted elements of a list, a set or a sorted set. If
    /// there are none, `target` is deleted. Returns how many there are.
    ///
    /// # Errors
    /// As [`Sorting::sort`].
    fn sort_into(
        &self,
        key: impl AsRef<[u8]>,
        order: Order,
        target: impl AsRef<[u8]>,
    ) -> Result<u64, Error>
    where
        Self: Writable,
    {
        self.whole(&[key.as_ref(), target.as_ref()], |tx| {
            let elements = tx.sorted_elements(&key, order)?;
            let target = tx.key(&target)?;
            tx.txn.keys().delete(tx.db, &target)?;
            let elements = elements.iter().map(Vec::as_slice);
            if elements.len() == 0 {
                return Ok(0);
            }
            Ok(tx.txn.lists().push(tx.db, &target, Side::Tail, elements, limits())?)
        })
    }
}

impl Sorting for Perdura {}
impl Sorting for Transaction<'_> {}
