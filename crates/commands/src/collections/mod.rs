//! What commands on sets and hashes have in common.

pub(crate) mod gathered;
pub(crate) mod random;
pub(crate) mod scan;
