//! Code that commands on sets and hashes share.

pub(crate) mod gathered;
pub(crate) mod random;
pub(crate) mod scan;
