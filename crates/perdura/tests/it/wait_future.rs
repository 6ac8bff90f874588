//! Waiting as a future, without a runtime.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use perdura::prelude::*;
use perdura::{Error, Options, Perdura, Wait};

fn volatile() -> Perdura {
    Perdura::open(Options::volatile().limit(64 << 20).background(false)).expect("a store")
}

/// Counts how often it is woken.
#[derive(Default)]
struct Counting(AtomicUsize);

impl Counting {
    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest runtime: one future on one thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn poll<T>(wait: &mut Wait<'_, T>, counting: &Arc<Counting>) -> Poll<Result<T, Error>> {
    let waker = Waker::from(Arc::clone(counting));
    Pin::new(wait).poll(&mut Context::from_waker(&waker))
}

#[test]
fn a_future_is_woken_by_a_change_of_its_shard_and_costs_nothing_before() {
    let store = volatile();
    let counting = Arc::new(Counting::default());
    let mut job = store.pop_front_async("jobs");
    for _ in 0..3 {
        assert!(poll(&mut job, &counting).is_pending());
    }
    assert_eq!(counting.wakes(), 0);
    store.push_back("{jobs}:other", "x").expect("space");
    assert_eq!(counting.wakes(), 1, "one waker, however often it was polled");
    assert!(poll(&mut job, &counting).is_pending());
    store.push_back("jobs", "wash").expect("space");
    assert_eq!(counting.wakes(), 2);
    assert_eq!(poll(&mut job, &counting), Poll::Ready(Ok(b"wash".to_vec())));
}

#[test]
fn a_future_that_is_dropped_takes_nothing_and_is_not_woken() {
    let store = volatile();
    let (dropped, other) = (Arc::new(Counting::default()), Arc::new(Counting::default()));
    let mut first = store.pop_front_async("jobs");
    let mut second = store.pop_front_async("jobs");
    assert!(poll(&mut first, &dropped).is_pending());
    assert!(poll(&mut second, &other).is_pending());
    drop(first);
    assert_eq!(Arc::strong_count(&dropped), 1, "its waker is gone");
    store.push_back("jobs", "wash").expect("space");
    assert_eq!((dropped.wakes(), other.wakes()), (0, 1));
    assert_eq!(poll(&mut second, &other), Poll::Ready(Ok(b"wash".to_vec())));
    // A future that was never polled is registered nowhere.
    drop(store.pop_back_async("jobs"));
}

#[test]
fn a_thousand_waits_share_one_thread_and_each_element_is_taken_once() {
    const WAITS: usize = 1000;
    let store = volatile();
    let mut waits: Vec<_> = (0..WAITS)
        .map(|_| (store.pop_front_async("jobs"), Arc::new(Counting::default()), 0))
        .collect();
    let mut taken: Vec<usize> = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for job in 0..WAITS {
                store.push_back("jobs", job.to_string()).expect("space");
            }
        });
        let mut is_first = true;
        while !waits.is_empty() {
            waits.retain_mut(|(wait, counting, seen)| {
                let wakes = counting.wakes();
                if !is_first && wakes == *seen {
                    return true;
                }
                *seen = wakes;
                let Poll::Ready(job) = poll(wait, counting) else { return true };
                let job = String::from_utf8(job.expect("an intact store")).expect("text");
                taken.push(job.parse().expect("a number"));
                false
            });
            is_first = false;
            thread::yield_now();
        }
    });
    taken.sort_unstable();
    assert_eq!(taken, (0..WAITS).collect::<Vec<_>>());
}

#[test]
fn futures_and_threads_wait_for_the_same_keys() {
    let store = volatile();
    let minute = std::time::Duration::from_secs(60);
    thread::scope(|scope| {
        let future = scope.spawn(|| {
            block_on(async {
                let lowest = store.sorted_set_pop_async("scores").await?;
                let job = store.pop_back_async("jobs").await?;
                Ok::<_, Error>((lowest.0, job))
            })
        });
        let blocking = scope.spawn(|| store.pop_back_wait("jobs", minute));
        let moved = scope.spawn(|| {
            block_on(store.transact_async("waiting", |tx| {
                let Some(job) = tx.pop_front("waiting")? else { return Ok(None) };
                tx.push_back("jobs", &job)?;
                Ok(Some(job))
            }))
        });
        store.push_back("jobs", "first").expect("space");
        store.sorted_set_add("scores", "ada", 1.0).expect("space");
        store.push_back("waiting", "second").expect("space");
        assert_eq!(moved.join().expect("no panic"), Ok(b"second".to_vec()));
        let (member, job) = future.join().expect("no panic").expect("an intact store");
        let other = blocking.join().expect("no panic").expect("an intact store");
        assert_eq!(member, b"ada");
        let mut jobs = [job, other.expect("an element")];
        jobs.sort();
        assert_eq!(jobs, [b"first".to_vec(), b"second".to_vec()]);
    });
}

#[test]
fn an_error_ends_the_wait() {
    let store = volatile();
    store.set("jobs", "text").expect("space");
    assert_eq!(block_on(store.pop_front_async("jobs")), Err(Error::WrongType));
    let reentrant = store.transact(|_| Ok(block_on(store.pop_front_async("list"))));
    assert_eq!(reentrant, Ok(Err(Error::Reentrant)));
}

#[test]
fn a_transaction_that_waits_does_not_wake_itself() {
    let store = volatile();
    let counting = Arc::new(Counting::default());
    let mut flag = store.transact_async("flag", |tx| tx.get("flag"));
    assert!(poll(&mut flag, &counting).is_pending());
    assert_eq!(counting.wakes(), 0, "what it did changed nothing");
    // Nor does a transaction that only reads, or that fails.
    assert_eq!(store.transact(|tx| tx.get("flag")), Ok(None));
    let failed = store.transact(|tx| tx.set("flag", "up").and(Err::<(), _>(Error::Overflow)));
    assert_eq!((failed, counting.wakes()), (Err(Error::Overflow), 0));
    store.transact(|tx| tx.set("flag", "up")).expect("space");
    assert_eq!(counting.wakes(), 1);
    assert_eq!(poll(&mut flag, &counting), Poll::Ready(Ok(b"up".to_vec())));
}

#[test]
fn a_transaction_that_waits_and_changes_keys_of_other_shards_does_not_wake_itself() {
    let store = volatile();
    let is_quiet = |counter: &String| {
        let counting = Arc::new(Counting::default());
        let mut none = store.transact_async("none", |tx| {
            tx.increment(counter, 1)?;
            tx.get("none")
        });
        assert!(poll(&mut none, &counting).is_pending());
        assert_eq!(store.get(counter), Ok(Some(b"1".to_vec())));
        counting.wakes() == 0
    };
    let quiet = (0..64).map(|n| format!("counter:{n}")).filter(is_quiet).count();
    assert!((1..64).contains(&quiet), "{quiet} of 64 are in other shards");
}

#[test]
fn a_transaction_that_waits_is_woken_by_each_call_that_changes_its_key() {
    let store = volatile();
    let minute = std::time::Duration::from_secs(60);
    let changes: [&dyn Fn(); 6] = [
        &|| store.set("flag", "up").expect("space"),
        &|| store.set_for("flag", "up", minute).expect("space"),
        &|| assert_eq!(store.remove_prefix("fl"), Ok(1)),
        &|| store.set("flag", "up").expect("space"),
        &|| assert_eq!(store.clear(), Ok(1)),
        &|| assert_eq!(store.clear_all(), Ok(0)),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let counting = Arc::new(Counting::default());
        let mut never = store.transact_async("flag", |_| Ok(None::<()>));
        assert!(poll(&mut never, &counting).is_pending());
        change();
        assert_eq!(counting.wakes(), 1, "change {n}");
    }
}
