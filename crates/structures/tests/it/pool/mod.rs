//! The pool of one shard in which structures are crashed.

use heap::{CreateOptions, Geometry, Heap, Ptr};
use pmem::Region;

/// Opens the pool, or creates it if there is none.
pub(crate) fn open(region: Region) -> Result<Heap, String> {
    if !Heap::is_blank(&region) {
        let opened = Heap::open(region, [0; 16]);
        return opened.map(|(heap, _)| heap).map_err(|error| error.to_string());
    }
    let geometry = Geometry { shards: 1, ring_parts: 4, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    Heap::create(region, &options).map_err(|error| error.to_string())
}

/// Checks that the blocks that structures reach, each once, are the allocated ones.
pub(crate) fn check_reached(heap: &Heap, mut reached: Vec<Ptr>) -> Result<(), String> {
    reached.sort();
    let allocated = heap.allocated().map_err(|error| error.to_string())?;
    let allocated: Vec<Ptr> = allocated.into_iter().map(|block| block.ptr).collect();
    match (reached == allocated, heap.damaged()) {
        (true, 0) => Ok(()),
        (true, damaged) => Err(format!("{damaged} references to nothing")),
        (false, _) => {
            Err(format!("{} blocks allocated, {} reachable", allocated.len(), reached.len()))
        }
    }
}
