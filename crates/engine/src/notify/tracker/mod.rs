//! Who is to be told of which changed keys (CLIENT TRACKING): those that read a key, and those that
//! named a prefix of it.

mod keys;
mod message;
mod prefixes;

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use keys::CachedKeys;
use prefixes::Prefixes;

pub(crate) use keys::Readers;
pub(crate) use message::{Message, News};

/// Who is to be told of which keys.
pub struct Tracker {
    pub(crate) clients: AtomicUsize,
    pub(crate) keys: CachedKeys,
    pub(crate) prefixes: Prefixes,
}

impl Tracker {
    /// Makes a tracker of nobody, for a keyspace of this many shards.
    pub(crate) fn new(shards: usize) -> Tracker {
        let (clients, prefixes) = (AtomicUsize::new(0), Prefixes::default());
        Tracker { clients, keys: CachedKeys::new(shards), prefixes }
    }

    /// Returns how many clients want to be told.
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Keys that some client has, and how many copies there are of them.
    pub fn keys_and_copies(&self) -> (usize, usize) {
        (self.keys.len(), self.keys.copies())
    }

    /// Prefixes that some client wants to be told of.
    pub fn prefixes(&self) -> usize {
        self.prefixes.len()
    }
}
