//! Transactions that declare nothing, of several threads under the deterministic scheduler: their
//! sums stay right, and none waits forever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use heap::{CreateOptions, Geometry, Heap};
use perdura::prelude::*;
use perdura::{Error, Perdura, Snapshot, Table};
use sim::run_scheduled;

const ACCOUNTS: usize = 6;
const START: i64 = 100;

fn volatile() -> Perdura {
    let geometry = Geometry { shards: 4, ring_parts: 3, ring_part: 4096, zone_spans: 64 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    super::store(Heap::volatile(64 << 20, &options).expect("a heap"))
}

fn account(n: usize) -> String {
    format!("account:{n}")
}

fn balance(value: Option<Vec<u8>>) -> i64 {
    let text = String::from_utf8(value.unwrap_or_default()).expect("a number");
    text.parse().unwrap_or(0)
}

/// Transfers between accounts whose names it learns one after the other.
fn transfer(store: &Perdura, rng: &mut fastrand::Rng) -> Result<usize, Error> {
    let (from, to) = (rng.usize(..ACCOUNTS), rng.usize(..ACCOUNTS));
    let mut runs = 0;
    store.transact(|tx| {
        runs += 1;
        tx.increment(account(from), -5)?;
        tx.increment(account(to), 5)?;
        let log: Table<(u64, u64), (), _> = tx.table(format!("log:{to}"));
        let next = log.len()?;
        log.insert((from as u64, next), ())?;
        Ok(())
    })?;
    Ok(runs)
}

/// Adds up all accounts, in its own order.
fn sum(store: &Perdura, rng: &mut fastrand::Rng) -> Result<i64, Error> {
    let mut order: Vec<usize> = (0..ACCOUNTS).collect();
    rng.shuffle(&mut order);
    store.transact(|tx| order.iter().try_fold(0, |sum, &n| Ok(sum + balance(tx.get(account(n))?))))
}

/// Runs threads under a seed; returns how many times a closure was run again.
fn run(seed: u64) -> usize {
    let store = volatile();
    for n in 0..ACCOUNTS {
        store.set(account(n), START.to_string()).expect("space");
    }
    let again = Mutex::new(0);
    let body = |thread: u64| {
        let (store, again) = (&store, &again);
        move || {
            let mut rng = fastrand::Rng::with_seed(seed * 31 + thread);
            for _ in 0..12 {
                let runs = transfer(store, &mut rng).expect("space");
                *again.lock().expect("no panic") += runs - 1;
                if rng.usize(..4) == 0 {
                    let total = sum(store, &mut rng).expect("a sum");
                    assert_eq!(total, START * ACCOUNTS as i64, "seed {seed}");
                }
                if rng.usize(..4) == 0 {
                    let pair = [account(rng.usize(..ACCOUNTS)), account(rng.usize(..ACCOUNTS))];
                    let declared = store.transaction(&pair, |tx| {
                        tx.increment(&pair[0], -1)?;
                        tx.increment(&pair[1], 1)
                    });
                    declared.expect("space");
                }
            }
        }
    };
    run_scheduled(seed, (0..4).map(body).collect());
    let mut rows = 0;
    for n in 0..ACCOUNTS {
        rows += store.table::<(u64, u64), ()>(format!("log:{n}")).len().expect("a table");
    }
    assert_eq!(rows, 48, "seed {seed}");
    again.into_inner().expect("no panic")
}

/// Returns what a snapshot shows: the balances, and the number of rows of the logs.
fn shown(snapshot: &Snapshot<&Perdura>) -> Result<(Vec<i64>, u64), Error> {
    let (mut balances, mut rows) = (Vec::new(), 0);
    for n in 0..ACCOUNTS {
        balances.push(balance(snapshot.get(account(n))?));
        let log: Table<(u64, u64), (), _> = snapshot.table(format!("log:{n}"));
        let read = log.iter().collect::<Result<Vec<_>, _>>()?.len() as u64;
        assert_eq!(read, log.len()?, "a table is of two moments");
        rows += read;
    }
    Ok((balances, rows))
}

/// Runs writers, and a reader of two snapshots at a time, of different moments: each must show the
/// same every time, and a sum that includes no half of a transfer. Returns how many snapshots were
/// of a moment between others.
fn run_with_snapshots(seed: u64) -> usize {
    let store = volatile();
    for n in 0..ACCOUNTS {
        store.set(account(n), START.to_string()).expect("space");
    }
    let moments = Mutex::new(0);
    let write = |thread: u64| {
        let store = &store;
        move || {
            let mut rng = fastrand::Rng::with_seed(seed * 31 + thread);
            for _ in 0..30 {
                transfer(store, &mut rng).expect("space");
            }
        }
    };
    let read = || {
        let mut rng = fastrand::Rng::with_seed(seed);
        let take = || {
            let snapshot = store.snapshot().expect("few are open");
            let first = shown(&snapshot).expect("it holds little");
            (snapshot, first)
        };
        let mut older = take();
        for _ in 0..12 {
            (0..rng.usize(..30)).for_each(|_| sim::yield_now());
            let younger = take();
            let (_, (balances, rows)) = &younger;
            assert_eq!(balances.iter().sum::<i64>(), START * ACCOUNTS as i64, "seed {seed}");
            assert!(*rows >= older.1.1, "seed {seed}: the younger one is of an earlier moment");
            *moments.lock().expect("no panic") += usize::from(*rows > older.1.1);
            for (snapshot, first) in [&older, &younger] {
                assert_eq!(shown(snapshot).as_ref(), Ok(first), "seed {seed}");
            }
            older = younger;
        }
    };
    let mut bodies: Vec<Box<dyn FnOnce() + Send + '_>> = vec![Box::new(read)];
    bodies.extend((0..3).map(|n| Box::new(write(n)) as Box<dyn FnOnce() + Send + '_>));
    run_scheduled(seed, bodies);
    moments.into_inner().expect("no panic")
}

#[test]
fn snapshots_of_two_moments_show_each_its_own() {
    let _alone = super::alone();
    let moments: usize = (0..60).map(run_with_snapshots).sum();
    println!("{moments} snapshots were of a later moment than those before");
    assert!(moments > 60, "hardly any snapshot was taken between writes: {moments}");
}

/// These tests see what is saved and held.
#[test]
fn each_rule_of_what_snapshots_read_is_needed() {
    let _alone = super::alone();
    use heap::FaultPoint::{
        ReadOwnCut, ReturnAfterPins, ReuseAfterPins, SaveEachWord, SaveFirstValue, SaveInEach,
        SaveOverlay,
    };
    for point in [
        SaveOverlay,
        SaveEachWord,
        SaveFirstValue,
        SaveInEach,
        ReadOwnCut,
        ReuseAfterPins,
        ReturnAfterPins,
    ] {
        pmem::disable_fault_point(point.number());
        let run = |seed| catch_unwind(AssertUnwindSafe(|| run_with_snapshots(seed))).is_err();
        let caught = (0..40).find(|seed| run(*seed));
        pmem::disable_fault_point(0);
        println!("{point:?} is caught by seed {caught:?}");
        assert!(caught.is_some(), "{point:?} is not caught");
    }
}

#[test]
fn transactions_that_declare_nothing_keep_their_sums_and_end() {
    let _alone = super::alone();
    let again: usize = (0..60).map(run).sum();
    println!("{again} closures ran again");
    assert!(again > 50, "hardly any closure ran again: {again}");
}

/// The harness can detect a deadlock: waiting for the next shard causes one.
#[test]
fn waiting_for_one_more_shard_is_caught() {
    let _alone = super::alone();
    pmem::disable_fault_point(keyspace::FaultPoint::TryExtend.number());
    let caught = (0..20).any(|seed| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err());
    pmem::disable_fault_point(0);
    assert!(caught, "no deadlock was seen");
}
