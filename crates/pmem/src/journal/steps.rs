//! The work of the two background threads, step by step, for simulations that run it in their own
//! threads.

use super::background::{Applying, Duty, Syncing};
use super::error::JournalError;
use crate::region::Region;
use std::time::Duration;

/// The thread that syncs.
pub struct SyncSteps(Syncing);

/// The thread that applies.
pub struct ApplySteps(Applying);

impl Region {
    /// Returns the work of the journal's two background threads; `None` without a journal.
    pub fn background_steps(&self) -> Option<(SyncSteps, ApplySteps)> {
        let journal = self.journal.as_ref()?;
        Some((SyncSteps(Syncing::new(journal)), ApplySteps(Applying::new(journal))))
    }
}

impl SyncSteps {
    /// Takes one look, as the thread does several times a second.
    pub fn look(&mut self, region: &Region, every: Option<Duration>) -> Result<(), JournalError> {
        region.with_journal_and_words(|journal, copy| self.0.look(journal, every, copy))
    }
}

impl ApplySteps {
    /// Takes one look, as the thread does several times a second.
    pub fn look(&mut self, region: &Region) -> Result<(), JournalError> {
        region.with_journal_and_words(|journal, copy| self.0.look(journal, None, copy))
    }
}
