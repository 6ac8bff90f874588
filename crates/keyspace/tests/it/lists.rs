//! Lists hold what was put into them, through all operations on keys.

use std::collections::{BTreeMap, VecDeque};

use crate::common::maintenance::{
    flip, maintain, reclaim_all, reclaim_in_steps, remove_the_damaged_key,
};
use crate::common::{self, NOW, db, emulated, volatile, write};
use keyspace::{Content, Encoding, Error, Expire, Keyspace, NodeLimits, Side, Type};

const KEYS: [&str; 4] = ["a", "b", "{a}1", "{b}1"];

type Model = BTreeMap<(usize, &'static str), VecDeque<String>>;

fn limits() -> NodeLimits {
    NodeLimits::new(1024, 60)
}

fn push(ks: &Keyspace, key: &str, side: Side, elements: &[&str]) -> Result<u64, Error> {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        txn.lists().push(
            db(0),
            &k,
            side,
            elements.iter().map(|element| element.as_bytes()),
            limits(),
        )
    })
}

fn pop(ks: &Keyspace, key: &str, side: Side, count: u64) -> Result<Vec<String>, Error> {
    write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let mut taken = Vec::new();
        let done = txn.lists().pop(db(0), &k, side, count, |element| taken.push(text(element)));
        done.map(|(some, _)| {
            assert_eq!(some, taken.len() as u64);
            taken
        })
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Returns what a key holds, after comparing all ways of reading it.
fn read(ks: &Keyspace, number: usize, key: &str) -> Option<VecDeque<String>> {
    let key = ks.key(key.as_bytes());
    let mut txn = ks.begin_one(key.shard(), NOW);
    let entry = txn.find(db(number), &key)?;
    let properties = txn.properties(&entry);
    assert_eq!((properties.value_type(), properties.encoding()), (Type::List, Encoding::Quicklist));
    let list = txn.list(&entry).expect("a list");
    let len = list.len().expect("sound");
    let (mut found, mut backwards) = (VecDeque::new(), VecDeque::new());
    let forth = |element: &[u8]| {
        found.push_back(text(element));
        true
    };
    list.visit(0, Side::Head, forth).expect("sound");
    let back = |element: &[u8]| {
        backwards.push_front(text(element));
        true
    };
    list.visit(len - 1, Side::Tail, back).expect("sound");
    assert!(found == backwards && found.len() as u64 == len);
    let content: Vec<Vec<u8>> = found.iter().map(|element| element.clone().into_bytes()).collect();
    assert_eq!(txn.content(&entry), Ok(Content::Elements(Type::List, content)));
    assert!(properties.memory() > 0);
    Some(found)
}

fn element(random: &mut fastrand::Rng) -> String {
    match random.u8(0..40) {
        0..16 => random.i64(-4000..4000).to_string(),
        16..36 => "word".repeat(random.usize(0..4)) + &random.u8(0..60).to_string(),
        36..39 => "long".repeat(random.usize(5..400)),
        _ => "very long".repeat(random.usize(1000..9000)),
    }
}

/// Does the same to a key in the keyspace and in the model, and compares the results.
fn step(ks: &Keyspace, model: &mut Model, random: &mut fastrand::Rng) {
    let key = KEYS[random.usize(0..KEYS.len())];
    let other = KEYS[random.usize(0..KEYS.len())];
    let side = if random.bool() { Side::Head } else { Side::Tail };
    let at = (0, key);
    let held = model.entry(at).or_default();
    let len = held.len();
    match random.u8(0..20) {
        0..8 => {
            let count = [1, 2, 5, 70][random.usize(0..4)];
            let new: Vec<String> = (0..count).map(|_| element(random)).collect();
            let new: Vec<&str> = new.iter().map(String::as_str).collect();
            assert_eq!(push(ks, key, side, &new), Ok((len + new.len()) as u64));
            for element in new {
                match side {
                    Side::Head => held.push_front(element.into()),
                    Side::Tail => held.push_back(element.into()),
                }
            }
        }
        8..11 => {
            let count = random.usize(1..30);
            let taken: Vec<String> = (0..count)
                .map_while(|_| if side == Side::Head { held.pop_front() } else { held.pop_back() })
                .collect();
            assert_eq!(pop(ks, key, side, count as u64), Ok(taken));
        }
        11..15 if len > 0 => change(ks, key, held, side, random),
        15 => {
            let (head, tail) = (random.usize(0..=len), random.usize(0..20));
            let trimmed = write(ks, &[key], |txn| {
                let k = txn.key(key.as_bytes());
                txn.lists().trim(db(0), &k, head as u64, tail as u64)
            });
            trimmed.expect("free memory");
            held.drain(..head);
            held.truncate(held.len().saturating_sub(tail));
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
                let pushed = txn.lists().push(db(0), &k, side, [&b"no"[..]], limits());
                assert_eq!(pushed, Err(Error::WrongType));
                txn.keys().delete(db(0), &k).expect("free memory");
            });
        }
    }
    model.retain(|_, held| !held.is_empty());
}

fn change(
    ks: &Keyspace,
    key: &str,
    held: &mut VecDeque<String>,
    side: Side,
    random: &mut fastrand::Rng,
) {
    let (number, new) = (random.usize(0..held.len()), element(random));
    let kind = random.u8(0..3);
    let wanted = held[number].clone();
    let most = random.u64(1..4);
    let done = write(ks, &[key], |txn| {
        let k = txn.key(key.as_bytes());
        let (index, new) = (number as u64, new.as_bytes());
        match kind {
            0 => txn.lists().set(db(0), &k, index, new, limits()).map(u64::from),
            1 => txn.lists().insert(db(0), &k, index, new, limits()),
            _ => txn.lists().remove(db(0), &k, side, most, wanted.as_bytes(), limits()),
        }
    });
    match kind {
        0 => held[number] = new,
        1 => held.insert(number, new),
        _ => {
            let equal = (0..held.len()).filter(|&at| held[at] == wanted);
            let mut gone: Vec<usize> = match side {
                Side::Head => equal.take(most as usize).collect(),
                Side::Tail => equal.rev().take(most as usize).collect(),
            };
            gone.sort_unstable();
            assert_eq!(done, Ok(gone.len() as u64));
            gone.into_iter().rev().for_each(|at| drop(held.remove(at)));
            return;
        }
    }
    assert_eq!(done, Ok(if kind == 0 { 1 } else { held.len() as u64 }));
}

/// Returns what a snapshot yields.
fn snapshot(ks: &Keyspace) -> BTreeMap<(usize, Vec<u8>), Vec<Vec<u8>>> {
    let mut walk = ks.snapshot(|| ()).expect("a cut").0.walk();
    let (mut items, mut found) = (Vec::new(), BTreeMap::new());
    while common::goes_on() && walk.next(&mut items).expect("it is held") {
        for item in items.drain(..) {
            let Content::Elements(Type::List, more) = item.value else { panic!("a list") };
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
            let expected = model.get(&(number, key));
            assert!(read(ks, number, key).as_ref() == expected, "{number}:{key}");
            let taken = taken.get(&(number, key.as_bytes().to_vec()));
            let bytes = |held: &VecDeque<String>| -> Vec<Vec<u8>> {
                held.iter().map(|element| element.clone().into_bytes()).collect()
            };
            assert!(taken == expected.map(bytes).as_ref(), "{number}:{key} in a snapshot");
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
fn lists_are_those_of_a_model_in_memory() {
    (0..3).for_each(|seed| lives(&volatile(2, 512 << 20), seed, 600));
}

#[test]
fn lists_are_those_of_a_model_in_a_pool() {
    let folder = tempfile::tempdir().expect("a scratch directory");
    lives(&emulated(&folder.path().join("pool"), 2), 9, 500);
}

#[test]
fn a_damaged_element_costs_its_key_and_no_other() {
    for count in [3, 2000] {
        let folder = tempfile::tempdir().expect("a scratch directory");
        let file = folder.path().join("pool");
        let ks = emulated(&file, 1);
        for key in ["harmed", "whole"] {
            let elements: Vec<String> = (0..count).map(|n| format!("{n} of {key}")).collect();
            let elements: Vec<&str> = elements.iter().map(String::as_str).collect();
            push(&ks, key, Side::Tail, &elements).expect("free memory");
        }
        let wanted = format!("{} of harmed", count / 2);
        let ks = flip(ks, &file, wanted.as_bytes(), 0);
        let refused = write(&ks, &["harmed"], |txn| {
            let key = txn.key(b"harmed");
            let entry = txn.find(db(0), &key).expect("a key");
            txn.list(&entry).and_then(|list| list.visit(0, Side::Head, |_| true))
        });
        assert!(matches!(refused, Err(Error::Damaged(_))), "{refused:?}");
        remove_the_damaged_key(&ks);
        assert_eq!(read(&ks, 0, "harmed"), None);
        assert_eq!(read(&ks, 0, "whole").expect("a key").len(), count);
    }
}

#[test]
fn a_long_list_is_deleted_in_bounded_steps() {
    let ks = volatile(1, 256 << 20);
    let elements: Vec<String> = (0..60_000).map(|n| format!("element number {n}")).collect();
    let elements: Vec<&str> = elements.iter().map(String::as_str).collect();
    push(&ks, "a", Side::Tail, &elements).expect("free memory");
    write(&ks, &["a"], |txn| {
        let key = txn.key(b"a");
        txn.keys().delete(db(0), &key).expect("free memory");
    });
    assert_eq!(read(&ks, 0, "a"), None);
    let (steps, _) = reclaim_in_steps(&ks, 50, 40);
    assert!(steps > 15, "{steps}");
}
