//! The clients to notify of each changed key (CLIENT TRACKING): those that read the key, and those
//! that named a prefix of it.

mod keys;
mod message;
mod prefixes;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use keys::CachedKeys;
use prefixes::Prefixes;

pub(crate) use keys::Readers;
pub(crate) use message::{Message, News};

/// The clients to notify of changed keys.
pub struct Tracker {
    pub(crate) clients: AtomicUsize,
    pub(crate) keys: CachedKeys,
    pub(crate) prefixes: Prefixes,
}

impl Tracker {
    /// Makes a tracker without clients, for a keyspace of this many shards.
    pub(crate) fn new(shards: usize) -> Tracker {
        let (clients, prefixes) = (AtomicUsize::new(0), Prefixes::default());
        Tracker { clients, keys: CachedKeys::new(shards), prefixes }
    }

    /// Returns how many clients track keys.
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Returns how many keys clients have, and how many copies of them there are.
    pub fn keys_and_copies(&self) -> (usize, usize) {
        (self.keys.len(), self.keys.copies())
    }

    /// Returns how many prefixes clients track.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }
}
