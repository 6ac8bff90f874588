//! The structures on the heap itself: fences and lines of a commit, blobs filled without the lock,
//! and a full heap.

use std::sync::Arc;

use heap::{CreateOptions, Full, Geometry, Heap, Ptr, Shard, View};
use pmem::{Recorder, Region};
use structures::blob::{Blob, MAX_BLOCK_LEN, Reservation};
use structures::index::Index;
use structures::list::{Limits, List, Side};
use structures::listpack;
use structures::reclaim::{Owned, Queue};
use structures::tree::{Item, Kind, Tree, empty_root};

#[derive(Debug)]
struct Nobody;

impl Recorder for Nobody {
    fn store(&self, _: u64, _: &[u8]) {}
    fn flush(&self, _: u64) {}
    fn fence(&self) {}
}

fn options() -> CreateOptions {
    let geometry = Geometry { shards: 1, ring_parts: 8, ring_part: 32 * 1024, zone_spans: 64 };
    CreateOptions { geometry, ..CreateOptions::default() }
}

/// Creates a heap that flushes lines, which are counted.
fn durable() -> Heap {
    let region = Region::simulated_growing(64 << 20, Arc::new(Nobody));
    Heap::create(region, &options()).expect("free memory")
}

fn volatile(limit: u64) -> Heap {
    Heap::volatile(limit, &options()).expect("free memory")
}

/// Returns the fences and lines that `run` and the commit cost.
fn cost(shard: &mut Shard<'_>, run: impl FnOnce(&mut Shard<'_>)) -> (u64, u64) {
    let before = pmem::counters();
    run(shard);
    shard.commit().expect("durable");
    let after = pmem::counters();
    (after.fences - before.fences, after.lines - before.lines)
}

fn hash(key: u64) -> u64 {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

fn insert(shard: &mut Shard<'_>, index: Index, key: u64) -> Result<(), Full> {
    let fresh = shard.reserve(16)?;
    shard.write_word(&fresh, 0, key);
    shard.write_word(&fresh, 8, 0);
    let entry = shard.publish(fresh, 16);
    index.insert(shard, hash(key), entry, |shard, entry| hash(shard.word(entry)))
}

fn remove(shard: &mut Shard<'_>, index: Index, key: u64) {
    let found = index.find(shard, hash(key), |entry| shard.word(entry) == key);
    let slot = found.expect("the key");
    shard.free(slot.entry());
    index.remove(shard, slot);
}

/// Returns the median and the maximum of some numbers.
fn spread(mut numbers: Vec<u64>) -> (u64, u64) {
    numbers.sort_unstable();
    (numbers[numbers.len() / 2], numbers[numbers.len() - 1])
}

#[test]
fn an_insert_is_one_fence_and_the_entry_and_two_lines() {
    let heap = durable();
    let mut shard = heap.lock(0);
    let index = Index::at(shard.root(1));
    for key in 0..400 {
        insert(&mut shard, index, key).expect("free memory");
        shard.commit().expect("durable");
    }
    let inserts: Vec<(u64, u64)> = (400..480)
        .map(|key| cost(&mut shard, |shard| insert(shard, index, key).expect("free memory")))
        .collect();
    let lines = spread(inserts.iter().map(|cost| cost.1).collect());
    let removals: Vec<(u64, u64)> =
        (0..200).map(|key| cost(&mut shard, |shard| remove(shard, index, key))).collect();
    let removed = spread(removals.iter().map(|cost| cost.1).collect());
    println!("lines of an insert {lines:?}, of a removal {removed:?} (median, most)");
    // One each, and one for each section of the log that is retired.
    let fences: u64 = inserts.iter().chain(&removals).map(|cost| cost.0).sum();
    assert!(fences <= 280 + 4, "{fences}");
    assert!(lines.0 <= 3 && removed.0 <= 2);
}

#[derive(Clone, Copy)]
struct Sorted;

impl Kind for Sorted {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

#[test]
fn a_change_of_a_tree_is_one_fence_and_few_lines() {
    let heap = durable();
    let mut shard = heap.lock(0);
    let root = shard.root(1);
    let tree = Tree::<Sorted>::at(root);
    shard.set(root, empty_root());
    let insert = |shard: &mut Shard<'_>, key: u64| {
        let at = tree.seek(shard, |item| item.first < hash(key));
        tree.insert(shard, &at, Item { first: hash(key), second: key }).expect("free memory");
    };
    for key in 0..20_000 {
        insert(&mut shard, key);
        shard.commit().expect("durable");
    }
    let inserts: Vec<(u64, u64)> =
        (20_000..20_500).map(|key| cost(&mut shard, |shard| insert(shard, key))).collect();
    let removals: Vec<(u64, u64)> = (0..500)
        .map(|key| {
            cost(&mut shard, |shard| {
                let at = tree.seek(shard, |item| item.first < hash(key));
                tree.remove(shard, &at).expect("the key");
            })
        })
        .collect();
    let fences: u64 = inserts.iter().chain(&removals).map(|cost| cost.0).sum();
    let lines = spread(inserts.iter().map(|cost| cost.1).collect());
    let removed = spread(removals.iter().map(|cost| cost.1).collect());
    println!(
        "lines of an insert {lines:?}, of a removal {removed:?} (median, most); {fences} fences"
    );
    // One each, and one for each section of the log that is retired.
    assert!(fences < 1000 + 30, "{fences}");
    assert!(lines.0 <= 4 && removed.0 <= 3, "{lines:?} {removed:?}");
}

fn push(shard: &mut Shard<'_>, list: List, side: Side, number: usize) -> List {
    let element = format!("element {number}");
    let (item, limits) = (listpack::Item::Bytes(element.as_bytes()), Limits::new(8192, 9999));
    list.push(shard, side, item, limits).expect("free memory")
}

#[test]
fn a_push_and_a_pop_are_one_fence_and_few_lines() {
    let heap = durable();
    let mut shard = heap.lock(0);
    let (root, queue) = (shard.root(1), Queue::at(shard.root(0)));
    for side in [Side::Head, Side::Tail] {
        let mut list = List::EMPTY;
        for number in 0..5000 {
            list = push(&mut shard, list, side, number);
            shard.set(root, list.word());
            shard.commit().expect("durable");
        }
        let mut costs = |run: &mut dyn FnMut(&mut Shard<'_>)| -> ((u64, u64), (u64, u64)) {
            let costs: Vec<(u64, u64)> = (0..200).map(|_| cost(&mut shard, &mut *run)).collect();
            (
                spread(costs.iter().map(|cost| cost.0).collect()),
                spread(costs.iter().map(|cost| cost.1).collect()),
            )
        };
        let pushes = costs(&mut |shard| list = push(shard, list, side, 0));
        let pops = costs(&mut |shard| {
            list = list.pop(shard, queue, side, 1, true, |_, _| {}).expect("sound");
        });
        println!("{side:?}: push {pushes:?}, pop {pops:?} (fences, lines; median, most)");
        assert!(pushes.0.0 == 1 && pops.0.0 == 1 && pushes.1.0 <= 3 && pops.1.0 <= 1);
    }
}

#[test]
fn elements_of_a_list_take_little_more_than_their_bytes() {
    for side in [Side::Head, Side::Tail] {
        let heap = volatile(64 << 20);
        let mut shard = heap.lock(0);
        let (mut list, mut bytes) = (List::EMPTY, 0);
        for number in 0..100_000 {
            bytes += format!("element {number}").len();
            list = push(&mut shard, list, side, number);
            shard.commit().expect("committed");
        }
        drop(shard);
        let more = (heap.used() as f64 - bytes as f64) / 100_000.0;
        println!("{more:.2} bytes beyond each element");
        assert!(more < 2.5, "{more}");
    }
}

#[test]
fn an_append_is_one_fence_and_few_lines() {
    let heap = durable();
    let mut shard = heap.lock(0);
    let root = shard.root(1);
    for len in [900, 100_000] {
        let mut blob = Blob::create(&mut shard, &vec![b'x'; len]).expect("free memory");
        blob = blob.append(&mut shard, &[b'y'; 8]).expect("free memory");
        shard.set(root, blob.word());
        shard.commit().expect("durable");
        let (fences, lines) = cost(&mut shard, |shard| {
            assert_eq!(blob.append(shard, b"some bytes"), Ok(blob));
        });
        println!("append to {len} bytes: {fences} fence, {lines} lines");
        assert!(fences == 1 && lines <= 4, "{fences} {lines}");
    }
}

#[test]
fn a_reservation_is_filled_without_the_lock() {
    let heap = volatile(64 << 20);
    for len in [0, 1, 20_000, MAX_BLOCK_LEN, MAX_BLOCK_LEN + 1, 65_537, 1 << 20, 17 << 20] {
        let mut reservation = Reservation::new(len);
        while !reservation.reserve(&mut heap.lock(0), 10).expect("free memory") {}
        let blob = reservation.fill(|at, piece| piece.fill((at >> 16) as u8)).expect("reserved");
        let mut shard = heap.lock(0);
        reservation.adopt(&mut shard);
        shard.set(shard.root(1), blob.word());
        shard.commit().expect("committed");
        assert_eq!(blob.len(&shard), Ok(len));
        blob.check(&shard).expect("sound");
        let mut blocks = Vec::new();
        blob.blocks(&shard, |block| blocks.push(block));
        drop(shard);
        assert_eq!(allocated(&heap), sorted(blocks), "{len} bytes");
        let mut shard = heap.lock(0);
        let mut rest = blob;
        while rest != Blob::EMPTY {
            rest = rest.free_step(&mut shard, 100).0;
        }
        shard.set(shard.root(1), 0);
        shard.commit().expect("committed");
    }
}

#[test]
fn a_dropped_reservation_leaves_nothing() {
    let heap = volatile(64 << 20);
    let mut reservation = Reservation::new(1 << 20);
    while !reservation.reserve(&mut heap.lock(0), 10).expect("free memory") {}
    drop(reservation);
    heap.lock(0).commit().expect("committed");
    assert_eq!(allocated(&heap), []);
    assert_eq!(heap.used(), 0);
}

#[test]
fn a_full_heap_refuses_inserts_loses_nothing_and_deletes() {
    let heap = volatile(1);
    let mut shard = heap.lock(0);
    let index = Index::at(shard.root(1));
    let mut keys = 0;
    while insert(&mut shard, index, keys).is_ok() {
        keys += 1;
        shard.commit().expect("committed");
    }
    shard.rollback();
    assert!(keys > 10_000, "{keys}");
    for key in 0..keys {
        let found = index.find(&shard, hash(key), |entry| shard.word(entry) == key);
        assert!(found.is_some(), "{key} of {keys}");
    }
    let queue = Queue::at(shard.root(0));
    let root = shard.root(1);
    queue.push_index(&mut shard, root, 0).expect("the kept room");
    shard.commit().expect("committed");
    let free = |shard: &mut Shard<'_>, _, owned| {
        if let Owned::Entry(entry) = owned {
            shard.free(entry);
        }
        Ok(1)
    };
    while queue.step(&mut shard, 100, free).expect("the kept room") > 0 {
        shard.commit().expect("committed");
    }
    shard.commit().expect("committed");
    drop(shard);
    assert_eq!(allocated(&heap), []);
}

fn allocated(heap: &Heap) -> Vec<Ptr> {
    let blocks = heap.allocated().expect("sound metadata");
    blocks.into_iter().map(|block| block.ptr).collect()
}

fn sorted(mut places: Vec<Ptr>) -> Vec<Ptr> {
    places.sort();
    places
}
