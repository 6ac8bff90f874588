//! A table behaves like a map, verifies itself, and costs what its format says.

use std::collections::BTreeMap;

use crate::memory::{self, Memory};
use heap::{Ptr, View};
use structures::dict::{Dict, Member};
use structures::index::Index;
use structures::reclaim::{Owned, Queue};
use structures::{Fill, Store};

const QUEUE: Queue = Queue::at(Ptr::from_raw(64));
const OWNER: u16 = 3;
const TIMES: u16 = 5;

fn hash(field: &[u8]) -> u64 {
    field.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

fn put(store: &mut Memory, dict: Dict, field: &[u8], value: &[u8]) {
    match dict.find(store, hash(field), field, true).expect("sound") {
        Some(place) => dict.replace(store, QUEUE, place, field, value, None).expect("free memory"),
        None => dict.insert(store, hash, field, value, None).expect("free memory"),
    };
}

fn take(store: &mut Memory, dict: Dict, field: &[u8]) -> bool {
    let Some(place) = dict.find(store, hash(field), field, true).expect("sound") else {
        return false;
    };
    dict.remove(store, QUEUE, place).expect("free memory");
    true
}

fn check(store: &Memory, dict: Dict, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut found = BTreeMap::new();
    let mut cursor = 0;
    loop {
        cursor = dict.scan(store, cursor, 5, |member| {
            let (field, value) = (member.field(store), member.value(store));
            assert!(found.insert(field.into_owned(), value.into_owned()).is_none());
        });
        if cursor == 0 {
            break;
        }
    }
    assert!(found == *expected);
    assert_eq!(dict.len(store), expected.len() as u64);
    let (mut checked, mut blocks) = (Vec::new(), Vec::new());
    dict.check(store, hash, |at| store.capacity(at), |at| checked.push(at)).expect("sound");
    dict.blocks(store, |at| blocks.push(at));
    checked.sort_unstable();
    blocks.sort_unstable();
    assert_eq!(checked, blocks);
    blocks.dedup();
    assert_eq!(blocks.len(), checked.len(), "each block once");
}

fn text(random: &mut fastrand::Rng) -> Vec<u8> {
    let lengths = if random.u8(0..40) == 0 { &[8192, 8193, 70_000][..] } else { &[1, 2, 10, 300] };
    let len = lengths[random.usize(0..lengths.len())];
    vec![b'a' + random.u8(0..26); len]
}

#[test]
fn a_table_is_a_map() {
    for seed in 0..memory::steps(4) as u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut store = Memory::new();
        let dict = Dict::create(&mut store).expect("free memory");
        let mut model = BTreeMap::new();
        store.commit();
        for n in 0..memory::steps(1500) {
            let mut field = text(&mut random);
            field.extend(random.u8(0..40).to_le_bytes());
            if random.u8(0..3) == 0 {
                let was_there = model.remove(&field).is_some();
                assert_eq!(take(&mut store, dict, &field), was_there);
            } else {
                let value = text(&mut random);
                put(&mut store, dict, &field, &value);
                model.insert(field, value);
            }
            store.commit();
            if n % 250 == 0 {
                check(&store, dict, &model);
            }
        }
        check(&store, dict, &model);
        dict.release(&mut store, QUEUE, OWNER, TIMES).expect("free memory");
        store.commit();
        while !QUEUE.is_empty(&store) {
            let free = |store: &mut Memory, owner, owned| {
                assert_eq!(owner, OWNER);
                let Owned::Entry(at) = owned else { panic!("no tree was queued") };
                Member::at(at).release(store, QUEUE)
            };
            QUEUE.step(&mut store, 9, free).expect("free memory");
            store.commit();
        }
        assert_eq!(store.blocks(), [], "seed {seed}");
    }
}

/// Writes a member as it was before there was the shorter header.
fn write_old(store: &mut Memory, field: &[u8], value: &[u8], time: Option<u64>) -> Member {
    let timed = if time.is_some() { 1 << 31 } else { 0 };
    let lens = (field.len() as u64 | timed) | (value.len() as u64) << 32;
    let time = time.map(u64::to_le_bytes);
    let time: &[u8] = time.as_ref().map_or(&[], |time| time.as_slice());
    let checksum = heap::crc32c(&[&lens.to_le_bytes(), time, field, value].concat());
    let bytes = [&lens.to_le_bytes(), &checksum.to_le_bytes()[..], time, field, value].concat();
    let fresh = store.reserve(bytes.len()).expect("free memory");
    store.write(&fresh, 0, &bytes);
    Member::at(store.publish(fresh, bytes.len()))
}

/// Replaces the block of a field by one with the older header.
fn make_old(store: &mut Memory, dict: Dict, field: &[u8]) {
    let place = dict.find(store, hash(field), field, true).expect("sound").expect("it is there");
    let new = place.member();
    let (value, time) = (new.value(store).into_owned(), new.time(store));
    let old = write_old(store, field, &value, time);
    let index = Index::at(dict.ptr());
    let slot = index.find(store, hash(field), |at| at == new.ptr()).expect("its slot");
    index.replace(store, slot, old.ptr());
    store.free(new.ptr());
}

#[test]
fn members_with_the_older_header_are_read_and_those_without_are_shorter() {
    let mut store = Memory::new();
    for time in [None, Some(1_700_000_000_000)] {
        for len in [0, 1, 16, 8192] {
            let (field, value) = (vec![b'f'; len], vec![b'v'; len]);
            let old = write_old(&mut store, &field, &value, time);
            let new = Member::create(&mut store, &field, &value, time).expect("free memory");
            store.commit();
            assert_eq!(new.size(&store) + 4, old.size(&store));
            for member in [old, new] {
                member.check(&store).expect("sound");
                assert_eq!(*member.field(&store), field);
                assert_eq!(*member.value(&store), value);
                assert_eq!((member.value_len(&store), member.time(&store)), (len, time));
                assert!(member.has_field(&store, &field) && !member.has_field(&store, b"other"));
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_either_header_is_noticed() {
    let mut store = Memory::new();
    let old = write_old(&mut store, b"field", b"value", Some(7));
    let new = Member::create(&mut store, b"field", b"value", Some(7)).expect("free memory");
    let long = Member::create(&mut store, b"field", &[b'v'; 9000], None).expect("free memory");
    store.commit();
    // Of the lengths, bits without which the parts still are inside of the block.
    let lens: [(Member, u64, &[u32]); 3] =
        [(old, 8, &[0, 31, 32]), (new, 4, &[0, 14, 31]), (long, 8, &[35])];
    for (member, end, bits) in lens {
        let rest = (end as u32 * 8)..16 * 8;
        for bit in bits.iter().copied().chain(rest) {
            store.flip(member.ptr(), bit);
            assert!(member.check(&store).is_err(), "bit {bit} of {member:?}");
            store.flip(member.ptr(), bit);
        }
        member.check(&store).expect("sound");
    }
}

#[test]
fn a_table_with_members_of_either_header_is_a_map() {
    for seed in 0..memory::steps(4) as u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut store = Memory::new();
        let dict = Dict::create(&mut store).expect("free memory");
        let mut model = BTreeMap::new();
        store.commit();
        for n in 0..memory::steps(1500) {
            let field = random.u16(0..300).to_le_bytes().to_vec();
            match random.u8(0..3) {
                0 => drop((take(&mut store, dict, &field), model.remove(&field))),
                1 if model.contains_key(&field) => make_old(&mut store, dict, &field),
                _ => {
                    let value = vec![b'v'; random.usize(0..40)];
                    put(&mut store, dict, &field, &value);
                    model.insert(field, value);
                }
            }
            store.commit();
            if n % 250 == 0 {
                check(&store, dict, &model);
            }
        }
        store.all_sparse = true;
        let mut cursor = 0;
        loop {
            cursor = dict.defragment(&mut store, cursor, 50, || {}).expect("free memory");
            store.commit();
            if cursor == 0 {
                break;
            }
        }
        check(&store, dict, &model);
    }
}

#[test]
fn a_random_member_is_one_of_them_also_when_few_are_left() {
    let mut store = Memory::new();
    let dict = Dict::create(&mut store).expect("free memory");
    let mut random = fastrand::Rng::with_seed(5);
    assert!(dict.random(&store, || random.u64(..)).is_none());
    for n in 0..20_000_u32 {
        put(&mut store, dict, &n.to_le_bytes(), b"");
    }
    for n in 1..20_000_u32 {
        assert!(take(&mut store, dict, &n.to_le_bytes()));
    }
    store.commit();
    let left = dict.random(&store, || random.u64(..)).expect("there is one");
    assert_eq!(*left.field(&store), 0_u32.to_le_bytes());
}

#[test]
fn what_a_change_logs_is_what_the_format_says() {
    let mut store = Memory::new();
    let dict = Dict::create(&mut store).expect("free memory");
    put(&mut store, dict, b"first", b"value");
    store.commit();
    put(&mut store, dict, b"second", b"value");
    let cost = store.commit();
    assert_eq!((cost.words, cost.blocks, cost.freed), (2, 1, 0), "a new field");
    put(&mut store, dict, b"second", b"other");
    let cost = store.commit();
    assert_eq!((cost.words, cost.blocks, cost.freed), (1, 1, 1), "another value");
    take(&mut store, dict, b"second");
    let cost = store.commit();
    assert_eq!((cost.words, cost.blocks, cost.freed), (2, 0, 1), "a field goes");
}

#[test]
fn sparse_blocks_move_and_nothing_is_lost() {
    let mut store = Memory::new();
    let mut dict = Dict::create(&mut store).expect("free memory");
    let mut model = BTreeMap::new();
    for n in 0..900_u32 {
        put(&mut store, dict, &n.to_le_bytes(), b"value");
        model.insert(n.to_le_bytes().to_vec(), b"value".to_vec());
    }
    store.commit();
    store.all_sparse = true;
    let header = dict.ptr();
    dict = dict.relocate(&mut store).expect("free memory").expect("it moves");
    assert_ne!(dict.ptr(), header);
    store.commit();
    let (mut cursor, mut moved) = (0, 0);
    loop {
        cursor = dict.defragment(&mut store, cursor, 50, || moved += 1).expect("free memory");
        store.commit();
        if cursor == 0 {
            break;
        }
    }
    assert!(moved >= 900, "{moved}");
    check(&store, dict, &model);
    let spare = store.word(dict.ptr().add(16));
    assert_eq!(spare, structures::tree::empty_root());
}
