//! Types of values, and how they are kept, as Redis names them.

/// The type of a value, as TYPE names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Type {
    /// A string.
    String,
    /// A sequence.
    List,
    /// Members, each once.
    Set,
    /// Fields with values.
    Hash,
    /// Members with scores, in the order of these.
    SortedSet,
    /// Entries in the order of their IDs.
    Stream,
}

/// How a value is kept, as OBJECT ENCODING names it.
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
    /// A small hash of which a field has, or had, a TTL.
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
