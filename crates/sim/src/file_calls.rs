//! The calls of simulated files, and which of them fail.

use std::collections::VecDeque;
use std::io;

/// A call of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// A read of bytes.
    Read,
    /// A query of the file's length.
    Size,
    /// A write of bytes.
    Write,
    /// A sync of everything written.
    Sync,
    /// An allocation of space.
    Allocate,
    /// A truncation of the file.
    Cut,
    /// A sync of the folder.
    SyncName,
}

/// Which calls are counted until one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Those that change something: all except reads.
    Changing,
    /// All of them.
    All,
    /// Allocations of space.
    Allocations,
}

/// A call that should fail.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    /// The number of calls that succeed before it.
    pub(crate) calls: u64,
    pub(crate) counted: Counted,
    pub(crate) errno: i32,
    /// Whether all later calls fail too.
    pub(crate) for_good: bool,
}

/// The calls that should fail, in their order.
#[derive(Default)]
pub(crate) struct Failures {
    planned: VecDeque<Failure>,
    failed: usize,
    refused: usize,
}

impl Failures {
    pub(crate) fn plan(&mut self, failure: Failure) {
        self.planned.push_back(failure);
    }

    /// Returns how many are still to fail.
    pub(crate) fn left(&self) -> usize {
        self.planned.len()
    }

    /// Returns how many have failed.
    pub(crate) fn failed(&self) -> usize {
        self.failed
    }

    /// Returns how many of them asked for space.
    pub(crate) fn refused(&self) -> usize {
        self.refused
    }

    /// Returns the error of a call, if it should fail.
    pub(crate) fn of(&mut self, call: FileCall) -> Option<io::Error> {
        let Failure { calls, counted, errno, for_good } = self.planned.front_mut()?;
        let is_counted = match *counted {
            Counted::Changing => !matches!(call, FileCall::Read | FileCall::Size),
            Counted::All => true,
            Counted::Allocations => call == FileCall::Allocate,
        };
        if !is_counted {
            return None;
        }
        if *calls > 0 {
            *calls -= 1;
            return None;
        }
        let error = io::Error::from_raw_os_error(*errno);
        self.failed += 1;
        self.refused += usize::from(call == FileCall::Allocate);
        if !*for_good {
            self.planned.pop_front();
        }
        Some(error)
    }
}
