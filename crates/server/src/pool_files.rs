//! What the looks at the files of a pool found, and left for the next one.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use commands::admin::JournalFacts;

use crate::pool_rescue::Rescue;

/// What was found at the files of the pool.
#[derive(Default)]
pub(crate) struct PoolFiles {
    pub(crate) looking: Mutex<Looking>,
    /// What is wrong with the journal's file; empty if nothing is. Never held while a shard is
    /// waited for: INFO asks for it with all of them.
    journal: Mutex<String>,
    /// The data of a removed file, once it was written.
    pub(crate) rescued: Mutex<Option<Rescue>>,
    /// It is being written, or was: the server is about to end, and looks no more.
    pub(crate) rescues: AtomicBool,
}

/// What a look leaves for the next one.
#[derive(Default)]
pub(crate) struct Looking {
    /// The journal is not used any more, until the server is started again.
    pub(crate) is_left: bool,
}

impl PoolFiles {
    /// Adds to what is said of the journal that its file is not in its place.
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
