//! Types and encodings of values, as Redis names them.

/// The type of a value, as TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// A string.
    String,
    /// A sequence of elements.
    List,
    /// Distinct members.
    Set,
    /// Fields with values.
    Hash,
    /// Members ordered by their scores.
    SortedSet,
    /// Entries ordered by their IDs.
    Stream,
}

/// The encoding of a value, as OBJECT ENCODING names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// A string that is an integer.
    Int,
    /// A string of at most 44 bytes that was written as a whole.
    Embstr,
    /// Any other string.
    Raw,
    /// A small collection.
    Listpack,
    /// A small hash of which a field has, or had, an expiry time.
    ListpackEx,
    /// A small set of integers.
    Intset,
    /// A large hash, or any other set.
    Hashtable,
    /// Any list.
    Quicklist,
    /// A large sorted set.
    Skiplist,
    /// Any stream.
    Stream,
}
