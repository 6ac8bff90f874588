//! Redis's names of types and encodings.

use keyspace::{Encoding, Type};

/// Returns a type's name, as TYPE shows it.
pub(crate) fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::String => "string",
        Type::List => "list",
        Type::Set => "set",
        Type::Hash => "hash",
        Type::SortedSet => "zset",
        Type::Stream => "stream",
        _ => "unknown",
    }
}

/// Returns an encoding's name, as OBJECT ENCODING shows it.
pub(crate) fn encoding_name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Int => "int",
        Encoding::Embstr => "embstr",
        Encoding::Raw => "raw",
        Encoding::Listpack => "listpack",
        Encoding::ListpackEx => "listpackex",
        Encoding::Intset => "intset",
        Encoding::Hashtable => "hashtable",
        Encoding::Quicklist => "quicklist",
        Encoding::Skiplist => "skiplist",
        Encoding::Stream => "stream",
        _ => "unknown",
    }
}
