//! A table whose members have times behaves like a map with an order next to it, and costs what its
//! format says.

use std::collections::BTreeMap;

use crate::memory::{self, Memory};
use heap::{Ptr, View};
use structures::Store;
use structures::dict::{Dict, Member};
use structures::reclaim::{Owned, Queue};

const QUEUE: Queue = Queue::at(Ptr::from_raw(64));
const MEMBERS: u16 = 3;
const TIMES: u16 = 5;

type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

fn hash(field: &[u8]) -> u64 {
    u64::from(crc32c::crc32c(field)) << 32 | u64::from(crc32c::crc32c_append(7, field))
}

fn find(store: &Memory, dict: Dict, field: &[u8]) -> Option<structures::dict::MemberSlot> {
    dict.find(store, hash(field), field, true).expect("sound")
}

fn put(store: &mut Memory, dict: Dict, field: &[u8], value: &[u8], time: Option<u64>) {
    match find(store, dict, field) {
        Some(place) => dict.replace(store, QUEUE, place, field, value, time).expect("free memory"),
        None => dict.insert(store, hash, field, value, time).expect("free memory"),
    };
}

/// Checks that all queries about times agree with the model, and that table and tree are sound.
fn check(store: &Memory, dict: Dict, model: &Model) {
    let (mut found, mut cursor) = (Model::new(), 0);
    loop {
        cursor = dict.scan(store, cursor, 5, |member| {
            let (field, value) = (member.field(store).into_owned(), member.value(store));
            found.insert(field, (value.into_owned(), member.time(store)));
        });
        if cursor == 0 {
            break;
        }
    }
    assert!(found == *model);
    let mut times: Vec<u64> = model.values().filter_map(|(_, time)| *time).collect();
    times.sort_unstable();
    assert_eq!(dict.has_ttls(store), !times.is_empty());
    assert_eq!(dict.timed_len(store), times.len() as u64);
    assert_eq!(dict.first_time(store), times.first().copied());
    for until in [0, 30, 50, 99, 200] {
        let before = times.iter().filter(|&&time| time <= until).count();
        assert_eq!(dict.count_until(store, until), before as u64, "until {until}");
        assert_eq!(dict.all_fields_expired(store, until), before > 0 && before == model.len());
        let some = dict.until(store, until, 7).expect("sound");
        let of = |field: &Vec<u8>| model.get(field).and_then(|(_, time)| *time);
        let some: Vec<Option<u64>> = some.iter().map(of).collect();
        let expected: Vec<Option<u64>> = times[..before.min(7)].iter().copied().map(Some).collect();
        assert_eq!(some, expected, "until {until}");
    }
    let (mut checked, mut blocks) = (Vec::new(), Vec::new());
    dict.check(store, hash, |at| store.capacity(at), |at| checked.push(at)).expect("sound");
    dict.blocks(store, |at| blocks.push(at));
    checked.sort_unstable();
    blocks.sort_unstable();
    assert_eq!(checked, blocks);
    let (mut cursor, mut bytes) = (0, 0);
    loop {
        let (next, read) = dict.check_step(store, cursor, 9, hash).expect("sound");
        (cursor, bytes) = (next, bytes + read);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(bytes > 0, !model.is_empty());
}

fn change(store: &mut Memory, dict: Dict, model: &mut Model, random: &mut fastrand::Rng) {
    let mut field = vec![b'f'; [1, 20, 9000][random.usize(0..3).min(random.usize(0..40))]];
    field.push(random.u8(0..60));
    let value = vec![b'v'; [0, 10, 8192, 8193][random.usize(0..4)]];
    let time = Some(u64::from(random.u8(0..100))).filter(|_| random.bool());
    match random.u8(0..5) {
        0 | 1 => {
            put(store, dict, &field, &value, time);
            model.insert(field, (value, time));
        }
        2 => {
            let place = find(store, dict, &field);
            assert_eq!(place.is_some(), model.remove(&field).is_some());
            if let Some(place) = place {
                dict.remove(store, QUEUE, place).expect("free memory");
            }
        }
        _ => {
            let Some(place) = find(store, dict, &field) else { return };
            dict.set_time(store, place, time).expect("free memory");
            model.get_mut(&field).expect("the model has it").1 = time;
        }
    }
}

#[test]
fn members_are_found_in_the_order_of_their_times() {
    for seed in 0..memory::steps(4) as u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut store, mut model) = (Memory::new(), Model::new());
        let dict = Dict::create(&mut store).expect("free memory");
        store.commit();
        for n in 0..memory::steps(1500) {
            change(&mut store, dict, &mut model, &mut random);
            store.commit();
            if n % 100 == 0 {
                check(&store, dict, &model);
            }
        }
        check(&store, dict, &model);
        dict.release(&mut store, QUEUE, MEMBERS, TIMES).expect("free memory");
        store.commit();
        while !QUEUE.is_empty(&store) {
            let free = |store: &mut Memory, owner, owned| match owned {
                Owned::Entry(at) if owner == MEMBERS => Member::at(at).release(store, QUEUE),
                Owned::Item(_) if owner == TIMES => Ok(0),
                _ => panic!("{owner} owns {owned:?}"),
            };
            QUEUE.step(&mut store, 9, free).expect("free memory");
            store.commit();
        }
        assert_eq!(store.blocks(), [], "seed {seed}");
    }
}

#[test]
fn a_table_without_ttls_has_no_tree() {
    let mut store = Memory::new();
    let dict = Dict::create(&mut store).expect("free memory");
    put(&mut store, dict, b"field", b"value", Some(5));
    store.commit();
    assert_ne!(store.word(dict.ptr().add(24)), structures::tree::empty_root());
    let place = find(&store, dict, b"field").expect("it is there");
    dict.set_time(&mut store, place, None).expect("free memory");
    store.commit();
    assert_eq!(store.word(dict.ptr().add(24)), structures::tree::empty_root());
    assert_eq!(store.blocks().len(), 3, "header, segment and member");
}

#[test]
fn what_a_change_of_a_time_logs_is_what_the_format_says() {
    let mut store = Memory::new();
    let dict = Dict::create(&mut store).expect("free memory");
    for field in [b"a", b"b", b"c"] {
        put(&mut store, dict, field, b"value", Some(7));
    }
    put(&mut store, dict, b"d", b"value", None);
    store.commit();
    let place = find(&store, dict, b"d").expect("it is there");
    dict.set_time(&mut store, place, Some(9)).expect("free memory");
    let cost = store.commit();
    assert_eq!((cost.words, cost.blocks, cost.freed), (5, 1, 1), "a time: slot, item, order, sum");
    put(&mut store, dict, b"d", b"other", None);
    let cost = store.commit();
    assert_eq!((cost.words, cost.blocks, cost.freed), (3, 1, 1), "another value, no time");
}

/// If a weight is wrong, there may seem to be as many items as members.
#[test]
fn a_flipped_bit_of_a_weight_lets_no_table_expire() {
    let mut reported = 0;
    for timed in (40..130_u64).step_by(5) {
        let (mut store, all) = (Memory::new(), timed + 16);
        let dict = Dict::create(&mut store).expect("free memory");
        for n in 0..all {
            let time = Some(n * 37 % 90).filter(|_| n < timed);
            put(&mut store, dict, &n.to_le_bytes(), b"value", time);
        }
        store.commit();
        let root = store.word(dict.ptr().add(24));
        let root = Ptr::from_raw(structures::self_checksummed::decode(root).expect("a root"));
        for slot in 0..29 {
            let weight = root.add(784 + 8 * slot);
            if (1..=28).contains(&store.word(weight)) {
                store.damage(weight);
                reported += u32::from(dict.timed_len(&store) == all);
                assert!(!dict.all_fields_expired(&store, 100), "{timed} with a time, slot {slot}");
                store.damage(weight);
            }
        }
    }
    assert!(reported > 0, "no weight told of 16 items more");
}

#[test]
fn sparse_members_move_and_keep_their_ttls() {
    let (mut store, mut model) = (Memory::new(), Model::new());
    let dict = Dict::create(&mut store).expect("free memory");
    for n in 0..900_u32 {
        let time = Some(u64::from(n % 70)).filter(|_| n % 3 > 0);
        put(&mut store, dict, &n.to_le_bytes(), b"value", time);
        model.insert(n.to_le_bytes().to_vec(), (b"value".to_vec(), time));
    }
    store.commit();
    store.all_sparse = true;
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
}

#[test]
fn a_flipped_bit_of_a_time_is_noticed() {
    let mut store = Memory::new();
    let dict = Dict::create(&mut store).expect("free memory");
    put(&mut store, dict, b"field", b"value", Some(1_700_000_000_000));
    store.commit();
    let at = find(&store, dict, b"field").expect("it is there").member().ptr();
    // The checksum, the time, the field and the value.
    for byte in 4..8 + 8 + 5 + 5 {
        store.damage(at.add(byte));
        let found = Member::at(at).check(&store).expect_err("a flipped bit");
        assert_eq!(found.what, "member", "byte {byte}: {found}");
        store.damage(at.add(byte));
    }
    assert!(Member::at(at).check(&store).is_ok());
}
