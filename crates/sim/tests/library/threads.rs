//! Transactions that declare nothing, of several threads under the deterministic scheduler: their
//! sums stay right, and none waits forever.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use heap::{CreateOptions, Geometry, Heap};
use perdura::prelude::*;
use perdura::{Error, Perdura, Table};
use sim::run_scheduled;

const ACCOUNTS: usize = 6;
const START: i64 = 100;

/// One test at a time: a disabled fault point is that of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

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

/// Moves between accounts whose names it learns one after the other.
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

/// Adds all accounts up, in an order of its own.
fn sum(store: &Perdura, rng: &mut fastrand::Rng) -> Result<i64, Error> {
    let mut order: Vec<usize> = (0..ACCOUNTS).collect();
    rng.shuffle(&mut order);
    store.transact(|tx| order.iter().try_fold(0, |sum, &n| Ok(sum + balance(tx.get(account(n))?))))
}

/// Runs threads under a seed; how often a closure ran again.
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

#[test]
fn transactions_that_declare_nothing_keep_their_sums_and_end() {
    let _alone = ALONE.lock().expect("no panic");
    let again: usize = (0..60).map(run).sum();
    println!("{again} closures ran again");
    assert!(again > 50, "hardly any closure ran again: {again}");
}

/// The harness is able to see a deadlock: with a wait for the next shard there is one.
#[test]
fn waiting_for_one_more_shard_is_caught() {
    let _alone = ALONE.lock().expect("no panic");
    pmem::disable_fault_point(keyspace::FaultPoint::TryExtend.number());
    let caught = (0..20).any(|seed| catch_unwind(AssertUnwindSafe(|| run(seed))).is_err());
    pmem::disable_fault_point(0);
    assert!(caught, "no deadlock was seen");
}
