//! Retrying operations that may have read zeros in place of bytes that the medium lost.
//!
//! A transaction can tell only at its end whether what it read was true: its owner notes the
//! resolved losses before it begins ([`Keyspace::losses`]) and checks them before it commits or
//! replies ([`Keyspace::check_losses`]). A transaction that fails this check has changed nothing.
//! The owner of the lost bytes is then found ([`Keyspace::resolve_losses`]), and the transaction
//! may run again, a bounded number of times ([`Keyspace::retry_losses`]).

use crate::{CommitError, Keyspace};

/// The maximum number of attempts at an operation while the medium goes on losing bytes.
const TRIES: usize = 8;

/// How many times losses had been resolved at some moment; from [`Keyspace::losses`].
#[derive(Clone, Copy, Debug)]
pub struct Losses(u64);

impl Keyspace {
    /// Returns true if bytes were lost and it is not known yet what they belonged to: an open
    /// transaction may have read zeros in their place. One load.
    #[inline]
    pub fn has_unresolved_losses(&self) -> bool {
        self.heap().region().has_unresolved_losses()
    }

    /// Returns how many times losses were resolved so far. To be called before
    /// [`Keyspace::has_media_errors`].
    #[inline]
    pub fn losses(&self) -> Losses {
        Losses(self.heap().region().resolutions())
    }

    /// Returns true if what was read since `losses` may be wrong: zeros may have been read in place
    /// of lost bytes, even if another thread has resolved the loss meanwhile, or a key may not have
    /// been found whose damage was not known yet. Two loads.
    #[inline]
    pub fn has_lost_since(&self, losses: Losses) -> bool {
        self.heap().region().has_lost_since(losses.0)
    }

    /// Returns [`CommitError::UnresolvedLosses`] if [`Keyspace::has_lost_since`] is true.
    #[inline]
    pub fn check_losses(&self, since: Losses) -> Result<(), CommitError> {
        if self.has_lost_since(since) { Err(CommitError::UnresolvedLosses) } else { Ok(()) }
    }

    /// Runs an attempt at an operation. If it fails because of a loss (`is_loss`), which means that
    /// it changed nothing, finds out what the lost bytes belonged to. The caller must not hold a
    /// shard.
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

    /// Like [`Keyspace::attempt`], but repeats the attempt, a bounded number of times, while it
    /// fails because of a loss.
    #[inline]
    pub fn retry_losses<R, E>(
        &self,
        is_loss: impl Fn(&E) -> bool,
        mut attempt: impl FnMut(Losses) -> Result<R, E>,
    ) -> Result<R, E> {
        // The attempt is called in only one place, so that the compiler inlines it.
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
