//! Waiting for shards without a thread: who is woken, and whose turn it is.

use heap::{CreateOptions, Geometry, Heap, Shard, ShardWait};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Wake, Waker};
use std::time::Duration;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Count>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn heap() -> Arc<Heap> {
    let geometry = Geometry { shards: 8, ring_parts: 4, ring_part: 4096, zone_spans: 16 };
    let options = CreateOptions { geometry, ..CreateOptions::default() };
    Arc::new(Heap::volatile(64 << 20, &options).expect("a heap in memory"))
}

fn try_lock<'h>(heap: &'h Heap, shards: &[usize], ticket: u64) -> Option<Vec<Shard<'h>>> {
    heap.try_lock_all(shards, ticket)
}

#[test]
fn an_unlock_wakes_those_who_wait_for_the_shard_and_no_others() {
    let heap = heap();
    let counts = [Arc::<Count>::default(), Arc::default()];
    let wakers = counts.clone().map(Waker::from);
    let held = (heap.lock(1), heap.lock(2));
    let waits = [ShardWait::enter(&heap, &[1]), ShardWait::enter(&heap, &[2])];
    for (wait, waker) in waits.iter().zip(&wakers) {
        assert!(wait.poll(waker), "it tries once more when it can be woken");
        assert!(!wait.poll(waker), "and then it waits");
    }
    drop(held.0);
    assert_eq!(counts.each_ref().map(|count| count.0.load(Relaxed)), [1, 0]);
    assert!(waits[0].poll(&wakers[0]) && !waits[1].poll(&wakers[1]));
    drop(held.1);
    assert_eq!(counts.each_ref().map(|count| count.0.load(Relaxed)), [1, 1]);
}

#[test]
fn who_has_waited_goes_before_those_who_come_later() {
    let heap = heap();
    let held = heap.lock(1);
    let first = ShardWait::enter(&heap, &[1, 3, 1]);
    let second = ShardWait::enter(&heap, &[3]);
    std::thread::sleep(Duration::from_millis(2));
    let _ = (first.poll(Waker::noop()), second.poll(Waker::noop()));
    // A reserved shard is kept from other sessions, not from the store's own short holds.
    assert!(try_lock(&heap, &[3], 0).is_none() && try_lock(&heap, &[3], second.ticket()).is_none());
    drop(heap.try_lock(3).expect("a free shard"));
    assert!(try_lock(&heap, &[1, 3], first.ticket()).is_none(), "others have one of them");
    drop(held);
    assert!(try_lock(&heap, &[1], 0).is_none());
    drop(try_lock(&heap, &[1, 3], first.ticket()).expect("its turn"));
    // It does not try for a while: then its shards are not kept for it.
    first.release();
    assert!(try_lock(&heap, &[1, 3], 0).is_some());
    drop(first);
    let _ = second.poll(Waker::noop());
    assert!(try_lock(&heap, &[3], 0).is_none() && try_lock(&heap, &[3], second.ticket()).is_some());
    drop(second);
    assert!(try_lock(&heap, &[3], 0).is_some());
}
