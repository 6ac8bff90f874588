//! Snapshots: each shows its own moment, in every type and by every iterator, whatever is written
//! meanwhile, and no write is refused because of one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use perdura::{
    ConsumerGroups, DomainRequest, Durability, Error, Hashes, Keys, Lists, Options, Perdura, Sets,
    Snapshot, SortedSets, StreamId, Streams, Strings, Table, Tables, ValueType, Writable,
};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(128 << 20).background(false)).expect("a store")
}

fn all<T>(iter: impl Iterator<Item = Result<T, Error>>) -> Vec<T> {
    iter.collect::<Result<_, _>>().expect("no error")
}

/// The operations that read a store or a snapshot.
trait Reads: Keys + Strings + Lists + Hashes + Sets + SortedSets + Streams + ConsumerGroups {}

impl<T: Keys + Strings + Lists + Hashes + Sets + SortedSets + Streams + ConsumerGroups> Reads
    for T
{
}

/// Returns all that a key holds, as text.
fn content(on: &impl Reads, key: &[u8]) -> Option<String> {
    let what = on.value_type(key).expect("no error")?;
    let mut lines: Vec<String> = match what {
        ValueType::String => vec![format!("{:?}", on.get(key))],
        ValueType::List => {
            let backwards = all(on.list_iter(key).rev());
            let mut elements = all(on.list_iter(key));
            assert_eq!(on.list_len(key), Ok(elements.len() as u64));
            elements.reverse();
            assert!(elements == backwards);
            vec![format!("{elements:?}")]
        }
        ValueType::Hash => {
            let fields = all(on.hash_iter(key));
            assert_eq!(on.hash_len(key), Ok(fields.len() as u64));
            assert!(fields.iter().all(|(f, v)| on.hash_get(key, f) == Ok(Some(v.clone()))));
            fields.into_iter().map(|pair| format!("{pair:?}")).collect()
        }
        ValueType::Set => {
            let members = all(on.set_iter(key));
            assert_eq!(on.set_len(key), Ok(members.len() as u64));
            assert!(members.iter().all(|member| on.set_contains(key, member) == Ok(true)));
            members.into_iter().map(|member| format!("{member:?}")).collect()
        }
        ValueType::SortedSet => {
            let members = all(on.sorted_set_iter(key));
            assert_eq!(on.sorted_set_len(key), Ok(members.len() as u64));
            for (rank, (member, score)) in (0..).zip(&members) {
                assert_eq!(on.sorted_set_rank(key, member), Ok(Some(rank)));
                assert_eq!(on.sorted_set_score(key, member), Ok(Some(*score)));
            }
            vec![format!("{members:?}")]
        }
        _ => {
            let pending = all(on.pending_iter(key, "workers"));
            vec![format!("{:?} {pending:?}", all(on.stream_iter(key, ..)))]
        }
    };
    lines.sort();
    Some(format!("{what:?} {}", lines.concat()))
}

type Contents = BTreeMap<Vec<u8>, String>;

fn contents(on: &impl Reads, keys: Vec<Vec<u8>>) -> Contents {
    let shown = keys.into_iter().filter_map(|key| Some((key.clone(), content(on, &key)?)));
    shown.collect()
}

fn of_store(store: &Perdura) -> Contents {
    contents(store, all(store.keys()))
}

fn of_snapshot(snapshot: &Snapshot<&Perdura>) -> Contents {
    let keys = all(snapshot.keys());
    assert_eq!(snapshot.len(), Ok(keys.len() as u64));
    let distinct = contents(snapshot, keys.clone());
    assert_eq!(distinct.len(), keys.len(), "each key comes once, and is there");
    distinct
}

/// Writes something of any type somewhere.
fn disturb(store: &Perdura, rng: &mut fastrand::Rng) {
    let key = format!("{}{}", ["s", "l", "h", "m", "z", "x"][rng.usize(..6)], rng.usize(..8));
    let key = if rng.usize(..20) == 0 { "other".to_owned() } else { key };
    let value =
        vec![rng.u8(..); [3, 40, 300, 5000, 200_000][rng.usize(..5)].min(1 + rng.usize(..300_000))];
    let short = &value[..value.len().min(rng.usize(1..90))];
    let item = format!("{}", rng.usize(..300));
    let done = match key.as_bytes()[0] {
        _ if rng.usize(..25) == 0 => store.delete(&key).map(drop),
        b's' if rng.bool() => store.append(&key, short).map(drop),
        b's' => store.set(&key, &value),
        b'l' if rng.usize(..3) == 0 => store.pop_front(&key).map(drop),
        b'l' if rng.bool() => store.push_front(&key, short).map(drop),
        b'l' => store.push_back(&key, short).map(drop),
        b'h' if rng.usize(..3) == 0 => store.hash_delete(&key, &item).map(drop),
        b'h' => store.hash_set(&key, &item, short).map(drop),
        b'm' if rng.usize(..3) == 0 => store.set_remove(&key, &item).map(drop),
        b'm' => store.set_add(&key, &item).map(drop),
        b'z' if rng.usize(..3) == 0 => store.sorted_set_remove(&key, &item).map(drop),
        b'z' => store.sorted_set_add(&key, &item, rng.f64()).map(drop),
        b'x' if rng.usize(..5) == 0 => store.trim_stream(&key, 50).map(drop),
        b'x' if rng.usize(..5) == 0 => {
            let made = store.create_group(&key, "workers", StreamId::MIN);
            made.and_then(|_| store.read_group(&key, "workers", "anna", 3)).map(drop)
        }
        b'x' => store.append_entry(&key, [("field", short)]).map(drop),
        _ => store.rename(&key, "s1").map(drop),
    };
    match done {
        Ok(()) | Err(Error::WrongType) => {}
        Err(error) => panic!("{error}"),
    }
    if rng.usize(..8) == 0 {
        store.maintain();
    }
}

/// Several snapshots at a time, each of which shows its own moment until it is dropped.
fn check_several(store: &Perdura, seed: u64, rounds: usize) {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..2000).for_each(|_| disturb(store, &mut rng));
    let mut taken: Vec<(Snapshot<&Perdura>, Contents)> = Vec::new();
    for round in 0..rounds {
        if taken.len() == 4 || !taken.is_empty() && rng.usize(..4) == 0 {
            drop(taken.swap_remove(rng.usize(..taken.len())));
        }
        taken.push((store.snapshot().expect("few are open"), of_store(store)));
        (0..rng.usize(..400)).for_each(|_| disturb(store, &mut rng));
        if rng.usize(..6) == 0 {
            store.clear_all().expect("a commit");
            (0..500).for_each(|_| disturb(store, &mut rng));
        }
        for (n, (snapshot, expected)) in taken.iter().enumerate() {
            let found = of_snapshot(snapshot);
            let keys: Vec<_> = found.keys().map(|key| String::from_utf8_lossy(key)).collect();
            assert!(found == *expected, "seed {seed}, round {round}, snapshot {n}: {keys:?}");
        }
    }
    drop(taken);
    store.check().expect("no transaction").expect("a sound store");
}

#[test]
fn each_of_several_snapshots_shows_its_own_moment_in_dram() {
    (0..2).for_each(|seed| check_several(&volatile(), seed, 12));
}

#[test]
fn each_of_several_snapshots_of_a_pool_shows_its_own_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path().join("pool"))
        .domain(DomainRequest::Clwb)
        .emulate_pmem(true)
        .limit(256 << 20);
    check_several(&Perdura::open(options).expect("a store"), 7, 12);
}

#[test]
fn each_of_several_snapshots_of_a_store_with_a_journal_shows_its_own_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path().join("pool"))
        .domain(DomainRequest::Journal)
        .durability(Durability::Os)
        .read_cache(16 << 20)
        .limit(256 << 20);
    check_several(&Perdura::open(options).expect("a store"), 9, 6);
}

#[test]
fn tables_and_databases_are_those_of_the_moment() {
    let store = volatile();
    let rows: Table<u32, String> = store.table("rows");
    for n in 0..1000 {
        rows.insert(n, &n.to_string()).expect("space");
    }
    store.database(5).and_then(|five| five.set("a", "in five")).expect("space");
    let snapshot = store.snapshot().expect("none is open");
    rows.remove_range(100..900).expect("a commit");
    rows.insert(5, "another").expect("space");
    store.database(5).and_then(|five| five.clear()).expect("a commit");
    let then: Table<u32, String, _> = snapshot.table("rows");
    assert_eq!((then.len(), rows.len()), (Ok(1000), Ok(200)));
    assert_eq!((then.get(5), then.rank(500)), (Ok(Some("5".into())), Ok(500)));
    assert_eq!(then.last(), Ok(Some((999, "999".into()))));
    let keys: Vec<u32> = all(then.range(95..905)).into_iter().map(|(key, _)| key).collect();
    assert!(keys.iter().copied().eq(95..905));
    assert_eq!(all(then.iter().rev()).len(), 1000);
    let five = snapshot.database(5).expect("a database");
    assert_eq!((five.number(), five.get("a")), (5, Ok(Some(b"in five".to_vec()))));
    assert_eq!((snapshot.exists("a"), five.len(), five.is_empty()), (Ok(false), Ok(1), Ok(false)));
    drop(snapshot);
    assert_eq!(five.keys().count(), 1, "a part of it keeps it");
    assert_eq!(five.database(16).map(drop), Err(Error::NoSuchDatabase));
}

#[test]
fn no_time_passes_in_a_snapshot() {
    static NOW: AtomicU64 = AtomicU64::new(1_000_000);
    let options = Options::volatile().clock(|| NOW.load(Relaxed)).background(false);
    let store = Perdura::open(options).expect("a store");
    store.set_for("key", "v", Duration::from_secs(10)).expect("space");
    store.hash_set("hash", "field", "v").expect("space");
    store.hash_expire("hash", "field", Duration::from_secs(10)).expect("space");
    let snapshot = store.snapshot().expect("none is open");
    NOW.fetch_add(20_000, Relaxed);
    while store.maintain() {}
    assert_eq!((store.exists("key"), store.exists("hash")), (Ok(false), Ok(false)));
    assert_eq!(snapshot.get("key"), Ok(Some(b"v".to_vec())));
    assert_eq!(snapshot.ttl("key"), Ok(Some(Duration::from_secs(10))));
    assert_eq!(snapshot.hash_get("hash", "field"), Ok(Some(b"v".to_vec())));
    assert_eq!(snapshot.keys().count(), 2);
}

#[test]
fn a_large_value_is_read_whole_while_it_is_replaced() {
    let store = volatile();
    let value = |n: u8| (0..3_000_000_u32).map(|at| (at / 1000) as u8 ^ n).collect::<Vec<u8>>();
    store.set("large", value(0)).expect("space");
    let snapshot = store.snapshot().expect("none is open");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (1..=u8::MAX).cycle().take_while(|_| !stop.load(Relaxed)).for_each(|n| {
                store.set("large", value(n)).expect("no write is refused");
            });
        });
        for _ in 0..20 {
            match snapshot.get("large") {
                Ok(found) => assert!(found == Some(value(0))),
                Err(error) => assert_eq!(error, Error::SnapshotExpired),
            }
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn the_oldest_snapshot_expires_where_they_hold_too_much() {
    let options = Options::volatile().limit(64 << 20).snapshot_limit(1 << 20).background(false);
    let store = Perdura::open(options).expect("a store");
    let set = |n: usize, fill: u8| store.set(format!("k{n}"), [fill; 500]).expect("no refusal");
    (0..1000).for_each(|n| set(n, 0));
    let old = store.snapshot().expect("none is open");
    (0..1000).for_each(|n| set(n, 1));
    let young = store.snapshot().expect("one is open");
    let mut keys = old.keys();
    assert!(keys.next().is_some_and(|key| key.is_ok()));
    for n in 0..1100 {
        set(n % 1000, 2);
    }
    assert_eq!(old.get("k1"), Err(Error::SnapshotExpired));
    assert_eq!(
        (old.len(), old.hash_len("k1")),
        (Err(Error::SnapshotExpired), Err(Error::SnapshotExpired))
    );
    let last = keys.find(|key| key.is_err());
    assert_eq!((last, keys.next()), (Some(Err(Error::SnapshotExpired)), None));
    store.maintain();
    assert_eq!(young.get("k1"), Ok(Some(vec![1; 500])), "the younger one goes on");
    assert_eq!(young.keys().count(), 1000);
    for n in 0..20_000 {
        set(n % 1000, 3);
    }
    assert_eq!(young.get("k1"), Err(Error::SnapshotExpired));
    // Expired ones hold nothing, so that another one can be taken.
    let third = store.snapshot().expect("two are open");
    set(1, 4);
    assert_eq!(third.get("k1"), Ok(Some(vec![3; 500])));
}

#[test]
fn a_full_store_takes_what_was_deleted_although_snapshots_hold_it() {
    let store = Perdura::open(Options::volatile().limit(24 << 20)).expect("a store");
    let value = vec![7; 30_000];
    let count = (0..).find(|n| store.set(format!("k{n}"), &value).is_err()).expect("a limit");
    let snapshots: Vec<_> = (0..3).map(|_| store.snapshot().expect("few are open")).collect();
    for round in 0..3 {
        for n in 0..count / 2 {
            assert_eq!(store.delete(format!("k{n}")), Ok(true), "{round}");
        }
        for n in 0..count / 3 {
            assert_eq!(store.set(format!("k{n}"), &value), Ok(()), "{round}: {n} of {count}");
        }
        for n in count / 3..count / 2 {
            let _ = store.set(format!("k{n}"), &value);
        }
    }
    assert_eq!(snapshots[0].get("k1"), Err(Error::SnapshotExpired));
    drop(snapshots);
    store.check().expect("no transaction").expect("a sound store");
}

#[test]
fn a_snapshot_is_not_taken_or_read_inside_of_a_transaction() {
    let store = volatile();
    let snapshot = store.snapshot().expect("none is open");
    let inside = store.transact(|_| {
        assert_eq!(store.snapshot().map(drop), Err(Error::Reentrant));
        assert_eq!(snapshot.exists("a"), Err(Error::Reentrant));
        assert_eq!(snapshot.get("a"), Err(Error::Reentrant));
        assert_eq!(store.check().map(drop), Err(Error::Reentrant));
        Ok(snapshot.keys().next())
    });
    assert_eq!(inside, Ok(Some(Err(Error::Reentrant))));
}

#[test]
fn there_are_no_more_than_sixty_four() {
    let store = volatile();
    let open: Vec<_> = (0..64).map(|_| store.snapshot().expect("space")).collect();
    assert_eq!(store.snapshot().map(drop), Err(Error::TooManySnapshots));
    drop(open);
    assert!(store.snapshot().is_ok());
    assert!(format!("{:?}", store.snapshot()).contains("held_words: 0"));
}

fn is_shared<T: Send + Sync + 'static>(snapshot: T) -> T {
    snapshot
}

/// Pairs of keys are written together; readers in other threads see both or neither.
#[test]
fn threads_share_snapshots_while_others_write() {
    fn write(on: &impl Writable, n: u64) {
        // Operations that write have a trait of their own.
        let _ = (on, n);
    }
    let store = Arc::new(volatile());
    let pair = |n: u64| [format!("a{}", n % 50), format!("b{}", n % 50)];
    let put = |n: u64| {
        let keys = pair(n);
        store.transaction(&keys, |tx| {
            tx.set(&keys[0], n.to_string())?;
            tx.set(&keys[1], n.to_string())
        })
    };
    (0..50).for_each(|n| put(n).expect("space"));
    write(&*store, 0);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(50));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    put(written.fetch_add(1, Relaxed)).expect("no write is refused");
                }
            });
        }
        for _ in 0..40 {
            let snapshot = is_shared(store.shared_snapshot().expect("few are open"));
            let read = || {
                for n in 0..50 {
                    let [a, b] = pair(n).map(|key| snapshot.get(key).expect("no error"));
                    assert!(a.is_some() && a == b, "{a:?} and {b:?}");
                }
                contents(&snapshot, all(snapshot.keys()))
            };
            let read: [Contents; 2] = std::thread::scope(|scope| {
                [scope.spawn(read), scope.spawn(read)]
                    .map(|reader| reader.join().expect("no panic"))
            });
            assert!(read[0] == read[1] && read[0].len() == 100);
        }
        stop.store(true, Relaxed);
    });
}
