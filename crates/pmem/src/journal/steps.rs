//! What the two background threads do, step by step, for simulations that run it in threads of
//! their own.

use super::background::{Applying, Duty, Syncing};
use super::error::JournalError;
use crate::region::Region;
use std::time::Duration;

/// The thread that syncs.
pub struct SyncSteps(Syncing);

/// The thread that applies.
pub struct ApplySteps(Applying);

impl Region {
    /// Returns what the two background threads of the journal do; none without one.
    pub fn background_steps(&self) -> Option<(SyncSteps, ApplySteps)> {
        let journal = self.journal.as_ref()?;
        Some((SyncSteps(Syncing::new(journal)), ApplySteps(Applying::new(journal))))
    }
}

impl SyncSteps {
    /// Looks, as the thread does several times a second.
    pub fn look(&mut self, region: &Region, every: Option<Duration>) -> Result<(), JournalError> {
        region.with_journal_and_lines(|journal, copy| self.0.look(journal, every, copy))
    }
}

impl ApplySteps {
    /// Looks, as the thread does several times a second.
    pub fn look(&mut self, region: &Region) -> Result<(), JournalError> {
        region.with_journal_and_lines(|journal, copy| self.0.look(journal, None, copy))
    }
}
