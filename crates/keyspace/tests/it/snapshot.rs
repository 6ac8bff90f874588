//! A snapshot holds the state at its cut, whatever writers do while it is read.

use std::collections::BTreeMap;

use crate::common::{self, NOW, db, emulated, volatile};
use keyspace::{Content, Error, Expire, Keyspace, Limits, Snapshot, SnapshotWalk, Txn};

type State = BTreeMap<(usize, Vec<u8>), (Content, Option<u64>)>;

const LENGTHS: [usize; 12] = [0, 3, 20, 44, 60, 400, 4000, 4096, 4097, 20_000, 70_000, 300_000];

fn state(ks: &Keyspace) -> State {
    let mut state = State::new();
    let txn = ks.begin_all(NOW);
    for number in 0..16 {
        txn.database(db(number)).for_each(&mut |key, entry| {
            let value = txn.content(entry).expect("a value").sorted();
            state.insert((number, key.to_vec()), (value, txn.properties(entry).expiry()));
        });
    }
    state
}

fn read(walk: &mut SnapshotWalk<Snapshot>, mut between: impl FnMut()) -> State {
    let mut state = State::new();
    let mut items = Vec::new();
    while common::goes_on() && walk.next(&mut items).expect("it is held") {
        for item in items.drain(..) {
            let place = (item.db.number(), item.key);
            let value = match (state.remove(&place), item.value) {
                (None, value) => value,
                (Some((Content::Elements(kind, mut all), None)), Content::Elements(same, more))
                    if kind == same =>
                {
                    all.extend(more);
                    Content::Elements(kind, all)
                }
                _ => panic!("{place:?} came twice"),
            };
            state.insert(place, (value, item.expiry));
        }
        between();
    }
    state.into_iter().map(|(place, (value, expiry))| (place, (value.sorted(), expiry))).collect()
}

/// Applies `change` to a few or many random fields.
fn fields(
    txn: &mut Txn<'_>,
    random: &mut fastrand::Rng,
    change: impl FnOnce(&mut Txn<'_>, &[(String, String)], Limits) -> Result<(), Error>,
) -> Result<(), Error> {
    let count = [1, 5, 200][random.usize(0..3)];
    let pair = |_| (format!("field{}", random.u32(0..400)), "v".repeat(random.usize(0..90)));
    let pairs: Vec<(String, String)> = (0..count).map(pair).collect();
    change(txn, &pairs, Limits { entries: 100, value: 64 })
}

/// Applies a random change to a random key, or to whole databases.
fn disturb(ks: &Keyspace, random: &mut fastrand::Rng) {
    let name = |random: &mut fastrand::Rng| format!("key{}", random.u32(0..400));
    let (from, to) = (name(random), name(random));
    let (from, to) = (ks.key(from.as_bytes()), ks.key(to.as_bytes()));
    let number = db(random.usize(0..3));
    let everything = random.u32(0..200) == 0;
    let mut txn = match everything {
        true => ks.begin_all(NOW),
        false => ks.begin(&[from.shard(), to.shard()], NOW),
    };
    let bytes = vec![random.alphanumeric() as u8; LENGTHS[random.usize(0..LENGTHS.len())]];
    let done = match random.u32(0..12) {
        _ if everything && random.bool() => txn.databases().flush(number).map(|_| ()),
        _ if everything => txn.databases().swap(db(0), db(1)),
        0 | 1 => txn.strings().set(number, &from, &bytes, Expire::Clear).map(|_| ()),
        2 => txn.strings().set(number, &from, b"12345", Expire::At(NOW + 5)).map(|_| ()),
        3 => txn.strings().append(number, &from, &bytes[..bytes.len().min(30)]).map(|_| ()),
        4 => txn.strings().set_range(number, &from, random.usize(0..5000), b"range").map(|_| ()),
        9 => fields(&mut txn, random, |txn, pairs, limits| {
            let pairs = pairs.iter().map(|(field, value)| (field.as_bytes(), value.as_bytes()));
            txn.hashes().put(number, &from, pairs, limits).map(|_| ())
        }),
        10 => fields(&mut txn, random, |txn, pairs, _| {
            let fields = pairs.iter().map(|(field, _)| field.as_bytes());
            txn.hashes().remove(number, &from, fields).map(|_| ())
        }),
        5 => txn.keys().delete(number, &from).map(|_| ()),
        6 => txn.keys().rename((number, &from), (number, &to)).map(|_| ()),
        7 => txn.keys().set_expiry(number, &from, Some(NOW + 1 + random.u64(0..9))).map(|_| ()),
        _ => txn.keys().copy((number, &from), (db(2), &to)).map(|_| ()),
    };
    match done {
        Ok(()) => {}
        // An operation on a key of another type stages nothing.
        Err(Error::WrongType) => {}
        Err(error) => panic!("{error}"),
    }
    txn.commit().expect("a commit");
    let shard = from.shard();
    drop(txn);
    ks.reclaim_step(shard, 64).expect("a step");
}

fn check(ks: &Keyspace, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..3 {
        (0..600).for_each(|_| disturb(ks, &mut random));
        let at_cut = state(ks);
        let mut walk = ks.snapshot(|| ()).expect("there is no other").0.walk();
        let found = read(&mut walk, || (0..40).for_each(|_| disturb(ks, &mut random)));
        assert_eq!(found.len(), at_cut.len(), "seed {seed}");
        for (place, value) in &at_cut {
            let same = found.get(place) == Some(value);
            assert!(same, "seed {seed}: {place:?} is not what it was at the cut");
        }
    }
}

#[test]
fn a_snapshot_of_memory_is_what_there_was_at_the_cut() {
    (0..3).for_each(|seed| check(&volatile(4, 512 << 20), seed));
}

#[test]
fn a_snapshot_of_a_pool_is_what_there_was_at_the_cut() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    check(&emulated(&folder.path().join("pool"), 4), 7);
}
