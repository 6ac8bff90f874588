//! The number of keys that a load is about to add, so that the indexes grow in few, large steps.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use structures::index::Index;

use crate::DATABASES;

/// For each physical database, the depth that the segments of its indexes will have (0: unknown).
#[derive(Debug, Default)]
pub(crate) struct ExpectedKeys {
    depths: [AtomicU32; DATABASES],
}

impl ExpectedKeys {
    /// Expects this many keys in each shard.
    pub(crate) fn set(&self, physical: u8, keys: u64) {
        if let Some(depth) = self.depths.get(usize::from(physical)) {
            depth.store(Index::depth_for(keys), Relaxed);
        }
    }

    /// Expects no new keys in any database.
    pub(crate) fn clear(&self) {
        self.depths.iter().for_each(|depth| depth.store(0, Relaxed));
    }

    pub(crate) fn depth(&self, physical: u8) -> u32 {
        self.depths.get(usize::from(physical)).map_or(0, |depth| depth.load(Relaxed))
    }
}
