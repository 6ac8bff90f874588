//! The constants at which a dump changes the form of a value or divides it: each is `pub` and says
//! its unit, for tests that pass values with sizes around each of them through every input and
//! output (`tests/roundtrip/chunks.rs`, which names all of them).

pub use crate::file::CHUNK;
pub use crate::listpack::{
    LONG as LONG_ELEMENT, MIDDLE as MIDDLE_ELEMENT, UNCOUNTED as UNCOUNTED_ELEMENTS,
};
pub use crate::lzf::{FARTHEST, LONGEST_MATCH, LONGEST_RUN, SHORT as SHORT_DECOMPRESSED};
pub use crate::nodes::SAFE as LIST_NODE_BYTES;
pub use crate::writer::{
    LONG as LONG_LENGTH, LONGEST_INT, MIDDLE as MIDDLE_LENGTH, SHORTEST_COMPRESSED,
};
