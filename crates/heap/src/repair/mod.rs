//! Making metadata again that the medium lost (`restore`), as far as something else tells what it
//! was.

pub(crate) mod restore;
