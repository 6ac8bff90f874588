//! The results of the checks of the pool's files, kept for the next check.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use commands::admin::JournalFacts;

use crate::pool::rescue::Rescue;

/// The results of the checks of the pool's files.
#[derive(Default)]
pub(crate) struct PoolFiles {
    pub(crate) looking: Mutex<Looking>,
    /// What is wrong with the journal's file; empty if nothing is. Never locked while waiting for a
    /// shard, since INFO reads it with all shards locked.
    journal: Mutex<String>,
    /// The new files with the data of a removed one, once they were written.
    pub(crate) rescued: Mutex<Option<Rescue>>,
    /// Whether they are being written, or were: the server is about to end, and checks no more.
    pub(crate) rescues: AtomicBool,
}

/// The state that a check leaves for the next one.
#[derive(Default)]
pub(crate) struct Looking {
    /// Whether the journal was abandoned until the server is started again.
    pub(crate) is_left: bool,
}

impl PoolFiles {
    /// Adds to the journal's figures that its file is not in its place.
    pub(crate) fn add_to(&self, facts: JournalFacts) -> JournalFacts {
        match facts.failure.is_empty() {
            true => JournalFacts { failure: self.journal(), ..facts },
            false => facts,
        }
    }

    /// Returns what is wrong with the journal's file.
    pub(crate) fn journal(&self) -> String {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets what is wrong with the journal's file.
    pub(crate) fn set_journal(&self, why: String) {
        *self.journal.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}
