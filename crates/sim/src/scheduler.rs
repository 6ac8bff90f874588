//! A deterministic scheduler of real threads, of which only one runs at a time.
//!
//! Another thread may be chosen at every lock, flush and fence; whether, and which one, is drawn
//! from a seed, so that a run can be repeated. A thread that finds a lock taken yields until it
//! finds it free, so that the running thread never waits in the kernel.
//!
//! A thread may let time pass on a [`SimulatedClock`]: it sleeps while others run. When every
//! thread sleeps or waits for one that does, the clock moves to the moment at which the first one
//! wakes.

use crate::clock::SimulatedClock;
use pmem::Scheduler;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// This many consecutive choices without progress by any thread are a deadlock.
const STUCK: usize = 100_000;

/// Where another thread may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Lock,
    Flush,
    Fence,
}

struct State {
    rng: fastrand::Rng,
    /// Another thread is chosen at one fence or lock in this many, and at one flush in eight times
    /// this many.
    one_in: usize,
    running: usize,
    alive: Vec<bool>,
    waits: usize,
    /// When each sleeping thread wakes.
    wakes: Vec<Option<Duration>>,
    /// Threads that have waited since another one made progress.
    stalled: Vec<bool>,
    clock: Option<SimulatedClock>,
}

impl State {
    /// Returns true if a thread may run.
    fn is_awake(&self, at: usize) -> bool {
        self.alive[at] && self.wakes[at].is_none()
    }

    fn choose_another(&mut self, from: usize) {
        let others = |at: &usize| *at != from && self.is_awake(*at);
        let others: Vec<usize> = (0..self.alive.len()).filter(others).collect();
        if !others.is_empty() {
            self.running = others[self.rng.usize(..others.len())];
        }
    }

    /// Records progress of a thread: waiting threads may find what they wait for.
    fn gets_on(&mut self) {
        self.waits = 0;
        self.stalled.fill(false);
    }

    /// Chooses a thread in place of one that cannot continue. If there is none, time passes until a
    /// sleeping thread wakes.
    fn choose_in_place_of(&mut self, from: usize) {
        if self.wakes.iter().all(Option::is_none) {
            return self.choose_another(from);
        }
        let can_go_on = |at: &usize| *at != from && self.is_awake(*at) && !self.stalled[*at];
        let others: Vec<usize> = (0..self.alive.len()).filter(can_go_on).collect();
        if !others.is_empty() {
            self.running = others[self.rng.usize(..others.len())];
            return;
        }
        let Some(first) = self.wakes.iter().flatten().min().copied() else { return };
        if let Some(clock) = &self.clock {
            clock.set(first);
        }
        self.stalled.fill(false);
        let woken: Vec<usize> =
            (0..self.wakes.len()).filter(|at| self.wakes[*at] == Some(first)).collect();
        woken.iter().for_each(|at| self.wakes[*at] = None);
        self.running = woken[self.rng.usize(..woken.len())];
    }
}

struct Schedule {
    state: Mutex<State>,
    chosen: Vec<Condvar>,
}

/// A thread under the scheduler.
struct Thread {
    schedule: Arc<Schedule>,
    me: usize,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Thread>>> = const { RefCell::new(None) };
    /// Whether this thread is in a step that is not divided.
    static IS_UNDIVIDED: Cell<bool> = const { Cell::new(false) };
}

impl Thread {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.schedule.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until this thread is chosen.
    fn wait_until_chosen<'s>(&'s self, mut state: MutexGuard<'s, State>) {
        self.schedule.chosen[state.running].notify_one();
        while state.running != self.me {
            state =
                self.schedule.chosen[self.me].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pause_at(&self, at: At) {
        let mut state = self.lock();
        state.gets_on();
        let one_in = state.one_in * if at == At::Flush { 8 } else { 1 };
        if state.rng.usize(..one_in) == 0 {
            state.choose_another(self.me);
            self.wait_until_chosen(state);
        }
    }

    fn leave(&self) {
        let mut state = self.lock();
        state.alive[self.me] = false;
        state.gets_on();
        state.choose_in_place_of(self.me);
        self.schedule.chosen[state.running].notify_one();
    }
}

impl Scheduler for Thread {
    fn pause(&self) {
        self.pause_at(At::Lock);
    }

    fn wait(&self) {
        let mut state = self.lock();
        state.waits += 1;
        assert!(state.waits < STUCK, "a deadlock: every thread waits for a lock");
        state.stalled[self.me] = true;
        state.choose_in_place_of(self.me);
        self.wait_until_chosen(state);
    }
}

/// Makes the calling thread sleep until a clock shows this time, if it runs under the scheduler.
pub(crate) fn sleep_until(clock: &SimulatedClock, time: Duration) -> bool {
    let Some(thread) = CURRENT.with_borrow(Clone::clone) else { return false };
    let mut state = thread.lock();
    state.gets_on();
    state.wakes[thread.me] = Some(time);
    state.clock = Some(clock.clone());
    state.choose_in_place_of(thread.me);
    thread.wait_until_chosen(state);
    true
}

/// Lets others run until one of them makes progress, if the calling thread runs under the
/// scheduler.
pub fn wait() -> bool {
    let thread = CURRENT.with_borrow(Clone::clone);
    if let Some(thread) = &thread {
        Scheduler::wait(&**thread);
    }
    thread.is_some()
}

/// Lets the scheduler choose another thread, if the calling one runs under it.
pub(crate) fn pause(at: At) {
    if IS_UNDIVIDED.get() {
        return;
    }
    if let Some(thread) = CURRENT.with_borrow(Clone::clone) {
        thread.pause_at(at);
    }
}

/// Lets the scheduler choose another thread, as at a fence: for a medium outside this crate.
pub fn yield_now() {
    pause(At::Fence);
}

/// Takes a step within which no other thread is chosen at a flush or a fence: it holds a lock that
/// the scheduler does not know.
pub fn undivided<R>(step: impl FnOnce() -> R) -> R {
    let before = IS_UNDIVIDED.replace(true);
    let result = step();
    IS_UNDIVIDED.set(before);
    result
}

/// Returns the calling thread's number, if it runs under the scheduler.
pub(crate) fn thread() -> Option<usize> {
    CURRENT.with_borrow(|thread| thread.as_ref().map(|thread| thread.me))
}

/// Runs these bodies as threads under the scheduler, entirely determined by the seed. A panic in
/// one of them is passed on when all have ended.
pub fn run_scheduled<F: FnOnce() + Send>(seed: u64, bodies: Vec<F>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let one_in = [1, 2, 3, 6, 20][rng.usize(..5)];
    let running = rng.usize(..bodies.len().max(1));
    let alive = vec![true; bodies.len()];
    let (wakes, stalled) = (vec![None; bodies.len()], vec![false; bodies.len()]);
    let chosen = bodies.iter().map(|_| Condvar::new()).collect();
    let state = State { rng, one_in, running, alive, waits: 0, wakes, stalled, clock: None };
    let state = Mutex::new(state);
    let schedule = Arc::new(Schedule { state, chosen });
    let ended: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = bodies
            .into_iter()
            .enumerate()
            .map(|(me, body)| {
                let thread = Arc::new(Thread { schedule: Arc::clone(&schedule), me });
                scope.spawn(move || run(&thread, body))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    if let Some(panic) = ended.into_iter().find_map(Result::err) {
        resume_unwind(panic);
    }
}

fn run(thread: &Arc<Thread>, body: impl FnOnce()) {
    CURRENT.set(Some(Arc::clone(thread)));
    pmem::set_scheduler(Some(Arc::clone(thread) as Arc<dyn Scheduler>));
    thread.wait_until_chosen(thread.lock());
    let ended = catch_unwind(AssertUnwindSafe(body));
    pmem::set_scheduler(None);
    CURRENT.set(None);
    thread.leave();
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmem::Clock;

    /// Returns the order in which three threads get a lock, a few times each.
    fn order(seed: u64) -> Vec<usize> {
        let seen = Mutex::new(Vec::new());
        let bodies: Vec<_> = (0..3)
            .map(|me| {
                let seen = &seen;
                move || {
                    for _ in 0..8 {
                        let mut seen = pmem::lock(seen).unwrap();
                        pause(At::Fence);
                        seen.push(me);
                    }
                }
            })
            .collect();
        run_scheduled(seed, bodies);
        seen.into_inner().unwrap()
    }

    #[test]
    fn a_seed_repeats_the_order_of_threads() {
        let orders: Vec<_> = (0..20).map(order).collect();
        assert_eq!(orders, (0..20).map(order).collect::<Vec<_>>());
        let interleaved = orders.iter().filter(|order| !order.is_sorted_by_key(|me| *me)).count();
        assert!(interleaved > 10, "{orders:?}");
    }

    #[test]
    fn time_passes_when_every_thread_sleeps_or_waits_for_one_that_does() {
        let woken = |seed: u64| {
            let (clock, held, seen) =
                (SimulatedClock::default(), Mutex::new(()), Mutex::new(Vec::new()));
            let bodies: Vec<_> = (1..4)
                .map(|me| {
                    let (clock, held, seen) = (&clock, &held, &seen);
                    move || {
                        clock.pass(Duration::from_secs(me));
                        let _held = pmem::lock(held).unwrap();
                        clock.pass(Duration::from_secs(10));
                        seen.lock().unwrap().push(clock.now().as_secs());
                    }
                })
                .collect();
            run_scheduled(seed, bodies);
            seen.into_inner().unwrap()
        };
        (0..20).for_each(|seed| assert_eq!(woken(seed), [11, 21, 31]));
    }

    #[test]
    #[should_panic(expected = "a deadlock")]
    fn a_deadlock_is_reported() {
        let (a, b) = (Mutex::new(()), Mutex::new(()));
        fn both(first: &Mutex<()>, second: &Mutex<()>) -> impl FnOnce() + Send {
            move || {
                let _first = pmem::lock(first).unwrap_or_else(PoisonError::into_inner);
                pause(At::Fence);
                drop(pmem::lock(second));
            }
        }
        (0..100).for_each(|seed| run_scheduled(seed, vec![both(&a, &b), both(&b, &a)]));
    }
}
