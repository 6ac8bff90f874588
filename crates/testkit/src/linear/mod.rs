//! Decides whether what clients saw is linearizable: whether each call can have taken effect at one
//! moment between its request and its reply, one after the other.
//!
//! Every written value is unique, so that a read names the write that it saw. Then no search is
//! needed: for registers the criterion of Gibbons and Korach ("Testing shared memories", 1997) is
//! exact and takes O(n log n), and for lists that only grow the order of the elements says
//! everything. The tests compare both with a search through all orders.
//!
//! A call without a reply may have taken effect at any moment after its request, or never. A call
//! that was refused is no call: a read that saw its value is a violation. Objects are checked one
//! by one: a history is linearizable if the part of it for each object is.
//!
//! Moments are numbers that no two events share, so that "before" has no ties ([`Clock`]).

mod list;
mod register;
#[cfg(test)]
mod search;
#[cfg(test)]
mod tests;

pub use list::{ListCall, check_list};
pub use register::{Access, check_register};

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// A source of moments: each is greater than all before it, over all threads.
#[derive(Debug, Default)]
pub struct Clock(AtomicU64);

impl Clock {
    /// Returns the next moment, from 1.
    pub fn now(&self) -> u64 {
        self.0.fetch_add(1, SeqCst) + 1
    }
}

/// What a call did, from its request to its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<A> {
    /// The moment before the request was sent.
    pub began: u64,
    /// The moment after the reply was received; [`Call::OPEN`] if there was none.
    pub ended: u64,
    /// What it did.
    pub what: A,
}

impl<A> Call<A> {
    /// The end of a call whose outcome is unknown.
    pub const OPEN: u64 = u64::MAX;

    /// Returns true if its reply came before the other's request.
    fn is_before(&self, other: &Call<A>) -> bool {
        self.ended < other.began
    }
}

impl<A: fmt::Debug> fmt::Display for Call<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ended {
            u64::MAX => write!(f, "{:?} from {} on", self.what, self.began),
            ended => write!(f, "{:?} from {} to {ended}", self.what, self.began),
        }
    }
}
