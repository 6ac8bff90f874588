//! Blobs against vectors of bytes.

use crate::memory::{self, Memory};
use heap::{Ptr, View};
use proptest::prelude::*;
use structures::blob::{Blob, MAX_BLOCK_LEN, MAX_LEN};
use structures::{Error, self_checksummed};

/// A blob and its expected content.
struct Pair {
    memory: Memory,
    blob: Blob,
    model: Vec<u8>,
}

impl Pair {
    fn new(model: Vec<u8>) -> Pair {
        let mut memory = Memory::new();
        let blob = Blob::create(&mut memory, &model).expect("free memory");
        memory.commit();
        Pair { memory, blob, model }
    }

    fn append(&mut self, bytes: &[u8]) -> memory::Cost {
        self.blob = self.blob.append(&mut self.memory, bytes).expect("free memory");
        self.model.extend_from_slice(bytes);
        self.check()
    }

    fn set_range(&mut self, at: usize, bytes: &[u8]) -> memory::Cost {
        self.blob = self.blob.set_range(&mut self.memory, at as u64, bytes).expect("free memory");
        if !bytes.is_empty() {
            self.model.resize(self.model.len().max(at + bytes.len()), 0);
            self.model[at..at + bytes.len()].copy_from_slice(bytes);
        }
        self.check()
    }

    fn check(&mut self) -> memory::Cost {
        let cost = self.memory.commit();
        assert_eq!(self.blob.len(&self.memory), Ok(self.model.len() as u64));
        assert!(self.blob.to_vec(&self.memory).expect("sound") == self.model, "other bytes");
        self.blob.check(&self.memory).expect("sound");
        self.reachable_is_allocated();
        cost
    }

    fn reachable_is_allocated(&self) {
        let mut reachable = Vec::new();
        self.blob.blocks(&self.memory, |block| reachable.push(block));
        reachable.sort();
        assert_eq!(reachable, self.memory.blocks());
    }
}

fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

#[derive(Clone, Debug)]
enum Change {
    Append(usize),
    SetRange(usize, usize),
    Relocate,
}

fn change() -> impl Strategy<Value = Change> {
    let len = prop_oneof![0..100usize, 0..5000usize, 60_000..70_000usize, 0..200_000usize];
    let at = prop_oneof![0..100usize, 65_000..66_000usize, 0..400_000usize];
    prop_oneof![
        len.clone().prop_map(Change::Append),
        (at, len).prop_map(|(at, len)| Change::SetRange(at, len)),
        Just(Change::Relocate),
    ]
}

proptest! {
    #![proptest_config(memory::cases(64))]

    #[test]
    fn a_blob_is_its_bytes(
        first in prop_oneof![0..300usize, 65_000..66_000usize, 0..300_000usize],
        changes in prop::collection::vec(change(), 1..memory::steps(12)),
        read in (0..400_000u64, 0..200_000u64),
    ) {
        let mut pair = Pair::new(bytes(1, first));
        pair.check();
        for (seed, change) in changes.into_iter().enumerate() {
            match change {
                Change::Append(len) => { pair.append(&bytes(seed as u64, len)); }
                Change::SetRange(at, len) => { pair.set_range(at, &bytes(seed as u64, len)); }
                Change::Relocate => {
                    pair.memory.all_sparse = true;
                    let moved = pair.blob.relocate(&mut pair.memory).expect("free memory");
                    pair.blob = moved.unwrap_or(pair.blob);
                    pair.memory.all_sparse = false;
                    pair.check();
                }
            }
        }
        let (start, end) = (read.0, read.0 + read.1);
        let mut found = Vec::new();
        let read = |slice: &[u8]| found.extend_from_slice(slice);
        pair.blob.read(&pair.memory, start..end, read).expect("sound");
        let cut = |at: u64| (at as usize).min(pair.model.len());
        prop_assert!(found == pair.model[cut(start)..cut(end)]);
    }
}

#[test]
fn a_source_fills_every_byte_once() {
    for len in [0, 1, MAX_BLOCK_LEN, MAX_BLOCK_LEN + 1, 65_536, 200_000] {
        let mut memory = Memory::new();
        let mut next = 0;
        let blob = Blob::create_with(&mut memory, len, |at, piece| {
            assert_eq!(at, next);
            next += piece.len() as u64;
            piece.fill(at as u8 ^ 0x55);
        })
        .expect("free memory");
        memory.commit();
        assert_eq!((next, blob.len(&memory)), (len, Ok(len)));
        blob.check(&memory).expect("sound");
    }
}

#[test]
fn an_append_into_space_logs_one_word_and_two_in_a_table() {
    let mut pair = Pair::new(bytes(1, 100));
    pair.append(b"0123456789");
    let cost = pair.append(b"more");
    assert_eq!((cost.words, cost.published, cost.blocks), (1, 4, 0));

    let mut pair = Pair::new(bytes(1, 100_000));
    pair.append(b"0123456789");
    let cost = pair.append(b"more");
    assert_eq!((cost.words, cost.published, cost.blocks), (2, 4, 0));
}

#[test]
fn repeated_appends_copy_each_byte_about_once() {
    let mut pair = Pair::new(vec![b'x']);
    let published: usize = (0..3000).map(|_| pair.append(&[b'y'; 50]).published).sum();
    assert!(published < 4 * 150_000, "{published} bytes written for 150000");
}

#[test]
fn a_change_in_a_large_blob_copies_one_chunk() {
    let mut pair = Pair::new(bytes(1, 1_000_000));
    let cost = pair.set_range(500_000, b"changed");
    assert_eq!((cost.words, cost.published, cost.blocks, cost.freed), (2, 65_536, 1, 1));
}

#[test]
fn a_far_write_costs_one_chunk() {
    let mut memory = Memory::new();
    let blob = Blob::EMPTY.set_range(&mut memory, MAX_LEN - 1, b"x").expect("free memory");
    assert!(memory.commit().published < 100_000);
    assert_eq!(blob.len(&memory), Ok(MAX_LEN));
    let mut seen = (0, 0);
    blob.read(&memory, 0..MAX_LEN, |slice| {
        seen.0 += slice.len() as u64;
        seen.1 += slice.iter().filter(|&&byte| byte != 0).count();
    })
    .expect("sound");
    assert_eq!(seen, (MAX_LEN, 1));
    blob.check(&memory).expect("sound");
}

#[test]
fn the_longest_blob_is_freed_in_steps() {
    let mut memory = Memory::new();
    let mut blob = Blob::EMPTY;
    for chunk in [0u64, 255, 256, 300, 8191] {
        blob = blob.set_range(&mut memory, chunk * 65_536, b"x").expect("free memory");
    }
    memory.commit();
    let mut freed = 0;
    let blocks = memory.blocks().len();
    while blob != Blob::EMPTY {
        let (left, some) = blob.free_step(&mut memory, 2);
        assert!(some <= 4, "a chunk, a leaf and the top beyond the budget at most");
        freed += some;
        blob = left;
        memory.commit();
        if blob != Blob::EMPTY {
            blob.check(&memory).expect("what is left is sound");
        }
    }
    assert_eq!(freed, blocks);
    assert_eq!(memory.blocks(), []);
}

#[test]
fn a_full_heap_changes_nothing() {
    for len in [100, 100_000] {
        let mut pair = Pair::new(bytes(1, len));
        let before = pair.memory.used();
        for refused in 0..2 {
            pair.memory.reservations_left = refused;
            let result = pair.blob.set_range(&mut pair.memory, 70_000, &bytes(2, 100_000));
            assert_eq!(
                result.map_err(|error| error.to_string()),
                Err("the heap is full".into()),
                "{len} {refused}"
            );
            pair.memory.rollback();
        }
        pair.memory.reservations_left = usize::MAX;
        assert_eq!(pair.memory.used(), before);
        pair.check();
    }
}

#[test]
fn a_flipped_bit_is_found() {
    for len in [100usize, 100_000] {
        let pair = Pair::new(bytes(1, len));
        let Pair { mut memory, blob, .. } = pair;
        let mut places = Vec::new();
        blob.blocks(&memory, |block| places.push(block));
        for at in places {
            memory.damage(at.add(8));
            match blob.check(&memory) {
                Err(found) if len < 1000 => assert_eq!(found.what, "blob block", "{found}"),
                Err(found) => {
                    let known =
                        ["blob chunk", "blob chunk length", "leaf of a blob"].contains(&found.what);
                    assert!(known, "{at:?}: {found}");
                }
                Ok(()) => assert!(len > 1000, "block at {at:?}"),
            }
            memory.damage(at.add(8));
            blob.check(&memory).expect("sound again");
        }
    }
}

/// Returns the words of a table: those of its top, and of its leaves.
fn table_words(memory: &Memory, blob: Blob) -> Vec<Ptr> {
    let top = Ptr::from_raw(blob.word() & !1);
    let words = |at: Ptr, count: u64| (0..count).map(move |number| at.add(8 * number));
    let leaves = words(top.add(8), 32).map(|at| memory.word(at) & self_checksummed::MAX);
    let leaves: Vec<u64> = leaves.filter(|&leaf| leaf != 0).collect();
    let mut all: Vec<Ptr> = words(top, 33).collect();
    all.extend(leaves.into_iter().flat_map(|leaf| words(Ptr::from_raw(leaf), 8)));
    all
}

/// A lost line reads as zeros: every word of zeros is damage to a check, and to every reader of the
/// word.
#[test]
fn a_lost_word_is_neither_an_empty_string_nor_a_hole() {
    let mut short = Pair::new(bytes(1, 60_000));
    let mut long = Pair::new(bytes(1, 200_000));
    let mut sparse = Pair::new(Vec::new());
    sparse.set_range(20 << 20, b"far");
    for pair in [&mut short, &mut long, &mut sparse] {
        let Pair { memory, blob, model } = pair;
        let is_table = blob.is_large();
        let block = [Ptr::from_raw(blob.word())];
        let words = if is_table { table_words(memory, *blob) } else { block.to_vec() };
        for at in words {
            let word = memory.word(at);
            memory.put(at, 0);
            assert!(
                blob.check(memory).is_err()
                    && blob.checksums(memory, |_, _, _| {}).is_err() == is_table
            );
            if let Ok(found) = blob.to_vec(memory) {
                assert!(found == *model, "other bytes, and no damage, without the word at {at:?}");
            }
            memory.put(at, word);
        }
        blob.check(memory).expect("sound again");
    }
}

#[test]
fn a_change_of_a_damaged_blob_is_refused_and_makes_no_damage_look_sound() {
    for len in [50_000, 200_000] {
        let mut pair = Pair::new(bytes(1, len));
        let mut places = Vec::new();
        pair.blob.blocks(&pair.memory, |block| places.push(block));
        let chunk = if len < 65_536 { places[0].add(8) } else { places[2] };
        pair.memory.damage(chunk);
        let change = pair.blob.set_range(&mut pair.memory, 100, b"some bytes");
        assert!(matches!(change, Err(Error::Damaged(_))), "{len}: {change:?}");
        pair.memory.rollback();
    }
}
