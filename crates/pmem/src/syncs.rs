//! Syncs of a file by several threads: one at a time, on behalf of all that wait.
//!
//! The kernel reports a page that it could not write once for each open file, to the next sync. So
//! another sync that runs at the same time may succeed although its pages are the lost ones. Here a
//! sync begins only when the previous one has ended and its failure is known: a thread that is
//! released after a success had no failure before it.
//!
//! Threads that come meanwhile wait for the next sync, which covers the pages of all of them:
//! threads that wait for the same medium share its round trips.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::pages::{self, Range};
use crate::scheduler::wait_while;

/// The syncs of one file.
#[derive(Debug, Default)]
pub(crate) struct Syncs {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The pages that the next one writes.
    pages: Vec<Range>,
    /// The number of the next one.
    next: u64,
    /// How many have ended.
    ended: u64,
    running: bool,
}

impl Syncs {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody syncs.
    fn free<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        wait_while(&self.changed, &self.state, state, |state| state.running)
    }

    fn end(&self, ended: u64) {
        let mut state = self.state();
        (state.running, state.ended) = (false, state.ended.max(ended));
        drop(state);
        self.changed.notify_all();
    }

    /// Returns when `pages` are synced: by `sync` on this thread, which also gets the pages of
    /// others, or by another thread. Before `sync` returns, it records a failure where everybody
    /// checks.
    pub(crate) fn sync(&self, pages: &[Range], sync: impl FnOnce(&[Range])) {
        let mut state = self.state();
        state.pages.extend_from_slice(pages);
        let own = state.next;
        let through = |state: &mut State| state.running && state.ended <= own;
        state = wait_while(&self.changed, &self.state, state, through);
        if state.ended > own {
            return;
        }
        let pages = pages::merge(std::mem::take(&mut state.pages));
        (state.running, state.next) = (true, own + 1);
        drop(state);
        sync(&pages);
        self.end(own + 1);
    }

    /// Runs a sync of another kind while no other one runs.
    pub(crate) fn alone<R>(&self, sync: impl FnOnce() -> R) -> R {
        let mut state = self.free(self.state());
        state.running = true;
        drop(state);
        let done = sync();
        self.end(0);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::channel;
    use std::thread;

    /// Waits until the next sync covers this many ranges.
    fn until_gathered(syncs: &Syncs, count: usize) {
        while syncs.state().pages.len() < count {
            thread::yield_now();
        }
    }

    #[test]
    fn threads_that_come_while_a_sync_runs_share_the_next_one() {
        let syncs = Syncs::default();
        let (runs, synced) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let (begun, began) = channel();
        let (let_go, go_on) = channel::<()>();
        thread::scope(|scope| {
            let syncs = &syncs;
            scope.spawn(move || {
                syncs.sync(&[(0, 1)], |_| {
                    begun.send(()).unwrap();
                    go_on.recv().unwrap();
                });
            });
            began.recv().unwrap();
            for page in [8, 2, 3] {
                let (runs, synced) = (&runs, &synced);
                scope.spawn(move || {
                    syncs.sync(&[(page, page + 1)], |pages| {
                        runs.fetch_add(1, Relaxed);
                        synced.lock().unwrap().extend_from_slice(pages);
                    });
                    let synced = synced.lock().unwrap();
                    assert!(synced.iter().any(|range| (range.0..range.1).contains(&page)));
                });
            }
            until_gathered(syncs, 3);
            assert_eq!(runs.load(Relaxed), 0, "none runs beside the first");
            let_go.send(()).unwrap();
        });
        assert_eq!(runs.load(Relaxed), 1);
        assert_eq!(*synced.lock().unwrap(), [(2, 4), (8, 9)]);
    }

    #[test]
    fn whoever_is_let_go_knows_of_each_failure_before() {
        let (syncs, failed) = (Syncs::default(), AtomicBool::new(false));
        let (begun, began) = channel();
        let (let_go, go_on) = channel::<()>();
        thread::scope(|scope| {
            let (syncs, failed) = (&syncs, &failed);
            // It gets the report of the lost page, and has not recorded it yet.
            scope.spawn(move || {
                syncs.alone(|| {
                    begun.send(()).unwrap();
                    go_on.recv().unwrap();
                    failed.store(true, Relaxed);
                });
            });
            began.recv().unwrap();
            for page in 0..3 {
                scope.spawn(move || {
                    // To this one the kernel reports success.
                    syncs.sync(&[(page, page + 1)], |_| {});
                    assert!(failed.load(Relaxed), "acknowledged what may be lost");
                });
            }
            until_gathered(syncs, 3);
            let_go.send(()).unwrap();
        });
    }
}
