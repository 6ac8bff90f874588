//! Iterators: their items, their order, and the effect of concurrent writes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};

use perdura::prelude::*;
use perdura::{
    DomainRequest, Durability, Error, Options, Perdura, RangeIter, Scored, StreamId, ValueType,
};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(128 << 20).background(false)).expect("a store")
}

fn all<T>(iter: impl Iterator<Item = Result<T, Error>>) -> Vec<T> {
    iter.collect::<Result<_, _>>().expect("no error")
}

/// Checks a range from the front, from the back, and from both ends in turn.
#[track_caller]
fn check_range<'s, T: PartialEq + Debug + 's, S: 's>(
    range: impl Fn() -> RangeIter<'s, T, S>,
    expected: &[T],
) {
    assert_eq!(all(range()), expected);
    let mut backwards = all(range().rev());
    backwards.reverse();
    assert_eq!(backwards, expected);
    let (mut iter, mut front, mut back) = (range(), Vec::new(), Vec::new());
    for turn in 0.. {
        let from_back = turn % 7 > 3;
        let item = if from_back { iter.next_back() } else { iter.next() };
        let Some(item) = item else { break };
        if from_back { &mut back } else { &mut front }.push(item.expect("no error"));
    }
    assert!(iter.next().is_none() && iter.next_back().is_none());
    front.extend(back.into_iter().rev());
    assert_eq!(front, expected);
}

#[test]
fn fields_and_members_come_once() {
    let store = volatile();
    for count in [0, 1, 100, 5000] {
        let (hash, set) = (format!("h{count}"), format!("s{count}"));
        for n in 0..count {
            store.hash_set(&hash, format!("f{n}"), n.to_string()).expect("space");
            store.set_add(&set, n.to_string()).expect("space");
        }
        let fields = all(store.hash_iter(&hash));
        let distinct: HashMap<_, _> = fields.iter().cloned().collect();
        assert_eq!((fields.len(), distinct.len()), (count, count));
        assert!(distinct.iter().all(|(field, value)| field[1..] == value[..]));
        let members = all(store.set_iter(&set));
        let distinct: BTreeSet<_> = members.iter().collect();
        assert_eq!((members.len(), distinct.len()), (count, count));
    }
    store.set("string", "v").expect("space");
    let mut wrong = store.hash_iter("string");
    assert_eq!((wrong.next(), wrong.next()), (Some(Err(Error::WrongType)), None));
}

#[test]
fn keys_are_found_by_prefix_pattern_and_type_in_their_database() {
    let store = volatile();
    for n in 0..3000 {
        store.set(format!("string:{n}"), "v").expect("space");
    }
    store.push_back("list:1", "e").expect("space");
    let other = store.database(7).expect("a database");
    other.set("string:1", "v").expect("space");
    let keys = all(store.keys());
    assert_eq!((keys.len(), keys.iter().collect::<BTreeSet<_>>().len()), (3001, 3001));
    assert_eq!(all(store.keys().prefix("string:29")).len(), 111);
    assert_eq!(all(store.keys().matching("*:1?")).len(), 10);
    assert_eq!(all(store.keys().matching("*:1").of_type(ValueType::List)), [b"list:1"]);
    assert_eq!(all(other.keys()), [b"string:1"]);
    assert_eq!(other.value_type("string:1"), Ok(Some(ValueType::String)));
    assert_eq!((store.len(), other.len(), other.number()), (3001, 1, 7));
}

#[test]
fn lists_are_shown_from_both_ends() {
    let store = volatile();
    for count in [0, 1, 64, 65, 1000] {
        let key = format!("l{count}");
        let elements: Vec<Vec<u8>> = (0..count).map(|n| n.to_string().into_bytes()).collect();
        elements.iter().for_each(|element| {
            store.push_back(&key, element).expect("space");
        });
        check_range(|| store.list_iter(&key), &elements);
    }
    // Elements large enough to fill a batch by their bytes.
    let large: Vec<Vec<u8>> = (0..10).map(|n| vec![n; 30_000]).collect();
    large.iter().for_each(|element| {
        store.push_back("large", element).expect("space");
    });
    check_range(|| store.list_iter("large"), &large);
}

#[test]
fn sorted_sets_are_shown_by_rank_score_and_name() {
    let store = volatile();
    for count in [0u64, 1, 100, 1000] {
        let key = format!("z{count}");
        let members: Vec<Scored> =
            (0..count).map(|n| (format!("m{n:04}").into_bytes(), (n / 3) as f64)).collect();
        for (member, score) in &members {
            store.sorted_set_add(&key, member, *score).expect("space");
        }
        check_range(|| store.sorted_set_iter(&key), &members);
        let len = members.len();
        let part = |from: usize, to: usize| &members[from.min(len)..to.min(len)];
        check_range(|| store.sorted_set_by_rank(&key, 10..=500), part(10, 501));
        check_range(|| store.sorted_set_by_rank(&key, 990..), part(990, 1000));
        check_range(|| store.sorted_set_by_rank(&key, 5..5), &[]);
        check_range(|| store.sorted_set_by_score(&key, 10.0..=20.0), part(30, 63));
        check_range(|| store.sorted_set_by_score(&key, ..10.0), part(0, 30));
        check_range(|| store.sorted_set_by_score(&key, 20.0..10.0), &[]);
        check_range(|| store.sorted_set_by_score(&key, f64::NAN..), part(0, len));
    }
    for n in 0..300 {
        store.sorted_set_add("names", format!("{n:03}"), 1.5).expect("space");
    }
    let named = |range: std::ops::Range<u32>| -> Vec<Scored> {
        range.map(|n| (format!("{n:03}").into_bytes(), 1.5)).collect()
    };
    check_range(|| store.sorted_set_by_name("names", "0105".."200"), &named(11..200));
    check_range(|| store.sorted_set_by_name("names", ..="099"), &named(0..100));
    check_range(|| store.sorted_set_by_name("names", "9".."95"), &[]);
    check_range(|| store.sorted_set_by_name::<&str>("names", ..), &named(0..300));
}

#[test]
fn streams_are_shown_by_id() {
    let store = volatile();
    let append = |n: u64| store.append_entry("s", [("n", n.to_string())]).expect("space");
    let ids: Vec<StreamId> = (0..500).filter_map(append).collect();
    let entries = store.entries("s", StreamId::MIN..=StreamId::MAX, 1000).expect("a stream");
    check_range(|| store.stream_iter("s", ..), &entries);
    check_range(|| store.stream_iter("s", ids[10]..ids[300]), &entries[10..300]);
    check_range(|| store.stream_iter("s", ids[300]..=ids[400]), &entries[300..401]);
    check_range(|| store.stream_iter("s", ids[5]..ids[5]), &[]);
    check_range(|| store.stream_iter("s", ..StreamId::MIN), &[]);
    check_range(|| store.stream_iter("nothing", ..), &[]);
}

#[test]
fn an_iterator_in_a_transaction_shows_what_that_did() {
    let store = volatile();
    let seen = store.transaction(&["h", "z"], |tx| {
        tx.hash_set("h", "f", "v")?;
        for n in 0..200 {
            tx.sorted_set_add("z", n.to_string(), f64::from(n))?;
        }
        assert_eq!(tx.sorted_set_by_score("z", 50.0..).count(), 150);
        assert_eq!(tx.list_iter("elsewhere").next(), Some(Err(Error::Undeclared)));
        assert_eq!(store.keys().next(), Some(Err(Error::Reentrant)));
        tx.hash_iter("h").collect::<Result<Vec<_>, _>>()
    });
    assert_eq!(seen, Ok(vec![(b"f".to_vec(), b"v".to_vec())]));
    assert_eq!(all(store.sorted_set_iter("z")).len(), 200);
}

/// While others add and remove members, those that stay are shown: exactly once if in order, else
/// at least once.
#[test]
fn what_stays_is_shown_while_others_write() {
    let store = volatile();
    for n in (0..3000).step_by(3) {
        store.sorted_set_add("z", name(n), f64::from(n % 7)).expect("space");
        store.hash_set("h", name(n), "stays").expect("space");
        store.set(name(n), "stays").expect("space");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0u32.. {
                for n in (0..3000).filter(|n| n % 3 != 0) {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    let add = round.is_multiple_of(2);
                    let changed = if add { come(&store, n) } else { go(&store, n) };
                    changed.expect("space");
                }
            }
        });
        for _ in 0..20 {
            for backwards in [false, true] {
                let iter = store.sorted_set_iter("z");
                let shown = if backwards { all(iter.rev()) } else { all(iter) };
                let order = |a: &Scored, b: &Scored| {
                    let order = (a.1, &a.0).partial_cmp(&(b.1, &b.0)).expect("numbers");
                    if backwards { order.is_gt() } else { order.is_lt() }
                };
                assert!(shown.windows(2).all(|pair| order(&pair[0], &pair[1])));
                let count = shown.iter().filter(|(name, _)| stays(name)).count();
                assert_eq!(count, 1000);
            }
            let fields: BTreeMap<_, _> = all(store.hash_iter("h")).into_iter().collect();
            assert_eq!(fields.keys().filter(|name| stays(name)).count(), 1000);
            let keys: BTreeSet<_> = all(store.keys()).into_iter().collect();
            assert_eq!(keys.iter().filter(|name| stays(name)).count(), 1000);
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn come(store: &Perdura, n: u32) -> Result<(), Error> {
    store.sorted_set_add("z", name(n), f64::from(n % 7))?;
    store.hash_set("h", name(n), "comes")?;
    store.set(name(n), "comes")
}

fn go(store: &Perdura, n: u32) -> Result<(), Error> {
    store.sorted_set_remove("z", name(n))?;
    store.hash_delete("h", name(n))?;
    store.delete(name(n)).map(|_| ())
}

fn name(n: u32) -> String {
    format!("{n:05}")
}

fn stays(name: &[u8]) -> bool {
    let number = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok());
    number.is_some_and(|n| n.is_multiple_of(3))
}

#[test]
fn keys_are_deleted_by_prefix_and_databases_cleared() {
    let folder = tempfile::tempdir().expect("a folder");
    for domain in [DomainRequest::Process, DomainRequest::Journal] {
        let options = Options::new(folder.path().join(format!("{domain:?}"))).limit(64 << 20);
        let options = options.domain(domain).journal_size(8 << 20).durability(Durability::Os);
        let store = Perdura::open(options.clone()).expect("a store");
        for n in 0..2000 {
            store.set(format!("a:{n}"), "v").expect("space");
            store.hash_set(format!("b:{n}"), "f", vec![b'x'; 100]).expect("space");
        }
        store.database(1).expect("a database").set("a:1", "v").expect("space");
        assert_eq!(store.remove_prefix("a:"), Ok(2000));
        assert_eq!(store.remove_prefix("a:"), Ok(0));
        assert_eq!(
            store.transaction(&["b:1"], |_| store.remove_prefix("b")),
            Err(Error::Reentrant)
        );
        assert_eq!(store.transaction(&["b:1"], |_| store.clear()), Err(Error::Reentrant));
        drop(store);
        let store = Perdura::open(options.clone()).expect("the store again");
        assert_eq!((store.len(), store.clear(), store.len()), (2000, Ok(2000), 0));
        let other = store.database(1).expect("a database");
        assert_eq!((other.remove_prefix("x"), other.len(), store.clear_all()), (Ok(0), 1, Ok(1)));
        drop(store);
        let store = Perdura::open(options).expect("the store again");
        assert!(store.is_empty() && store.database(1).expect("a database").is_empty());
        while store.maintain() {}
    }
}
