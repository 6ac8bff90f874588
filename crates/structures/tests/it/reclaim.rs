//! The free queue: everything is freed, step by step, and a full heap does not stop it.

use crate::memory::Memory;
use heap::{Ptr, View};
use structures::blob::Blob;
use structures::index::Index;
use structures::reclaim::{Owned, Part, Queue};
use structures::tree::{self, Item, Tree, empty_root};
use structures::{Fill, Store};

const OWNER: u16 = 7;

fn queue() -> Queue {
    Queue::at(Memory::root(0))
}

fn hash(key: u64) -> u64 {
    key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

/// Adds entries of a key and a blob's word.
fn fill(memory: &mut Memory, root: Ptr, keys: u64, blob_of: impl Fn(&mut Memory, u64) -> Blob) {
    for key in 0..keys {
        let blob = blob_of(memory, key);
        let fresh = memory.reserve(16).expect("free memory");
        memory.write_word(&fresh, 0, key);
        memory.write_word(&fresh, 8, blob.word());
        let entry = memory.publish(fresh, 16);
        let rehash = |memory: &Memory, entry| hash(memory.word(entry));
        Index::at(root).insert(memory, hash(key), entry, rehash).expect("free memory");
        memory.commit();
    }
}

/// Frees an entry, or the blob that an item owns.
fn free_owned(memory: &mut Memory, owner: u16, owned: Owned) -> Result<usize, heap::Full> {
    assert_eq!(owner, OWNER);
    let entry = match owned {
        Owned::Entry(entry) => entry,
        Owned::Item(item) => return Ok(Blob::from_word(item.second).free_step(memory, 1).1),
    };
    let blob = Blob::from_word(memory.word(entry.add(8)));
    let mut freed = 1;
    if blob.is_large() {
        queue().push_blob(memory, blob)?;
    } else {
        freed += blob.free_step(memory, 1).1;
    }
    memory.free(entry);
    Ok(freed)
}

fn check(memory: &Memory) {
    let mut reachable = Vec::new();
    queue()
        .check(
            memory,
            |_, entry| hash(memory.word(entry)),
            |_, part| match part {
                Part::Block(block) => reachable.push(block),
                Part::Owned(Owned::Item(item)) => {
                    Blob::from_word(item.second).blocks(memory, |block| reachable.push(block));
                }
                Part::Owned(Owned::Entry(entry)) => {
                    reachable.push(entry);
                    Blob::from_word(memory.word(entry.add(8)))
                        .blocks(memory, |block| reachable.push(block));
                }
            },
        )
        .expect("sound");
    reachable.sort();
    assert_eq!(reachable, memory.blocks());
}

/// Drains the queue; returns the number of steps.
fn drain(memory: &mut Memory, budget: usize, most: usize) -> usize {
    for step in 0.. {
        check(memory);
        if queue().is_empty(memory) {
            return step;
        }
        let freed = queue().step(memory, budget, free_owned).expect("free memory");
        assert!(freed > 0 && freed <= most, "{freed} blocks in a step of {budget}");
        let cost = memory.commit();
        assert!(cost.freed >= freed.min(1), "{cost:?}");
    }
    unreachable!("the loop ends by its answer")
}

#[test]
fn a_large_blob_goes_in_steps() {
    let mut memory = Memory::new();
    let blob = Blob::create(&mut memory, &vec![b'x'; 20_000_000]).expect("free memory");
    memory.commit();
    queue().push_blob(&mut memory, blob).expect("free memory");
    let cost = memory.commit();
    assert_eq!((cost.words, cost.published, cost.blocks), (1, 32, 1));
    let steps = drain(&mut memory, 10, 13);
    assert!(steps >= 30);
    assert_eq!(memory.blocks(), []);
}

#[test]
fn an_index_goes_with_all_its_entries() {
    let mut memory = Memory::new();
    let root = Memory::root(1);
    fill(&mut memory, root, 5000, |memory, key| match key % 100 {
        0 => Blob::create(memory, &vec![b'x'; 70_000]).expect("free memory"),
        1..50 => Blob::create(memory, b"a short value").expect("free memory"),
        _ => Blob::EMPTY,
    });
    queue().push_index(&mut memory, root, OWNER).expect("free memory");
    assert_eq!(memory.commit().words, 2);
    assert_eq!(memory.word(root), 0);
    drain(&mut memory, 20, 20 + 100);
    assert_eq!(memory.blocks(), []);
}

#[derive(Clone, Copy)]
struct Numbers;

impl tree::Kind for Numbers {
    const SORTED: bool = true;

    fn weight(_: Item) -> u64 {
        1
    }
}

#[test]
fn a_tree_goes_with_what_its_items_own() {
    let mut memory = Memory::new();
    let root = Memory::root(1);
    let tree = Tree::<Numbers>::at(root);
    memory.set(root, empty_root());
    for number in 0..3000u64 {
        let blob = Blob::create(&mut memory, b"an element").expect("free memory");
        let item = Item { first: number * 7919 % 3001, second: blob.word() };
        let place = tree.seek(&memory, |other| other.first < item.first);
        tree.insert(&mut memory, &place, item).expect("free memory");
        memory.commit();
    }
    queue().push_tree(&mut memory, root, OWNER).expect("free memory");
    assert_eq!((memory.commit().words, memory.word(root)), (2, empty_root()));
    let steps = drain(&mut memory, 50, 50 + 40);
    assert!(steps > 3000 / 90, "{steps}");
    assert_eq!(memory.blocks(), []);
}

#[test]
fn equal_hashes_go_in_bounded_steps() {
    let mut memory = Memory::new();
    let root = Memory::root(1);
    for key in 0..1000 {
        let fresh = memory.reserve(16).expect("free memory");
        memory.write_word(&fresh, 0, key);
        memory.write_word(&fresh, 8, 0);
        let entry = memory.publish(fresh, 16);
        Index::at(root).insert(&mut memory, 42, entry, |_, _| 42).expect("free memory");
        memory.commit();
    }
    queue().push_index(&mut memory, root, OWNER).expect("free memory");
    memory.commit();
    while !queue().is_empty(&memory) {
        let freed = queue().step(&mut memory, 20, free_owned).expect("free memory");
        memory.commit();
        assert!(freed <= 20 + 70, "{freed}");
    }
    assert_eq!(memory.blocks(), []);
}

#[test]
fn a_full_heap_still_deletes() {
    let mut memory = Memory::new();
    let root = Memory::root(1);
    fill(&mut memory, root, 300, |memory, _| {
        Blob::create(memory, &vec![b'x'; 70_000]).expect("free memory")
    });
    memory.reservations_left = 0;
    queue().push_index(&mut memory, root, OWNER).expect("the kept room");
    memory.commit();
    drain(&mut memory, 20, 20 + 100);
    assert_eq!(memory.blocks(), []);
}

#[test]
fn nothing_to_free_is_no_work() {
    let mut memory = Memory::new();
    queue().push_blob(&mut memory, Blob::EMPTY).expect("nothing");
    queue().push_index(&mut memory, Memory::root(1), OWNER).expect("nothing");
    assert_eq!(queue().step(&mut memory, 10, free_owned), Ok(0));
    assert_eq!(memory.commit().words, 0);
}

#[test]
fn a_queue_that_leads_back_to_itself_is_reported() {
    let mut memory = Memory::new();
    let mut nodes = Vec::new();
    for _ in 0..4 {
        let blob = Blob::create(&mut memory, &[7; 200_000]).expect("free memory");
        queue().push_blob(&mut memory, blob).expect("free memory");
        memory.commit();
        nodes.push(Ptr::from_raw(memory.word(Memory::root(0))));
    }
    check(&memory);
    // The oldest node leads to the third, like the newest.
    let word = memory.word(nodes[3]);
    memory.put(nodes[0], word);
    let mut parts = 0;
    let visit = |_, _| {
        parts += 1;
        assert!(parts < 200, "{parts} parts of a queue of four");
    };
    let checked = queue().check(&memory, |_, _| 0, visit);
    assert_eq!(checked.err().map(|damaged| damaged.what), Some("free queue"));
}
