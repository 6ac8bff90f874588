//! Counted trees with wrong weights: every walk ends, and every verification reports them.
//!
//! A weight has no checksum next to it: it is compared with the sum below. Each weight of the inner
//! nodes is changed, bit by bit.

use crate::memory::Memory;
use heap::{Ptr, View};
use structures::list::{Limits as ListLimits, List, Side};
use structures::listpack::Item;
use structures::sorted_set::SortedSet;
use structures::stream::{Id, Limits, Stream};

const SLOTS: u64 = 30;

/// The words of an inner node's header, and of its first items, second items and children.
const BEFORE_WEIGHTS: u64 = 8 + 3 * SLOTS;
const CHILDREN: u64 = 8 + 2 * SLOTS;

fn word_at(node: Ptr, word: u64) -> Ptr {
    node.add(8 * word)
}

/// Returns the places of the weights of a tree's inner nodes.
fn weights(view: &Memory, node: Ptr) -> Vec<Ptr> {
    let height = view.word(node) & 0xff;
    if height == 0 {
        return Vec::new();
    }
    let count = view.word(word_at(node, 1)) & 0xff;
    let order = |position: u64| {
        let byte = 1 + position;
        view.word(word_at(node, 1 + byte / 8)) >> (8 * (byte % 8)) & 0xff
    };
    let mut all = Vec::new();
    for slot in (0..count).map(order) {
        all.push(word_at(node, BEFORE_WEIGHTS + slot));
        all.extend(weights(view, Ptr::from_raw(view.word(word_at(node, CHILDREN + slot)))));
    }
    all
}

/// Flips every few bits of the weights below a root word, one at a time; `walk` must end and find
/// it.
fn with_each_flipped(memory: &mut Memory, root: Ptr, mut walk: impl FnMut(&mut Memory, &str)) {
    let root = structures::self_checksummed::decode(memory.word(root)).expect("a root");
    let root = Ptr::from_raw(root);
    let all = weights(memory, root);
    assert!(all.len() > 30, "{} weights", all.len());
    for at in all.into_iter().step_by(17) {
        for bit in [0, 3, 4, 5, 40, 63] {
            memory.flip(at, bit);
            walk(memory, &format!("bit {bit} of {:#x}", at.raw()));
            memory.flip(at, bit);
        }
    }
}

fn hash(member: &[u8]) -> u64 {
    member.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

#[test]
fn a_sorted_set_with_a_wrong_weight_is_damaged_and_every_walk_ends() {
    const MEMBERS: u64 = 3000;
    let mut memory = Memory::new();
    let set = SortedSet::create(&mut memory).expect("free memory");
    for n in 0..MEMBERS {
        set.insert(&mut memory, hash, format!("member {n}").as_bytes(), n as f64)
            .expect("free memory");
        memory.commit();
    }
    with_each_flipped(&mut memory, set.ptr().add(16), |memory, what| {
        let (mut rank, mut steps, mut found) = (0, 0, false);
        while steps == 0 || rank != 0 {
            steps += 1;
            assert!(steps <= MEMBERS, "{what}: a scrub without end");
            match set.check_leaf(memory, rank, hash) {
                Ok((next, _)) => rank = next,
                Err(_) => {
                    found = true;
                    break;
                }
            }
        }
        assert!(found, "{what}: not found");
        let (mut cursor, mut steps) = (0, 0);
        while steps == 0 || cursor != 0 {
            steps += 1;
            assert!(steps <= 2 * MEMBERS, "{what}: a defragmentation without end");
            cursor = set.defragment(memory, cursor, 100, || {}).expect("free memory");
        }
        memory.rollback();
        for rank in [0, MEMBERS / 2, MEMBERS - 1] {
            for backwards in [false, true] {
                let mut shown = 0;
                let done = set.visit(memory, rank, backwards, true, |_, _| {
                    shown += 1;
                    true
                });
                let wanted = if backwards { rank + 1 } else { MEMBERS - rank };
                assert!(done.is_err() || shown == wanted, "{what}: {shown} of {wanted}");
            }
        }
    });
}

#[test]
fn a_stream_with_a_wrong_weight_is_damaged_and_every_walk_ends() {
    const ENTRIES: u64 = 1500;
    let mut memory = Memory::new();
    let mut stream = Stream::create(&mut memory).expect("free memory");
    for n in 0..ENTRIES {
        let pairs = [(Item::Bytes(b"field"), Item::Bytes(b"value"))];
        let id = Id { ms: n, seq: 1 };
        stream.append(&mut memory, id, &pairs, Limits::new(4096, 1)).expect("free memory");
    }
    stream.save(&mut memory);
    memory.commit();
    // The first root is after the seven words of the header and their checksum.
    with_each_flipped(&mut memory, Ptr::from_raw(stream.word()).add(64), |memory, what| {
        let (mut number, mut steps, mut found) = (0, 0, false);
        while steps == 0 || number != 0 {
            steps += 1;
            assert!(steps <= ENTRIES, "{what}: a scrub without end");
            match stream.check_step(memory, number) {
                Ok((next, _)) => number = next,
                Err(_) => {
                    found = true;
                    break;
                }
            }
        }
        assert!(found, "{what}: not found");
        let copied: Result<Vec<_>, _> =
            (0..ENTRIES).map(|number| stream.copy_node(memory, number)).collect();
        assert!(copied.is_err(), "{what}: copied");
        let mut moving = stream;
        let moved = (0..ENTRIES).try_for_each(|n| moving.relocate(memory, n).map(drop));
        assert!(moved.is_err(), "{what}: moved");
        memory.rollback();
    });
}

#[test]
fn a_list_with_a_wrong_weight_is_damaged_and_every_walk_ends() {
    const ELEMENTS: u64 = 1500;
    let mut memory = Memory::new();
    let mut list = List::EMPTY;
    for _ in 0..ELEMENTS {
        let (item, limits) = (Item::Bytes(b"element"), ListLimits::new(4096, 1));
        list = list.push(&mut memory, Side::Tail, item, limits).expect("free memory");
    }
    memory.commit();
    // A long list's word is its header's place and a bit; the tree's root is the third word there.
    let root = Ptr::from_raw(list.word() & !7).add(16);
    with_each_flipped(&mut memory, root, |memory, what| {
        let (mut index, mut steps, mut found) = (0, 0, false);
        while steps == 0 || index != 0 {
            steps += 1;
            assert!(steps <= ELEMENTS, "{what}: a scrub without end");
            match list.check_node(memory, index) {
                Ok((next, _)) => index = next,
                Err(_) => {
                    found = true;
                    break;
                }
            }
        }
        assert!(found, "{what}: not found");
    });
}
