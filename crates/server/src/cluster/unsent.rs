//! How many bytes wait to be sent to other nodes: the task of the bus counts, CLUSTER LINKS shows.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ::cluster::LinkId;

/// The bytes of each link.
#[derive(Default)]
pub(super) struct Unsent {
    links: Mutex<BTreeMap<LinkId, Arc<AtomicU64>>>,
    /// How many links were closed since too much waited on them.
    pub(super) closed: AtomicU64,
}

impl Unsent {
    pub(super) fn links(&self) -> MutexGuard<'_, BTreeMap<LinkId, Arc<AtomicU64>>> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns them.
    pub(super) fn list(&self) -> Vec<(LinkId, u64)> {
        self.links().iter().map(|(link, bytes)| (*link, bytes.load(Relaxed))).collect()
    }
}
