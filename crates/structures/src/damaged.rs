//! What a structure says of a pool that is not as it left it.

use heap::{Full, Ptr};

/// A place in the pool where a structure found something else than it had written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged {what} at offset {at:#x}: expected {expected:#x}, found {found:#x}")]
#[non_exhaustive]
pub struct Damaged {
    /// What should be there.
    pub what: &'static str,
    /// The byte offset in the pool.
    pub at: u64,
    /// What the rest of the structure says should stand there.
    pub expected: u64,
    /// What is there.
    pub found: u64,
}

impl Damaged {
    /// Returns what is at a place that is not as it should be, said by whoever knows what should.
    pub fn new(what: &'static str, at: Ptr, expected: u64, found: u64) -> Damaged {
        Damaged { what, at: at.raw(), expected, found }
    }

    /// Compares what is found with what is expected.
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
    /// The structure is not as it was left.
    #[error(transparent)]
    Damaged(#[from] Damaged),
}
