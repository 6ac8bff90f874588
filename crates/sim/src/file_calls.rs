//! The calls of simulated files, and which of them fail.

use std::collections::VecDeque;
use std::io;

/// A call of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileCall {
    /// Of bytes.
    Read,
    /// The question how long the file is.
    Size,
    /// Of bytes.
    Write,
    /// Of all that was written.
    Sync,
    /// Of space.
    Allocate,
    /// The file is cut off.
    Cut,
    /// A sync of the folder.
    SyncName,
}

/// Which calls count until one fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Those that change something: all but reads.
    Changing,
    /// All of them.
    All,
}

/// A call that is to fail.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    /// Calls that end well before it.
    pub(crate) calls: u64,
    pub(crate) counted: Counted,
    pub(crate) errno: i32,
    /// So do all after it.
    pub(crate) for_good: bool,
}

/// Calls that are to fail, in their order.
#[derive(Default)]
pub(crate) struct Failures {
    planned: VecDeque<Failure>,
    failed: usize,
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

    /// Returns why a call fails, if it is to.
    pub(crate) fn of(&mut self, call: FileCall) -> Option<io::Error> {
        let Failure { calls, counted, errno, for_good } = self.planned.front_mut()?;
        let reads = matches!(call, FileCall::Read | FileCall::Size);
        if reads && *counted == Counted::Changing {
            return None;
        }
        if *calls > 0 {
            *calls -= 1;
            return None;
        }
        let error = io::Error::from_raw_os_error(*errno);
        self.failed += 1;
        if !*for_good {
            self.planned.pop_front();
        }
        Some(error)
    }
}
