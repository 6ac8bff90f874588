//! The errors of a structure that is damaged.

use heap::{Full, Ptr};

/// A place in the pool where a structure found something other than what it had written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged {what} at offset {at:#x}: expected {expected:#x}, found {found:#x}")]
#[non_exhaustive]
pub struct Damaged {
    /// The name of the expected part.
    pub what: &'static str,
    /// The byte offset in the pool.
    pub at: u64,
    /// The value that the rest of the structure implies.
    pub expected: u64,
    /// The value that was found.
    pub found: u64,
}

impl Damaged {
    /// Describes a wrong value at a place; the caller knows the right one.
    pub fn new(what: &'static str, at: Ptr, expected: u64, found: u64) -> Damaged {
        Damaged { what, at: at.raw(), expected, found }
    }

    /// Compares a value with the expected one.
    pub(crate) fn unless_equal(
        what: &'static str,
        at: Ptr,
        expected: u64,
        found: u64,
    ) -> Result<(), Damaged> {
        if expected == found {
            return Ok(());
        }
        Err(Damaged { what, at: at.raw(), expected, found })
    }
}

/// Why a structure cannot be read or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The heap has no space.
    #[error(transparent)]
    Full(#[from] Full),
    /// The structure is damaged.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}
