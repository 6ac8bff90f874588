//! Ordered tables: their answers, compared with a map; and how others see them.

use std::collections::BTreeMap;
use std::ops::Bound;

use perdura::prelude::*;
use perdura::{
    DomainRequest, Durability, Error, Options, Perdura, RangeIter, Table, Value, ValueType,
};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(256 << 20).background(false)).expect("a store")
}

type Map = BTreeMap<(u8, String), Vec<u8>>;
type Rows<'s> = Table<'s, (u8, String), Vec<u8>>;

/// A pseudo-random sequence, repeatable by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }

    /// Returns names of which some are prefixes of others, and some contain zeros.
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

/// Compares rows by the first part of their keys, and by that and a prefix of the second.
fn check_prefixes(table: &Rows<'_>, map: &Map, random: &mut Random) {
    let (first, name) = random.key();
    let of = |name: &str| -> Vec<_> {
        let all = map.iter().filter(|(key, _)| key.0 == first && key.1.starts_with(name));
        all.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let whole = of("");
    let shown = table.prefix((first,)).collect::<Result<Vec<_>, _>>();
    assert_eq!((shown, table.count_prefix((first,))), (Ok(whole.clone()), Ok(whole.len() as u64)));
    let begun = of(&name);
    let name = name.as_str();
    let shown = table.prefix((first, name)).collect::<Result<Vec<_>, _>>();
    assert_eq!(shown, Ok(begun.clone()), "{first} {name:?}");
    let mut backwards = table.prefix((first, name)).rev().collect::<Result<Vec<_>, _>>();
    backwards.iter_mut().for_each(|rows| rows.reverse());
    assert_eq!((table.count_prefix((first, name)), backwards), (Ok(begun.len() as u64), Ok(begun)));
}

/// Makes changes that look at the old value first.
fn update(table: &Rows<'_>, map: &mut Map, random: &mut Random) {
    let key = random.key();
    let value = |random: &mut Random| vec![random.below(2) as u8; random.below(3) as usize];
    let some = |random: &mut Random| (random.below(3) > 0).then(|| value(random));
    let (old, new) = (map.get(&key).cloned(), some(random));
    let mut put = |value: Option<Vec<u8>>| match value {
        Some(value) => map.insert(key.clone(), value),
        None => map.remove(&key),
    };
    match random.below(3) {
        0 => {
            let updated = table.fetch_update(as_ref(&key), |found| {
                assert_eq!(found, old.as_ref());
                new.clone()
            });
            assert_eq!(updated, Ok(old));
            put(new);
        }
        1 => {
            let expected = if random.below(2) == 0 { old.clone() } else { some(random) };
            let done = table.compare_and_set(as_ref(&key), expected.as_deref(), new.as_deref());
            assert_eq!(done, Ok(old == expected));
            if old == expected {
                put(new);
            }
        }
        _ => {
            let new = value(random);
            assert_eq!(table.insert_if_absent(as_ref(&key), &new), Ok(old.is_none()));
            if old.is_none() {
                put(Some(new));
            }
        }
    }
}

fn step(table: &Rows<'_>, map: &mut Map, random: &mut Random) {
    let key = random.key();
    let owned = |row: Option<(&(u8, String), &Vec<u8>)>| row.map(|(k, v)| (k.clone(), v.clone()));
    match random.below(24) {
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
        14 => {
            let before = map.len();
            map.retain(|own, _| !(own.0 == key.0 && own.1.starts_with(&key.1)));
            let removed = table.remove_prefix((key.0, &key.1));
            assert_eq!(removed, Ok((before - map.len()) as u64));
        }
        15..20 => update(table, map, random),
        _ => {
            assert_eq!(table.get(as_ref(&key)), Ok(map.get(&key).cloned()));
            assert_eq!(table.contains(as_ref(&key)), Ok(map.contains_key(&key)));
            assert_eq!(table.len(), Ok(map.len() as u64));
            assert_eq!(table.first(), Ok(owned(map.first_key_value())));
            assert_eq!(table.last(), Ok(owned(map.last_key_value())));
            let nth = random.below(map.len() as u64 + 2);
            assert_eq!(table.nth(nth), Ok(owned(map.iter().nth(nth as usize))));
            check_ranges(table, map, random);
            check_prefixes(table, map, random);
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

/// A prefix whose bytes are all 0xff ends where the table does.
#[test]
fn prefixes_are_found_whatever_their_bytes_are() {
    let store = volatile();
    let table: Table<Vec<u8>, ()> = store.table("bytes");
    let all: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0\xff", b"\x01", b"\xff", b"\xff\xff\x01"];
    all.iter().for_each(|key| assert_eq!(table.insert(key, ()), Ok(None)));
    let names: Table<String, ()> = store.table("names");
    let pairs: Table<(u8, u8), ()> = store.table("pairs");
    let fixed: Table<[u8; 3], ()> = store.table("fixed");
    for n in [0, 1, 254, 255] {
        assert_eq!(pairs.insert((n, n), ()), Ok(None));
        assert_eq!(pairs.insert((n, 255), ()).map(|old| old.is_some()), Ok(n == 255));
        assert_eq!(fixed.insert(&[255, 255, n], ()), Ok(None));
    }
    names.insert("a", ()).expect("space");
    names.insert("a\0", ()).expect("space");
    for prefix in all {
        let expected = all.iter().filter(|key| key.starts_with(prefix)).count();
        assert_eq!(table.prefix(prefix).count(), expected, "{prefix:?}");
        assert_eq!(table.prefix(prefix).rev().count(), expected, "{prefix:?}");
        assert_eq!(table.count_prefix(&prefix.to_vec()), Ok(expected as u64), "{prefix:?}");
    }
    assert_eq!((names.count_prefix("a"), names.count_prefix("a\0")), (Ok(2), Ok(1)));
    assert_eq!(names.count_prefix(&String::new()), Ok(2));
    assert_eq!([0, 1, 2, 255].map(|n| pairs.prefix((n,)).count()), [2, 2, 0, 1]);
    assert_eq!((fixed.prefix(b"\xff\xff").count(), fixed.prefix(b"\xff\x01").count()), (4, 0));
    assert_eq!(fixed.prefix(b"\xff\xff\xff\xff").count(), 0);
    assert_eq!((pairs.remove_prefix((255,)), pairs.len()), (Ok(1), Ok(6)));
    // A prefix that is longer than the keys matches none of them, whatever follows.
    let valued: Table<[u8; 2], Vec<u8>> = store.table("valued");
    valued.insert(b"ab", b"cd").expect("space");
    assert_eq!((valued.prefix(b"ab").count(), valued.prefix(b"abc").count()), (1, 0));
    assert_eq!((valued.remove_prefix(b"abc"), valued.len()), (Ok(0), Ok(1)));
}

/// A value that cannot be encoded if it is odd.
#[derive(Debug, PartialEq)]
struct Even(u8);

impl Value for Even {
    type Ref<'a> = u8;

    fn borrowed(value: &Even) -> u8 {
        value.0
    }

    fn encode(value: &u8, out: &mut Vec<u8>) -> Result<(), Error> {
        out.push(*value);
        if value.is_multiple_of(2) { Ok(()) } else { Err(Error::NotARow) }
    }

    fn decode(bytes: &[u8]) -> Option<Even> {
        <u8 as Value>::decode(bytes).map(Even)
    }
}

#[test]
fn an_update_that_fails_leaves_the_row_as_it_was() {
    let store = volatile();
    let table: Table<u8, Even> = store.table("t");
    table.insert(1, 2).expect("space");
    assert_eq!(table.fetch_update(1, |_| Some(Even(3))), Err(Error::NotARow));
    assert_eq!(table.compare_and_set(1, Some(2), Some(3)), Err(Error::NotARow));
    assert_eq!(table.insert_if_absent(2, 3), Err(Error::NotARow));
    assert_eq!((table.get(1), table.len()), (Ok(Some(Even(2))), Ok(1)));
    // Members that others have written are no rows of these types.
    store.sorted_set_add("t", b"\x02no row", 0.0).expect("space");
    let mut called = false;
    let failed = table.fetch_update(2, |_| {
        called = true;
        None
    });
    assert_eq!((failed, called, table.len()), (Err(Error::NotARow), false, Ok(2)));
    assert_eq!(table.compare_and_set(2, None, None), Ok(false));
}

/// A row that gets another value between two batches keeps its place.
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
            // Greater or smaller: after what was shown, or before it, in the order of all bytes.
            table.insert(id, if end == "front" { 2000 } else { 3 }).expect("space");
        }
        if end == "back" {
            shown.reverse();
        }
        assert_eq!(shown, (0..300).collect::<Vec<_>>(), "from the {end}");
    }
}

#[test]
fn threads_that_update_one_row_lose_no_update() {
    let store = volatile();
    let counts: Table<String, u64> = store.table("counts");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let add = |old: Option<&u64>| Some(old.copied().unwrap_or(0) + 1);
                    counts.fetch_update("all", add).expect("space");
                }
            });
        }
    });
    assert_eq!(counts.get("all"), Ok(Some(2000)));
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
    // A member that is no row is an error, not a wrong row.
    store.sorted_set_add("u", "no row", 0.0).expect("space");
    assert_eq!(table.last(), Err(Error::NotARow));
    assert_eq!(table.iter().next(), Some(Err(Error::NotARow)));
    assert_eq!(table.iter().next_back(), Some(Err(Error::NotARow)));
    assert_eq!((table.pop_last(), table.len()), (Err(Error::NotARow), Ok(2)));
    store.sorted_set_add("u", "no row", 1.0).expect("space");
    assert_eq!(table.last(), Err(Error::NotARow));
    let other: Table<String, u64> = store.table("u");
    assert_eq!(other.get("a"), Err(Error::NotARow));
    assert_eq!((other.insert("a", 9), table.get("a")), (Err(Error::NotARow), Ok(Some(7))));
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
