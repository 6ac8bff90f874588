//! Running again what may have read zeros in the place of bytes that the medium lost.
//!
//! A transaction learns only at its end whether what it read was true: it asks for the losses
//! before it begins ([`Keyspace::losses`]) and checks them before it commits or answers
//! ([`Keyspace::check_losses`]). One that fails so has changed nothing. What the lost bytes meant
//! is found out then ([`Keyspace::resolve_losses`]), and the transaction may run again, a bounded
//! number of times ([`Keyspace::retry_losses`]).

use crate::{CommitError, Keyspace};

/// How often an operation is tried while the medium goes on losing bytes.
const TRIES: usize = 8;

/// A moment in the life of a store whose medium may lose bytes; from [`Keyspace::losses`].
#[derive(Clone, Copy, Debug)]
pub struct Losses(u64);

impl Keyspace {
    /// Returns true if bytes were lost and nobody knows yet what they were: what was read in a
    /// transaction that is still open may be zeros. One load.
    #[inline]
    pub fn has_unresolved_losses(&self) -> bool {
        self.heap().region().has_unresolved_losses()
    }

    /// Returns the losses so far: to be asked before [`Keyspace::has_media_errors`].
    #[inline]
    pub fn losses(&self) -> Losses {
        Losses(self.heap().region().resolutions())
    }

    /// Returns true if what was read and asked since may be untrue: zeros in the place of lost
    /// bytes, even if the loss was settled by another thread in between, or a key not found whose
    /// damage was not known yet. Two loads.
    #[inline]
    pub fn has_lost_since(&self, losses: Losses) -> bool {
        self.heap().region().has_lost_since(losses.0)
    }

    /// Returns [`CommitError::UnresolvedLosses`] where [`Keyspace::has_lost_since`] is true.
    #[inline]
    pub fn check_losses(&self, since: Losses) -> Result<(), CommitError> {
        if self.has_lost_since(since) { Err(CommitError::UnresolvedLosses) } else { Ok(()) }
    }

    /// Runs an attempt at an operation. Where its error is of a loss (`is_loss`), which means that
    /// it changed nothing, finds out what the lost bytes were. The caller holds no shard.
    #[inline]
    pub fn attempt<R, E>(
        &self,
        is_loss: impl FnOnce(&E) -> bool,
        attempt: impl FnOnce(Losses) -> Result<R, E>,
    ) -> Result<R, E> {
        let done = attempt(self.losses());
        if done.as_ref().is_err_and(is_loss) {
            self.resolve_losses();
        }
        done
    }

    /// As [`Keyspace::attempt`], and again while a loss ends it; a bounded number of times.
    #[inline]
    pub fn retry_losses<R, E>(
        &self,
        is_loss: impl Fn(&E) -> bool,
        mut attempt: impl FnMut(Losses) -> Result<R, E>,
    ) -> Result<R, E> {
        // The attempt is called in one place, so that the compiler makes it a part of its caller.
        let mut tries = 0;
        loop {
            let done = self.attempt(&is_loss, &mut attempt);
            tries += 1;
            if tries == TRIES || !done.as_ref().is_err_and(&is_loss) {
                return done;
            }
        }
    }
}
