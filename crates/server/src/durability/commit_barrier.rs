//! Replies that wait for the command log: one write, and one sync, for all connections of a worker.
//!
//! A connection whose replies depend on the log up to some offset enters the barrier and sleeps.
//! Its entry wakes the worker's flusher, a task that is queued after all connections that were
//! ready at the same time; so it runs when they all have executed and entered. The flusher makes
//! the log do what its policy demands (`always`: write and sync; else: write), on the worker's own
//! thread, since switching to another thread costs more than it would save, and wakes all that
//! wait. The log itself lets one worker sync for all that wait. A sync of a journal that is late or
//! slow does not hold the worker ([`PoolJournal::settle`]).
//!
//! Invariant: a reply leaves only if the log said that its offset was settled. A failure turns away
//! the replies that wait at that time; later ones ask the log again, which may have been written
//! meanwhile.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use aof::{Aof, Fsync};

use crate::pool::journal::PoolJournal;

/// The log could not be settled up to the offset, so the write is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFailed;

/// The log or journal that replies wait for.
#[derive(Clone)]
pub(crate) enum WaitedFor {
    Log(Arc<Aof>),
    Journal(Arc<PoolJournal>),
}

/// A finished wait.
pub(crate) struct FinishedWait {
    /// Its name in the latency monitor.
    pub(crate) event: &'static str,
    pub(crate) time: Duration,
}

impl WaitedFor {
    fn syncs_always(&self) -> bool {
        match self {
            WaitedFor::Log(log) => log.fsync() == Fsync::Always,
            WaitedFor::Journal(journal) => journal.syncs_always(),
        }
    }

    fn event(&self) -> &'static str {
        match (self, self.syncs_always()) {
            (WaitedFor::Log(_), true) => "aof-fsync-always",
            (WaitedFor::Log(_), false) => "aof-write",
            (WaitedFor::Journal(_), true) => "journal-sync",
            (WaitedFor::Journal(_), false) => "journal-write",
        }
    }

    /// Returns how long writers waited for space since the last call, if any did.
    fn take_full_wait(&self) -> Option<Duration> {
        match self {
            WaitedFor::Log(_) => None,
            WaitedFor::Journal(journal) => journal.take_full_wait(),
        }
    }

    /// Makes the log safe up to `offset`, as the policy demands. Returns false if that failed.
    async fn sync_up_to(&self, offset: u64) -> bool {
        match self {
            WaitedFor::Log(log) => log.sync_up_to(offset).is_ok(),
            WaitedFor::Journal(journal) => journal.settle(offset).await,
        }
    }
}

#[derive(Default)]
struct Waiting {
    wakers: Vec<Waker>,
    wanted: u64,
    flusher: Option<Waker>,
}

/// A worker's commit barrier.
#[derive(Default)]
pub(crate) struct CommitBarrier {
    waiting: Mutex<Waiting>,
    settled: AtomicU64,
    /// The offset up to which the log could not be settled at the last try.
    failed: AtomicU64,
}

impl CommitBarrier {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the log is known to be settled up to `offset`.
    pub(crate) fn is_settled(&self, offset: u64) -> bool {
        self.settled.load(Relaxed) >= offset
    }

    /// Returns true if a connection waits.
    #[cfg(test)]
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting().wakers.is_empty()
    }

    /// Waits until the log is settled up to `offset`.
    pub(crate) async fn pass(&self, offset: u64) -> Result<(), LogFailed> {
        let mut waits = false;
        poll_fn(|cx| {
            if self.is_settled(offset) {
                return Poll::Ready(Ok(()));
            }
            if !waits {
                // Ignores an earlier failure. A waiter that was turned away and does not know it
                // yet asks once more.
                self.failed.store(0, Relaxed);
                waits = true;
            } else if self.failed.load(Relaxed) >= offset {
                return Poll::Ready(Err(LogFailed));
            }
            let mut waiting = self.waiting();
            waiting.wakers.push(cx.waker().clone());
            waiting.wanted = waiting.wanted.max(offset);
            if let Some(flusher) = waiting.flusher.take() {
                flusher.wake();
            }
            Poll::Pending
        })
        .await
    }

    /// Polls the sockets again as long as that brings more connections to the barrier: a sync takes
    /// some hundred times as long as a poll, and connections that come too late wait for the next
    /// sync.
    async fn gather(&self) {
        let mut before = 0;
        loop {
            let now = self.waiting().wakers.len();
            if now <= before {
                return;
            }
            before = now;
            tokio::task::yield_now().await;
        }
    }

    /// Runs the flusher: settles the log for those that wait, forever, and reports how long that
    /// took.
    pub(crate) async fn flush(
        self: Arc<CommitBarrier>,
        log: WaitedFor,
        took: impl Fn(FinishedWait),
    ) {
        loop {
            poll_fn(|cx| {
                let mut waiting = self.waiting();
                if waiting.wakers.is_empty() {
                    waiting.flusher = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                Poll::Ready(())
            })
            .await;
            if log.syncs_always() {
                self.gather().await;
            }
            let (wanted, wakers) = {
                let mut waiting = self.waiting();
                (waiting.wanted, std::mem::take(&mut waiting.wakers))
            };
            let (begin, event) = (Instant::now(), log.event());
            let is_settled = log.sync_up_to(wanted).await;
            took(FinishedWait { event, time: begin.elapsed() });
            if let Some(time) = log.take_full_wait() {
                took(FinishedWait { event: "journal-full", time });
            }
            // After a failure, the log has reported the reason.
            let reached = if is_settled { &self.settled } else { &self.failed };
            reached.store(wanted, Relaxed);
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aof::{Fsync, Loader, Options};
    use std::path::Path;

    fn log(folder: &Path) -> Arc<Aof> {
        let mut options = Options::new(folder);
        options.fsync = Fsync::Always;
        let mut loader = Loader::open(options).expect("a folder");
        assert!(loader.next().expect("nothing to read").is_none());
        Arc::new(loader.into_log().expect("a log"))
    }

    /// Lets fifty connections append and wait, all ready at once. Returns their syncs, and how many
    /// connections passed.
    async fn fifty(commit_barrier: &Arc<CommitBarrier>, log: &Arc<Aof>) -> (u64, usize) {
        let before = log.figures().syncs;
        let waiting: Vec<_> = (0..50)
            .map(|_| {
                let (commit_barrier, log) = (Arc::clone(commit_barrier), Arc::clone(log));
                tokio::spawn(async move {
                    let end = log.append(0, 0, b"*1\r\n$4\r\nPING\r\n");
                    let passed = commit_barrier.pass(end).await;
                    passed.is_ok() && log.durable() >= end
                })
            })
            .collect();
        let mut passed = 0;
        for task in waiting {
            passed += usize::from(task.await.expect("no panic"));
        }
        (log.figures().syncs - before, passed)
    }

    #[test]
    fn connections_that_are_ready_together_share_one_sync() {
        let folder = testkit::Medium::Disk.scratch();
        let log = log(folder.path());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let commit_barrier = Arc::new(CommitBarrier::default());
            tokio::spawn(
                Arc::clone(&commit_barrier).flush(WaitedFor::Log(Arc::clone(&log)), |_| {}),
            );
            for _ in 0..3 {
                assert_eq!(fifty(&commit_barrier, &log).await, (1, 50));
            }
        });
    }

    #[test]
    fn those_who_wait_are_turned_away_and_those_who_come_later_ask_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let commit_barrier = Arc::new(CommitBarrier::default());
            commit_barrier.settled.store(5, Relaxed);
            commit_barrier.failed.store(7, Relaxed);
            assert_eq!(commit_barrier.pass(5).await, Ok(()), "it was settled before");
            let entered = Arc::clone(&commit_barrier);
            let waits = tokio::spawn(async move { entered.pass(6).await });
            tokio::task::yield_now().await;
            assert!(!waits.is_finished(), "the earlier failure is not its own");
            let wake = |commit_barrier: &CommitBarrier| {
                commit_barrier.waiting().wakers.drain(..).for_each(Waker::wake)
            };
            commit_barrier.failed.store(6, Relaxed);
            wake(&commit_barrier);
            assert_eq!(waits.await.expect("no panic"), Err(LogFailed));
            let entered = Arc::clone(&commit_barrier);
            let waits = tokio::spawn(async move { entered.pass(6).await });
            tokio::task::yield_now().await;
            commit_barrier.settled.store(6, Relaxed);
            wake(&commit_barrier);
            assert_eq!(waits.await.expect("no panic"), Ok(()), "it was written at last");
        });
    }
}
