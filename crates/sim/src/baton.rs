//! Threads that take turns: real threads, of which one runs at a time.
//!
//! Who holds the baton runs. It may go to another thread at every lock, flush and fence; whether and to whom is drawn
//! from a seed, so that a run can be had again. A thread that finds a lock taken gives the baton away until it finds it
//! free, so that no thread waits in the kernel with the baton in its hand.

use pmem::Turns;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// So many turns in a row in which nobody gets on are a deadlock.
const STUCK: usize = 100_000;

/// Where a thread may lose the baton.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Lock,
    Flush,
    Fence,
}

struct State {
    rng: fastrand::Rng,
    /// The baton changes hands at one fence or lock in this many, and at one flush in eight times this many.
    one_in: usize,
    holder: usize,
    alive: Vec<bool>,
    waits: usize,
}

impl State {
    fn pass(&mut self, from: usize) {
        let others: Vec<usize> =
            (0..self.alive.len()).filter(|at| self.alive[*at] && *at != from).collect();
        if !others.is_empty() {
            self.holder = others[self.rng.usize(..others.len())];
        }
    }
}

struct Baton {
    state: Mutex<State>,
    turn: Vec<Condvar>,
}

/// One thread's place in the round.
struct Place {
    baton: Arc<Baton>,
    me: usize,
}

thread_local! {
    static PLACE: RefCell<Option<Arc<Place>>> = const { RefCell::new(None) };
}

impl Place {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.baton.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the baton is here.
    fn take<'s>(&'s self, mut state: MutexGuard<'s, State>) {
        self.baton.turn[state.holder].notify_one();
        while state.holder != self.me {
            state = self.baton.turn[self.me].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn pause_at(&self, at: At) {
        let mut state = self.lock();
        state.waits = 0;
        let one_in = state.one_in * if at == At::Flush { 8 } else { 1 };
        if state.rng.usize(..one_in) == 0 {
            state.pass(self.me);
            self.take(state);
        }
    }

    fn leave(&self) {
        let mut state = self.lock();
        state.alive[self.me] = false;
        state.waits = 0;
        state.pass(self.me);
        self.baton.turn[state.holder].notify_one();
    }
}

impl Turns for Place {
    fn pause(&self) {
        self.pause_at(At::Lock);
    }

    fn wait(&self) {
        let mut state = self.lock();
        state.waits += 1;
        assert!(state.waits < STUCK, "a deadlock: every thread waits for a lock");
        state.pass(self.me);
        self.take(state);
    }
}

/// The calling thread may lose the baton, if it takes turns at all.
pub(crate) fn pause(at: At) {
    if let Some(place) = PLACE.with_borrow(Clone::clone) {
        place.pause_at(at);
    }
}

/// The calling thread may lose the baton here, as at a fence: for a medium that is not of this
/// crate.
pub fn give_way() {
    pause(At::Fence);
}

/// Returns the calling thread's place in the round, if it takes turns.
pub(crate) fn place() -> Option<usize> {
    PLACE.with_borrow(|place| place.as_ref().map(|place| place.me))
}

/// Runs these bodies as threads that take turns: all of it follows from the seed. A panic in one of them is
/// passed on when all have ended.
pub fn take_turns<F: FnOnce() + Send>(seed: u64, bodies: Vec<F>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let one_in = [1, 2, 3, 6, 20][rng.usize(..5)];
    let holder = rng.usize(..bodies.len().max(1));
    let alive = vec![true; bodies.len()];
    let turn = bodies.iter().map(|_| Condvar::new()).collect();
    let state = Mutex::new(State { rng, one_in, holder, alive, waits: 0 });
    let baton = Arc::new(Baton { state, turn });
    let ended: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = bodies
            .into_iter()
            .enumerate()
            .map(|(me, body)| {
                let place = Arc::new(Place { baton: Arc::clone(&baton), me });
                scope.spawn(move || run(&place, body))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    if let Some(panic) = ended.into_iter().find_map(Result::err) {
        resume_unwind(panic);
    }
}

fn run(place: &Arc<Place>, body: impl FnOnce()) {
    PLACE.set(Some(Arc::clone(place)));
    pmem::take_turns(Some(Arc::clone(place) as Arc<dyn Turns>));
    place.take(place.lock());
    let ended = catch_unwind(AssertUnwindSafe(body));
    pmem::take_turns(None);
    PLACE.set(None);
    place.leave();
    if let Err(panic) = ended {
        resume_unwind(panic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the order in which three threads get at a lock, a few times each.
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
        take_turns(seed, bodies);
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
    #[should_panic(expected = "a deadlock")]
    fn a_deadlock_is_told() {
        let (a, b) = (Mutex::new(()), Mutex::new(()));
        fn both(first: &Mutex<()>, second: &Mutex<()>) -> impl FnOnce() + Send {
            move || {
                let _first = pmem::lock(first).unwrap_or_else(PoisonError::into_inner);
                pause(At::Fence);
                drop(pmem::lock(second));
            }
        }
        (0..100).for_each(|seed| take_turns(seed, vec![both(&a, &b), both(&b, &a)]));
    }
}
