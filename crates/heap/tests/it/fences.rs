//! How many fences commits cost in a pool of many shards, including the retirement of their logs.

use heap::{CreateOptions, Geometry, Heap, Shard};
use pmem::{DomainRequest, MapOptions, Region};

fn pool(folder: &tempfile::TempDir, geometry: Geometry) -> Heap {
    let map =
        MapOptions { domain: DomainRequest::Clwb, emulate: true, ..MapOptions::new(64 << 20) };
    let region = Region::open(folder.path().join("pool"), &map).expect("a region");
    let options = CreateOptions { geometry, boot_id: [1; 16], ..CreateOptions::default() };
    Heap::create(region, &options).expect("a pool")
}

/// Changes this many words of each of some shards in one transaction; returns the number of fences
/// that its commit took.
fn commit(heap: &Heap, shards: impl Iterator<Item = usize>, words: u64, round: u64) -> u64 {
    let mut locked: Vec<Shard<'_>> = shards.map(|shard| heap.lock(shard)).collect();
    for shard in &mut locked {
        for word in 0..words {
            let root = shard.root(word as usize);
            shard.set(root, round * words + word + 1);
        }
    }
    let before = pmem::counters().fences;
    heap.commit_all(&mut locked).expect("a commit");
    pmem::counters().fences - before
}

const SHARDS: usize = 16;
const ROUNDS: u64 = 4000;

fn sixteen() -> Geometry {
    Geometry { shards: SHARDS, ring_parts: 8, ring_part: 32 << 10, zone_spans: 64 }
}

#[test]
fn a_commit_takes_one_fence_however_many_logs_it_retires() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    let heap = pool(&folder, sixteen());
    let all = (0..ROUNDS).map(|round| commit(&heap, 0..SHARDS, 10, round)).sum::<u64>();
    assert_eq!(all, ROUNDS, "changes of all shards");
    let some = (0..ROUNDS).map(|round| {
        let first = round as usize * 7 % SHARDS;
        let mut shards: Vec<usize> = (first..first + 10).map(|n| n % SHARDS).collect();
        shards.sort_unstable();
        commit(&heap, shards.into_iter(), 12, round)
    });
    assert_eq!(some.sum::<u64>(), ROUNDS, "pipelines over ten shards");
    let one =
        (0..ROUNDS).map(|round| commit(&heap, [round as usize % SHARDS].into_iter(), 5, round));
    assert_eq!(one.sum::<u64>(), ROUNDS, "changes of one shard");
}

#[test]
fn records_that_take_a_part_each_cost_one_more_fence() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    // A part has 64 words.
    let geometry = Geometry { shards: 2, ring_parts: 3, ring_part: 512, zone_spans: 64 };
    let heap = pool(&folder, geometry);
    let fences: Vec<u64> =
        (0..100).map(|round| commit(&heap, [0].into_iter(), 20, round)).collect();
    assert_eq!(fences[..3], [1, 1, 1]);
    assert!(fences[3..].iter().all(|&fences| fences == 2), "{fences:?}");
}
