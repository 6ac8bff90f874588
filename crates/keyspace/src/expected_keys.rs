//! How many keys a load is about to bring, so that the indexes grow in few, large steps.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use structures::index::Index;

use crate::layout::physical;
use crate::{DATABASES, Db, Keyspace};

/// Of each physical database, the depth that the segments of its indexes will have (0: nothing is
/// known).
#[derive(Debug, Default)]
pub(crate) struct ExpectedKeys {
    depths: [AtomicU32; DATABASES],
}

impl ExpectedKeys {
    pub(crate) fn depth(&self, physical: u8) -> u32 {
        self.depths.get(usize::from(physical)).map_or(0, |depth| depth.load(Relaxed))
    }
}

impl Keyspace {
    /// Expects so many keys in a database until [`Keyspace::expect_no_keys`]. If they do not come, the
    /// index takes more space than it needs, sixteen times that of the keys which came at most.
    pub fn expect_keys(&self, db: Db, keys: u64) {
        let db = usize::from(physical(self.map.load(Relaxed), db.number()));
        let depth = Index::depth_for(keys / self.shards() as u64);
        self.expected.depths[db].store(depth, Relaxed);
    }

    /// Expects no more keys than there are.
    pub fn expect_no_keys(&self) {
        self.expected.depths.iter().for_each(|depth| depth.store(0, Relaxed));
    }
}
