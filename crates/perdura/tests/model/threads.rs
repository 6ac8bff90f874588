//! Real threads: each element is taken once, by a thread that slept until it came; sums stay right
//! in every view of them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use perdura::prelude::*;
use perdura::{Error, Options, Perdura};

use super::state::{Bytes, Checked};

/// Much longer than any call takes, and shorter than a round may be: when it passes, a wake-up was
/// missed.
const LONG: Duration = Duration::from_secs(10);
const ELEMENTS: usize = 150;

struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread; none if it is not woken in time.
fn block_on<T>(future: impl Future<Output = T>) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (std::pin::pin!(future), Context::from_waker(&waker));
    let end = Instant::now() + LONG;
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        thread::park_timeout(left);
    }
}

fn take(store: &Perdura, way: usize, key: &str) -> Result<Option<Bytes>, Error> {
    let moved = |tx: &mut perdura::Transaction<'_>| tx.pop_front(key);
    match way {
        0 => store.pop_front_wait(key, LONG),
        1 => store.pop_back_wait(key, LONG),
        2 => Ok(store.sorted_set_pop_wait(key, LONG)?.map(|(member, _)| member)),
        3 => store.transact_wait(key, LONG, moved),
        4 => block_on(store.pop_front_async(key)).transpose(),
        5 => block_on(store.pop_back_async(key)).transpose(),
        6 => block_on(store.sorted_set_pop_async(key))
            .transpose()
            .map(|found| found.map(|found| found.0)),
        _ => block_on(store.transact_async(key, moved)).transpose(),
    }
}

fn give(store: &Perdura, way: usize, key: &str, element: &str) -> Result<(), Error> {
    match (way, element.len() % 3) {
        (2 | 6, _) => store.sorted_set_add(key, element, 1.0).map(drop),
        (_, 0) => store.push_back(key, element).map(drop),
        (_, 1) => store.transact(|tx| tx.push_front(key, element)).map(drop),
        _ => store.transaction(&[key, "other"], |tx| tx.push_back(key, element)).map(drop),
    }
}

/// One thread adds an element when the previous one is taken: each needs a wake-up of its own.
fn one_by_one(store: &Perdura, way: usize) -> Checked {
    let (key, taken, failed) = (format!("{way}"), AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let taker = scope.spawn(|| {
            for n in 0..ELEMENTS {
                let began = Instant::now();
                let got = take(store, way, &key);
                // A thread that tries once more after its timeout then gets the element, unless it
                // is late.
                if began.elapsed() >= LONG || got != Ok(Some("e".repeat(n + 1).into_bytes())) {
                    failed.store(true, SeqCst);
                    return Err(format!(
                        "a missed wake-up, or another element: wait {way} got {got:?}"
                    ));
                }
                taken.fetch_add(1, SeqCst);
            }
            Ok(())
        });
        for n in 0..ELEMENTS {
            if let Err(error) = give(store, way, &key, &"e".repeat(n + 1)) {
                return Err(format!("giving an element: {error}"));
            }
            while taken.load(SeqCst) <= n && !failed.load(SeqCst) {
                thread::yield_now();
            }
        }
        taker.join().unwrap_or_else(|_| Err("a thread panicked".into()))
    })
}

/// A wait that is woken again and again for nothing lasts its time, and not longer.
fn in_vain(store: &Perdura) -> Checked {
    const TIME: Duration = Duration::from_millis(40);
    let (ended, key) = (AtomicUsize::new(0), "vain");
    let wait = |way: usize| {
        let began = Instant::now();
        let got = match way {
            0 => store.pop_front_wait(key, TIME),
            1 => store.pop_back_wait(key, TIME),
            2 => store.transact_wait("other vain", TIME, |tx| tx.get("other vain")),
            _ => store.transact_wait(key, TIME, |tx| tx.pop_front(key)),
        };
        ended.fetch_add(1, SeqCst);
        match (got, began.elapsed()) {
            (Ok(None), time) if time >= TIME && time < LONG => Ok(()),
            (got, time) => Err(format!("wait {way} of {TIME:?} ended after {time:?} with {got:?}")),
        }
    };
    thread::scope(|scope| {
        let waits: Vec<_> = (0..4).map(|way| scope.spawn(move || wait(way))).collect();
        let began = Instant::now();
        while ended.load(SeqCst) < waits.len() && began.elapsed() < LONG {
            // Changes, after which there is nothing to take.
            let done = store.transact(|tx| {
                tx.push_back(key, "x")?;
                tx.pop_back(key)?;
                tx.set_for("other vain", "x", Duration::from_secs(9))?;
                tx.delete("other vain")
            });
            done.map_err(|error| error.to_string())?;
            thread::sleep(Duration::from_millis(1));
        }
        waits
            .into_iter()
            .try_for_each(|wait| wait.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })
}

const ACCOUNTS: usize = 5;
const TRANSFERS: usize = 300;

fn balance(value: Option<Bytes>) -> i64 {
    value.and_then(|value| String::from_utf8(value).ok()?.parse().ok()).unwrap_or(0)
}

fn account(n: usize) -> String {
    format!("account{n}")
}

fn transfer(store: &Perdura, rng: &mut fastrand::Rng) -> Result<(), Error> {
    let (from, to, by) = (rng.usize(..ACCOUNTS), rng.usize(..ACCOUNTS), rng.i64(1..9));
    let pair = [account(from), account(to)];
    let moved = |tx: &mut perdura::Transaction<'_>| {
        tx.increment(&pair[0], -by)?;
        tx.increment(&pair[1], by)?;
        tx.increment("transfers", 1)
    };
    match rng.usize(..3) {
        0 => store.transaction(&[&pair[0][..], &pair[1], "transfers"], moved).map(drop),
        1 => {
            // A failed transaction changes nothing.
            let undone = store.transact(|tx| {
                tx.increment(account(from), 1000)?;
                Err::<(), _>(Error::Overflow)
            });
            if undone != Err(Error::Overflow) {
                return undone;
            }
            store.transact(moved).map(drop)
        }
        _ => store.transact(moved).map(drop),
    }
}

/// Returns the sum of all accounts, by a transaction or a snapshot.
fn sum(store: &Perdura, from_snapshot: bool) -> Result<i64, Error> {
    let mut accounts = 0..ACCOUNTS;
    if from_snapshot {
        let snapshot = store.snapshot()?;
        return accounts.try_fold(0, |sum, n| Ok(sum + balance(snapshot.get(account(n))?)));
    }
    store.transact(|tx| {
        accounts.clone().try_fold(0, |sum, n| Ok(sum + balance(tx.get(account(n))?)))
    })
}

fn sums(store: &Perdura, seed: u64) -> Checked {
    let done = AtomicUsize::new(0);
    let failed = |error: Error| format!("a transfer: {error}");
    thread::scope(|scope| {
        let movers: Vec<_> = (0..3)
            .map(|n| {
                let done = &done;
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(seed * 3 + n);
                    let moved = (0..TRANSFERS).try_for_each(|_| {
                        transfer(store, &mut rng)?;
                        // A counter that each thread reads and writes.
                        let next = |old: Option<&[u8]>| {
                            Some((balance(old.map(<[u8]>::to_vec)) + 1).to_string().into_bytes())
                        };
                        store.fetch_update("counter", next).map(drop)
                    });
                    done.fetch_add(1, SeqCst);
                    moved
                })
            })
            .collect();
        let mut turn = false;
        while done.load(SeqCst) < 3 {
            turn = !turn;
            let sum = sum(store, turn).map_err(failed)?;
            if sum != 0 {
                return Err(format!(
                    "the accounts add up to {sum}, and not 0 (by a snapshot: {turn})"
                ));
            }
        }
        movers.into_iter().try_for_each(|mover| match mover.join() {
            Ok(moved) => moved.map_err(failed),
            Err(_) => Err("a thread panicked".into()),
        })
    })?;
    for key in ["transfers", "counter"] {
        let count = balance(store.get(key).map_err(failed)?);
        if count != 3 * TRANSFERS as i64 {
            return Err(format!("{key} counts {count} of {}", 3 * TRANSFERS));
        }
    }
    Ok(())
}

pub(crate) fn round(seed: u64) -> Checked {
    let options = Options::volatile().limit(64 << 20).background(seed.is_multiple_of(2));
    let store = Perdura::open(options).map_err(|error| error.to_string())?;
    sums(&store, seed)?;
    in_vain(&store)?;
    thread::scope(|scope| {
        let waits: Vec<_> = (0..8)
            .map(|way| {
                scope.spawn({
                    let store = &store;
                    move || one_by_one(store, way)
                })
            })
            .collect();
        waits
            .into_iter()
            .try_for_each(|wait| wait.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })
}
