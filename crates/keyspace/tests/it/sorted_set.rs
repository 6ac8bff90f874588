//! Sorted sets hold what was put into them, through all operations on keys.

use std::collections::BTreeMap;
use std::fs;

use crate::common::maintenance::{
    flip, maintain, reclaim_all, reclaim_in_steps, remove_the_damaged_key,
};
use crate::common::{self, NOW, db, emulated, volatile, write};
use keyspace::{Content, Encoding, Error, Expire, Keyspace, Limits, Type};

const KEYS: [&str; 4] = ["a", "b", "{a}1", "{b}1"];
const LIMITS: Limits = Limits { entries: 20, value: 30 };

/// Members with their scores, ordered by member.
type Held = BTreeMap<String, f64>;
type Model = BTreeMap<(usize, &'static str), Held>;

fn put(ks: &Keyspace, key: &str, members: &[(&str, f64)]) -> Result<(), Error> {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let mut edit = txn.sorted_sets().edit(db(0), &k, LIMITS)?;
        for (member, score) in members {
            edit.change(txn, member.as_bytes(), |_| Some(*score))?;
        }
        edit.finish(txn, db(0), &k).map(drop)
    })
}

fn take(ks: &Keyspace, key: &str, member: &str) -> Result<bool, Error> {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let mut edit = txn.sorted_sets().edit(db(0), &k, Limits::NONE)?;
        let taken = edit.remove(txn, member.as_bytes())?;
        edit.finish(txn, db(0), &k)?;
        Ok(taken)
    })
}

fn take_range(ks: &Keyspace, key: &str, rank: u64, count: u64) -> Vec<(String, f64)> {
    let mut taken = Vec::new();
    let done = write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let mut edit = txn.sorted_sets().edit(db(0), &k, Limits::NONE)?;
        let show = |member: &[u8], score: f64| taken.push((text(member), score));
        let count = edit.remove_range(txn, rank, count, show)?;
        edit.finish(txn, db(0), &k)?;
        Ok::<u64, Error>(count)
    });
    assert_eq!(done, Ok(taken.len() as u64));
    taken
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Returns the members sorted by score, then by name.
fn in_order(held: &Held) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = held.iter().map(|(m, s)| (m.clone(), *s)).collect();
    all.sort_by(|a, b| a.1.partial_cmp(&b.1).expect("no NaN").then_with(|| a.0.cmp(&b.0)));
    all
}

/// Returns what a key holds, after comparing all ways of reading it.
fn read(ks: &Keyspace, number: usize, key: &str) -> Option<Vec<(String, f64)>> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.find(db(number), &key)?;
    assert_eq!(txn.properties(&entry).value_type(), Type::SortedSet);
    let sorted_set = txn.sorted_set(&entry).expect("a sorted set");
    let (mut found, mut backwards, mut scanned) = (Vec::new(), Vec::new(), Held::new());
    let forth = |member: &[u8], score: f64| {
        found.push((text(member), score));
        true
    };
    sorted_set.visit(0, false, forth).expect("sound");
    let back = |member: &[u8], score: f64| {
        backwards.insert(0, (text(member), score));
        true
    };
    sorted_set.visit(sorted_set.len() - 1, true, back).expect("sound");
    assert!(found == backwards && found.len() as u64 == sorted_set.len());
    let mut cursor = 0;
    loop {
        common::goes_on();
        let keep = |member: &[u8], score: f64| _ = scanned.insert(text(member), score);
        cursor = sorted_set.scan(cursor, 10, keep).expect("sound");
        if cursor == 0 {
            break;
        }
    }
    assert!(in_order(&scanned) == found);
    for (rank, (member, score)) in found.iter().enumerate().step_by(9) {
        assert_eq!(sorted_set.score(member.as_bytes()), Ok(Some(*score)));
        assert_eq!(sorted_set.rank(member.as_bytes()), Ok(Some((rank as u64, *score))));
        let below = found.iter().filter(|(_, own)| own < score).count() as u64;
        assert_eq!(sorted_set.count_below(*score, false), Ok(below));
    }
    assert_eq!(sorted_set.rank(b"nobody"), Ok(None));
    let content: Vec<Vec<u8>> = elements(&found);
    assert_eq!(txn.content(&entry), Ok(Content::Elements(Type::SortedSet, content)));
    assert!(txn.properties(&entry).memory() > 0);
    let is_small =
        found.len() <= LIMITS.entries && !found.iter().any(|(m, _)| m.len() > LIMITS.value);
    assert!(is_small || txn.properties(&entry).encoding() == Encoding::Skiplist);
    Some(found)
}

fn elements(members: &[(String, f64)]) -> Vec<Vec<u8>> {
    let pair = |(member, score): &(String, f64)| {
        [score.to_string().into_bytes(), member.clone().into_bytes()]
    };
    members.iter().flat_map(pair).collect()
}

fn score(random: &mut fastrand::Rng) -> f64 {
    match random.u8(0..10) {
        0 => [f64::INFINITY, f64::NEG_INFINITY, 0.0, 1e300][random.usize(0..4)],
        1..6 => f64::from(random.i8(-4..4)),
        _ => random.f64() * 100.0,
    }
}

fn member(random: &mut fastrand::Rng) -> String {
    let number = random.u8(..);
    match number % 40 {
        0..10 => number.to_string(),
        39 => number.to_string() + &"very long".repeat(1000),
        38 => number.to_string() + &"long".repeat(50),
        _ => format!("member {number}"),
    }
}

/// Does the same to a key in the keyspace and in the model, and compares the results.
fn step(ks: &Keyspace, model: &mut Model, random: &mut fastrand::Rng) {
    let key = KEYS[random.usize(0..KEYS.len())];
    let other = KEYS[random.usize(0..KEYS.len())];
    let at = (0, key);
    let held = model.entry(at).or_default();
    match random.u8(0..20) {
        0..9 => {
            let count = [1, 2, 5, 70][random.usize(0..4)];
            let new: Vec<(String, f64)> =
                (0..count).map(|_| (member(random), score(random))).collect();
            let all: Vec<(&str, f64)> = new.iter().map(|(m, s)| (m.as_str(), *s)).collect();
            put(ks, key, &all).expect("free memory");
            held.extend(new);
        }
        9..13 => {
            let wanted = member(random);
            assert_eq!(take(ks, key, &wanted), Ok(held.remove(&wanted).is_some()));
        }
        13..16 => {
            let (rank, count) = (random.usize(0..=held.len()), random.usize(0..30));
            let all = in_order(held);
            let expected = &all[rank..(rank + count).min(all.len())];
            assert!(take_range(ks, key, rank as u64, count as u64) == expected);
            expected.iter().for_each(|(member, _)| _ = held.remove(member));
        }
        16 => {
            write(ks, &[key, other], |txn| {
                let (k, o) = (txn.key(key.as_bytes()), txn.key(other.as_bytes()));
                txn.keys().rename((db(0), &k), (db(0), &o)).expect("free memory");
            });
            if let Some(held) = model.remove(&at).filter(|held| !held.is_empty()) {
                model.insert((0, other), held);
            }
        }
        17 | 18 => {
            let to = random.usize(0..2);
            write(ks, &[key, other], |txn| {
                let (k, o) = (txn.key(key.as_bytes()), txn.key(other.as_bytes()));
                txn.keys().copy((db(0), &k), (db(to), &o)).expect("free memory");
            });
            let copy = held.clone();
            if !copy.is_empty() {
                model.insert((to, other), copy);
            }
        }
        _ => {
            held.clear();
            write(ks, &[key], |txn| {
                let k = txn.key(key.as_bytes());
                txn.strings().set(db(0), &k, b"a string", Expire::Clear).expect("free memory");
                assert!(matches!(txn.sorted_sets().edit(db(0), &k, LIMITS), Err(Error::WrongType)));
                txn.keys().delete(db(0), &k).expect("free memory");
            });
        }
    }
    model.retain(|_, held| !held.is_empty());
}

/// Returns what a snapshot yields.
fn snapshot(ks: &Keyspace) -> BTreeMap<(usize, Vec<u8>), Vec<Vec<u8>>> {
    let mut walk = ks.snapshot(|| ()).expect("a cut").0.walk();
    let (mut items, mut found) = (Vec::new(), BTreeMap::new());
    while common::goes_on() && walk.next(&mut items).expect("it is held") {
        for item in items.drain(..) {
            let Content::Elements(Type::SortedSet, more) = item.value else {
                panic!("a sorted set")
            };
            let all: &mut Vec<Vec<u8>> = found.entry((item.db.number(), item.key)).or_default();
            all.extend(more);
        }
    }
    found
}

fn compare(ks: &Keyspace, model: &Model) {
    ks.check().expect("a sound pool");
    let taken = snapshot(ks);
    for number in 0..2 {
        for key in KEYS {
            let expected = model.get(&(number, key)).map(in_order);
            assert!(read(ks, number, key) == expected, "{number}:{key}");
            let taken = taken.get(&(number, key.as_bytes().to_vec()));
            let expected = expected.map(|all| elements(&all));
            assert!(taken == expected.as_ref(), "{number}:{key} in a snapshot");
        }
    }
}

fn lives(ks: &Keyspace, seed: u64, steps: usize) {
    let (mut model, mut random) = (Model::new(), fastrand::Rng::with_seed(seed));
    for n in 0..steps {
        step(ks, &mut model, &mut random);
        if n % 40 == 39 {
            maintain(ks);
            compare(ks, &model);
        }
    }
    let _ = write(ks, &KEYS, |txn| txn.databases().flush(db(0)));
    reclaim_all(ks);
    ks.check().expect("a sound pool");
}

#[test]
fn sorted_sets_are_those_of_a_model_in_memory() {
    (0..3).for_each(|seed| lives(&volatile(2, 512 << 20), seed, 600));
}

#[test]
fn sorted_sets_are_those_of_a_model_in_a_pool() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    lives(&emulated(&folder.path().join("pool"), 2), 9, 500);
}

/// Creates a sorted set of this many members, whose names include the key.
fn fill(ks: &Keyspace, key: &str, count: usize) {
    let members: Vec<String> = (0..count).map(|n| format!("{n} of {key}")).collect();
    let members: Vec<(&str, f64)> =
        members.iter().zip(0..).map(|(member, n)| (member.as_str(), f64::from(n) / 4.0)).collect();
    put(ks, key, &members).expect("free memory");
}

#[test]
fn a_damaged_member_costs_its_key_and_no_other() {
    for count in [3, 2000] {
        let folder = tempfile::tempdir().expect("a scratch directory");
        let file = folder.path().join("pool");
        let ks = emulated(&file, 1);
        ["harmed", "whole"].into_iter().for_each(|key| fill(&ks, key, count));
        let wanted = format!("{} of harmed", count / 2);
        let ks = flip(ks, &file, wanted.as_bytes(), 0);
        let refused = write(&ks, &["harmed"], |txn| {
            let key = txn.key(b"harmed");
            let entry = txn.find(db(0), &key).expect("a key");
            txn.sorted_set(&entry).and_then(|sorted_set| sorted_set.visit(0, false, |_, _| true))
        });
        assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
        remove_the_damaged_key(&ks);
        assert_eq!(read(&ks, 0, "harmed"), None);
        assert_eq!(read(&ks, 0, "whole").expect("a key").len(), count);
    }
}

#[test]
fn a_large_sorted_set_is_deleted_in_bounded_steps() {
    let ks = volatile(1, 256 << 20);
    fill(&ks, "a", 60_000);
    let full = ks.heap().used();
    write(&ks, &["a"], |txn| {
        let key = txn.key(b"a");
        txn.keys().delete(db(0), &key).expect("free memory");
    });
    assert!(full - ks.heap().used() < 1024, "the entry and the header alone go at once");
    assert_eq!(read(&ks, 0, "a"), None);
    let (steps, _) = reclaim_in_steps(&ks, 50, 100);
    assert!(steps > 400, "{steps}");
}

#[test]
fn taking_nearly_all_members_is_a_small_transaction() {
    for (rank, kept) in [(0, 10), (7, 10), (0, 1), (300, 600)] {
        let ks = volatile(1, 256 << 20);
        fill(&ks, "a", 60_000);
        let before = read(&ks, 0, "a").expect("a key");
        let used = ks.heap().used();
        let taken = take_range(&ks, "a", rank, 60_000 - kept);
        // What is freed incrementally still takes its space.
        assert!(used.abs_diff(ks.heap().used()) < kept * 300 + 20_000, "{rank} {kept}");
        let end = (rank + 60_000 - kept) as usize;
        assert!(taken == before[rank as usize..end]);
        let left = [&before[..rank as usize], &before[end..]].concat();
        assert!(read(&ks, 0, "a").expect("a key") == left);
        while common::goes_on() && ks.reclaim_step(0, 500).expect("a step").more {}
        ks.check().expect("a sound pool");
        assert!(ks.heap().used() < kept * 300 + 20_000);
    }
}

/// Flips a bit in every inner node of a tree, in the file of a closed pool. Returns how many there
/// are.
fn flip_trees(file: &std::path::Path) -> usize {
    let mut pool = fs::read(file).expect("the pool");
    let node = |height: u8| [height, b't', b'r', b'e', 0, 0, 0, 0];
    let found: Vec<usize> = (1..4)
        .flat_map(|height| memchr::memmem::find_iter(&pool, &node(height)).collect::<Vec<_>>())
        .collect();
    found.iter().for_each(|at| pool[at + 1] ^= 1);
    fs::write(file, pool).expect("the pool");
    found.len()
}

#[test]
fn a_damaged_tree_is_not_copied_in_part_and_no_source_is_given_up() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    let file = folder.path().join("pool");
    let ks = emulated(&file, 4);
    let other = (0..100)
        .map(|n| format!("other {n}"))
        .find(|other| ks.key(other.as_bytes()).shard() != ks.key(b"harmed").shard());
    let other = other.expect("a key of another shard");
    fill(&ks, "harmed", 2000);
    ks.heap().close().expect("a clean close");
    drop(ks);
    assert!(flip_trees(&file) > 1);
    let ks = emulated(&file, 4);
    for keep in [true, false] {
        let keys = ["harmed", other.as_str()].map(|key| ks.key(key.as_bytes()).shard());
        let mut txn = ks.begin(&keys, NOW);
        let (from, to) = (txn.key(b"harmed"), txn.key(other.as_bytes()));
        let (from, to) = ((db(0), &from), (db(0), &to));
        let done = if keep { txn.keys().copy(from, to) } else { txn.keys().rename(from, to) };
        assert!(matches!(done, Err(Error::Damaged(_))), "{done:?}");
    }
    let key = ks.key(b"harmed");
    let mut txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.find(db(0), &key).expect("the key is still there");
    let sorted_set = txn.sorted_set(&entry).expect("a sorted set");
    // All members are found by name, but everything that needs their order fails.
    assert_eq!(sorted_set.score(b"7 of harmed"), Ok(Some(1.75)));
    let mut shown = 0;
    let show = |_: &[u8], _| {
        shown += 1;
        true
    };
    assert!(matches!(sorted_set.visit(0, false, show), Err(Error::Damaged(_))));
    assert_eq!(shown, 0);
    assert!(matches!(sorted_set.count_below(5.0, false), Err(Error::Damaged(_))));
    let between = sorted_set.between(|_| false, |_| false, false);
    assert!(matches!(between, Err(Error::Damaged(_))));
}
