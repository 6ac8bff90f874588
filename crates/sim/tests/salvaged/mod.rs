//! Pools that lost a record of a log, and are salvaged.

use heap::{CreateOptions, Geometry, Heap, OpenError, Salvage, View};
use pmem::{NullRecorder, Region};
use sim::{Durability, Medium};
use std::sync::Arc;

/// The place of the only log's ring.
const RING: usize = 16384;
const RING_END: usize = RING + 3 * 4096;
/// In the area of a shard, the place of the hint, and that of the root words.
const HINT: usize = 64;
const ROOTS: usize = 1024;
const RESERVE: usize = 4 << 20;

/// A word is changed by several records, and the line of the newest is lost. In place the word is
/// durable if the pool was at rest, and there in any case if only the process ended. A salvage must
/// not store what an older record says.
pub(crate) fn a_lost_record_brings_no_older_word_back_into_a_salvaged_pool() {
    const VALUES: u64 = 5;
    for rests in [true, false] {
        let medium = Medium::new();
        let geometry = Geometry { shards: 1, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
        let options = CreateOptions { geometry, boot_id: [1; 16], ..CreateOptions::default() };
        let region = Region::simulated_growing(RESERVE, medium.clone());
        let heap = Heap::create(region, &options).expect("a pool");
        for value in 1..=VALUES {
            let mut shard = heap.lock(0);
            shard.set(shard.root(0), value);
            shard.commit().expect("a commit");
        }
        assert!(!rests || heap.retire_logs());
        let trace = medium.take();
        let mut durability = Durability::new(Vec::new());
        trace.events.iter().for_each(|event| durability.apply(&trace, *event));
        let mut image = if rests { durability.certain().to_vec() } else { durability.visible() };
        let used = image[RING..RING_END].iter().rposition(|byte| *byte != 0).expect("records");
        let line = RING + used / 64 * 64;
        image[line..line + 64].fill(0);
        let region = Region::simulated_from(&image, RESERVE, Arc::new(NullRecorder));
        let refused = Heap::open(region, [1; 16]).err();
        assert!(matches!(refused, Some(OpenError::DamagedLog { .. })), "{refused:?}");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool");
        std::fs::write(&path, &image).expect("the pool");
        let private = Region::inspect(&path).expect("a private copy");
        let boot = if rests { [2; 16] } else { [1; 16] };
        let salvage = Salvage::open(private, boot).expect("a pool");
        let found = salvage.word(salvage.root(0, 0));
        assert_eq!(found, VALUES, "at rest: {rests}; {:?}", salvage.notes());
    }
}

/// The machine went down within the recovery of a pool, when the tail had moved and the epoch had
/// not, and the line of the newest record is lost. The word that it changed is durable in place.
pub(crate) fn a_record_that_a_recovery_has_retired_may_be_lost() {
    const VALUES: u64 = 5;
    let medium = Medium::new();
    let geometry = Geometry { shards: 1, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, boot_id: [1; 16], ..CreateOptions::default() };
    let region = Region::simulated_growing(RESERVE, medium.clone());
    let heap = Heap::create(region, &options).expect("a pool");
    let mut root = 0;
    for value in 1..=VALUES {
        let mut shard = heap.lock(0);
        root = shard.root(0).raw() as usize;
        shard.set(shard.root(0), value);
        shard.commit().expect("a commit");
    }
    let trace = medium.take();
    let mut durability = Durability::new(Vec::new());
    trace.events.iter().for_each(|event| durability.apply(&trace, *event));
    let start = durability.certain().to_vec();
    let (tail, word) = (root - ROOTS, |image: &[u8], at: usize| image[at..at + 8].to_vec());
    let medium = Medium::new();
    let region = Region::simulated_from(&start, RESERVE, medium.clone());
    let (heap, _) = Heap::open(region, [1; 16]).expect("a pool");
    let trace = medium.take();
    drop(heap);
    let mut durability = Durability::new(start.clone());
    let mut image = start.clone();
    for event in &trace.events {
        durability.apply(&trace, *event);
        if word(durability.certain(), tail) != word(&start, tail) {
            break;
        }
        image = durability.certain().to_vec();
    }
    // The tail may get there before the fence after it, alone.
    let moved = word(durability.certain(), tail);
    assert_ne!(moved, word(&start, tail));
    image[tail..tail + 8].copy_from_slice(&moved);
    assert_eq!(word(&image, root), VALUES.to_le_bytes(), "it is in place");
    let used = image[RING..RING_END].iter().rposition(|byte| *byte != 0).expect("records");
    let line = RING + used / 64 * 64;
    image[line..line + 64].fill(0);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    std::fs::write(&path, &image).expect("the pool");
    let salvage = Salvage::open(Region::inspect(&path).expect("a copy"), [3; 16]);
    let salvage = salvage.expect("a pool");
    let found = salvage.word(salvage.root(0, 0));
    assert_eq!(found, VALUES, "{:?}", salvage.notes());
}

/// The process ended between the words of two shards that one transaction changed, when the record
/// of the first was known to be fenced, and an older record of it is lost. That the log ends after
/// the transaction still says that the second shard's record counts.
pub(crate) fn a_transaction_of_two_shards_is_salvaged_whole() {
    const VALUE: u64 = 77;
    let medium = Medium::new();
    let geometry = Geometry { shards: 2, ring_parts: 3, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, boot_id: [1; 16], ..CreateOptions::default() };
    let heap = Heap::create(Region::simulated_growing(RESERVE, medium.clone()), &options);
    let heap = heap.expect("a pool");
    let commit = |shard: usize, value: u64| {
        let mut shard = heap.lock(shard);
        shard.set(shard.root(0), value);
        shard.commit().expect("a commit");
    };
    (1..=5).for_each(|value| commit(0, value));
    commit(1, 1);
    let mut both = [heap.lock(0), heap.lock(1)];
    let root = both[1].root(1).raw() as usize;
    both.iter_mut().for_each(|shard| shard.set(shard.root(1), VALUE));
    heap.commit_all(&mut both).expect("a commit");
    drop(both);
    let trace = medium.take();
    let mut durability = Durability::new(Vec::new());
    trace.events.iter().for_each(|event| durability.apply(&trace, *event));
    let mut image = durability.visible();
    // In the second shard neither the word was stored yet, nor the hint after it.
    for at in [root, root - 8 - ROOTS + HINT] {
        assert_ne!(image[at..at + 8], [0; 8]);
        image[at..at + 8].fill(0);
    }
    let older = RING + 2 * 64;
    assert!(image[older..older + 64].iter().any(|byte| *byte != 0), "a record");
    image[older..older + 64].fill(0);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool");
    std::fs::write(&path, &image).expect("the pool");
    let salvage = Salvage::open(Region::inspect(&path).expect("a copy"), [1; 16]);
    let salvage = salvage.expect("a pool");
    let found = [0, 1].map(|shard| salvage.word(salvage.root(shard, 1)));
    assert_eq!(found, [VALUE; 2], "{:?}", salvage.notes());
    assert!(!salvage.notes().iter().any(|note| note.costs()), "{:?}", salvage.notes());
}
