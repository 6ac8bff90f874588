//! Runs independent parts of a test on two threads, since each of them mostly waits for a server.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Sets the flag when it is dropped by a panic.
struct SetByPanic<'a>(&'a AtomicBool);

impl Drop for SetByPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Calls `run` for each item, two at a time, in order. After an error, or a panic, no further item
/// is started.
///
/// # Errors
///
/// The error of the first item, in order, that has one.
pub fn two_at_a_time<T, E: Send>(
    items: impl IntoIterator<Item = T, IntoIter: Send>,
    run: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let items = Mutex::new(items.into_iter().enumerate());
    let errors = Mutex::new(Vec::new());
    let has_failed = AtomicBool::new(false);
    let work = || {
        let _ends_the_other = SetByPanic(&has_failed);
        while !has_failed.load(Ordering::Relaxed) {
            let next = items.lock().expect("no panic while an item is taken").next();
            let Some((number, item)) = next else { break };
            if let Err(error) = run(item) {
                has_failed.store(true, Ordering::Relaxed);
                errors.lock().expect("no panic while an error is kept").push((number, error));
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(work);
        work();
    });
    let errors = errors.into_inner().expect("the threads have ended");
    match errors.into_iter().min_by_key(|(number, _)| *number) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::two_at_a_time;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn each_item_is_run_once_and_two_run_at_a_time() {
        let (sum, both) = (AtomicU64::new(0), Barrier::new(2));
        let run = |n: u64| {
            both.wait();
            sum.fetch_add(n, Ordering::Relaxed);
            Ok::<(), ()>(())
        };
        assert_eq!(two_at_a_time(1..=10, run), Ok(()));
        assert_eq!(sum.into_inner(), 55);
    }

    #[test]
    fn an_error_ends_it() {
        assert_eq!(two_at_a_time([7], Err), Err(7));
        let ran = AtomicU64::new(0);
        let run = |n: u64| {
            ran.fetch_add(1, Ordering::Relaxed);
            Err(n)
        };
        assert!(two_at_a_time(0.., run).is_err());
        assert!(ran.into_inner() <= 2);
    }
}
