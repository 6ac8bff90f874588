//! Transactions without declared keys, updates of one value, batches, and pops that wait.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use perdura::prelude::*;
use perdura::{DomainRequest, Durability, Error, Options, Perdura, Table, WriteBatch};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(64 << 20).background(false)).expect("a store")
}

fn integer(store: &Perdura, key: &str) -> i64 {
    store.increment(key, 0).expect("an integer")
}

#[test]
fn a_transaction_locks_what_it_turns_out_to_need() {
    let store = volatile();
    for n in 0..200 {
        store.set(format!("next:{n}"), format!("next:{}", n + 1)).expect("space");
    }
    let last = store.transact(|tx| {
        let mut at = "next:0".to_string();
        while let Some(next) = tx.get(&at)? {
            tx.set(&at, "visited")?;
            at = String::from_utf8(next).expect("text");
        }
        let visits: Table<String, u64, _> = tx.table("visits");
        visits.insert(&at, 1)?;
        tx.rename("next:7", "seventh")?;
        Ok(at)
    });
    assert_eq!(last.as_deref(), Ok("next:200"));
    assert_eq!(store.get("seventh"), Ok(Some(b"visited".to_vec())));
    assert_eq!(store.transact(|_| Ok(7)), Ok(7));
    let other = store.database(2).expect("a database");
    assert_eq!(other.transact(|tx| tx.increment("n", 1)), Ok(1));
    assert_eq!((other.len(), store.exists("n")), (1, Ok(false)));
}

#[test]
fn an_error_or_a_panic_undoes_it() {
    let store = volatile();
    let failed = store.transact(|tx| {
        for n in 0..50 {
            tx.set(format!("k{n}"), "v")?;
        }
        tx.increment("k1", 1)
    });
    assert_eq!((failed, store.len()), (Err(Error::NotAnInteger), 0));
    let panicking = || {
        store.transact(|tx| -> Result<(), Error> {
            tx.set("a", "v")?;
            tx.set("b", "v")?;
            panic!("a closure")
        })
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panicking)).is_err());
    assert_eq!((store.len(), store.set("a", "v")), (0, Ok(())));
    let inner = store.transact(|_| store.transact(|_| Ok(())));
    assert_eq!(inner, Err(Error::Reentrant));
}

#[test]
fn a_closure_that_swallows_a_conflict_runs_again_all_the_same() {
    let store = volatile();
    let (here, runs) = (Barrier::new(2), AtomicUsize::new(0));
    // Two keys of different shards, locked in the opposite order by a thread that declares them.
    let keys = ["a", "b", "c", "d", "e", "f"];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            store
                .transaction(&keys[1..], |tx| {
                    here.wait();
                    std::thread::sleep(Duration::from_millis(50));
                    tx.set("b", "declared")
                })
                .expect("space");
        });
        here.wait();
        let done = store.transact(|tx| {
            runs.fetch_add(1, Ordering::Relaxed);
            keys.iter().for_each(|key| {
                let _ = tx.append(key, "x");
            });
            Ok(())
        });
        assert_eq!(done, Ok(()));
    });
    assert!(runs.into_inner() >= 1);
    assert_eq!(store.get("b"), Ok(Some(b"declaredx".to_vec())));
    assert!(
        keys.iter().all(|key| store.get(key).expect("a string").expect("a key").ends_with(b"x"))
    );
}

#[test]
fn threads_that_meet_in_any_order_keep_their_sums() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = Options::new(folder.path().join("pool")).domain(DomainRequest::Journal);
    let options = options.limit(64 << 20).journal_size(8 << 20).durability(Durability::Os);
    for store in [volatile(), Perdura::open(options).expect("a store")] {
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..500usize {
                        let (from, to) = ((n * 7 + thread * 3) % 10, (n * 3 + thread) % 10);
                        store
                            .transact(|tx| {
                                tx.increment(format!("account:{from}"), -1)?;
                                tx.increment(format!("account:{to}"), 1)?;
                                tx.increment(format!("count:{thread}"), 1)
                            })
                            .expect("space");
                    }
                });
            }
        });
        let sum: i64 = (0..10).map(|n| integer(&store, &format!("account:{n}"))).sum();
        let count: i64 = (0..4).map(|n| integer(&store, &format!("count:{n}"))).sum();
        assert_eq!((sum, count), (0, 2000));
    }
}

#[test]
fn values_are_updated_in_one_step() {
    let store = volatile();
    let minute = Duration::from_secs(60);
    assert_eq!(store.set_if_absent("k", "1"), Ok(true));
    assert_eq!(store.set_if_absent("k", "2"), Ok(false));
    assert_eq!(store.set_if_absent_for("lock", "me", minute), Ok(true));
    assert_eq!(store.set_if_absent_for("lock", "you", minute), Ok(false));
    assert!(store.ttl("lock").expect("a key").is_some());

    assert_eq!(store.compare_and_set("k", Some(b"2"), Some(b"3")), Ok(false));
    assert_eq!(store.compare_and_set("k", Some(b"1"), Some(b"3")), Ok(true));
    assert_eq!(store.compare_and_set("k", None, Some(b"4")), Ok(false));
    assert_eq!(store.compare_and_set("absent", None, None), Ok(true));
    assert_eq!(store.compare_and_set("lock", Some(b"me"), Some(b"me too")), Ok(true));
    assert!(store.ttl("lock").expect("a key").is_some(), "an expiry time stays");
    assert_eq!(store.compare_and_set("k", Some(b"3"), None), Ok(true));
    assert_eq!(store.exists("k"), Ok(false));

    let double = |old: Option<&[u8]>| Some([old.unwrap_or(b"x"), old.unwrap_or_default()].concat());
    assert_eq!(store.fetch_update("k", double), Ok(None));
    assert_eq!(store.fetch_update("k", double), Ok(Some(b"x".to_vec())));
    assert_eq!(store.fetch_update("k", |_| None), Ok(Some(b"xx".to_vec())));
    assert_eq!(store.exists("k"), Ok(false));
    store.push_back("list", "e").expect("space");
    assert_eq!(store.fetch_update("list", double), Err(Error::WrongType));
    assert_eq!(store.set_if_absent("list", "v"), Ok(false));
    // A large value.
    let large = vec![7; 100_000];
    assert_eq!(store.fetch_update("k", |_| Some(large.clone())), Ok(None));
    assert_eq!(store.compare_and_set("k", Some(&large), Some(b"small")), Ok(true));
}

#[test]
fn a_batch_is_written_whole_in_its_order() {
    let store = volatile();
    assert_eq!(store.write(&WriteBatch::new()), Ok(()));
    store.set("old", "v").expect("space");
    let mut batch = WriteBatch::new();
    for n in 0..5000 {
        batch.set(format!("k{n}"), vec![b'v'; 100]);
    }
    batch.set("k1", "later").delete("old").set_for("short", "v", Duration::from_secs(9));
    assert_eq!((batch.len(), store.write(&batch)), (5003, Ok(())));
    assert_eq!((store.len(), store.get("k1")), (5001, Ok(Some(b"later".to_vec()))));
    assert!(store.ttl("short").expect("a key").is_some());
    // One that does not fit leaves nothing.
    batch.clear();
    batch.set("first", "v");
    for n in 0..100 {
        batch.set(format!("large{n}"), vec![0; 1 << 20]);
    }
    assert_eq!((store.write(&batch), store.exists("first")), (Err(Error::Full), Ok(false)));
}

#[test]
fn a_pop_waits_for_an_element_from_wherever_it_comes() {
    let store = volatile();
    let long = Duration::from_secs(60);
    let pushes: [&(dyn Fn() -> Result<(), Error> + Sync); 4] = [
        &|| store.push_back("jobs", "1").map(|_| ()),
        &|| store.transaction(&["jobs"], |tx| tx.push_front("jobs", "2").map(|_| ())),
        &|| store.transact(|tx| tx.push_back("jobs", "3").map(|_| ())),
        &|| {
            store.push_back("elsewhere", "4")?;
            store.rename("elsewhere", "jobs").map(|_| ())
        },
    ];
    for (n, push) in pushes.iter().enumerate() {
        let popped = std::thread::scope(|scope| {
            let waits = scope.spawn(|| match n {
                0 | 2 => store.pop_front_wait("jobs", long),
                _ => store.pop_back_wait("jobs", Duration::MAX),
            });
            std::thread::sleep(Duration::from_millis(20));
            push().expect("space");
            waits.join().expect("no panic")
        });
        assert_eq!(popped, Ok(Some((n + 1).to_string().into_bytes())));
    }
    let scored = std::thread::scope(|scope| {
        let waits = scope.spawn(|| store.sorted_set_pop_wait("due", long));
        store.sorted_set_add("due", "wash", 7.0).expect("space");
        waits.join().expect("no panic")
    });
    assert_eq!(scored, Ok(Some((b"wash".to_vec(), 7.0))));
    let start = Instant::now();
    assert_eq!(store.pop_front_wait("jobs", Duration::from_millis(30)), Ok(None));
    assert!(start.elapsed() >= Duration::from_millis(30));
    assert_eq!(store.pop_front_wait("jobs", Duration::ZERO), Ok(None));
    store.set("string", "v").expect("space");
    assert_eq!(store.pop_front_wait("string", long), Err(Error::WrongType));
    assert_eq!(store.transact(|_| store.pop_front_wait("jobs", long)), Err(Error::Reentrant));
}

#[test]
fn each_element_goes_to_one_of_those_who_wait() {
    let store = volatile();
    let popped = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while store.pop_front_wait("jobs", Duration::from_secs(60)).expect("a list")
                    != Some(b"end".to_vec())
                {
                    popped.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 0..2000 {
            store.push_back("jobs", n.to_string()).expect("space");
        }
        for _ in 0..4 {
            store.push_back("jobs", "end").expect("space");
        }
    });
    assert_eq!((popped.into_inner(), store.list_len("jobs")), (2000, Ok(0)));
}
