//! A heap of one shard on each medium.

use heap::{CreateOptions, Geometry, Heap};
use pmem::{MapOptions, Region};
use tempfile::TempDir;

use crate::media::{Medium, folder};

/// A heap may grow to this: reached only by a benchmark that leaks.
const LIMIT: u64 = 2 << 30;

/// A heap, and the folder of its pool, which is to be kept as long.
pub(crate) struct Pool {
    /// The heap, of one shard.
    pub(crate) heap: Heap,
    _folder: Option<TempDir>,
}

impl Pool {
    /// Returns a new one.
    pub(crate) fn on(medium: Medium) -> Pool {
        let geometry = Geometry { shards: 1, ..Geometry::default() };
        let options = CreateOptions { geometry, ..CreateOptions::default() };
        let Some(domain) = medium.domain() else {
            let heap = Heap::volatile(LIMIT, &options).expect("a heap");
            return Pool { heap, _folder: None };
        };
        let folder = folder();
        let map = MapOptions { domain, emulate: true, ..MapOptions::new(LIMIT) };
        let region = Region::open(folder.path().join("pool"), &map).expect("a region");
        Pool { heap: Heap::create(region, &options).expect("a pool"), _folder: Some(folder) }
    }
}
