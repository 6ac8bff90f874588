//! Futures of several threads under the deterministic scheduler: each element is taken once, by a
//! woken taker, whatever the order of registering, trying, committing and waking; some futures are
//! dropped meanwhile, and no other wake-up is lost with them.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use heap::{CreateOptions, Geometry, Heap};
use perdura::prelude::*;
use perdura::{Error, Perdura};
use sim::{run_scheduled, yield_now};

const GIVERS: usize = 2;
const TAKERS: usize = 3;
const ELEMENTS: usize = 12;
/// After this many turns a taker that was not woken never will be: all givers ended long before.
const PATIENCE: usize = 50_000;

#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn volatile() -> Perdura {
    // So few shards that takers of different keys wake each other.
    let geometry = Geometry { shards: 2, ring_parts: 3, ring_part: 4096, zone_spans: 64 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    super::store(Heap::volatile(64 << 20, &options).expect("a heap"))
}

const KEYS: [&str; 3] = ["list", "set", "flag"];

type Taking<'s> = Pin<Box<dyn Future<Output = Result<Vec<u8>, Error>> + 's>>;

fn take<'s>(store: &'s Perdura, key: usize, rng: &mut fastrand::Rng) -> Taking<'s> {
    match (key, rng.usize(..3)) {
        (0, 0) => Box::pin(store.pop_front_async("list")),
        (0, 1) => Box::pin(store.pop_back_async("list")),
        (0, _) => Box::pin(store.transact_async("list", |tx| tx.pop_front("list"))),
        (1, _) => {
            let lowest = store.sorted_set_pop_async("set");
            Box::pin(async { lowest.await.map(|(member, _)| member) })
        }
        _ => Box::pin(store.transact_async("flag", |tx| {
            let flag = tx.get("flag")?;
            if flag.is_some() {
                tx.delete("flag")?;
            }
            Ok(flag)
        })),
    }
}

/// Gives an element; returns false if it is not the time for it.
fn give(store: &Perdura, key: usize, element: &str, rng: &mut fastrand::Rng) -> bool {
    let given = match (key, rng.usize(..4)) {
        (0, 0) => store.push_back("list", element).map(|_| true),
        (0, 1) => store.transact(|tx| tx.push_front("list", element)).map(|_| true),
        (0, 2) => {
            store.transaction(&["list", "x"], |tx| tx.push_back("list", element)).map(|_| true)
        }
        (0, _) => store.database(0).and_then(|db| db.push_back("list", element)).map(|_| true),
        (1, _) => store.sorted_set_add("set", element, 1.0),
        // One value at a time: the next one when the last one is taken.
        (_, 0) => match store.exists("flag") {
            Ok(false) => store.transact(|tx| tx.set_if_absent("flag", element)),
            other => other.map(|_| false),
        },
        _ => store.set_if_absent("flag", element),
    };
    given.expect("space")
}

/// Takes elements of a key until all are taken, or panics if nobody wakes it.
fn taker(store: &Perdura, key: usize, taken: &[Mutex<Vec<String>>; 3], mut rng: fastrand::Rng) {
    let all = GIVERS * ELEMENTS;
    let counting = Arc::new(Counting::default());
    let waker = Waker::from(Arc::clone(&counting));
    let count = || taken[key].lock().expect("no panic").len();
    while count() < all {
        let mut future = take(store, key, &mut rng);
        let mut turns = 0;
        loop {
            let seen = counting.0.load(SeqCst);
            if let Poll::Ready(element) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                let element = String::from_utf8(element.expect("an intact store")).expect("text");
                taken[key].lock().expect("no panic").push(element);
                break;
            }
            while counting.0.load(SeqCst) == seen && count() < all {
                turns += 1;
                let missing = all - count();
                let key = KEYS[key];
                assert!(
                    turns < PATIENCE,
                    "a missed wake-up: {missing} elements of {key} stay, and one sleeps"
                );
                yield_now();
            }
            // Dropped, woken or not.
            if count() == all || rng.usize(..6) == 0 {
                break;
            }
        }
    }
}

fn giver(store: &Perdura, giver: usize, mut rng: fastrand::Rng) {
    let mut left = [ELEMENTS; 3];
    let mut turns = 0;
    while left.iter().any(|left| *left > 0) {
        let key = rng.usize(..3);
        if left[key] > 0 && give(store, key, &format!("{giver}:{}", left[key]), &mut rng) {
            left[key] -= 1;
        }
        (0..rng.usize(..8)).for_each(|_| yield_now());
        turns += 1;
        assert!(turns < PATIENCE, "a missed wake-up: nobody takes the flag");
    }
}

/// Runs threads under a seed; returns how many times one was woken.
fn run(seed: u64) {
    let store = volatile();
    let taken: [Mutex<Vec<String>>; 3] = Default::default();
    let mut bodies: Vec<Box<dyn FnOnce() + Send + '_>> = Vec::new();
    let rng = |n: usize| fastrand::Rng::with_seed(seed << 8 | n as u64);
    for n in 0..GIVERS {
        let store = &store;
        bodies.push(Box::new(move || giver(store, n, rng(n))));
    }
    for n in 0..TAKERS * 2 {
        let (store, taken) = (&store, &taken);
        bodies.push(Box::new(move || taker(store, n % 3, taken, rng(100 + n))));
    }
    run_scheduled(seed, bodies);
    for (key, taken) in KEYS.iter().zip(taken) {
        let mut taken = taken.into_inner().expect("no panic");
        taken.sort();
        let all = (0..GIVERS).flat_map(|giver| (1..=ELEMENTS).map(move |n| format!("{giver}:{n}")));
        let mut all: Vec<String> = all.collect();
        all.sort();
        assert_eq!(taken, all, "each element of {key} is taken once");
    }
}

#[test]
fn every_element_is_taken_once_by_one_who_was_woken() {
    let _alone = super::alone();
    let one = std::env::var("WAITS_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = one.map_or(0..60, |seed: u64| seed..seed + 1);
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("WAITS_SEED={seed} repeats it");
            std::panic::resume_unwind(panic);
        }
    }
}
