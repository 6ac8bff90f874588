//! Rows by prefixes of their keys: strings with a common prefix, tuples with the same first parts.
//!
//! The encoding of a key is the concatenation of those of its parts, and that of a string is its
//! bytes followed by an end. So the keys with a prefix are those whose bytes begin with the
//! prefix's bytes, and they are a range in the order of the table.

use super::key::escape;
use super::{Key, Table, Value, row};
use crate::iter::ranked::{Edge, Ranked};
use crate::operations::{Execute, Writable};
use crate::{Error, RangeIter};

/// A prefix of keys of type `K`: the argument of [`Table::prefix`].
///
/// | key | may begin with |
/// |---|---|
/// | `String` | whatever is an `AsRef<str>`, by reference |
/// | `Vec<u8>`, `[u8; N]` | whatever is an `AsRef<[u8]>`, by reference |
/// | a tuple | its first parts, as a tuple: `(a,)`, `(a, b)` |
/// | a tuple whose last part is one of these | all parts, of which the last is a beginning |
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Options, Perdura, Table};
///
/// let store = Perdura::open(Options::volatile())?;
/// // Sizes of files by user, folder and name.
/// let sizes: Table<(u64, String, String), u64> = store.table("sizes");
/// sizes.insert((7, "mail", "draft 1"), 300)?;
/// sizes.insert((7, "mail", "sent"), 200)?;
/// sizes.insert((7, "mailing", "draft 1"), 10)?;
/// sizes.insert((8, "mail", "draft 1"), 100)?;
///
/// assert_eq!(sizes.prefix((7,)).count(), 3);
/// assert_eq!(sizes.prefix((7, "mail")).count(), 2); // this part as a whole
/// assert_eq!(sizes.prefix((7, "mail", "draft")).count(), 1); // this one begins so
/// # Ok(())
/// # }
/// ```
///
/// Another type of key defines its prefixes by its parts:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use perdura::prelude::*;
/// use perdura::{Key, KeyPrefix, Options, Perdura, Table};
///
/// struct Flight {
///     carrier: String,
///     number: u16,
/// }
///
/// impl Key for Flight {
///     type Ref<'a> = (&'a str, u16);
///
///     fn borrowed(key: &Flight) -> (&str, u16) {
///         (&key.carrier, key.number)
///     }
///
///     fn encode(key: &(&str, u16), out: &mut Vec<u8>) {
///         <(String, u16)>::encode(key, out);
///     }
///
///     fn decode(bytes: &mut &[u8]) -> Option<Flight> {
///         <(String, u16)>::decode(bytes).map(|(carrier, number)| Flight { carrier, number })
///     }
/// }
///
/// /// All flights of a carrier.
/// struct Carrier<'a>(&'a str);
///
/// impl KeyPrefix<Flight> for Carrier<'_> {
///     fn encode_prefix(&self, out: &mut Vec<u8>) {
///         String::encode(&self.0, out);
///     }
/// }
///
/// let store = Perdura::open(Options::volatile())?;
/// let seats: Table<Flight, u32> = store.table("seats");
/// seats.insert(("LH", 400), 12)?;
/// seats.insert(("LHX", 1), 3)?;
/// assert_eq!(seats.count_prefix(Carrier("LH"))?, 1);
/// # Ok(())
/// # }
/// ```
pub trait KeyPrefix<K: Key> {
    /// Appends the bytes that [`Key::encode`] writes first for the matching keys, and for no other
    /// ones.
    fn encode_prefix(&self, out: &mut Vec<u8>);

    /// Returns false if no key can have this prefix, because it is longer than all keys.
    fn is_possible(&self) -> bool {
        true
    }
}

impl<T: AsRef<str> + ?Sized> KeyPrefix<String> for &T {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        escape(self.as_ref().as_bytes(), out);
    }
}

impl<T: AsRef<[u8]> + ?Sized> KeyPrefix<Vec<u8>> for &T {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        escape(self.as_ref(), out);
    }
}

impl<T: AsRef<[u8]> + ?Sized, const N: usize> KeyPrefix<[u8; N]> for &T {
    fn encode_prefix(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_ref());
    }

    fn is_possible(&self) -> bool {
        self.as_ref().len() <= N
    }
}

/// Tuples of these parts: whole ones at the front, and after them more parts, or a prefix of the
/// only one that is left.
macro_rules! tuple {
    ($($whole:ident $at:tt),*; $last:ident $last_at:tt) => {
        impl<$($whole: Key,)* $last: Key, P: KeyPrefix<$last>> KeyPrefix<($($whole,)* $last,)>
            for ($($whole::Ref<'_>,)* P,)
        {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                $($whole::encode(&self.$at, out);)*
                self.$last_at.encode_prefix(out);
            }

            fn is_possible(&self) -> bool {
                self.$last_at.is_possible()
            }
        }
    };
    ($($whole:ident $at:tt),*; $($more:ident),+) => {
        impl<$($whole: Key,)* $($more: Key),+> KeyPrefix<($($whole,)* $($more,)+)>
            for ($($whole::Ref<'_>,)*)
        {
            fn encode_prefix(&self, out: &mut Vec<u8>) {
                $($whole::encode(&self.$at, out);)*
            }
        }
    };
}

tuple!(; A 0);
tuple!(A 0; B);
tuple!(A 0; B 1);
tuple!(A 0; B, C);
tuple!(A 0, B 1; C);
tuple!(A 0, B 1; C 2);
tuple!(A 0; B, C, D);
tuple!(A 0, B 1; C, D);
tuple!(A 0, B 1, C 2; D);
tuple!(A 0, B 1, C 2; D 3);

/// Returns the rows whose keys have a prefix.
fn beginning_with<K: Key>(prefix: &impl KeyPrefix<K>) -> Ranked {
    if !prefix.is_possible() {
        // An empty range after all rows.
        return Ranked { low: Edge::End, high: Edge::End };
    }
    let mut bytes = Vec::new();
    prefix.encode_prefix(&mut bytes);
    row::beginning_with(bytes)
}

impl<'s, K: Key, V: Value, S: Execute + ?Sized> Table<'s, K, V, S> {
    /// Returns an iterator over the rows whose keys have a prefix, in their order and from both
    /// ends, like a range: no other row is looked at.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, Table};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// let words: Table<String, u32> = store.table("words");
    /// for (word, count) in [("sea", 5), ("seal", 2), ("seam", 1), ("set", 9)] {
    ///     words.insert(word, count)?;
    /// }
    /// let found = words.prefix("sea").collect::<Result<Vec<_>, _>>()?;
    /// assert_eq!(found.len(), 3);
    /// assert_eq!(words.prefix("se").next_back().transpose()?, Some(("set".to_string(), 9)));
    ///
    /// // The newest order of a customer.
    /// let orders: Table<(String, u64), f64> = store.table("orders");
    /// orders.insert(("anna", 1), 19.90)?;
    /// orders.insert(("anna", 2), 5.00)?;
    /// orders.insert(("ben", 3), 7.50)?;
    /// let newest = orders.prefix(("anna",)).next_back().transpose()?;
    /// assert_eq!(newest, Some((("anna".to_string(), 2), 5.00)));
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(&self, prefix: impl KeyPrefix<K>) -> RangeIter<'s, (K, V), S> {
        self.range_of(beginning_with(&prefix))
    }

    /// Returns how many rows have keys with a prefix, at the cost of two searches.
    pub fn count_prefix(&self, prefix: impl KeyPrefix<K>) -> Result<u64, Error> {
        self.count_of(&beginning_with(&prefix))
    }

    /// Removes the rows whose keys have a prefix, in one transaction. Returns how many.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use perdura::prelude::*;
    /// use perdura::{Options, Perdura, Table};
    ///
    /// let store = Perdura::open(Options::volatile())?;
    /// let sessions: Table<(u64, String), ()> = store.table("sessions");
    /// sessions.insert((7, "laptop"), ())?;
    /// sessions.insert((7, "phone"), ())?;
    /// sessions.insert((8, "phone"), ())?;
    /// assert_eq!(sessions.remove_prefix((7,))?, 2);
    /// assert_eq!(sessions.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_prefix(&self, prefix: impl KeyPrefix<K>) -> Result<u64, Error>
    where
        S: Writable,
    {
        self.remove_of(&beginning_with(&prefix))
    }
}
