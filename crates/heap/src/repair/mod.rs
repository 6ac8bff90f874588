//! Rebuilds metadata that the medium lost (`restore`), as far as it follows from something else.

pub(crate) mod restore;
