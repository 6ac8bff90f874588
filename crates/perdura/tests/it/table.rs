//! Ordered tables: what they answer, compared with a map; what they are to others.

use std::collections::BTreeMap;
use std::ops::Bound;

use perdura::prelude::*;
use perdura::{
    DomainRequest, Durability, Error, Options, Perdura, RangeIter, Table, ValueType,
};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(256 << 20).background(false)).expect("a store")
}

type Map = BTreeMap<(u8, String), Vec<u8>>;
type Rows<'s> = Table<'s, (u8, String), Vec<u8>>;

/// A pseudo-random sequence that a seed repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }

    /// Names of which some begin others, and some contain zeros.
    fn key(&mut self) -> (u8, String) {
        let parts = ["", "a", "\0", "b", "longer part of a name", "ÿ"];
        let name = (0..self.below(4)).map(|_| parts[self.below(6) as usize]).collect();
        (self.below(3) as u8 * 127, name)
    }
}

fn as_ref(key: &(u8, String)) -> (u8, &str) {
    (key.0, key.1.as_str())
}

fn check_ranges(table: &Rows<'_>, map: &Map, random: &mut Random) {
    let (mut from, mut to) = (random.key(), random.key());
    if from > to {
        std::mem::swap(&mut from, &mut to);
    }
    let bound = |random: &mut Random, key: (u8, String)| match random.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    };
    let range = (bound(random, from.clone()), bound(random, to));
    let is_empty = matches!(&range, (Bound::Excluded(a), Bound::Excluded(b)) if a == b);
    let expected: Vec<_> = match is_empty {
        true => Vec::new(),
        false => map.range(range.clone()).map(|(k, v)| (k.clone(), v.clone())).collect(),
    };
    let keys = (range.0.as_ref().map(as_ref), range.1.as_ref().map(as_ref));
    let shown: Vec<_> = table.range(keys).collect::<Result<_, _>>().expect("rows");
    assert_eq!(shown, expected, "{range:?}");
    let mut shown: Vec<_> = table.range(keys).rev().collect::<Result<_, _>>().expect("rows");
    shown.reverse();
    assert_eq!(shown, expected, "{range:?}");
    assert_eq!(table.count(keys), Ok(expected.len() as u64));
    assert_eq!(table.rank(as_ref(&from)), Ok(map.range(..from).count() as u64));
}

fn step(table: &Rows<'_>, map: &mut Map, random: &mut Random) {
    let key = random.key();
    let owned = |row: Option<(&(u8, String), &Vec<u8>)>| row.map(|(k, v)| (k.clone(), v.clone()));
    match random.below(16) {
        0..8 => {
            // Long ones end the listpack encoding.
            let len = [0, 1, 20, 200][random.below(4) as usize];
            let value: Vec<u8> = (0..len).map(|_| random.below(3) as u8).collect();
            assert_eq!(table.insert(as_ref(&key), &value), Ok(map.insert(key, value)));
        }
        8..11 => assert_eq!(table.remove(as_ref(&key)), Ok(map.remove(&key))),
        11 => assert_eq!(table.pop_first(), Ok(map.pop_first())),
        12 => assert_eq!(table.pop_last(), Ok(map.pop_last())),
        13 => {
            let part = (key.0, "b");
            let before = map.len();
            map.retain(|own, _| !(own.0 == key.0 && *own.1 >= *"b"));
            let removed = table.remove_range(part..(key.0 + 1, ""));
            assert_eq!(removed, Ok((before - map.len()) as u64));
        }
        _ => {
            assert_eq!(table.get(as_ref(&key)), Ok(map.get(&key).cloned()));
            assert_eq!(table.contains(as_ref(&key)), Ok(map.contains_key(&key)));
            assert_eq!(table.len(), Ok(map.len() as u64));
            assert_eq!(table.first(), Ok(owned(map.first_key_value())));
            assert_eq!(table.last(), Ok(owned(map.last_key_value())));
            let nth = random.below(map.len() as u64 + 2);
            assert_eq!(table.nth(nth), Ok(owned(map.iter().nth(nth as usize))));
            check_ranges(table, map, random);
        }
    }
}

#[test]
fn a_table_is_a_map_in_order() {
    let store = volatile();
    for seed in 0..20 {
        let table: Rows<'_> = store.table(format!("t{seed}"));
        let (mut map, mut random) = (Map::new(), Random(seed));
        for _ in 0..1000 {
            step(&table, &mut map, &mut random);
        }
        assert_eq!(table.is_empty(), Ok(map.is_empty()));
        let rows: Map = table.iter().collect::<Result<_, _>>().expect("rows");
        assert_eq!(rows, map);
    }
}

#[test]
fn integers_are_in_their_order_at_the_ends_of_their_ranges() {
    let store = volatile();
    let table: Table<i64, ()> = store.table("numbers");
    for n in [0, -1, i64::MAX, 1, i64::MIN, 256, -256] {
        assert_eq!(table.insert(n, ()), Ok(None));
    }
    fn keys(range: impl Iterator<Item = Result<(i64, ()), Error>>) -> Vec<i64> {
        range.map(|row| row.expect("a row").0).collect()
    }
    assert_eq!(keys(table.iter()), [i64::MIN, -256, -1, 0, 1, 256, i64::MAX]);
    assert_eq!(keys(table.range(..=i64::MAX)).len(), 7);
    assert_eq!(keys(table.range(-1..=1)), [-1, 0, 1]);
    assert_eq!(keys(table.range(2..).rev()), [i64::MAX, 256]);
    assert_eq!(table.count((Bound::Excluded(i64::MAX), Bound::Unbounded)), Ok(0));
}

/// A row that gets another value between two batches is at its place still.
#[test]
fn a_row_whose_value_changes_is_shown_once() {
    let store = volatile();
    let table: Table<u16, u64> = store.table("t");
    for end in ["front", "back"] {
        (0..300).for_each(|n| assert!(table.insert(n, 1000).is_ok()));
        let mut rows = table.iter();
        let next = |rows: &mut RangeIter<'_, (u16, u64)>| match end {
            "front" => rows.next(),
            _ => rows.next_back(),
        };
        let mut shown = Vec::new();
        while let Some(row) = next(&mut rows) {
            let (id, _) = row.expect("a row");
            shown.push(id);
            // Greater, or less: after what was shown, or before it, in the order of all bytes.
            table.insert(id, if end == "front" { 2000 } else { 3 }).expect("space");
        }
        if end == "back" {
            shown.reverse();
        }
        assert_eq!(shown, (0..300).collect::<Vec<_>>(), "from the {end}");
    }
}

#[test]
fn tables_are_sorted_sets_to_others() {
    let store = volatile();
    let table: Table<String, u8> = store.table("t");
    assert_eq!((table.len(), store.exists("t")), (Ok(0), Ok(false)));
    table.insert("a", 7).expect("space");
    assert_eq!(store.value_type("t"), Ok(Some(ValueType::SortedSet)));
    assert_eq!(store.sorted_set_score("t", b"a\0\x01\x07"), Ok(Some(0.0)));
    assert_eq!(store.rename("t", "u"), Ok(true));
    let table: Table<String, u8> = store.table("u");
    assert_eq!(table.get("a"), Ok(Some(7)));
    store.set("string", "v").expect("space");
    assert_eq!(store.table::<u8, u8>("string").get(1), Err(Error::WrongType));
    // What is no row is an error, not a wrong row.
    store.sorted_set_add("u", "no row", 0.0).expect("space");
    assert_eq!(table.last(), Err(Error::NotARow));
    assert_eq!(table.iter().next(), Some(Err(Error::NotARow)));
    assert_eq!(table.iter().next_back(), Some(Err(Error::NotARow)));
    assert_eq!((table.pop_last(), table.len()), (Err(Error::NotARow), Ok(2)));
    store.sorted_set_add("u", "no row", 1.0).expect("space");
    assert_eq!(table.last(), Err(Error::NotARow));
    assert_eq!(store.table::<String, u64>("u").get("a"), Err(Error::NotARow));
}

#[test]
fn tables_take_part_in_transactions_and_are_there_again() {
    let folder = tempfile::tempdir().expect("a folder");
    for domain in [DomainRequest::Process, DomainRequest::Journal] {
        let options = Options::new(folder.path().join(format!("{domain:?}"))).limit(128 << 20);
        let options = options.domain(domain).journal_size(8 << 20).durability(Durability::Os);
        let store = Perdura::open(options.clone()).expect("a store");
        let done = store.transaction(&["by id", "by name"], |tx| {
            let by_id: Table<u64, String, _> = tx.table("by id");
            let by_name: Table<String, u64, _> = tx.table("by name");
            for id in 0..1000 {
                let name = format!("user {id}");
                by_id.insert(id, &name)?;
                by_name.insert(&name, id)?;
            }
            Ok::<_, Error>(())
        });
        assert_eq!(done, Ok(()));
        let undone = store.transaction(&["by id"], |tx| {
            let by_id: Table<u64, String, _> = tx.table("by id");
            assert_eq!(by_id.remove_range(100..900), Ok(800));
            assert_eq!(by_id.len(), Ok(200));
            Err::<(), _>(Error::Overflow)
        });
        assert_eq!(undone, Err(Error::Overflow));
        drop(store);
        let store = Perdura::open(options).expect("the store again");
        let by_name: Table<String, u64> = store.table("by name");
        assert_eq!(by_name.get("user 77"), Ok(Some(77)));
        assert_eq!(store.table::<u64, String>("by id").len(), Ok(1000));
        assert_eq!(store.table::<u64, String>("by id").remove_range(..), Ok(1000));
        assert_eq!(store.exists("by id"), Ok(false));
    }
}
