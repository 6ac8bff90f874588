//! Whether the log takes commands: it does, it waits for a failed write to be repeated, or it has
//! failed for good.
//!
//! A failed *write* may be repeated: the bytes that were not taken are still in the buffer, and
//! nobody was told that they were kept. A failed *sync* must not be: the kernel may have dropped
//! the pages and forgotten the error, so that a second sync would succeed and prove nothing. Every
//! command checks this, so the usual answer costs one load.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::Failure;
use crate::lock::lock;

const FINE: u8 = 0;
const STALLED: u8 = 1;
const FAILED: u8 = 2;

/// The state, and the reason for a bad one.
#[derive(Default)]
pub(crate) struct Health {
    /// Changed only under the lock of the reason.
    state: AtomicU8,
    reason: Mutex<Option<Failure>>,
}

impl Health {
    /// Returns an error with the reason if commands are not taken.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.state.load(Ordering::Acquire) {
            FINE => Ok(()),
            _ => lock(&self.reason).clone().map_or(Ok(()), Err),
        }
    }

    /// Returns an error with the reason if writing may not be tried.
    pub(crate) fn check_alive(&self) -> Result<(), Failure> {
        match self.state.load(Ordering::Acquire) {
            FAILED => self.check(),
            _ => Ok(()),
        }
    }

    /// Returns true if a failed write waits to be repeated.
    pub(crate) fn is_stalled(&self) -> bool {
        self.state.load(Ordering::Acquire) == STALLED
    }

    /// Records that a write failed that will be repeated. Returns true if that is news.
    pub(crate) fn stall(&self, failure: Failure) -> bool {
        let mut reason = lock(&self.reason);
        if self.state.load(Ordering::Acquire) == FAILED {
            return false;
        }
        *reason = Some(failure);
        self.state.swap(STALLED, Ordering::AcqRel) == FINE
    }

    /// Records that the failed write has succeeded. Returns true if there was one.
    pub(crate) fn recover(&self) -> bool {
        if !self.is_stalled() {
            return false;
        }
        let mut reason = lock(&self.reason);
        if !self.is_stalled() {
            return false;
        }
        *reason = None;
        self.state.store(FINE, Ordering::Release);
        true
    }

    /// Records that the log has failed for good; the first reason stays.
    pub(crate) fn fail(&self, failure: Failure) -> Failure {
        let mut reason = lock(&self.reason);
        if self.state.swap(FAILED, Ordering::AcqRel) != FAILED {
            *reason = None;
        }
        reason.get_or_insert(failure).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Operation;

    fn failure(text: &str) -> Failure {
        Failure { operation: Operation::Write, text: text.into(), code: None }
    }

    #[test]
    fn a_failure_for_good_is_not_recovered_from() {
        let health = Health::default();
        let why = |health: &Health| health.check().err().map(|failure| failure.text);
        assert!(health.stall(failure("full")));
        assert!(!health.stall(failure("still full")), "known already");
        assert_eq!(why(&health).as_deref(), Some("still full"));
        assert!(health.check_alive().is_ok());
        assert!(health.recover() && !health.recover());
        assert_eq!(why(&health), None);
        health.stall(failure("full"));
        health.fail(failure("lost"));
        health.fail(failure("lost again"));
        assert!(!health.stall(failure("full")) && !health.recover());
        assert_eq!(why(&health).as_deref(), Some("lost"));
        assert!(health.check_alive().is_err());
    }
}
